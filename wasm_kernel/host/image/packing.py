"""A built image as one file, for machines of the same kind: unpacked it needs no compiler, and no package index.

A pack is a tar, compressed with zstd. Its first member, `image.json`, names the cache entries with their facts and the
hash of every file; then come the files, entry by entry. What is in it runs as machine code of the user's, so:

* it is taken only from the file or address the user names, and an address needs the hash of the whole;
* only entries that this version needs on this machine are taken, by their keys, and each file must have its hash;
* an entry is whole or absent, as if it had been built here; of a pack that is refused nothing stays.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import io
import itertools
import json
import os
import tarfile
import tempfile
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path, PurePosixPath
from typing import IO, Any

import zstandard

from wasm_kernel.errors import ConfigurationError, ImageError, ImageMissing
from wasm_kernel.host import administrator
from wasm_kernel.host.durable import writing
from wasm_kernel.host.image import cache, image
from wasm_kernel.host.image.cache import DIGESTS, MANIFEST, Entry
from wasm_kernel.host.runtime import engine

OnProgress = Callable[[int, int], None]  # bytes done, bytes in all
_INDEX = "image.json"
_FORMAT = 1
_LEVEL = 9
_BLOCK = 1 << 20
_MOST_INDEX = 32 << 20
_OWN = {"key", "built_at", "sizes"}  # of a manifest: made anew where it is unpacked


# ---- packing


def pack(target: Path, *, metered: bool = False, on_progress: OnProgress = lambda done, total: None) -> str:
    """Write the image to a file; the file's SHA-256, by which others can know it."""
    wanted = [*image.parts().all(), *(image.parts().metered() if metered else [])]
    manifests = {entry: entry.manifest() for entry in wanted}
    if None in manifests.values():
        raise ImageMissing(f"the image is not built yet; run `wasm-kernel image build{' --metered' * metered}` first")
    index = {
        "format": _FORMAT,
        "wasmtime": engine.version(),
        "cpu": image.cpu(),
        "entries": [_described(entry, manifest or {}) for entry, manifest in manifests.items()],
    }
    total, done = sum(cache.folder_bytes(entry.path) for entry in wanted), 0
    with writing(target, mode=0o644) as file, os.fdopen(file.handle, "wb", closefd=False) as out:
        compressor = zstandard.ZstdCompressor(level=_LEVEL, threads=os.cpu_count() or 1)
        with (
            compressor.stream_writer(out, closefd=False) as squeezed,
            tarfile.open(fileobj=squeezed, mode="w|", format=tarfile.PAX_FORMAT, bufsize=_BLOCK) as tar,
        ):
            _add(tar, _INDEX, json.dumps(index).encode())
            for entry in wanted:
                for path in sorted(entry.path.rglob("*")):
                    if path.parent == entry.path and path.name in (MANIFEST, DIGESTS):
                        continue
                    tar.add(path, f"{entry.kind}/{entry.key}/{path.relative_to(entry.path)}", recursive=False)
                    done += path.stat().st_size if path.is_file() else 0
                    on_progress(done, total)
    with target.open("rb") as packed:
        return hashlib.file_digest(packed, "sha256").hexdigest()


def _described(entry: Entry, manifest: dict[str, Any]) -> dict[str, Any]:
    facts = {name: value for name, value in manifest.items() if name not in _OWN}
    return {"kind": entry.kind, "key": entry.key, "facts": facts, "digests": entry.digests()}


def _add(tar: tarfile.TarFile, name: str, data: bytes) -> None:
    info = tarfile.TarInfo(name)
    info.size = len(data)
    tar.addfile(info, io.BytesIO(data))


# ---- unpacking


def unpack(
    source: str, *, sha256: str | None = None, on_progress: OnProgress = lambda done, total: None
) -> list[Entry]:
    """Take the image from a file or an address; the entries that were not there yet."""
    administrator.check_image(image.parts().base.key)
    if sha256 is not None and (len(sha256) != 64 or not set(sha256.lower()) <= set("0123456789abcdef")):
        raise ConfigurationError(f"{sha256!r} is not a SHA-256 hash: that has 64 hexadecimal digits")
    if "://" not in source:
        with Path(source).open("rb") as file:
            return _unpack(file, source, sha256, on_progress)
    if sha256 is None:
        raise ConfigurationError(
            f"what comes from {source} would run as machine code on this machine: add --sha256, or --image-sha256 for "
            "`install`, with the hash that `wasm-kernel image pack` printed"
        )
    with _fetched(source, on_progress) as file:
        return _unpack(file, source, sha256, on_progress)


@contextlib.contextmanager
def _fetched(address: str, on_progress: OnProgress) -> Iterator[IO[bytes]]:
    """What an address holds, in a file that has no name."""
    if not address.startswith(("https://", "http://")):
        raise ConfigurationError(f"{address!r} is neither a file nor an https address")
    with tempfile.TemporaryFile(dir=cache.private_root()) as file:
        try:
            with urllib.request.urlopen(address, timeout=60) as answer:
                total = int(answer.headers.get("Content-Length") or 0)
                while block := answer.read(_BLOCK):
                    file.write(block)
                    on_progress(file.tell(), max(total, file.tell()))
        except (urllib.error.URLError, TimeoutError, ValueError) as e:
            raise ImageError(f"{address} could not be fetched: {getattr(e, 'reason', e)}") from None
        file.seek(0)
        yield file


