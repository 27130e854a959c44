"""Sessions as single files: export and import. An archive comes from elsewhere: it is checked."""

from __future__ import annotations

import contextlib
import errno
import io
import json
import os
import re
import stat
import struct
import tarfile
import uuid
import zipfile
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO, Any, Protocol

from wasm_kernel.errors import ConfigurationError
from wasm_kernel.host import administrator, removal
from wasm_kernel.host.durable import writing
from wasm_kernel.host.folder import BLOCK, Folder, PathRefused, components
from wasm_kernel.host.ledger import (
    forget_free_lock,
    lock_session,
    read_record,
    write_record,
)
from wasm_kernel.model.records import BadRecord, check_session_id
from wasm_kernel.sessions.catalog import prepared_root, staged_session
from wasm_kernel.sessions.log import SandboxLogger
from wasm_kernel.sessions.survey import existing_root

_RECORD = "session.json"  # beside files/, so that no file of the session can be taken for it
_FILES = "files/"
_PART = re.compile(r"\..+\.(zip|tar\.zst)\.part-[0-9a-f]{16}", re.DOTALL)
_MAX_RECORD = 1 << 20
_MAX_NESTING = 50

OnProgress = Callable[[int, int], None]
"""Gets how much is done, and how much there is."""


class BadArchive(ConfigurationError):
    """A file that is no archive of a session, or one that tries to write where it must not."""


def export_session(
    session_id: str,
    target: Path | str,
    workspace_root: Path | str | None = None,
    *,
    on_progress: OnProgress | None = None,
    logger: SandboxLogger | None = None,
) -> Path:
    """Write a session's files and metadata to ``target``, a .zip or a .tar.zst; it appears whole or not at all.

    Links are left out; an `OSError` says so if anything else would have to be, as what is too deep for any path. A
    session in use can be exported; each file is then as it was when it was read.
    """
    check_session_id(session_id)
    target = Path(target).absolute()
    root = existing_root(workspace_root)
    sweep_parts(target.parent)
    write_archive(root, session_id, target, logger or SandboxLogger(), on_progress)
    return target


def write_archive(
    root: Path, session_id: str, target: Path, logger: SandboxLogger, on_progress: OnProgress | None = None
) -> None:
    """Export a session, as `export_session` does, to a folder that was swept."""
    writer = _writer_for(target)
    if target.is_relative_to(root / session_id):
        raise ConfigurationError(f"{target} is inside the session; export it to somewhere else")
    try:
        folder = Folder(root / session_id)
    except OSError:
        raise FileNotFoundError(f"there is no session {session_id} in {root}") from None
    with folder:
        count = _counter(sum(item.size for item in folder.items()), on_progress) if on_progress is not None else None
        with (
            writing(target, temporary=f"{target.parent}/.{target.name}.part-", mode=0o666) as new,
            os.fdopen(new.handle, "wb", closefd=False) as file,
            writer(file) as add,
        ):
            with contextlib.suppress(BadRecord):
                record = read_record(root / session_id)
                if record is not None:
                    add(_RECORD, io.BytesIO(record.to_json()), len(record.to_json()))
            for item, source in folder.contents():
                if source is None:
                    add(f"{_FILES}{item.path}/", io.BytesIO(), 0)
                else:
                    size = os.fstat(source.fileno()).st_size
                    add(f"{_FILES}{item.path}", _Counted(source, count) if count else source, size)
    logger.info("session.exported", session_id=session_id, target=str(target))


def _counter(total: int, on_progress: OnProgress) -> Callable[[int], None]:
    done = 0

    def count(more: int) -> None:
        nonlocal done
        done += more
        on_progress(done, total)

    return count


def sweep_parts(folder: Path) -> None:
    """Delete what exporters left that were killed."""
    with contextlib.suppress(OSError):
        removal.sweep_temporaries(str(path) for path in folder.iterdir() if _PART.fullmatch(path.name))


