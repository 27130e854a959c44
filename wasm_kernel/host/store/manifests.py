"""Manifests: small files that name the chunks something is made of. Each is there whole, or not at all.

    manifests/<group>/<name>.snap:
        magic, version, codec, lengths | checksum of that and the head | head | body | checksum of all before

The head can be read alone. A manifest may come from elsewhere: lengths are checked before anything is allocated.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import stat
import struct
from collections.abc import Iterator
from pathlib import Path

import zstandard
from blake3 import blake3

from wasm_kernel.errors import BadManifest
from wasm_kernel.host.durable import PendingFile, sync_folder
from wasm_kernel.host.store.packs import RAW, ZSTD, compress, inflate, new_decompressor
from wasm_kernel.model.records import is_session_id

MAX_HEAD, MAX_BODY = 1 << 20, 64 << 20
_MAGIC, _VERSION, _SUFFIX = b"wksnap\r\n", 1, ".snap"
_FRONT = struct.Struct("<8sHHIII")  # magic, version, codec, bytes of the head, of the body, of the body as stored
_SUM = 32
_READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK


class NewerManifest(BadManifest):
    """Whole, but written by a later version: what it refers to is not known here."""


class NewManifest:
    """A manifest written to a temporary file, waiting for its place. ``replaces``: the one of its name."""

    def __init__(
        self,
        temporaries: Path,
        manifests: Path,
        group: str,
        name: str,
        head: bytes,
        body: bytes,
        *,
        replaces: bool = False,
    ) -> None:
        self._replaces = replaces
        self._group, self._name = manifests / checked(group, "group"), checked(name, "name") + _SUFFIX
        if len(head) > MAX_HEAD or len(body) > MAX_BODY:
            raise ValueError(
                f"the manifest has {len(head):,} bytes of head and {len(body):,} of body; "
                f"at most {MAX_HEAD:,} and {MAX_BODY:,} are possible"
            )
        self._refuse_existing()
        self._file = PendingFile(f"{temporaries}/", random_bytes=16)
        try:
            self._file.write(_encode(head, body))
            self._file.sync()
        except BaseException:
            self.discard()
            raise

    def publish(self) -> None:
        """Make it visible, whole and lasting; FileExistsError if there is one of that name that it does not replace."""
        with _locked(self._group, synced=False) as folder:
            self._refuse_existing()
            self._file.publish(self._name, folder=folder)
            self._file.discard()
            try:
                os.fsync(folder)
                sync_folder(self._group.parent)  # it may be new
            except OSError:
                if not self._replaces:  # either of the two is right, so one of them stays
                    os.unlink(self._name, dir_fd=folder)
                raise

    def discard(self) -> None:
        """Delete it, unless it is published."""
        self._file.discard()

    def _refuse_existing(self) -> None:
        exists = os.path.lexists(self._group / self._name)
        if self._replaces and not exists:
            raise FileNotFoundError(f"the snapshot {self._name.removesuffix(_SUFFIX)!r} was deleted meanwhile")
        if exists and not self._replaces:
            raise FileExistsError(
                f"there is a manifest {self._name.removesuffix(_SUFFIX)!r} in {self._group.name!r} already"
            )


def replace(store: Path, group: str, name: str, head: bytes, body: bytes) -> None:
    """Put another manifest in the place of one; it names the same chunks. FileNotFoundError if there is none."""
    new = NewManifest(store / "new", store / "manifests", group, name, head, body, replaces=True)
    try:
        new.publish()
    finally:
        new.discard()


def names(folder: Path, group: str | None = None) -> list[tuple[str, str]]:
    """Every (group, name), sorted; whether they are whole is not looked at."""
    groups = sorted(filter(is_session_id, _listed(folder))) if group is None else [checked(group, "group")]
    found = []
    for each in groups:
        plain = (name.removesuffix(_SUFFIX) for name in _listed(folder / each) if name.endswith(_SUFFIX))
        found += [(each, name) for name in sorted(plain) if is_session_id(name)]
    return found


def exists(store: Path, group: str, name: str) -> bool:
    """Whether a store has a manifest, damaged or not."""
    return os.path.lexists(f"{store}/manifests/{checked(group, 'group')}/{checked(name, 'name')}{_SUFFIX}")


def read(folder: Path, group: str, name: str) -> bytes:
    """A manifest's body. `BadManifest` if it is damaged, FileNotFoundError if there is none."""
    with _opened(folder, group, name) as (handle, bad):
        size = os.fstat(handle).st_size
        if size > _FRONT.size + 2 * _SUM + MAX_HEAD + MAX_BODY:
            raise bad("larger than a manifest can be")
        data = _read_all(handle, size)
    if len(data) < _FRONT.size + 2 * _SUM or data[:8] != _MAGIC:
        raise bad("not a manifest")
    if blake3(data[:-_SUM]).digest() != data[-_SUM:]:
        raise bad("damaged")
    _, version, codec, head, raw, stored = _FRONT.unpack_from(data)
    if version != _VERSION:
        raise NewerManifest(f"snapshot {group}/{name} was written by a newer version of wasm-kernel; update to use it")
    begin = _FRONT.size + _SUM + head
    if begin + stored + _SUM != len(data) or raw > MAX_BODY or codec not in (RAW, ZSTD):
        raise bad("made of impossible values")
    body = data[begin:-_SUM]
    if codec == RAW and raw == stored:
        return body
    try:
        return inflate(body, raw, new_decompressor())
    except ValueError:
        raise bad("made of impossible values") from None


