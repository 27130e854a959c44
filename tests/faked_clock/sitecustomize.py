"""Loaded by every Python that is started with `clock.environment`: its wall clock is wrong by what a file says.

The file may change while the process runs, which is a clock that steps. What measures (`time.monotonic`) is as it was.
"""

from __future__ import annotations

import datetime
import os
import time
from pathlib import Path
from typing import Any

_real_time, _real_time_ns, _Real = time.time, time.time_ns, datetime.datetime


def _error() -> float:
    try:
        return float(Path(os.environ["FAKED_CLOCK"]).read_text())
    except (OSError, KeyError, ValueError):
        return 0.0


class _Kind(type(_Real)):  # type: ignore[misc]
    def __instancecheck__(cls, instance: Any) -> bool:
        return isinstance(instance, _Real)


class _Datetime(_Real, metaclass=_Kind):
    @classmethod
    def now(cls, tz: datetime.tzinfo | None = None) -> datetime.datetime:  # type: ignore[override]
        return _Real.fromtimestamp(_real_time() + _error(), tz)


if "FAKED_CLOCK" in os.environ:
    time.time = lambda: _real_time() + _error()
    time.time_ns = lambda: _real_time_ns() + int(_error() * 1e9)
    datetime.datetime = _Datetime  # type: ignore[misc]
