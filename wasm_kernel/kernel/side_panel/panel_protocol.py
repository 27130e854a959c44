"""What the kernel and a front end's side panel say to each other, on one comm.

The front end opens it (target `comm_messages.PANEL`) and says which `VERSION` it speaks. It sends requests, each with a
number of its own:

    {"request": 7, "do": "undo", "cells": 2, "confirmed": false}

and gets one answer to each, and the session's state whenever that changes:

    {"answer": 7, "result": {…}}    {"answer": 7, "error": "there are only 1 cells to undo; …"}
    {"answer": 7, "confirm": {"files": […]}}    what would be lost: ask the person, and send it again, confirmed
    {"answer": 7, "busy": true}    values and pages are the guest's, which is not at rest: ask when the cell has ended
    {"state": {…}}
    {"notice": {"id": …, "kind": …, …}}    what the person should know; to be answered with "seen"
    {"progress": {"id": …, …}}    the image that is being built, which everything waits for; likewise

Ends of different versions understand each other's greeting and nothing else: the kernel sends no more than `hello` and
errors, and the front end says what to update.

The guest cannot speak on it. `labextension/src/protocol.ts` has the same shapes; a test compares the two.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any, get_args

VERSION = 2
PAGE_ROWS, PAGE_COLUMNS = 200, 40
OTHER_VERSION = (
    "the kernel (wasm-kernel {kernel}) speaks version {ours} of the side panel's protocol, and this page version "
    "{theirs}; reload the page, or update wasm-kernel where JupyterLab runs and where the kernel runs, and restart both"
)
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


@dataclass(frozen=True)
class Values:
    """The first values of all variables."""


@dataclass(frozen=True)
class Page:
    """A page of a table: `PAGE_ROWS` rows and `PAGE_COLUMNS` columns. ``at``: where to cut an array, as in ``0,3``."""

    name: str
    row: int = 0
    column: int = 0
    at: str = ""


@dataclass(frozen=True)
class Seen:
    """A notice, or the progress of a build, is on the screen: nobody else has to tell the person."""

    notice: str


@dataclass(frozen=True)
class Reset:
    """Start a fresh interpreter; files stay. The front end has asked the person."""


@dataclass(frozen=True)
class Older:
    """Rows of cells whose checkpoints are gone, newest first, after so many of them."""

    skip: int = 0
    count: int = 100


SessionRequest = Look | Undo | Redo | Restore | Name | Compare | Fork | Trust | Limits | Values | Page | Reset | Older
Request = SessionRequest | Seen
REQUESTS: dict[str, type[Request]] = {kind.__name__.lower(): kind for kind in get_args(Request)}
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
