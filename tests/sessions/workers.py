"""Processes that work on sessions until they are killed; see `nursery`. `python -m tests.sessions.workers ROOT ARCHIVE`."""

from __future__ import annotations

import contextlib
import os
import random
from pathlib import Path

from tests.sessions.helpers import set_age
from tests.sessions.nursery import Operation, serve
from wasm_kernel import (
    SandboxLogger,
    SessionLocked,
    archive_sessions,
    create_session_sandbox,
    get_session_sandbox,
    prune_sessions,
    write_session_file,
)
from wasm_kernel.model.records import is_uuid
from wasm_kernel.sessions.catalog import create_session_folder

QUIET = SandboxLogger(level="error")


def payload(number: int) -> bytes:
    """A file's content that shows whether it is whole."""
    body = bytes([number % 251]) * (number * 977 % 300_000)
    return f"{len(body)}\n".encode() + body


def is_whole(data: bytes) -> bool:
    """Whether a file is as `payload` made it."""
    head, _, body = data.partition(b"\n")
    return head.isdigit() and len(body) == int(head) and body == body[:1] * len(body)


def sessions(root: Path) -> list[str]:
    return [name for name in os.listdir(root) if is_uuid(name)]


def make_old(root: Path, chance: random.Random) -> None:
    """Some sessions nobody used for long, made as the library makes them."""
    for _ in range(chance.randrange(2, 6)):
        session_id, folder, lock = create_session_folder(root, QUIET)
        for n in range(4):
            (folder / f"f{n}").write_bytes(b"x" * chance.randrange(2000))
        set_age(root, session_id, 1000)
        lock.release()


def create(root: Path, archive: Path, chance: random.Random) -> None:
    while True:
        for _ in range(20):
            create_session_folder(root, QUIET)[2].release()
        create_session_sandbox(workspace_root=root, logger=QUIET)[1].close()


def execute(root: Path, archive: Path, chance: random.Random) -> None:
    while True:
        with contextlib.suppress(SessionLocked, IndexError):
            sandbox = get_session_sandbox(f"busy-{chance.randrange(2)}", workspace_root=root, logger=QUIET)
            for n in range(30):
                sandbox.execute(f"open('guest{n % 3}', 'w').write('x' * {n})")
            sandbox.close()


def write(root: Path, archive: Path, chance: random.Random) -> None:
    while True:
        number = chance.randrange(1000)
        with contextlib.suppress(FileNotFoundError):  # pruned meanwhile
            write_session_file(f"files-{number % 3}", f"d{number % 5}/file{number % 7}", payload(number), root)


def prune(root: Path, archive: Path, chance: random.Random) -> None:
    while True:
        make_old(root, chance)
        prune_sessions(24, root, logger=QUIET)


def archive(root: Path, archive: Path, chance: random.Random) -> None:
    while True:
        make_old(root, chance)
        archive_sessions(24, archive, root, logger=QUIET)


OPERATIONS: dict[str, Operation] = {f.__name__: f for f in (create, execute, write, prune, archive)}


if __name__ == "__main__":
    serve(OPERATIONS)
