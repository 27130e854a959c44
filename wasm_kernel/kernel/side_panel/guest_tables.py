"""First values of variables, and pages of tables: asked of the guest when it is at rest, and checked.

What the guest answers is data: counts are within what it could hold, texts are short and of one line, and a page has
exactly as many of them as it has rows and columns. Anything else is no answer.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from wasm_kernel.errors import SandboxError
from wasm_kernel.kernel.side_panel.panel_protocol import PAGE_COLUMNS, PAGE_ROWS, BadRequest, Page
from wasm_kernel.sessions.runtime import SessionRuntime

Message = dict[str, Any]
_SOON = 0.5  # seconds: a checkpoint, a task between cells
_LARGEST = 1 << 32  # rows, columns, bytes: it cannot address more
_LONGEST = 200  # characters of a text
_JOINERS = "\u200c\u200d"  # emoji and some scripts need them
_MOST_VARIABLES, _MOST_LEVELS, _MOST_DIMENSIONS = 500, 20, 64


async def first_values(runtime: SessionRuntime) -> Message:
    """The first values of all variables, or that the guest is busy."""
    reply = await _ask_at_rest(runtime, {"op": "first_values"})
    return {"busy": True} if reply is None else {"result": {"values": checked_values(reply.get("values"))}}


async def page(runtime: SessionRuntime, wanted: Page) -> Message:
    """A page of a table, or that the guest is busy."""
    at = _position(wanted.at)
    if min(wanted.row, wanted.column) < 0 or max(wanted.row, wanted.column) >= _LARGEST:
        raise BadRequest(f"page: there is no row {wanted.row} or no column {wanted.column}")
    request = {"op": "page", "name": wanted.name, "row": wanted.row, "column": wanted.column, "at": at}
    reply = await _ask_at_rest(runtime, {**request, "rows": PAGE_ROWS, "columns": PAGE_COLUMNS})
    if reply is None:
        return {"busy": True}
    problem = reply.get("problem")
    if problem == "gone":
        return {"result": {"problem": "gone"}}
    if problem is not None:
        return {"result": {"problem": "no table"}}
    return {"result": checked_page(reply, wanted.row, wanted.column)}


def _position(text: str) -> list[int]:
    try:
        found = [int(part) for part in text.split(",")] if text else []
    except ValueError:
        found = [-1]
    if len(found) > _MOST_DIMENSIONS or any(not 0 <= i < _LARGEST for i in found):
        raise BadRequest(f"page: at is {text[:40]!r}")
    return found


async def _ask_at_rest(runtime: SessionRuntime, request: Message) -> Message | None:
    """The guest's answer; None if a cell runs, or something else that does not end soon."""
    if runtime.running:
        return None
    try:
        await asyncio.wait_for(runtime.guest.acquire(), _SOON)
    except TimeoutError:
        return None
    try:
        reply = await runtime.ask(request)
    finally:
        runtime.guest.release()
    if reply.get("status") != "ok":
        if reply.get("ename") == "KeyError":  # it has no such request
            raise SandboxError("the session goes on with an image of an earlier version; %session reset moves it on")
        raise SandboxError("the sandbox could not show its variables: something in it is in the way")
    return reply


# ---- what the guest answers


def checked_values(found: Any) -> Message:
    """Name to shape, bytes and first values, without malformed entries."""
    if type(found) is not dict:
        return {}
    return {
        name[:_LONGEST]: {"shape": item[0], "bytes": item[1], "first": _text(item[2]), "opens": item[3]}
        for name, item in list(found.items())[:_MOST_VARIABLES]
        if type(item) is list
        and len(item) == 4
        and _is_list(item[0], _is_count, _MOST_DIMENSIONS)
        and _is_count(item[1])
        and type(item[2]) is str
        and type(item[3]) is bool
    }


def checked_page(found: Message, row: int, column: int) -> Message:
    """A page that begins at a row and a column, or where the table ends if that is before. Raises `SandboxError`."""
    rows, columns, labels, cells = [found.get(name, ()) for name in ("rows", "columns", "labels", "cells")]
    if not _is_count(rows) or not _is_count(columns):
        raise SandboxError("the sandbox described a table without a size")
    row, column = min(row, rows), min(column, columns)
    height, width = min(PAGE_ROWS, rows - row), min(PAGE_COLUMNS, columns - column)
    texts = [found.get(name, ()) for name in ("names", "types", "levels")]
    whole = (
        _is_list(found.get("shape"), _is_count, _MOST_DIMENSIONS)
        and _is_list(found.get("at"), _is_count, _MOST_DIMENSIONS)
        and all(_is_list(each, _is_text, max(PAGE_COLUMNS, _MOST_LEVELS)) for each in texts)
        and _is_grid(labels, None, height)
        and _is_grid(cells, width, height)
        and len(texts[0]) == len(texts[1]) == width
        and len(texts[2]) == len(labels)
    )
    if not whole:
        raise SandboxError("the sandbox described a table that does not fit together")
    return {
        "kind": _text(str(found.get("kind", ""))),
        "shape": found["shape"],
        "at": found["at"],
        "rows": rows,
        "columns": columns,
        "row": row,
        "column": column,
        "levels": [_text(text) for text in found["levels"]],
        "labels": [[_cell(item) for item in level] for level in labels],
        "names": [_text(text) for text in found["names"]],
        "types": [_text(text) for text in found["types"]],
        "cells": [[_cell(item) for item in each] for each in cells],
    }


def _is_count(value: Any) -> bool:
    return type(value) is int and 0 <= value <= _LARGEST


def _is_text(value: Any) -> bool:
    return type(value) is str


def _is_cell(value: Any) -> bool:
    """A text, or a list of one that stands for something else, such as no value."""
    return type(value) is str or (type(value) is list and len(value) == 1 and type(value[0]) is str)


def _is_list(value: Any, is_item: Callable[[Any], bool], most: int) -> bool:
    return type(value) is list and len(value) <= most and all(map(is_item, value))


def _is_grid(value: Any, width: int | None, height: int) -> bool:
    """Whether a value is a list of columns of cells. No ``width``: at least one, and not many."""
    right = type(value) is list and (len(value) == width if width is not None else 0 < len(value) <= _MOST_LEVELS)
    return right and all(type(each) is list and len(each) == height and all(map(_is_cell, each)) for each in value)


def _cell(value: Any) -> Any:
    return _text(value) if type(value) is str else [_text(value[0])]


def _text(value: str) -> str:
    """A text in one line that shows what is in it: no control characters, nothing that turns its direction around."""
    value = value[:_LONGEST]
    return value if value.isprintable() else "".join(map(_visible, value))


def _visible(character: str) -> str:
    if character.isprintable() or character in _JOINERS:
        return character
    return "↵" if character == "\n" else " " if character.isspace() else "�"
