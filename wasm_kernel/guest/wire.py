"""What host and guest say to each other: frozen messages and their codec, no I/O. Both sides load this file.

A frame is  length of the header (u32, little endian) | header (JSON object) | buffers, one after the other.
The header's ``type`` names the message, ``buffers`` gives the buffers' lengths, the rest are the fields.
Long texts are taken out of the header: ``texts`` says where each belongs, and the last buffers hold them.

The guest is hostile. `decode_event` is the only way its bytes become values on the host, so it checks every
field's type and every length, and raises `BadFrame` for anything else; it never evaluates, imports or unpickles.
Parsing JSON stops every other thread of the process, so a header is short: the largest that is let through, or
looked at before it is refused, takes tenths of a second, however it is made. What is large travels in buffers.
"""

from __future__ import annotations

import codecs
import json
import re
from collections.abc import Iterator
from itertools import islice
from typing import Any

from .messages import (
    AwaitTasks,
    CancelTask,
    ClearOutput,
    Comm,
    DisplayData,
    ErrorRaised,
    Event,
    ExecuteResult,
    Frame,
    HostMagic,
    InputRequest,
    InterruptSeen,
    Network,
    NextRequest,
    NextTask,
    Parent,
    Reply,
    StartWorkers,
    StopWorkers,
    Stream,
    SubmitTask,
    TaskDone,
    Unused,
    UpdateDisplay,
    Waiting,
    WorkerRequest,
    WorkerSays,
)

__all__ = [
    # its own
    "ANSWER_EOF", "ANSWER_ERROR", "ANSWER_INTERRUPTED", "ANSWER_NOT_YET", "ANSWER_REFUSED", "ANSWER_TEXT", "BadFrame",
    "MAX_BUFFERS",
    "MAX_FRAME_BYTES", "MAX_HEADER_BYTES", "MAX_HEADER_DEPTH", "MAX_HEADER_VALUES", "MAX_RESULT_BYTES",
    "MAX_TASK_BYTES", "OLDEST_PROTOCOL", "PROTOCOL", "TooMuch", "decode", "decode_event", "encode", "encode_event",
    "nested_deeper_than", "without_surrogates",
    # the messages, which are read as `wire.Reply`
    "AwaitTasks", "CancelTask", "ClearOutput", "Comm", "DisplayData", "ErrorRaised", "Event", "ExecuteResult",
    "Frame", "HostMagic", "InputRequest", "InterruptSeen", "NextRequest", "NextTask", "Parent", "Reply",
    "StartWorkers", "StopWorkers", "Stream", "SubmitTask", "TaskDone", "Unused", "UpdateDisplay", "Waiting", "Network",
    "WorkerRequest", "WorkerSays",
]  # fmt: skip

# A session goes on with the guest that it was saved with, which an earlier version may have built. Raise the first when
# such a guest would not understand this host, or the host the guest; the second, when the host no longer cares for it.
PROTOCOL = 1
OLDEST_PROTOCOL = 1

MAX_FRAME_BYTES = 256 << 20
MAX_BUFFERS = 4096
MAX_HEADER_BYTES = 16 << 20
MAX_HEADER_DEPTH = 200
MAX_HEADER_VALUES = 500_000  # names in objects count, too
_MAX_DIGITS = 1000  # of a whole number: reading one takes time that grows with their square
_LONG_HEADER = 1 << 18  # bytes: only then texts are taken out
_LONG_TEXT = 1 << 16
_SLICE = 1 << 20
_dumps = json.dumps  # who patches this in the guest patches it for himself
# To its end, or to the end of all: never looked at twice, as nothing is given back.
_STRING = re.compile(r'"[^"\\]*+(?:\\.[^"\\]*+)*+(?:"|\Z)', re.DOTALL)


class BadFrame(ValueError):
    """Bytes that are no message of ours."""


class TooMuch(BadFrame):
    """A message of ours that holds more than the host takes."""


_FIELDS: dict[type[Any], dict[str, type[Any]]] = {
    DisplayData: {"data": dict, "metadata": dict, "transient": dict},
    UpdateDisplay: {"data": dict, "metadata": dict, "transient": dict},
    ClearOutput: {"wait": bool},
    ExecuteResult: {"data": dict, "metadata": dict, "execution_count": int},
    Parent: {"msg_id": str},
    ErrorRaised: {"ename": str, "evalue": str, "traceback": list},
    Comm: {"action": str, "content": dict, "metadata": dict},
    InputRequest: {"prompt": str, "password": bool},
    HostMagic: {"name": str, "line": str},
    Waiting: {"seconds": float},
    Network: {"action": str, "arguments": dict},
    NextRequest: {},
    InterruptSeen: {},
    Unused: {"stretches": list},
    StartWorkers: {"pool": int, "era": int, "entry": int, "count": int},
    SubmitTask: {"pool": int, "era": int, "task": int},
    CancelTask: {"pool": int, "task": int},
    AwaitTasks: {"seconds": float},
    StopWorkers: {"pool": int, "at_once": bool},
    NextTask: {},
    TaskDone: {"task": int, "status": int},
    Reply: {"content": dict},
}
_BY_NAME = {kind.__name__: kind for kind in _FIELDS}
_WITH_BUFFERS = (Comm, Network, Reply, SubmitTask, TaskDone)
_ABOUT_WORKERS = (StartWorkers, SubmitTask, CancelTask, AwaitTasks, StopWorkers, TaskDone)
MAX_TASK_BYTES = 64 << 20  # of a pickled call
MAX_RESULT_BYTES = MAX_FRAME_BYTES - (1 << 20)
_MAX_NUMBER = 1 << 48  # of a pool, an era or a task
_COMM_ACTIONS = ("comm_open", "comm_msg", "comm_close")