def read_head(folder: Path, group: str, name: str) -> bytes:
    """A manifest's head, verified by itself."""
    with _opened(folder, group, name) as (handle, bad):
        front = os.pread(handle, _FRONT.size + _SUM + 4096, 0)
        if len(front) < _FRONT.size + _SUM or front[:8] != _MAGIC:
            raise bad("not a manifest")
        _, version, _, length, _, _ = _FRONT.unpack_from(front)
        if length > MAX_HEAD:
            raise bad("damaged")
        end = _FRONT.size + _SUM + length
        data = front[:end] if len(front) >= end else os.pread(handle, end, 0)
    checksum, head = data[_FRONT.size : _FRONT.size + _SUM], data[_FRONT.size + _SUM :]
    if len(head) != length or _head_sum(data[: _FRONT.size], head) != checksum:
        raise bad("damaged")
    if version != _VERSION:
        raise NewerManifest(f"snapshot {group}/{name} was written by a newer version of wasm-kernel; update to use it")
    return head


def remove(folder: Path, group: str, name: str) -> bool:
    """Delete a manifest, and its group when it was the last; whether there was one."""
    path = folder / checked(group, "group")
    file = checked(name, "name") + _SUFFIX
    if not os.path.lexists(path / file):
        return False
    with _locked(path) as handle:
        try:
            os.unlink(file, dir_fd=handle)
        except FileNotFoundError:
            return False
        finally:
            with contextlib.suppress(OSError):  # others are in it
                path.rmdir()
    return True


def checked(name: str, what: str) -> str:
    """A group's or a manifest's name: nothing that could be a path."""
    if not isinstance(name, str) or not is_session_id(name):
        raise ValueError(f"the {what} is {name!r}; it must be letters, digits and hyphens, 128 at most")
    return name


def _encode(head: bytes, body: bytes) -> bytes:
    stored, codec = compress(body, zstandard.ZstdCompressor(level=1)) if body else (body, RAW)
    front = _FRONT.pack(_MAGIC, _VERSION, codec, len(head), len(body), len(stored))
    data = b"".join([front, _head_sum(front, head), head, stored])
    return data + blake3(data).digest()


def _head_sum(front: bytes, head: bytes) -> bytes:
    return blake3(front).update(head).digest()


@contextlib.contextmanager
def _locked(group: Path, *, synced: bool = True) -> Iterator[int]:
    """A group's folder, made if needed, in which nobody else adds or removes meanwhile."""
    while True:
        try:
            group.mkdir(mode=0o700)
            if synced:
                sync_folder(group.parent)
        except FileExistsError:
            pass
        try:
            handle = os.open(group, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
        except FileNotFoundError:
            continue
        try:
            fcntl.flock(handle, fcntl.LOCK_EX)
            if _is_at(handle, group):
                yield handle
                return
        finally:
            os.close(handle)


def _is_at(handle: int, path: Path) -> bool:
    """Whether nobody removed the folder before it was locked."""
    try:
        return os.path.samestat(os.fstat(handle), path.stat())
    except FileNotFoundError:
        return False


class _Bad:
    """Makes a manifest's errors."""

    def __init__(self, group: str, name: str) -> None:
        self._what = f"{group}/{name}"

    def __call__(self, problem: str) -> BadManifest:
        return BadManifest(
            f"snapshot {self._what} cannot be used: its manifest is {problem}; use another snapshot and delete this one"
        )


@contextlib.contextmanager
def _opened(folder: Path, group: str, name: str) -> Iterator[tuple[int, _Bad]]:
    path = folder / checked(group, "group") / (checked(name, "name") + _SUFFIX)
    bad = _Bad(group, name)
    try:
        handle = os.open(path, _READ)
    except OSError as e:
        if path.is_symlink():
            raise bad("not an ordinary file") from e
        raise
    try:
        if not stat.S_ISREG(os.fstat(handle).st_mode):
            raise bad("not an ordinary file")
        yield handle, bad
    finally:
        os.close(handle)


def _read_all(handle: int, size: int) -> bytes:
    data = bytearray()
    while len(data) < size and (piece := os.pread(handle, size - len(data), len(data))):
        data += piece
    return bytes(data)


def _listed(folder: Path) -> list[str]:
    try:
        return os.listdir(folder)  # noqa: PTH208 - names, no paths
    except (FileNotFoundError, NotADirectoryError):
        return []
