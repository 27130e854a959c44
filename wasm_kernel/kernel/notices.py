"""Notices for the person, left next to the sessions by a hub's service or an administrator.

workspace_root/.wasm-kernel/notices.json         {"version": 1, "notices": [{"id", "created_at", "text", "session_ids",
                                                 "due"}, …]}, always replaced as a whole
workspace_root/.wasm-kernel/notices-shown.json   {"version": 1, "shown": [id, …]}: what kernels have shown

A notebook's kernel shows each text once, with its first cell; a notice about sessions that no longer exist is not
shown. A file that cannot be understood is ignored.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import logging
import os
import stat
import unicodedata
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from wasm_kernel.host.durable import write_file
from wasm_kernel.model.names import STATE_FOLDER
from wasm_kernel.model.records import BadRecord, format_time, is_session_id, parse_time

_NOTICES, _SHOWN, _LOCK = "notices.json", "notices-shown.json", "notices.lock"
_MAX_FILE = 1 << 20
_MAX_TEXT = 1000  # characters
_MAX_ID = 100
_MOST = 10  # shown at once; the others wait
_REMEMBERED = 1000
_log = logging.getLogger("wasm_kernel")


@dataclass(frozen=True)
class Notice:
    """Something a person should know, in one line, the sessions it is about, if any, and when they will be pruned."""

    id: str
    text: str
    session_ids: tuple[str, ...] = ()
    due: str = ""


def unshown(root: Path) -> list[Notice]:
    """The notices not shown yet, in the order of the file."""
    folder = root / STATE_FOLDER
    try:
        found = _read(folder / _NOTICES, "notices")
    except (OSError, ValueError, RecursionError) as e:
        _log.warning("%s is not used: %s", folder / _NOTICES, e)
        return []
    if not found:
        return []
    seen = _shown(folder)
    notices: dict[str, Notice] = {}
    for item in found:
        notice = _notice(item)
        if notice is None:
            _log.warning("%s has a malformed notice; it is not shown", folder / _NOTICES)
        elif notice.id not in seen and _matters(root, notice):
            notices.setdefault(notice.id, notice)
    return list(notices.values())[:_MOST]


def mark_shown(root: Path, notices: Iterable[Notice]) -> None:
    """Remember that these were shown."""
    folder = root / STATE_FOLDER
    try:
        with _locked(folder):
            ids = [*dict.fromkeys([*_shown(folder), *(n.id for n in notices)])][-_REMEMBERED:]
            write_file(folder / _SHOWN, json.dumps({"version": 1, "shown": ids}).encode())
    except OSError as e:  # then they will be shown again
        _log.warning("could not record which notices of %s were shown: %s", folder / _NOTICES, e)


def _notice(item: Any) -> Notice | None:
    if not isinstance(item, dict):
        return None
    name, text = item.get("id"), item.get("text")
    if not isinstance(name, str) or not 0 < len(name) <= _MAX_ID or not isinstance(text, str):
        return None
    line = " ".join("".join(c if _is_plain(c) else " " for c in text[: 2 * _MAX_TEXT]).split())
    about = item.get("session_ids")
    sessions = tuple(s for s in about if isinstance(s, str) and is_session_id(s)) if isinstance(about, list) else ()
    return Notice(name, line[:_MAX_TEXT], sessions, _time(item.get("due"))) if line else None


def _time(text: Any) -> str:
    """A time as records have it; empty if it is none."""
    with contextlib.suppress(BadRecord):
        return format_time(parse_time(text))
    return ""


def _matters(root: Path, notice: Notice) -> bool:
    return not notice.session_ids or any((root / session_id).exists() for session_id in notice.session_ids)


def _is_plain(c: str) -> bool:
    """Whether a character is neither a control character nor one that changes the text direction."""
    return unicodedata.category(c) not in ("Cc", "Cf", "Cs", "Cn", "Zl", "Zp")


def _shown(folder: Path) -> list[str]:
    try:
        return [name for name in _read(folder / _SHOWN, "shown") if isinstance(name, str)]
    except (OSError, ValueError, RecursionError):
        return []


def _read(path: Path, what: str) -> list[Any]:
    """A list in a small JSON file; empty if there is no file."""
    try:
        handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK)
    except FileNotFoundError:
        return []
    with os.fdopen(handle, "rb") as file:
        info = os.fstat(handle)
        if not stat.S_ISREG(info.st_mode) or info.st_size > _MAX_FILE:
            raise ValueError(f"it is not an ordinary file of at most {_MAX_FILE:,} bytes")
        found = json.loads(file.read(_MAX_FILE))
    if not isinstance(found, dict) or found.get("version") != 1 or not isinstance(found.get(what), list):
        raise ValueError(f"it is not version 1 with a list of {what}")
    return list(found[what])


@contextlib.contextmanager
def _locked(folder: Path) -> Iterator[None]:
    """A lock, so that two kernels that show something at once both record it."""
    handle = os.open(folder / _LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)