def import_session(
    archive: Path | str,
    workspace_root: Path | str | None = None,
    *,
    max_bytes: int = 16 << 30,
    max_files: int = 200_000,
    on_progress: OnProgress | None = None,
    logger: SandboxLogger | None = None,
) -> str:
    """Make a new session from an archive; its id. Nothing is written outside the session, whatever the archive says.

    The session appears when all of it is there. ``max_files`` counts folders, too.
    """
    archive = Path(archive)
    reader = _reader_for(archive)
    root = prepared_root(workspace_root)
    logger = logger or SandboxLogger()
    most = administrator.rules().maxima
    max_bytes, max_files = (int(min(n, most.get(k, n))) for n, k in ((max_bytes, "disk"), (max_files, "files")))
    session_id = str(uuid.uuid4())
    lock = lock_session(root, session_id)
    try:
        with archive.open("rb") as file, staged_session(root, session_id, {}, logger) as folder:
            members = reader(file, archive)
            if on_progress is not None:
                members = _watched(members, file, on_progress)
            _unpack_all(folder, members, archive, max_bytes, max_files)
    finally:
        lock.release()
        forget_free_lock(root, session_id)
    logger.info("session.imported", session_id=session_id, archive=str(archive))
    return session_id


def _watched(members: Iterator[Member], file: IO[bytes], on_progress: OnProgress) -> Iterator[Member]:
    size = os.fstat(file.fileno()).st_size

    def watched(read: Read) -> Read:
        def watched_read(wanted: int) -> bytes:
            on_progress(file.tell(), size)
            return read(wanted)

        return watched_read

    for name, read in members:
        yield name, watched(read)


def _unpack_all(folder: Path, members: Iterator[Member], archive: Path, max_bytes: int, max_files: int) -> None:
    with Folder(folder, backslashes=True) as place:
        for name, read in members:
            made = place.made
            if name == _RECORD:
                _adopt(folder, read(_MAX_RECORD + 1), archive)
            elif name.startswith(_FILES):
                max_bytes -= _unpack(place, name.removeprefix(_FILES), read, max_bytes, archive)
            else:
                raise BadArchive(f"{archive} holds {name[:80]!r}, which no export of ours does")
            max_files -= max(1, place.made - made + (not name.endswith("/")))
            if max_files < 0:
                raise BadArchive(f"{archive} holds more files and folders than allowed; pass max_files to allow more")


def _unpack(place: Folder, name: str, read: Read, budget: int, archive: Path) -> int:
    def blocks() -> Iterator[bytes]:
        left = budget
        while block := read(BLOCK):
            left -= len(block)
            if left < 0:
                raise BadArchive(f"{archive} unpacks to more than allowed; pass max_bytes to allow more")
            yield block

    path = name.rstrip("/")
    try:
        if path and path == name:
            return place.write(path, blocks(), overwrite=False)
        if read(1):
            raise BadArchive(f"{archive} holds {name[:80]!r}, a folder with bytes of its own")
        if components(path or ".", backslashes=True):
            place.make_folder(path)
        return 0
    except PathRefused as e:
        raise BadArchive(f"{archive}: {e}") from None
    except (FileExistsError, NotADirectoryError, IsADirectoryError):
        raise BadArchive(f"{archive} holds {name[:80]!r} twice, or as a file and a folder") from None
    except OSError as e:
        if e.errno == errno.ENAMETOOLONG:
            raise BadArchive(f"{archive} holds a name that is too long: {name[:80]!r}") from None
        raise


def _adopt(folder: Path, data: bytes, archive: Path) -> None:
    """Take over what an exported session's metadata says beyond id and times."""
    record = read_record(folder)
    try:
        found = json.loads(data) if len(data) <= _MAX_RECORD else None
    except (ValueError, RecursionError):
        found = None
    if not isinstance(found, dict) or not _is_shallow(found, _MAX_NESTING):
        raise BadArchive(f"{archive} holds a session.json that is no JSON object of reasonable size")
    if record is None:
        return
    # Grants are given on this machine, by its user, and not by whoever made the archive.
    own = {"session_id", "created_at", "updated_at", "version", "grants"}
    extra = {k: v for k, v in found.items() if k not in own}
    extra["imported_from"] = found.get("session_id") if isinstance(found.get("session_id"), str) else None
    record = record.touched(record.updated_at, **extra)
    if len(record.to_json()) > _MAX_RECORD:
        raise BadArchive(f"{archive} holds a session.json that is too large")
    write_record(folder, record, sync=True)


def _is_shallow(value: Any, levels: int) -> bool:
    """Whether a value is nested so little that it can be written wherever it could be read."""
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return levels > 0 and all(_is_shallow(one, levels - 1) for one in inner)


# ---- formats: writing


class Source(Protocol):
    """What a file's bytes are read from."""

    def read(self, size: int, /) -> bytes:
        """At most so many bytes; none at the end."""


