"""Sessions as single files: export, import, archive before deleting. An archive comes from elsewhere: it is checked."""

from __future__ import annotations

import contextlib
import errno
import json
import os
import stat
import tarfile
import zipfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any

from wasm_kernel.errors import ConfigurationError, SessionLocked
from wasm_kernel.host.folder import BLOCK, Folder, PathRefused, components
from wasm_kernel.host.ledger import lock_session, read_record, sync_folder, write_record
from wasm_kernel.model.records import BadRecord, check_session_id
from wasm_kernel.model.retention import RetentionPolicy
from wasm_kernel.sessions.catalog import create_session_folder, delete_session_workspace, prepared_root
from wasm_kernel.sessions.log import SandboxLogger
from wasm_kernel.sessions.pruning import existing_root, plan_prune

_RECORD = "session.json"  # beside files/, so that no file of the session can be taken for it
_FILES = "files/"


class BadArchive(ConfigurationError):
    """A file that is no archive of a session, or one that tries to write where it must not."""


def export_session(
    session_id: str,
    target: Path | str,
    workspace_root: Path | str | None = None,
    *,
    logger: SandboxLogger | None = None,
) -> Path:
    """Write a session's files and metadata to ``target``, a .zip or a .tar.zst; it appears whole or not at all.

    Links are left out. A session in use can be exported; each file is then as it was when it was read.
    """
    check_session_id(session_id)
    target = Path(target).absolute()
    writer = _writer_for(target)
    root = existing_root(workspace_root)
    temporary = target.with_name(f".{target.name}.{os.getpid()}.part")
    try:
        folder = Folder(root / session_id)
    except OSError:
        raise FileNotFoundError(f"there is no session {session_id} in {root}") from None
    try:
        with folder, temporary.open("wb") as file:
            with contextlib.ExitStack() as stack:
                add = stack.enter_context(writer(file))
                with contextlib.suppress(BadRecord):
                    record = read_record(root / session_id)
                    if record is not None:
                        add(_RECORD, record.to_json(), len(record.to_json()))
                for item in folder.items():
                    if item.kind == "folder":
                        add(f"{_FILES}{_name(item.path)}/", None, 0)
                    elif item.kind == "file":
                        with contextlib.suppress(FileNotFoundError, PathRefused), folder.open_item(item) as source:
                            add(f"{_FILES}{_name(item.path)}", source, os.fstat(source.fileno()).st_size)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(target)
        sync_folder(target.parent)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    (logger or SandboxLogger()).info("session.exported", session_id=session_id, target=str(target))
    return target


def import_session(
    archive: Path | str,
    workspace_root: Path | str | None = None,
    *,
    max_bytes: int = 16 << 30,
    max_files: int = 200_000,
    logger: SandboxLogger | None = None,
) -> str:
    """Make a new session from an archive; its id. Nothing is written outside the session, whatever the archive says."""
    archive = Path(archive)
    root = prepared_root(workspace_root)
    logger = logger or SandboxLogger()
    session_id, folder, lock = create_session_folder(root, logger)
    try:
        with _members(archive) as members, Folder(folder) as place:
            budget = max_bytes
            for count, (name, source) in enumerate(members, 1):
                if count > max_files:
                    raise BadArchive(f"{archive} holds more than {max_files} files; pass max_files to allow more")
                if name == _RECORD and source is not None:
                    _adopt(folder, source.read(1 << 20))
                elif name.startswith(_FILES):
                    budget -= _unpack(place, name.removeprefix(_FILES), source, budget, archive)
                else:
                    raise BadArchive(f"{archive} holds {name[:80]!r}, which no export of ours does")
    except BaseException:
        lock.release()
        delete_session_workspace(session_id, root)
        raise
    lock.release()
    logger.info("session.imported", session_id=session_id, archive=str(archive))
    return session_id


def _unpack(place: Folder, name: str, source: IO[bytes] | None, budget: int, archive: Path) -> int:
    try:
        if source is None or name.endswith("/"):
            if components(name.rstrip("/") or "."):
                place.make_folder(name.rstrip("/"))
            return 0

        def blocks() -> Iterator[bytes]:
            left = budget
            while block := source.read(BLOCK):
                left -= len(block)
                if left < 0:
                    raise BadArchive(f"{archive} unpacks to more than allowed; pass max_bytes to allow more")
                yield block

        return place.write(name, blocks(), overwrite=False)
    except PathRefused as e:
        raise BadArchive(f"{archive}: {e}") from None
    except (FileExistsError, NotADirectoryError, IsADirectoryError):
        raise BadArchive(f"{archive} holds {name[:80]!r} twice, or as a file and a folder") from None
    except OSError as e:
        if e.errno == errno.ENAMETOOLONG:
            raise BadArchive(f"{archive} holds a name that is too long: {name[:80]!r}") from None
        raise


def _adopt(folder: Path, data: bytes) -> None:
    """Take over what an exported session's metadata says beyond id and times."""
    record = read_record(folder)
    try:
        found = json.loads(data)
    except (ValueError, RecursionError):
        raise BadArchive("the archive's session.json is not JSON") from None
    if record is None or not isinstance(found, dict):
        return
    own = {"session_id", "created_at", "updated_at", "version"}
    extra = {k: v for k, v in found.items() if k not in own}
    extra["imported_from"] = found.get("session_id")
    write_record(folder, record.touched(record.updated_at, **extra), sync=True)


# ---- formats

Add = Callable[[str, Any, int], None]


def _writer_for(target: Path) -> Callable[[IO[bytes]], contextlib.AbstractContextManager[Add]]:
    if target.name.endswith(".zip"):
        return _zip_writer
    if target.name.endswith(".tar.zst"):
        return _tar_writer
    raise ConfigurationError(f"{target.name!r} is no archive's name; end it in .zip or .tar.zst")


