"""What the kernel and a front end's side panel say to each other, on one comm.

The front end opens it (target `comm_messages.PANEL`) and says which `VERSION` it speaks. It sends requests, each with a
number of its own:

    {"request": 7, "do": "undo", "cells": 2, "confirmed": false}

and gets one answer to each, and the session's state whenever that changes:

    {"answer": 7, "result": {…}}    {"answer": 7, "error": "there are only 1 cells to undo; …"}
    {"answer": 7, "confirm": {"files": […]}}    what would be lost: ask the person, and send it again, confirmed
    {"state": {…}}

The guest cannot speak on it. `labextension/src/protocol.ts` has the same shapes; a test compares the two.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

VERSION = 1
_LONGEST = 1000  # characters of a text in a request


class BadRequest(Exception):
    """A message that the protocol does not have: the extension is of another version, or it is somebody else's."""


@dataclass(frozen=True)
class Look:
    """Send the state."""


@dataclass(frozen=True)
class Undo:
    """Undo the last cells. ``confirmed``: the person knows which uploaded files go."""

    cells: int = 1
    confirmed: bool = False


@dataclass(frozen=True)
class Redo:
    """Redo what the last undo undid, a cell at a time."""


@dataclass(frozen=True)
class Restore:
    """Go to a row's moment."""

    row: str
    confirmed: bool = False


@dataclass(frozen=True)
class Name:
    """Name a row's moment, so that it stays."""

    row: str
    label: str


@dataclass(frozen=True)
class Compare:
    """What differs between a row's moment and now."""

    row: str


@dataclass(frozen=True)
class Fork:
    """A copy of the notebook beside it, whose session goes on from a row's moment."""

    row: str


@dataclass(frozen=True)
class Trust:
    """Show outputs unsealed, or seal them again. The front end has asked the person."""

    on: bool


@dataclass(frozen=True)
class Limits:
    """Change limits, written as after `%session limits`."""

    change: str


Request = Look | Undo | Redo | Restore | Name | Compare | Fork | Trust | Limits
REQUESTS: dict[str, type[Request]] = {
    kind.__name__.lower(): kind for kind in (Look, Undo, Redo, Restore, Name, Compare, Fork, Trust, Limits)
}
_TYPES: dict[str, type] = {"int": int, "bool": bool, "str": str}


def parse(data: Mapping[str, Any]) -> tuple[int, Request]:
    """A request and its number. Raises `BadRequest`."""
    number, name = data.get("request"), data.get("do")
    if type(number) is not int:
        raise BadRequest("a request has no number")
    kind = REQUESTS.get(name) if isinstance(name, str) else None
    if kind is None:
        raise BadRequest(f"this kernel does not know the request {str(name)[:40]!r}; update wasm-kernel")
    given: dict[str, Any] = {}
    for item in fields(kind):
        if item.name not in data:
            continue
        value = data[item.name]
        if type(value) is not _TYPES[str(item.type)] or (isinstance(value, str) and len(value) > _LONGEST):
            raise BadRequest(f"{name}: {item.name} is {str(value)[:40]!r}")
        given[item.name] = value
    try:
        return number, kind(**given)
    except TypeError:
        raise BadRequest(f"the request {name!r} is incomplete") from None
