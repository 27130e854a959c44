"""What the side panel shows of a session, as plain values."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Mapping
from typing import Any

from wasm_kernel.kernel.magics.host import Host
from wasm_kernel.model import limits
from wasm_kernel.model.differences import compare_files, compare_variables
from wasm_kernel.model.policy import ExecutionPolicy
from wasm_kernel.model.records import format_time
from wasm_kernel.model.snapshots import Snapshot, Variables
from wasm_kernel.model.timeline_rows import TimelineRow, can_undo
from wasm_kernel.model.units import counted
from wasm_kernel.sessions.runtime import SessionRuntime
from wasm_kernel.sessions.timeline import Timeline

_SCALARS = ("int", "float", "bool", "complex", "NoneType")  # a glance at these shows their value
_TABLES = ("ndarray", "matrix", "recarray", "DataFrame", "Series")  # whose size is how many values they have
_SHAPE, _COUNT = re.compile(r"\((\d{1,20}, ?)*\d{0,20}\)"), re.compile(r"\d+")  # within the fingerprint of one of these
_CUT = 40  # characters of a value that a glance shows
_MOST_COMPARED = 200
_BOUNDED = ("memory", "output", "display", "open")  # by what there is; others end only where numbers do
_MOST_OLDER = 200  # rows in one answer


async def state(host: Host, runtime: SessionRuntime) -> dict[str, Any]:
    """Everything that is shown without being asked for."""
    timeline, policy, last = host.current.timeline, runtime.live.sandbox.policy, runtime.last_result
    rows = await asyncio.to_thread(timeline.rows)
    quota = await asyncio.to_thread(runtime.live.sandbox.quota)
    return {
        "session": runtime.live.session_id,
        "moment": runtime.moment,
        "rows": [_row(row) for row in rows],
        "older": await asyncio.to_thread(host.current.history.count_older, [row.key for row in rows if row.number]),
        "kept": runtime.rules.count if runtime.rules.on else 0,
        "canUndo": can_undo(rows),
        "canRedo": timeline.can_redo,
        "variables": [_variable(name, found) for name, found in sorted(runtime.variables.items())],
        "memory": {
            "used": last.memory_bytes if last is not None else runtime.live.sandbox.base_bytes,
            "limit": policy.memory_bytes,
        },
        "disk": {"used": quota.used, "limit": quota.limit},
        "limits": {name: _limit(name, policy, host.current.place.maxima) for name in limits.LIMITS},
        "trusted": host.outputs_trusted,
    }


async def older(host: Host, skip: int, count: int) -> list[dict[str, Any]]:
    """Rows of cells whose checkpoints are gone, newest first."""
    rows = await asyncio.to_thread(host.current.timeline.rows)
    kept = [row.key for row in rows if row.number]
    found = await asyncio.to_thread(host.current.history.older, kept, max(skip, 0), min(max(count, 1), _MOST_OLDER))
    return [_row(row, gone=True) for row in found]


async def differences(timeline: Timeline, snapshot: Snapshot) -> dict[str, Any]:
    """What differs between a moment and now: variables with how they were and are, and names of files."""
    last = timeline.last
    assert last is not None  # there is a snapshot, so there is a last one
    then, now = [await asyncio.to_thread(timeline.read, each) for each in (snapshot, last)]
    changed = compare_variables(then.variables, now.variables, _MOST_COMPARED)
    files = compare_files(then, now)
    return {
        "variables": {
            kind: [
                {"name": name, "then": _short(then.variables, name), "now": _short(now.variables, name)}
                for name in names
            ]
            for kind, names in changed.items()
        },
        "files": {kind: names[:_MOST_COMPARED] for kind, names in files.items()},
    }


def _limit(name: str, policy: ExecutionPolicy, maxima: Mapping[str, float]) -> dict[str, str]:
    """A limit as it is, and what it can be raised to."""
    bound = limits.LIMITS[name].range.most if name in _BOUNDED else None
    most = min((each for each in (maxima.get(name), bound) if each is not None), default=None)
    return {"value": limits.describe(name, limits.current(policy, name)), "most": limits.describe(name, most)}


def _row(row: TimelineRow, *, gone: bool = False) -> dict[str, Any]:
    return {
        "id": row.snapshot_id,
        "gone": gone,
        "number": row.number,
        "code": row.code,
        "at": format_time(row.at),
        "seconds": row.seconds,
        "ok": row.ok,
        "variables": _changes(row.variables),
        "files": _changes(row.files),
        "label": row.label,
        "state": row.state,
    }


def _changes(changes: Any) -> dict[str, list[str]]:
    return {kind: list(getattr(changes, kind)) for kind in ("added", "changed", "removed")}


def _variable(name: str, found: list[Any]) -> dict[str, Any]:
    kind, size, glance = found
    return {"name": name, "type": kind, "size": size, "value": _value(kind, glance) if kind in _SCALARS else ""}


def _value(kind: str, glance: str) -> str:
    """What a glance shows of a number; of a very large one it is a hash."""
    if kind == "int" and not glance.removeprefix("-").isdecimal():
        return ""
    return glance if len(glance) < _CUT else f"{glance}…"


def _short(variables: Variables, name: str) -> str:
    """A variable in a few words; empty if there is none of that name."""
    if name not in variables:
        return ""
    shown = _variable(name, variables[name])
    if shown["value"]:
        return str(shown["value"])
    kind, size = shown["type"], shown["size"]
    if not size:
        return str(kind)
    shape = _SHAPE.search(variables[name][2]) if kind in _TABLES else None
    if shape:
        return f"{kind}, {' × '.join(f'{int(count):,}' for count in _COUNT.findall(shape[0]))}"
    return f"{kind} of {counted(size, 'value')}" if kind in _TABLES else f"{kind} of {size:,}"
