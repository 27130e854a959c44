"""What the log of cells says of one cell, apart from the memory that it changed: JSON, checked when it is read."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from wasm_kernel.errors import BadSnapshot
from wasm_kernel.model.records import BadRecord, format_time, parse_time
from wasm_kernel.model.snapshots import (
    MAX_DESCRIPTORS,
    MAX_MEMORY,
    SavedDescriptor,
    Variables,
    checked_variables,
    descriptor_values,
    parse_descriptor,
)

CHUNK = 65536
_MAX_COUNT = 1 << 53


@dataclass(frozen=True)
class CellRecord:
    """A cell that was answered, and the guest at rest after it.

    Attributes:
        at: When it ended.
        count: The number of the next cell.
        metadata: Of its checkpoint.
        memory_bytes: Size of the guest's memory.
        descriptors: Open files.
        clock_ns: The guest's monotonic clock.
        entry: Where to enter the guest's driver; 0: the guest has not run since the base memory.
        variables: Those that it added or changed.
        removed: Names of variables that are gone.
        changed_files: Whether it may have changed files.
        too_large: It changed more memory than the log takes: only the store can have it.
    """

    at: datetime
    count: int
    metadata: dict[str, Any]
    memory_bytes: int
    descriptors: tuple[SavedDescriptor, ...] = ()
    clock_ns: int = 0
    entry: int = 0
    variables: Variables = field(default_factory=dict)
    removed: tuple[str, ...] = ()
    changed_files: bool = False
    too_large: bool = False

    def to_json(self) -> bytes:
        """The head of its record."""
        found = {name: getattr(self, name) for name in self.__dataclass_fields__}
        found |= {"at": format_time(self.at), "descriptors": [descriptor_values(d) for d in self.descriptors]}
        return json.dumps(found).encode()

    def applied_to(self, variables: Variables) -> Variables:
        """The variables after this cell, from those before."""
        gone = set(self.removed)
        return {name: value for name, value in variables.items() if name not in gone} | self.variables


def variables_changed(before: Variables, after: Variables) -> tuple[Variables, tuple[str, ...]]:
    """The variables that are new or others than ``before``, and the names of those that are gone."""
    changed = {name: value for name, value in after.items() if before.get(name) != value}
    return changed, tuple(name for name in before if name not in after)


def parse_cell_record(data: bytes) -> CellRecord:
    """Parse and check the head of a record; `BadSnapshot` says what is wrong with it."""
    try:
        found = json.loads(data)
    except (ValueError, RecursionError):
        raise BadSnapshot("it is not JSON") from None
    if not isinstance(found, dict):
        raise BadSnapshot("it is not an object")
    metadata, descriptors, removed = (found.get(name) for name in ("metadata", "descriptors", "removed"))
    if not isinstance(metadata, dict) or not isinstance(descriptors, list) or not isinstance(removed, list):
        raise BadSnapshot("it lacks a part")
    try:
        at = parse_time(found.get("at"))
    except BadRecord as e:
        raise BadSnapshot(f"its time: {e}") from None
    size = _number(found, "memory_bytes", MAX_MEMORY)
    if size % CHUNK:
        raise BadSnapshot(f"its memory_bytes is {size}")
    return CellRecord(
        at,
        _number(found, "count", _MAX_COUNT),
        metadata,
        size,
        tuple(parse_descriptor(d) for d in descriptors[:MAX_DESCRIPTORS]),
        _number(found, "clock_ns", 1 << 62),
        _number(found, "entry", MAX_MEMORY),
        checked_variables(found.get("variables")),
        tuple(name for name in removed if isinstance(name, str)),
        found.get("changed_files") is not False,
        found.get("too_large") is not False,
    )


def _number(found: dict[str, Any], name: str, most: int) -> int:
    value = found.get(name)
    if type(value) is not int or not 0 <= value <= most:
        raise BadSnapshot(f"its {name} is {str(value)[:40]!r}")
    return value
