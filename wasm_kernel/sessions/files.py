"""A session's files for the host: list, read, write, delete. Safe while the guest changes them."""

from __future__ import annotations

import fnmatch
import os
from collections.abc import Iterable
from datetime import UTC, datetime
from pathlib import Path
from typing import IO

from wasm_kernel.errors import PathRefused
from wasm_kernel.host.files.folder import Folder, blocks_of
from wasm_kernel.model.records import check_session_id
from wasm_kernel.sessions.log import SandboxLogger
from wasm_kernel.sessions.sandboxes import DEFAULT_WORKSPACE

AnyPath = str | os.PathLike[str]


class SessionFile(str):
    """A file's path relative to the workspace: a str that also has a size, a time and a kind.

    Attributes:
        size: In bytes; 0 for a folder.
        modified_at: When it was last written, by the file system; the guest can set it.
        kind: ``file``, ``folder``, ``link`` or ``other``.
    """

    size: int
    modified_at: datetime
    kind: str

    def __new__(cls, path: str, size: int, modified_at: datetime, kind: str) -> SessionFile:
        made = super().__new__(cls, path)
        made.size, made.modified_at, made.kind = size, modified_at, kind
        return made


def list_session_files(
    session_id: str,
    workspace_root: Path | str | None = None,
    pattern: str | None = None,
    *,
    recursive: bool = True,
    folders: bool = False,
    logger: SandboxLogger | None = None,
) -> list[SessionFile]:
    """The files of a session, sorted. ``pattern`` is a glob on the whole relative path or on the name (`*.csv`)."""
    with _folder(session_id, workspace_root) as folder:
        found = [
            SessionFile(_text(item.path), item.size, datetime.fromtimestamp(item.modified_ns / 1e9, UTC), item.kind)
            for item in folder.items(recursive=recursive)
            if folders or item.kind != "folder"
        ]
    if pattern is not None:
        found = [
            f for f in found if fnmatch.fnmatchcase(f, pattern) or fnmatch.fnmatchcase(f.rpartition("/")[2], pattern)
        ]
    return sorted(found)


def read_session_file(
    session_id: str, path: AnyPath, workspace_root: Path | str | None = None, *, logger: SandboxLogger | None = None
) -> bytes:
    """A file's bytes. For large files use `open_session_file`."""
    with open_session_file(session_id, path, workspace_root, logger=logger) as file:
        return file.read()


def open_session_file(
    session_id: str, path: AnyPath, workspace_root: Path | str | None = None, *, logger: SandboxLogger | None = None
) -> IO[bytes]:
    """A file, open for reading; it stays the same file even if the guest replaces it."""
    with _folder(session_id, workspace_root) as folder, _noted(session_id, path, logger):
        return folder.open(path)


def write_session_file(
    session_id: str,
    path: AnyPath,
    data: bytes | str | IO[bytes] | Iterable[bytes],
    workspace_root: Path | str | None = None,
    *,
    overwrite: bool = True,
    logger: SandboxLogger | None = None,
) -> int:
    """Write a file atomically, creating its folders; the number of bytes. Data may be a stream."""
    with _folder(session_id, workspace_root) as folder, _noted(session_id, path, logger):
        return folder.write(path, blocks_of(data), overwrite=overwrite)


def delete_session_path(
    session_id: str,
    path: AnyPath,
    workspace_root: Path | str | None = None,
    *,
    recursive: bool = False,
    logger: SandboxLogger | None = None,
) -> None:
    """Delete a file, a link or an empty folder; with ``recursive`` any folder."""
    with _folder(session_id, workspace_root) as folder, _noted(session_id, path, logger):
        folder.remove(path, recursive=recursive)


def _folder(session_id: str, workspace_root: Path | str | None) -> Folder:
    check_session_id(session_id)
    root = Path(workspace_root if workspace_root is not None else DEFAULT_WORKSPACE)
    try:
        return Folder(root / session_id)
    except (FileNotFoundError, NotADirectoryError):
        raise FileNotFoundError(f"there is no session {session_id} in {root}") from None
    except OSError as e:
        raise PathRefused(f"session {session_id} in {root} cannot be opened: {e.strerror}") from None


class _noted:
    """Logs a refused path as a security event, and lets the exception pass."""

    def __init__(self, session_id: str, path: AnyPath, logger: SandboxLogger | None) -> None:
        self._fields = {"session_id": session_id, "path": repr(path)[:200]}
        self._logger = logger or SandboxLogger()

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if isinstance(error, PathRefused):
            self._logger.warning("security.path_refused", **self._fields, error=str(error))


def _text(path: str) -> str:
    return path.encode("utf-8", "surrogateescape").decode("utf-8", "replace")
