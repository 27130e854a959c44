"""Show the progress of an image build."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from wasm_kernel.host.image.build import Progress

_NAMES = {
    "fetch": "Fetch the runtime",
    "interposer": "Compile the filter",
    "compile": "Compile it for this CPU",
    "library": "Fetch sources, lay out",
    "packages": "Fetch and compile IPython",
    "base memory": "Boot, import, save the memory",
    "compile metered": "Compile the metered version",
}


@contextmanager
def shown(stream: Any = None) -> Iterator[Callable[[Progress], None]]:
    """A bar per step with elapsed and remaining time on a terminal; a line per step elsewhere."""
    stream = stream or sys.stderr
    if stream.isatty():
        with _bars(stream) as update:
            yield update
    else:
        yield _lines(stream)


@contextmanager
def _bars(stream: Any) -> Iterator[Callable[[Progress], None]]:
    from rich.console import Console
    from rich.progress import BarColumn, TextColumn, TimeElapsedColumn, TimeRemainingColumn
    from rich.progress import Progress as Bars

    console = Console(file=stream)
    columns = [
        TextColumn("{task.description:<30}"),
        BarColumn(bar_width=16),
        TextColumn("{task.percentage:>3.0f}%"),
        TimeElapsedColumn(),
        TextColumn("left"),
        TimeRemainingColumn(),
    ]
    if console.width >= 110:
        columns.append(TextColumn("[dim]{task.fields[note]}"))
    tasks: dict[str, Any] = {}
    with Bars(*columns, console=console) as bars:

        def update(progress: Progress) -> None:
            name = _NAMES.get(progress.step, progress.step)
            if progress.waiting:
                name = f"(other process) {name}"
            if name not in tasks:
                tasks[name] = bars.add_task(name, total=1.0, note="")
            bars.update(tasks[name], completed=progress.fraction, note=progress.note)

        yield update


def _lines(stream: Any) -> Callable[[Progress], None]:
    started = time.monotonic()
    said: set[tuple[str, bool]] = set()

    def update(progress: Progress) -> None:
        key = (progress.step, progress.waiting)
        if key not in said:
            said.add(key)
            name = _NAMES.get(progress.step, progress.step)
            who = "waiting for another process: " if progress.waiting else ""
            elapsed = time.monotonic() - started
            print(
                f"wasm-kernel: [{elapsed:4.0f} s] {progress.index}/{progress.count} {who}{name} ...",
                file=stream,
                flush=True,
            )

    return update