def _unpack(file: IO[bytes], source: str, sha256: str | None, on_progress: OnProgress) -> list[Entry]:
    if sha256 is not None:
        found = hashlib.file_digest(file, "sha256").hexdigest()  # type: ignore[arg-type]
        if found != sha256.lower():
            raise ImageError(f"{source} is not what it should be: its SHA-256 is {found}, not {sha256}")
        file.seek(0)
    size = os.fstat(file.fileno()).st_size
    try:
        with (
            zstandard.ZstdDecompressor().stream_reader(file, closefd=False) as plain,
            tarfile.open(fileobj=plain, mode="r|", bufsize=_BLOCK) as tar,
        ):
            members = _members(tar, lambda: on_progress(file.tell(), size))
            entries = _fitting(_index(next(members, None), source), source)
            with cache.build_lock(lambda state: None):
                return _take_all(entries, members, source)
    except (tarfile.TarError, zstandard.ZstdError, EOFError) as e:
        raise ImageError(f"{source} is not a packed image, or is damaged: {e}") from None


Member = tuple[str, tarfile.TarInfo, IO[bytes] | None]


def _members(tar: tarfile.TarFile, looked: Callable[[], None]) -> Iterator[Member]:
    for info in tar:
        yield info.name, info, tar.extractfile(info) if info.isreg() else None
        looked()


def _index(first: Member | None, source: str) -> dict[str, Any]:
    index: Any = None
    if first is not None and first[0] == _INDEX and first[2] is not None and first[1].size <= _MOST_INDEX:
        with contextlib.suppress(ValueError, RecursionError):
            index = json.loads(first[2].read())
    if not isinstance(index, dict) or index.get("format") != _FORMAT or not _names_entries(index.get("entries")):
        raise ImageError(f"{source} is not an image packed by this version of wasm-kernel")
    return index


def _names_entries(found: Any) -> bool:
    wanted = {"kind": str, "key": str, "facts": dict, "digests": dict}
    return isinstance(found, list) and all(
        isinstance(one, dict) and all(isinstance(one.get(name), kind) for name, kind in wanted.items()) for one in found
    )


def _fitting(index: dict[str, Any], source: str) -> list[dict[str, Any]]:
    """The entries, if they are what this version needs on this machine."""
    needed, more = ({(e.kind, e.key) for e in some} for some in (image.parts().all(), image.parts().metered()))
    packed = {(e["kind"], e["key"]) for e in index["entries"]}
    if needed <= packed <= needed | more:
        return list(index["entries"])
    reasons = []
    if index.get("wasmtime") != engine.version():
        reasons.append(f"compiled by wasmtime {index.get('wasmtime')}, not {engine.version()}")
    if index.get("cpu") != image.cpu():
        theirs, ours = set(str(index.get("cpu")).split()), set(image.cpu().split())
        examples = ", ".join(
            [*(f"+{flag}" for flag in sorted(theirs - ours)), *(f"-{flag}" for flag in sorted(ours - theirs))][:6]
        )
        reasons.append(f"compiled for another kind of CPU ({examples})")
    raise ImageError(
        f"{source} does not fit here: it is {' and '.join(reasons) or 'the image of another version of wasm-kernel'}; "
        "pack one on a machine like this, or build it here with `wasm-kernel image build`"
    )


def _take_all(entries: list[dict[str, Any]], members: Iterator[Member], source: str) -> list[Entry]:
    """Make entries of what follows in the pack, except those that are there already."""
    described = {(one["kind"], one["key"]): one for one in entries}
    made: list[Entry] = []
    with contextlib.ExitStack() as undo:
        for name, group in itertools.groupby(members, lambda member: tuple(member[0].split("/", 2)[:2])):
            one = described.pop(name, None)
            if one is None:
                raise ImageError(f"{source} is damaged: it holds {'/'.join(name)[:80]!r}, which it does not name")
            entry = Entry(one["kind"], one["key"])
            if entry.manifest() is None:
                entry.build(functools.partial(_fill, one, group, source))
                undo.callback(cache.remove, entry)  # nobody is to build on what comes from a pack like that
                made.append(entry)
        if described:
            raise ImageError(f"{source} is damaged: it ends too early")
        undo.pop_all()
    return made


def _fill(described: dict[str, Any], members: Iterator[Member], source: str, folder: Path) -> dict[str, Any]:
    """Write an entry's files, each with the hash it must have; the facts for its manifest."""
    digests = dict(described["digests"])
    for name, info, content in members:
        relative = PurePosixPath(name).relative_to(f"{described['kind']}/{described['key']}")
        target = folder / relative
        if ".." in relative.parts or not relative.parts:
            raise ImageError(f"{source} is damaged: it holds {name[:80]!r}")
        target.parent.mkdir(parents=True, exist_ok=True)
        if info.isdir():
            target.mkdir(exist_ok=True)
        elif content is None or _write(target, content) != digests.pop(str(relative), None):
            raise ImageError(f"{source} is damaged: {name[:80]!r} is not what was packed")
    if digests:
        raise ImageError(f"{source} is damaged: {next(iter(digests))[:80]!r} is missing")
    return dict(described["facts"])


def _write(target: Path, content: IO[bytes]) -> str:
    """Write a file; its SHA-256."""
    digest = hashlib.sha256()
    with target.open("xb") as file:
        while block := content.read(_BLOCK):
            digest.update(block)
            file.write(block)
    return digest.hexdigest()
