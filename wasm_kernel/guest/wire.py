"""What host and guest say to each other: frozen messages and their codec, no I/O. Both sides load this file.

A frame is  length of the header (u32, little endian) | header (JSON object) | buffers, one after the other.
The header's ``type`` names the message, ``buffers`` gives the buffers' lengths, the rest are the fields.

The guest is hostile. `decode_event` is the only way its bytes become values on the host, so it checks every
field's type and every length, and raises `BadFrame` for anything else; it never evaluates, imports or unpickles.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from typing import Any

MAX_BUFFERS = 4096
MAX_HEADER_DEPTH = 200
MAX_HEADER_VALUES = 2_000_000
_dumps, _loads = json.dumps, json.loads  # who patches these in the guest patches them for himself
_STRING = re.compile(r'"(?:[^"\\]|\\.)*"')


class BadFrame(ValueError):
    """Bytes that are no message of ours."""


class TooMuch(BadFrame):
    """A message of ours that holds more than the host takes."""


@dataclass(frozen=True)
class Stream:
    """Text written to stdout or stderr. Made by the host from the guest's raw writes, never sent as a frame."""

    name: str
    text: str


@dataclass(frozen=True)
class DisplayData:
    """A mime bundle to show; ``transient`` may hold a display_id."""

    data: dict[str, Any]
    metadata: dict[str, Any] = field(default_factory=dict)
    transient: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class UpdateDisplay:
    """A mime bundle that replaces the one shown under ``transient["display_id"]``."""

    data: dict[str, Any]
    metadata: dict[str, Any] = field(default_factory=dict)
    transient: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class ClearOutput:
    """Forget what the cell has shown so far, now or at the next output."""

    wait: bool = False


@dataclass(frozen=True)
class ExecuteResult:
    """The value of the cell's last expression, as a mime bundle."""

    data: dict[str, Any]
    metadata: dict[str, Any] = field(default_factory=dict)
    execution_count: int = 0


@dataclass(frozen=True)
class ErrorRaised:
    """An exception that reached the top of the cell; the traceback's lines are coloured."""

    ename: str
    evalue: str
    traceback: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class Comm:
    """One message of a comm (ipywidgets): ``action`` is comm_open, comm_msg or comm_close."""

    action: str
    content: dict[str, Any]
    metadata: dict[str, Any] = field(default_factory=dict)
    buffers: tuple[bytes, ...] = ()


@dataclass(frozen=True)
class InputRequest:
    """The guest waits for a line from the person; the answer is an `Answer`'s bytes."""

    prompt: str
    password: bool = False


@dataclass(frozen=True)
class HostMagic:
    """The cell came to a magic of the host's, ``%name line``. The host does it only if the user's text holds it."""

    name: str
    line: str


@dataclass(frozen=True)
class NextRequest:
    """The guest asks what to do; the answer is an encoded request."""


@dataclass(frozen=True)
class InterruptSeen:
    """The guest's signal handler ran: Python code is in charge again, so no force is needed."""


@dataclass(frozen=True)
class Unused:
    """Memory that the guest holds and has no use for, as pairs of address and length: it may become zeros."""

    stretches: list[list[int]]


@dataclass(frozen=True)
class Reply:
    """The guest's answer to the request it was given."""

    content: dict[str, Any]
    buffers: tuple[bytes, ...] = ()


Event = Stream | DisplayData | UpdateDisplay | ClearOutput | ExecuteResult | ErrorRaised | Comm | InputRequest
Frame = (
    DisplayData
    | UpdateDisplay
    | ClearOutput
    | ExecuteResult
    | ErrorRaised
    | Comm
    | InputRequest
    | HostMagic
    | NextRequest
    | InterruptSeen
    | Unused
    | Reply
)

_FIELDS: dict[type[Any], dict[str, type[Any]]] = {
    DisplayData: {"data": dict, "metadata": dict, "transient": dict},
    UpdateDisplay: {"data": dict, "metadata": dict, "transient": dict},
    ClearOutput: {"wait": bool},
    ExecuteResult: {"data": dict, "metadata": dict, "execution_count": int},
    ErrorRaised: {"ename": str, "evalue": str, "traceback": list},
    Comm: {"action": str, "content": dict, "metadata": dict},
    InputRequest: {"prompt": str, "password": bool},
    HostMagic: {"name": str, "line": str},
    NextRequest: {},
    InterruptSeen: {},
    Unused: {"stretches": list},
    Reply: {"content": dict},
}
_BY_NAME = {kind.__name__: kind for kind in _FIELDS}
_WITH_BUFFERS = (Comm, Reply)
_COMM_ACTIONS = ("comm_open", "comm_msg", "comm_close")

# What the answer to an `InputRequest` or a `HostMagic` begins with. A magic's text is JSON; its error a sentence.
ANSWER_TEXT, ANSWER_EOF, ANSWER_INTERRUPTED, ANSWER_REFUSED, ANSWER_ERROR = b"T", b"E", b"I", b"N", b"X"


def encode(header: dict[str, Any], buffers: tuple[bytes, ...] | list[Any] = (), default: Any = None) -> bytes:
    """Join a header and its buffers into one frame."""
    if buffers:
        header = {**header, "buffers": [len(b) for b in buffers]}
    text = _dumps(header, default=default, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "replace")
    return b"".join([len(text).to_bytes(4, "little"), text, *buffers])


def decode(frame: bytes) -> tuple[dict[str, Any], tuple[bytes, ...]]:
    """Split a frame into its header and buffers; `BadFrame` if it is not exactly one."""
    if len(frame) < 4:
        raise BadFrame("a frame is at least 4 bytes")
    end = 4 + int.from_bytes(frame[:4], "little")
    if end > len(frame):
        raise BadFrame("the header is longer than the frame")
    try:
        text = frame[4:end].decode()
        containers = text.count("[") + text.count("{")
        # A value takes far more memory than its text: [] 60 bytes for 2. Commas in strings are no values.
        if containers + text.count(",") > MAX_HEADER_VALUES:
            bare = _STRING.sub("", text)
            if bare.count("[") + bare.count("{") + bare.count(",") > MAX_HEADER_VALUES:
                raise TooMuch(f"the header holds more than {MAX_HEADER_VALUES} values")
        header = _loads(text)
    except (ValueError, RecursionError) as e:
        raise e if isinstance(e, BadFrame) else BadFrame(f"the header is not JSON: {type(e).__name__}") from None
    if not isinstance(header, dict):
        raise BadFrame("the header is not an object")
    if containers > MAX_HEADER_DEPTH and nested_deeper_than(header, MAX_HEADER_DEPTH):
        raise BadFrame(f"the header is nested deeper than {MAX_HEADER_DEPTH}")
    if "\\ud" in text or "\\uD" in text:
        header = without_surrogates(header)
    lengths = header.pop("buffers", [])
    if not isinstance(lengths, list) or len(lengths) > MAX_BUFFERS:
        raise BadFrame("the list of buffers is malformed")
    buffers = []
    for length in lengths:
        if type(length) is not int or length < 0 or end + length > len(frame):
            raise BadFrame("a buffer is longer than the frame")
        buffers.append(frame[end : end + length])
        end += length
    if end != len(frame):
        raise BadFrame("bytes are left over after the last buffer")
    return header, tuple(buffers)


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
    if buffers and kind not in _WITH_BUFFERS:
        raise BadFrame(f"{name} carries no buffers")
    event: Frame = kind(**header, buffers=buffers) if kind in _WITH_BUFFERS else kind(**header)
    return event
