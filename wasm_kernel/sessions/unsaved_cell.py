"""A cell that has run and is not captured yet: what its checkpoint will say of it, and its record in the log."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from wasm_kernel.host.runtime.journal import OpenFile
from wasm_kernel.host.runtime.sandbox import TurnDelta
from wasm_kernel.host.store.cell_log import CellLog
from wasm_kernel.model.cell_records import CellRecord, variables_changed
from wasm_kernel.model.differences import MOST_NAMES, compare_variables
from wasm_kernel.model.outcome import SandboxResult
from wasm_kernel.model.snapshots import SavedDescriptor, Variables, checked_variables
from wasm_kernel.sessions.guest_access import Execution

_SHOWN_CODE = 500


@dataclass
class UnsavedCell:
    """One cell.

    Attributes:
        number: Its number.
        metadata: Of its checkpoint, for `%session log`.
        before: The guest's variables before it.
        variables: The same after it.
        is_logged: Whether the log has all of it, so that its checkpoint can wait.
    """

    number: int
    metadata: dict[str, Any]
    before: Variables
    variables: Variables
    is_logged: bool = False

    def log(self, log: CellLog, delta: TurnDelta, marks: Mapping[str, Any], *, since: Variables | None = None) -> None:
        """Append it to the log. Raises OSError, as on a full disk.

        ``since``: the variables before the cells that the log lacks, whose changes are in ``delta``, too. The store may
        have those cells, or may not.
        """
        changed, removed = variables_changed(self.before, self.variables)
        if since is not None:
            more, gone = variables_changed(since, self.variables)
            changed, removed = {**changed, **more}, tuple({*removed, *gone})
        record = CellRecord(
            datetime.now(UTC),
            self.number + 1,
            {**self.metadata, **marks},
            delta.memory_bytes,
            tuple(saved_descriptor(item) for item in delta.rest.files),
            delta.rest.clock_ns,
            0 if delta.fresh else delta.rest.entry,
            changed,
            removed,
            delta.changed_files or since is not None,
            delta.body is None,
        )
        log.append(record.to_json(), *(delta.body or ()))
        self.is_logged = delta.body is not None


def unsaved_cell(cell: Execution, result: SandboxResult, before: Variables) -> UnsavedCell:
    """A cell that has just run. ``before``: the variables before it."""
    after = before  # unless the guest says otherwise: it was stopped by force
    if "variables" in result.reply:
        after = checked_variables(result.reply["variables"])
    metadata = {
        "cell": cell.code.strip()[:_SHOWN_CODE],
        "number": cell.number,
        "seconds": round(result.duration_seconds, 6),
        "ok": result.success,
        "variables": compare_variables(before, after),
        "files": {
            "added": result.files_created[:MOST_NAMES],
            "changed": [f for f in result.files_modified if f not in result.files_created][:MOST_NAMES],
            "removed": result.files_deleted[:MOST_NAMES],
        },
    }
    return UnsavedCell(cell.number, metadata, before, after)


def saved_descriptor(item: OpenFile) -> SavedDescriptor:
    """An open file of the guest, as it is stored."""
    return SavedDescriptor(
        item.fd, item.mount, item.path, item.lookup, item.oflags, item.fdflags, item.rights, item.offset
    )


def open_file(item: SavedDescriptor) -> OpenFile:
    """A stored descriptor, as the guest gets it back."""
    return OpenFile(item.fd, item.mount, item.path, item.lookup, item.oflags, item.fdflags, item.rights, item.offset)