Add = Callable[[str, Source, int], None]
"""Adds so many bytes of a file under a name; a name that ends in / is a folder's."""


def _writer_for(target: Path) -> Callable[[IO[bytes]], contextlib.AbstractContextManager[Add]]:
    if target.name.endswith(".zip"):
        return _zip_writer
    if target.name.endswith(".tar.zst"):
        return _tar_writer
    raise ConfigurationError(f"{target.name!r} is no archive's name; end it in .zip or .tar.zst")


@contextlib.contextmanager
def _zip_writer(file: IO[bytes]) -> Iterator[Add]:
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED, strict_timestamps=False) as archive:

        def add(name: str, source: Source, size: int) -> None:
            if name.endswith("/"):
                archive.writestr(_to_zip(name), b"")
                return
            with archive.open(_to_zip(name), "w", force_zip64=True) as member:
                while size > 0 and (block := source.read(min(BLOCK, size))):  # the guest may cut or extend it meanwhile
                    size -= member.write(block)

        yield add


@contextlib.contextmanager
def _tar_writer(file: IO[bytes]) -> Iterator[Add]:
    import zstandard

    with (
        zstandard.ZstdCompressor(level=6, write_checksum=True).stream_writer(file, closefd=False) as packed,
        tarfile.open(
            fileobj=packed, mode="w|", format=tarfile.PAX_FORMAT, encoding="utf-8", errors="surrogateescape"
        ) as archive,
    ):

        def add(name: str, source: Source, size: int) -> None:
            info = tarfile.TarInfo(name.rstrip("/"))
            if name.endswith("/"):
                info.type, info.mode = tarfile.DIRTYPE, 0o755
                archive.addfile(info)
                return
            info.size, info.mode = size, 0o644
            archive.addfile(info, _Exactly(source, size))

        yield add


class _Counted:
    """Tells how much was read."""

    def __init__(self, source: Source, count: Callable[[int], None]) -> None:
        self._source, self._count = source, count

    def read(self, size: int, /) -> bytes:
        data = self._source.read(size)
        self._count(len(data))
        return data


class _Exactly:
    """Reads exactly the size a tar header promised, though the guest may cut or extend the file meanwhile."""

    def __init__(self, source: Source, size: int) -> None:
        self._source, self._left = source, size

    def read(self, wanted: int = -1) -> bytes:
        length = self._left if wanted < 0 else min(wanted, self._left)
        data = self._source.read(length)
        data += bytes(length - len(data))
        self._left -= length
        return data


# A zip's names are text. A byte that is no UTF-8 becomes a private character, and so do the bytes of such a character.


def _to_zip(path: str) -> str:
    return re.sub("[\udc80-\udcff\uf780-\uf7ff]", lambda m: "".join(chr(0xF700 + b) for b in os.fsencode(m[0])), path)


def _from_zip(name: str) -> str:
    return re.sub("[\uf780-\uf7ff]+", lambda m: os.fsdecode(bytes(ord(c) - 0xF700 for c in m[0])), name)


# ---- formats: reading

Read = Callable[[int], bytes]
"""Reads at most so many bytes; none at the end."""
Member = tuple[str, Read]
"""A name, which ends in / if it is a folder's, and its contents, to be read whole before the next member."""

_ZIP_FLAGS = 0x80E  # how well it is packed, sizes behind the data, names in UTF-8: not encryption, not patches
_TAR_BLOCK = 512
_MAX_EXTENDED = 1 << 16  # bytes of an extended header, which holds a path; tarfile would read one of any size
_MAX_PADDING = 1 << 20


def _reader_for(archive: Path) -> Callable[[IO[bytes], Path], Iterator[Member]]:
    if archive.name.endswith(".zip"):
        return _zip_members
    if archive.name.endswith(".tar.zst"):
        return _tar_members
    raise ConfigurationError(f"{archive.name!r} is no archive's name; it must end in .zip or .tar.zst")


@contextlib.contextmanager
def _reading(archive: Path) -> Iterator[None]:
    """Whatever goes wrong while an archive is taken apart is the archive's fault."""
    import zstandard

    try:
        yield
    except BadArchive:
        raise
    except (zipfile.BadZipFile, tarfile.TarError, zstandard.ZstdError, zlib.error, struct.error) as e:
        raise BadArchive(f"{archive} is damaged or no archive: {e}") from None
    except (EOFError, OSError, ValueError, OverflowError, RuntimeError) as e:  # zipfile raises all of these, too
        raise BadArchive(f"{archive} is damaged or no archive: {e}") from None


