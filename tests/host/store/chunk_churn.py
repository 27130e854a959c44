"""A process that takes, removes and collects until it is killed; and the chunks these tests are about."""

from __future__ import annotations

import contextlib
import random
import sys
import time
from pathlib import Path

from wasm_kernel.host.store.chunks import HASH, BadManifest, ChunkStore, StoreBusy

SIZE = 8192


def names_in(body: bytes) -> list[bytes]:
    """The bodies of these tests are names, one after the other."""
    if len(body) % HASH:
        raise BadManifest("not a list of names")
    return [body[i : i + HASH] for i in range(0, len(body), HASH)]


def chunk(seed: int, size: int = SIZE) -> bytes:
    """What cannot be compressed, the same for the same seed."""
    return random.Random(seed).randbytes(size)


def churn(folder: Path, number: int) -> None:
    """Until killed."""
    store = ChunkStore(folder)
    source = random.Random()
    while True:
        seeds = [source.randrange(40) for _ in range(source.randrange(1, 30))]
        with store.take() as take:
            names = take.put_many([memoryview(chunk(seed)) for seed in seeds])
            take.commit(f"p{number}", f"n{time.time_ns()}", b"", b"".join(names))
        there = store.manifest_names(f"p{number}")
        for group, name in there[: len(there) - 4]:
            store.remove_manifest(group, name)
        if source.random() < 0.5:
            with contextlib.suppress(StoreBusy):
                store.collect(names_in, wait=0.5)


if __name__ == "__main__":
    print(flush=True)
    churn(Path(sys.argv[1]), int(sys.argv[2]))