@contextlib.contextmanager
def _zip_writer(file: IO[bytes]) -> Iterator[Add]:
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED, strict_timestamps=False) as archive:

        def add(name: str, source: Any, size: int) -> None:
            if source is None or isinstance(source, bytes):
                archive.writestr(name, source or b"")
                return
            with archive.open(name, "w", force_zip64=True) as member:
                for block in iter(lambda: source.read(BLOCK), b""):
                    member.write(block)

        yield add


@contextlib.contextmanager
def _tar_writer(file: IO[bytes]) -> Iterator[Add]:
    import io

    import zstandard

    with (
        zstandard.ZstdCompressor(level=6).stream_writer(file, closefd=False) as packed,
        tarfile.open(fileobj=packed, mode="w|", format=tarfile.PAX_FORMAT) as archive,
    ):

        def add(name: str, source: Any, size: int) -> None:
            info = tarfile.TarInfo(name.rstrip("/"))
            if source is None:
                info.type, info.mode = tarfile.DIRTYPE, 0o755
                archive.addfile(info)
                return
            info.size, info.mode = size, 0o644
            archive.addfile(info, io.BytesIO(source) if isinstance(source, bytes) else _Exactly(source, size))

        yield add


class _Exactly:
    """Reads exactly the size a tar header promised, though the guest may cut or extend the file meanwhile."""

    def __init__(self, source: IO[bytes], size: int) -> None:
        self._source, self._left = source, size

    def read(self, wanted: int = -1) -> bytes:
        length = self._left if wanted < 0 else min(wanted, self._left)
        data = self._source.read(length)
        data += bytes(length - len(data))
        self._left -= length
        return data


@contextlib.contextmanager
def _members(archive: Path) -> Iterator[Iterator[tuple[str, IO[bytes] | None]]]:
    """The names and contents of an archive's members; links and devices are refused."""
    import zstandard

    with contextlib.ExitStack() as stack:
        try:
            if archive.name.endswith(".zip"):
                yield _zip_members(stack.enter_context(zipfile.ZipFile(archive)), archive)
            elif archive.name.endswith(".tar.zst"):
                file = stack.enter_context(archive.open("rb"))
                reader = stack.enter_context(zstandard.ZstdDecompressor().stream_reader(file))
                yield _tar_members(stack.enter_context(tarfile.open(fileobj=reader, mode="r|")), archive)
            else:
                raise ConfigurationError(f"{archive.name!r} is no archive's name; it must end in .zip or .tar.zst")
        except (zipfile.BadZipFile, tarfile.TarError, zstandard.ZstdError, EOFError) as e:
            raise BadArchive(f"{archive} is damaged or no archive: {e}") from None


def _zip_members(file: zipfile.ZipFile, archive: Path) -> Iterator[tuple[str, IO[bytes] | None]]:
    for info in file.infolist():
        mode = info.external_attr >> 16
        if mode and not (stat.S_ISREG(mode) or stat.S_ISDIR(mode) or not stat.S_IFMT(mode)):
            raise BadArchive(f"{archive} holds {info.filename[:80]!r}, which is no ordinary file")
        if info.is_dir():
            yield info.filename, None
        else:
            with file.open(info) as source:
                yield info.filename, source


def _tar_members(file: tarfile.TarFile, archive: Path) -> Iterator[tuple[str, IO[bytes] | None]]:
    for info in file:
        if info.isdir():
            yield f"{info.name}/", None
        elif info.isreg():
            yield info.name, file.extractfile(info)
        else:
            raise BadArchive(f"{archive} holds {info.name[:80]!r}, which is no ordinary file")


def _name(path: str) -> str:
    return path.encode("utf-8", "surrogateescape").decode("utf-8", "replace")


# ---- archive what is old


@dataclass(frozen=True)
class ArchiveResult:
    """What `archive_sessions` did: id to archive, id to what went wrong, and ids left alone because they are in use."""

    archived: dict[str, Path] = field(default_factory=dict)
    errors: dict[str, str] = field(default_factory=dict)
    live_sessions: list[str] = field(default_factory=list)
    dry_run: bool = False


def archive_sessions(
    older_than_hours: float,
    archive_path: Path | str,
    workspace_root: Path | str | None = None,
    *,
    dry_run: bool = False,
    logger: SandboxLogger | None = None,
) -> ArchiveResult:
    """Export sessions not used for a while to ``archive_path``/<id>.tar.zst; each is deleted once that is on disk."""
    logger = logger or SandboxLogger()
    root = existing_root(workspace_root)
    place = Path(archive_path).absolute()
    decided = plan_prune(root, RetentionPolicy(max_age_hours=older_than_hours))
    archived: dict[str, Path] = {}
    errors: dict[str, str] = {}
    live = [d.session_id for d in decided.keep if d.reason == "live"]
    for decision in decided.remove:
        session_id = decision.session_id
        target = place / f"{session_id}.tar.zst"
        if dry_run:
            archived[session_id] = target
            continue
        try:
            place.mkdir(parents=True, exist_ok=True)
            lock = lock_session(root, session_id)
        except SessionLocked:
            live.append(session_id)
            continue
        except OSError as e:
            errors[session_id] = str(e)
            continue
        try:
            export_session(session_id, target, root, logger=logger)
            lock.release()
            delete_session_workspace(session_id, root, logger)
            archived[session_id] = target
        except (OSError, SessionLocked) as e:
            errors[session_id] = str(e)
        finally:
            lock.release()
    return ArchiveResult(archived, errors, live, dry_run)