def _zip_members(file: IO[bytes], archive: Path) -> Iterator[Member]:
    with _reading(archive):
        packed = zipfile.ZipFile(file)
        file.seek(-22 - len(packed.comment), os.SEEK_END)
        end = file.read(22)
    # zipfile stops at what looks like the last entry; the end of the file says how many there are.
    members = packed.infolist()
    if end[:4] != b"PK\5\6" or int.from_bytes(end[10:12], "little") not in (len(members) & 0xFFFF, 0xFFFF):
        raise BadArchive(f"{archive} is damaged: its list of files has no end")
    for info in members:
        kind = stat.S_IFMT(info.external_attr >> 16)
        if kind not in (0, stat.S_IFREG, stat.S_IFDIR):
            raise BadArchive(f"{archive} holds {info.filename[:80]!r}, which is no ordinary file")
        if info.flag_bits & ~_ZIP_FLAGS or info.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
            raise BadArchive(f"{archive} holds {info.filename[:80]!r} encrypted, or packed in a way we do not know")
        with _reading(archive):  # it compares the name with the one beside the data: for folders, too
            source = packed.open(info)
        with source:
            yield _from_zip(info.filename), _guarded(source, archive)


def _guarded(source: IO[bytes], archive: Path) -> Read:
    def read(size: int) -> bytes:
        with _reading(archive):
            return source.read(size)

    return read


def _tar_members(file: IO[bytes], archive: Path) -> Iterator[Member]:
    """Our own reader: tarfile takes a file that was cut for a whole one, and an extended header of any size."""
    import zstandard

    with zstandard.ZstdDecompressor().stream_reader(file, closefd=False) as stream:
        read = _guarded(stream, archive)

        def take(size: int) -> bytes:
            data = read(size)
            if len(data) < size:
                raise BadArchive(f"{archive} is damaged: it ends too early")
            return data

        while (block := take(_TAR_BLOCK)) != bytes(_TAR_BLOCK):
            with _reading(archive):
                name, size = _tar_header(block, take, archive)
            yield name, _part(take, size)
            take(-size % _TAR_BLOCK)
        rest = read(_MAX_PADDING)  # to the end, where the checksum is
        if len(rest) == _MAX_PADDING or rest.strip(b"\0"):
            raise BadArchive(f"{archive} is damaged: it goes on after its end")


def _tar_header(block: bytes, take: Read, archive: Path) -> tuple[str, int]:
    """A member's name and size; a folder has none."""
    info = tarfile.TarInfo.frombuf(block, "utf-8", "surrogateescape")
    extended: dict[bytes, bytes] = {}
    if info.type == tarfile.XHDTYPE:
        if not 0 <= info.size <= _MAX_EXTENDED:
            raise BadArchive(f"{archive} has an extended header of {info.size} bytes")
        extended = _extended(take(info.size + -info.size % _TAR_BLOCK)[: info.size])
        info = tarfile.TarInfo.frombuf(take(_TAR_BLOCK), "utf-8", "surrogateescape")
    name = os.fsdecode(extended.get(b"path", os.fsencode(info.name)))
    if info.type == tarfile.DIRTYPE:
        return f"{name}/", 0
    size = int(extended.get(b"size", b"%d" % info.size))
    sparse = any(key.startswith(b"GNU.sparse") for key in extended)
    if info.type not in (tarfile.REGTYPE, tarfile.AREGTYPE) or sparse or size < 0:
        raise BadArchive(f"{archive} holds {name[:80]!r}, which is no ordinary file")
    return name, size


def _extended(data: bytes) -> dict[bytes, bytes]:
    """The fields of an extended header, each a line that begins with its length."""
    found: dict[bytes, bytes] = {}
    start = 0
    while start < len(data):
        length, space, _ = data[start : start + 8].partition(b" ")
        end = start + int(length)
        line = data[start + len(length) + len(space) : end]
        if not length.isdigit() or end > len(data) or not line.endswith(b"\n"):
            raise ValueError("an extended header is wrong")
        key, _, value = line[:-1].partition(b"=")
        found[key] = value
        start = end
    return found


def _part(take: Read, size: int) -> Read:
    left = size

    def read(wanted: int) -> bytes:
        nonlocal left
        data = take(min(wanted, left))
        left -= len(data)
        return data

    return read