# What the answer to an `InputRequest`, `HostMagic`, `Waiting` or `Network` begins with. A magic's text is JSON, its
# error a sentence; a widget's message is an encoded request; what is received is bytes, an error JSON.
ANSWER_TEXT, ANSWER_EOF, ANSWER_INTERRUPTED, ANSWER_REFUSED, ANSWER_ERROR = b"T", b"E", b"I", b"N", b"X"
ANSWER_NOT_YET = b"W"


def encode(header: dict[str, Any], buffers: tuple[bytes, ...] | list[Any] = (), default: Any = None) -> bytes:
    """Join a header and its buffers into one frame."""
    parts = list(buffers)
    text = _json(header, parts, default)
    if len(text) > _LONG_HEADER and (paths := list(islice(_long_texts(header, []), MAX_BUFFERS - len(parts)))):
        header = {**header, "texts": paths}
        for path in paths:
            header, long_text = _taken_out(header, path)
            parts.append(long_text.encode("utf-8", "replace"))
        text = _json(header, parts, default)
    return b"".join([len(text).to_bytes(4, "little"), text, *parts])


def _json(header: dict[str, Any], buffers: list[Any], default: Any) -> bytes:
    if buffers:
        header = {**header, "buffers": [len(b) for b in buffers]}
    return _dumps(header, default=default, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "replace")


def _long_texts(value: Any, path: list[str | int]) -> Iterator[list[str | int]]:
    """Where long texts are in a JSON value: names and numbers of items that lead to each."""
    named = isinstance(value, dict)
    for key, item in value.items() if named else enumerate(value):
        if named and not isinstance(key, str):  # JSON makes it one, and nobody finds it by what it was
            continue
        if isinstance(item, str):
            if len(item) > _LONG_TEXT:
                yield [*path, key]
        elif isinstance(item, dict | list | tuple) and len(path) < MAX_HEADER_DEPTH:
            yield from _long_texts(item, [*path, key])


def _taken_out(value: Any, path: list[Any]) -> tuple[Any, str]:
    """A copy of a JSON value with nothing in place of one of its texts, and that text; the value stays as it is."""
    key, *further = path
    copy: Any = dict(value) if isinstance(value, dict) else list(value)
    copy[key], text = _taken_out(copy[key], further) if further else ("", copy[key])
    return copy, text


def _put_back(header: dict[str, Any], path: Any, text: str) -> None:
    """Give a long text its place in the header."""
    inner: Any = header
    place: Any = None
    for step in path if isinstance(path, list) else []:
        place = inner
        if isinstance(place, dict):
            inner = place.get(step) if isinstance(step, str) else None
        else:
            inner = place[step] if isinstance(place, list) and type(step) is int and 0 <= step < len(place) else None
    if place is None or inner != "":
        raise BadFrame("a long text has no place in the header")
    place[path[-1]] = text


def decode(frame: bytes) -> tuple[dict[str, Any], tuple[bytes, ...]]:
    """Split a frame into its header and buffers; `BadFrame` if it is not exactly one."""
    if len(frame) < 4:
        raise BadFrame("a frame is at least 4 bytes")
    end = 4 + int.from_bytes(frame[:4], "little")
    if end > len(frame):
        raise BadFrame("the header is longer than the frame")
    if end - 4 > MAX_HEADER_BYTES:
        raise TooMuch(f"it holds more than {MAX_HEADER_BYTES} bytes besides long texts and buffers")
    header = _parsed(frame[4:end])
    lengths, paths = header.pop("buffers", []), header.pop("texts", [])
    if not isinstance(lengths, list) or len(lengths) > MAX_BUFFERS:
        raise BadFrame("the list of buffers is malformed")
    if not isinstance(paths, list) or len(paths) > len(lengths):
        raise BadFrame("the list of long texts is malformed")
    buffers = []
    for length in lengths:
        if type(length) is not int or length < 0 or end + length > len(frame):
            raise BadFrame("a buffer is longer than the frame")
        buffers.append(frame[end : end + length])
        end += length
    if end != len(frame):
        raise BadFrame("bytes are left over after the last buffer")
    others = len(buffers) - len(paths)
    for path, data in zip(paths, buffers[others:], strict=True):
        _put_back(header, path, _text(data))
    return header, tuple(buffers[:others])


