"""A page of a long list: searched, sorted and cut here, not in the browser. Values only, no I/O."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Generic, TypeVar

from wasm_kernel.hub.census import SessionRow, SnapshotRow, UserCensus
from wasm_kernel.model.retention import Decision

T = TypeVar("T")
Key = Callable[[Any], Any]
PAGE = 50
_NEVER = datetime.min.replace(tzinfo=UTC)

SESSION_KEYS: dict[str, Key] = {
    "notebook": lambda row: name_of(row).casefold(),
    "user": lambda row: row.user,
    "state": lambda row: row.state,
    "used": lambda row: row.updated_at or _NEVER,
    "size": lambda row: row.size_bytes,
    "snapshots": lambda row: row.snapshot_count,
    "cells": lambda row: row.execution_count,
}
USER_KEYS: dict[str, Key] = {
    "user": lambda user: user.name,
    "sessions": lambda user: len(user.sessions),
    "size": lambda user: user.session_bytes,
    "snapshots": lambda user: user.snapshot_count,
    "stored": lambda user: user.snapshot_bytes,
    "used": lambda user: last_used(user) or _NEVER,
}

SNAPSHOT_KEYS: dict[str, Key] = {
    "taken": lambda row: row.created_at,
    "user": lambda row: row.user,
    "session": lambda row: row.session_id,
    "trigger": lambda row: row.trigger,
    "size": lambda row: row.stored_bytes,
    "memory": lambda row: row.memory_bytes,
}
TRIGGERS = {"session_close": "at the end", "user": "by hand", "checkpoint": "after a cell"}
"""What took a snapshot, for people."""


@dataclass(frozen=True)
class Slice(Generic[T]):
    """A page of a list.

    Attributes:
        rows: What is on it.
        total: How many there are on all pages.
        page: Which it is, from 1 on.
        pages: How many there are, at least one.
    """

    rows: list[T]
    total: int
    page: int
    pages: int
    size: int = PAGE

    @property
    def first(self) -> int:
        """The number of the first row, from 1 on; 0 if there is none."""
        return (self.page - 1) * self.size + 1 if self.rows else 0

    @property
    def last(self) -> int:
        """The number of the last row."""
        return (self.page - 1) * self.size + len(self.rows)


def cut(rows: Sequence[T], page: int, size: int = PAGE) -> Slice[T]:
    """A page of these rows, or the nearest that exists."""
    pages = max(1, -(-len(rows) // size))
    page = min(max(1, page), pages)
    return Slice(list(rows[(page - 1) * size : page * size]), len(rows), page, pages, size)


def ordered(rows: Iterable[T], sort: str, keys: dict[str, Key], otherwise: str) -> list[T]:
    """Sorted by the name of a column, descending after a minus; an unknown one means ``otherwise``."""
    name = sort if sort.removeprefix("-") in keys else otherwise
    return sorted(rows, key=keys[name.removeprefix("-")], reverse=name.startswith("-"))


def by_space(going: Iterable[tuple[str, Decision]]) -> list[tuple[str, Decision]]:
    """Sessions to be deleted, those that free most first."""
    return sorted(going, key=lambda pair: -(pair[1].size_bytes + pair[1].snapshot_bytes))


def found(rows: Iterable[SessionRow], search: str = "", user: str = "", state: str = "") -> list[SessionRow]:
    """The sessions of a user, in a state, in which every word occurs: in id, user, title or notebook."""
    words = search.casefold().split()
    return [
        row
        for row in rows
        if (not user or row.user == user)
        and (not state or row.state == state)
        and (not words or _has(words, f"{row.session_id}\n{row.user}\n{row.title}\n{row.notebook}".casefold()))
    ]


def found_snapshots(
    rows: Iterable[SnapshotRow], names: Mapping[tuple[str, str], SessionRow], search: str = "", trigger: str = ""
) -> list[SnapshotRow]:
    """The snapshots taken so, in which every word occurs: in ids, label, user, or the session's title or notebook."""
    words = search.casefold().split()

    def text(row: SnapshotRow) -> str:
        of = names.get((row.user, row.session_id))
        known = f"{of.title}\n{of.notebook}" if of is not None else ""
        return f"{row.snapshot_id}\n{row.session_id}\n{row.label}\n{row.user}\n{known}".casefold()

    return [row for row in rows if (not trigger or row.trigger == trigger) and (not words or _has(words, text(row)))]


def _has(words: list[str], text: str) -> bool:
    return all(word in text for word in words)


def name_of(row: SessionRow) -> str:
    """What a person would call a session; empty if unknown."""
    return row.title or row.notebook.rpartition("/")[2]


def place_of(row: SessionRow) -> str:
    """Where its notebook is, as far as its name does not say so."""
    return row.notebook if row.title else row.notebook.rpartition("/")[0]


def last_used(user: UserCensus) -> datetime | None:
    """When a user last used any session."""
    return max((row.updated_at for row in user.sessions if row.updated_at), default=None)
