"""WASI's poll_oneoff as bytes: what a guest asks to wait for, and what it is told. No I/O."""

from __future__ import annotations

import struct
from dataclasses import dataclass

_ASKED = struct.Struct("<QB7xIxxxxQQH6x")  # userdata, tag, clock id, timeout, precision, flags
_EVENT = struct.Struct("<QHB5xQHxxxxxx")  # userdata, error, tag, bytes that are ready, flags
ASKED_SIZE, EVENT_SIZE = _ASKED.size, _EVENT.size
_CLOCK, _ABSOLUTE = 0, 1

Event = tuple[int, int]  # userdata and tag


@dataclass(frozen=True)
class Wait:
    """The clock that rings first."""

    seconds: float
    event: Event


def what_is_asked(data: bytes, now: int, real: int) -> tuple[list[Event], Wait | None]:
    """Files, which are always ready; or else the clock to wait for. ``now``, ``real``: the guest's clocks."""
    ready: list[Event] = []
    waits: list[tuple[int, int]] = []
    for userdata, tag, clock, timeout, _, flags in _ASKED.iter_unpack(data):
        if tag != _CLOCK:
            ready.append((userdata, tag))
        else:
            reference = real if clock == 0 else now
            waits.append((timeout - reference if flags & _ABSOLUTE else timeout, userdata))
    if ready or not waits:
        return ready, None
    nanoseconds, userdata = min(waits)
    return ready, Wait(nanoseconds / 1e9, (userdata, _CLOCK))


def pack(events: list[Event]) -> bytes:
    """What the guest is told: all of these came."""
    return b"".join(_EVENT.pack(userdata, 0, tag, 1, 0) for userdata, tag in events)