def _parsed(data: bytes) -> dict[str, Any]:
    """A header's values, once it is known that there are not too many of them."""
    try:
        text = data.decode()
        # A value takes far more memory than its text: [] 60 bytes for 2. What is in strings counts for nothing.
        if _values(text) > MAX_HEADER_VALUES:
            bare, strings = _STRING.subn("", text, MAX_HEADER_VALUES)
            if strings == MAX_HEADER_VALUES or _values(bare) > MAX_HEADER_VALUES:
                raise TooMuch(f"it holds more than {MAX_HEADER_VALUES} values")
        found = _loads(text)
    except (ValueError, RecursionError) as e:
        raise e if isinstance(e, BadFrame) else BadFrame(f"the header is not JSON: {type(e).__name__}") from None
    if not isinstance(found, dict):
        raise BadFrame("the header is not an object")
    if text.count("[") + text.count("{") > MAX_HEADER_DEPTH and nested_deeper_than(found, MAX_HEADER_DEPTH):
        raise BadFrame(f"the header is nested deeper than {MAX_HEADER_DEPTH}")
    header: dict[str, Any] = without_surrogates(found) if "\\ud" in text or "\\uD" in text else found
    return header


def _values(text: str) -> int:
    """At most so many values and names are in a JSON text without strings; with strings, it may seem more."""
    return sum(map(text.count, "[{,:"))


def _integer(digits: str) -> int:
    if len(digits) > _MAX_DIGITS:
        raise TooMuch(f"it holds a number of more than {_MAX_DIGITS} digits")
    return int(digits)


def _fraction(digits: str) -> float:
    return float(digits)


# These are Python's functions rather than C's: between numbers other threads get their turn.
_loads = json.JSONDecoder(parse_int=_integer, parse_float=_fraction).decode


def _text(data: bytes) -> str:
    """Bytes as text, a slice at a time: in between other threads get their turn."""
    decoder = codecs.getincrementaldecoder("utf-8")()
    try:
        parts = [decoder.decode(data[at : at + _SLICE]) for at in range(0, len(data), _SLICE)]
        return "".join([*parts, decoder.decode(b"", True)])
    except UnicodeDecodeError:
        raise BadFrame("a long text is not UTF-8") from None


def nested_deeper_than(value: Any, limit: int) -> bool:
    """Whether containers in a JSON value nest deeper than ``limit``; without recursion, so it cannot be starved."""
    level = [value]
    for _ in range(limit):
        inner: list[Any] = []
        for item in level:
            if isinstance(item, dict):
                inner.extend(item.values())
            elif isinstance(item, list):
                inner.extend(item)
        level = [item for item in inner if isinstance(item, dict | list)]
        if not level:
            return False
    return True


def without_surrogates(value: Any) -> Any:
    """A JSON value whose texts can be encoded: half a character becomes a question mark."""
    if isinstance(value, str):
        return value.encode("utf-8", "replace").decode()
    if isinstance(value, dict):
        return {without_surrogates(key): without_surrogates(item) for key, item in value.items()}
    if isinstance(value, list):
        return [without_surrogates(item) for item in value]
    return value


def _is_stretch(item: Any) -> bool:
    return isinstance(item, list) and len(item) == 2 and all(type(n) is int and n >= 0 for n in item)


def _check_numbers(header: dict[str, Any]) -> None:
    for key, value in header.items():
        if not 0 <= value < _MAX_NUMBER:  # a NaN is neither
            raise BadFrame(f"{key} is out of range")


def encode_event(event: Frame, default: Any = None) -> bytes:
    """An event as a frame."""
    kind = type(event)
    header = {name: getattr(event, name) for name in _FIELDS[kind]}
    header["type"] = kind.__name__
    return encode(header, getattr(event, "buffers", ()), default)


def decode_event(frame: bytes) -> Frame:
    """A frame as an event, with every field checked."""
    header, buffers = decode(frame)
    name = header.pop("type", None)
    kind = _BY_NAME.get(name) if isinstance(name, str) else None
    if kind is None:
        raise BadFrame(f"no message is called {str(name)[:40]!r}")
    fields = _FIELDS[kind]
    if header.keys() != fields.keys():
        raise BadFrame(f"{name} has the wrong fields")
    for key, wanted in fields.items():
        if type(header[key]) is not wanted:
            raise BadFrame(f"{name}.{key} is not {wanted.__name__}")
    if kind is ErrorRaised and not all(isinstance(line, str) for line in header["traceback"]):
        raise BadFrame("a traceback is a list of strings")
    if kind is Unused and not all(_is_stretch(item) for item in header["stretches"]):
        raise BadFrame("a stretch is an address and a length")
    if kind is Comm and header["action"] not in _COMM_ACTIONS:
        raise BadFrame("a comm opens, speaks or closes")
    if kind in _ABOUT_WORKERS:
        _check_numbers(header)
    if kind in (SubmitTask, TaskDone) and len(buffers) != 1:
        raise BadFrame(f"{name} carries one buffer")
    if buffers and kind not in _WITH_BUFFERS:
        raise BadFrame(f"{name} carries no buffers")
    event: Frame = kind(**header, buffers=buffers) if kind in _WITH_BUFFERS else kind(**header)
    return event
