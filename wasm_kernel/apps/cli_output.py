"""How commands show things: tables and colours on a terminal, plain lines in a pipe, JSON, one-line errors."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal, TextIO

from wasm_kernel.host.disk.reserve import is_full
from wasm_kernel.kernel.render import visible
from wasm_kernel.model.records import format_time, is_uuid
from wasm_kernel.model.units import counted, format_age

__all__ = [
    "age",
    "complain",
    "console",
    "counted",
    "fields",
    "one_line",
    "plainly",
    "progress",
    "short_ids",
    "show_json",
    "table",
]


def console(stream: TextIO | None = None) -> Any:
    """A console that writes colours to a terminal, unless NO_COLOR is set, and plain text to anything else."""
    from rich.console import Console

    stream = stream or sys.stdout
    plain = not stream.isatty() or bool(os.environ.get("NO_COLOR"))
    return Console(
        file=stream,
        force_terminal=stream.isatty(),
        color_system=None if plain else "auto",
        highlight=False,
        emoji=False,
    )


def table(
    head: Sequence[str], rows: Iterable[Sequence[object]], *, title: str = "", numbers: Sequence[int] = ()
) -> None:
    """Print a table; in a pipe, one line per row without headings or title, fields separated by tabs."""
    if not sys.stdout.isatty():
        for row in rows:
            print(*(visible(value) for value in row), sep="\t")
        return
    from rich import box
    from rich.table import Table
    from rich.text import Text

    made = Table(
        title=Text(title, "bold") if title else None, title_justify="left", box=box.SIMPLE_HEAD, pad_edge=False
    )
    for column, name in enumerate(head):
        justify: Literal["left", "right"] = "right" if column in numbers else "left"
        made.add_column(name, justify=justify, overflow="fold", no_wrap=column == 0, style="" if column else "cyan")
    for row in rows:
        made.add_row(*(Text(visible(value)) for value in row))
    console().print(made)


def fields(pairs: Iterable[tuple[str, object]]) -> None:
    """Print names and values, a line each; in a pipe they are separated by a tab."""
    shown = [(name, visible(value)) for name, value in pairs if value not in ("", None)]
    if not sys.stdout.isatty():
        for name, value in shown:
            print(name, value, sep="\t")
        return
    from rich.table import Table
    from rich.text import Text

    grid = Table.grid(padding=(0, 2))
    for name, value in shown:
        grid.add_row(Text(name, "bold"), Text(value, overflow="fold"))
    console().print(grid)


def show_json(value: object) -> None:
    """Print a value as JSON. Names keep all their characters: JSON escapes what a terminal would obey."""
    print(json.dumps(value, indent=2, default=_plain))


def _plain(value: object) -> str:
    if isinstance(value, datetime):
        return format_time(value)
    if isinstance(value, bytes):
        return value.hex()
    if isinstance(value, Path):
        return str(value)
    raise TypeError(f"{type(value).__name__} cannot be shown as JSON")


def complain(text: str, code: int) -> int:
    """Print one line on standard error and return the exit code."""
    print(f"wasm-kernel: {one_line(text)}", file=sys.stderr)
    return code


def plainly(error: Exception) -> str:
    """An error's text, as a command shows it."""
    text = str(error).partition(", or pass wait=")[0]
    if isinstance(error, OSError) and error.strerror:
        text = f"{str(error.filename)!r}: {error.strerror}" if error.filename is not None else error.strerror
        if is_full(error):
            text += "; `wasm-kernel prune` deletes old sessions, `snapshots prune` old snapshots"
    return text


def one_line(text: str) -> str:
    """Text from anywhere, made safe for one line of a terminal."""
    return visible(" ".join(text.split()))


def short_ids(ids: Iterable[str]) -> dict[str, str]:
    """How to show ids: on a terminal by their shortest unique prefix, which every command accepts."""
    everything = set(ids)
    length = 8 if sys.stdout.isatty() else 36
    while True:
        shown = {name: name[:length] if is_uuid(name) else name for name in everything}
        if len(set(shown.values())) == len(everything):
            return shown
        length += 1


def age(moment: datetime | None) -> str:
    """How long ago something was."""
    return "" if moment is None else format_age(max(0.0, (datetime.now(UTC) - moment).total_seconds()))


@contextmanager
def progress(title: str) -> Iterator[Callable[[int, int], None]]:
    """A progress bar on standard error, if that is a terminal. Call it with how much is done, and the total."""
    if not sys.stderr.isatty():
        yield lambda done, total: None
        return
    from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeElapsedColumn

    columns = [TextColumn("{task.description}", markup=False), BarColumn(24), TaskProgressColumn(), TimeElapsedColumn()]
    with Progress(*columns, console=console(sys.stderr), transient=True) as bars:
        task = bars.add_task(title, total=None)
        yield lambda done, total: bars.update(task, completed=done, total=max(total, 1))
