"""Names people know sessions by: title or notebook. Such names are untrusted text."""

from __future__ import annotations

from pathlib import Path

from wasm_kernel.host.disk.records import read_record
from wasm_kernel.model.grants import legible
from wasm_kernel.model.records import BadRecord
from wasm_kernel.model.units import format_age, format_size


def name_of(root: Path, session_id: str) -> str:
    """A session's title, or the name of its notebook."""
    try:
        record = read_record(root / session_id)
    except BadRecord:
        return ""
    extra = record.extra if record is not None else {}
    return str(extra.get("title") or Path(str(extra.get("notebook") or "")).name)[:200]


def one_line(session_id: str, name: str, size: int, age: float | None) -> str:
    """A session described in one line of a question; its name is untrusted text."""
    called = f" {legible(name)!r}" if name else ""
    return f"{session_id}{called}, {format_size(size)}" + (f", last used {format_age(age)}" if age is not None else "")
