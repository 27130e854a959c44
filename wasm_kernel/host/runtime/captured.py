"""A guest at rest, as snapshots and the log of cells take it."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import UTC, datetime

from wasm_kernel.host.runtime.instance_parts import AtRest
from wasm_kernel.host.runtime.page_delta import Pieces
from wasm_kernel.host.runtime.pending_pages import CapturedMemory


@dataclass(frozen=True)
class Captured:
    """A guest at rest: what changed of its memory, its open files and clock, and when that was.

    ``image_key``: the image whose base memory it builds on. ``fresh``: it has not run anything since that.
    ``changed_files``: whether files changed since the capture before, or may have.
    """

    memory: CapturedMemory
    rest: AtRest
    image_key: str
    fresh: bool
    changed_files: bool = True
    at: datetime = field(default_factory=lambda: datetime.now(UTC))


@dataclass(frozen=True)
class TurnDelta:
    """A guest at rest, for the log of cells: what changed of its memory since the record before, and the rest.

    Attributes:
        memory_bytes: Size of its memory.
        rest: Its open files and clock.
        fresh: It has not run anything since the base memory.
        changed_files: Whether files changed since the last capture, or may have.
        body: The change of memory, for `GuestMemory.replay`; None: it is too large.
    """

    memory_bytes: int
    rest: AtRest
    fresh: bool
    changed_files: bool
    body: Pieces | None
