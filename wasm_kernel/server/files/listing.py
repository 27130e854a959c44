"""A page of a folder's files, sorted and filtered."""

from __future__ import annotations

import contextlib
import fnmatch
import time
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from wasm_kernel.errors import PathRefused
from wasm_kernel.host.files.folder import Folder, Item
from wasm_kernel.model.names import key_of, text_of
from wasm_kernel.model.records import format_time

SORTS = ("name", "size", "time", "type")
MAX_LIMIT = 10_000
_LINK_SECONDS = 0.2  # following one can take thousands of steps, if the guest wants it so


@dataclass(frozen=True)
class Query:
    """Which part of a folder is asked for. ``filter`` is a glob, or a part of the name; case does not matter."""

    sort: str = "name"
    descending: bool = False
    filter: str = ""
    offset: int = 0
    limit: int = 1000


def page(items: Iterable[Item], query: Query) -> tuple[list[Item], int]:
    """The items asked for, and how many there are in all. Folders come first, in any order."""
    found = [item for item in items if _matches(item, query.filter.lower())]
    found.sort(key=lambda item: _name(item), reverse=query.descending)
    if query.sort != "name":
        found.sort(key=lambda item: _value(item, query.sort), reverse=query.descending)
    found.sort(key=lambda item: item.kind != "folder")
    return found[query.offset : query.offset + query.limit], len(found)


def entry(item: Item, path: str) -> dict[str, Any]:
    """An item for JSON.

    ``key`` leads back to it, below ``files/``, whatever bytes its name has. ``version`` is another one when it was
    written, or when something else took its place.
    """
    try:
        modified = format_time(datetime.fromtimestamp(item.modified_ns / 1e9, UTC))
    except (ValueError, OverflowError, OSError):  # the guest sets a file's time as it likes
        modified = None
    name = item.path.rpartition("/")[2]
    return {
        "name": text_of(name),
        "key": key_of(path),
        "kind": item.kind,
        "size": item.size,
        "modified": modified,
        "version": f"{item.modified_ns:x}-{item.size:x}",
    }


def behind_links(folder: Folder, items: Iterable[Item]) -> dict[str, dict[str, str]]:
    """For each link, the kind of what is behind it; not for those that a moment's time is too short for."""
    end = time.monotonic() + _LINK_SECONDS
    found: dict[str, dict[str, str]] = {}
    for item in items:
        if item.kind == "link" and time.monotonic() < end:
            with contextlib.suppress(OSError, PathRefused):
                found[item.path] = {"target": folder.look(item.path).kind}
    return found


def _matches(item: Item, wanted: str) -> bool:
    if not wanted:
        return True
    name = text_of(item.path).lower()
    return fnmatch.fnmatchcase(name, wanted) if any(c in wanted for c in "*?[") else wanted in name


def _name(item: Item) -> tuple[str, str]:
    return item.path.casefold(), item.path


def _value(item: Item, sort: str) -> int | str:
    if sort == "size":
        return item.size
    if sort == "time":
        return item.modified_ns
    return f"{item.kind}/{item.path.rpartition('.')[2].lower() if '.' in item.path else ''}"
