"""What every subject is given: the native interpreter, a folder, how many rounds, and where to report."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from bench.rounds import Tick
from wasm_kernel import BaseSandbox, SandboxResult, create_sandbox


@dataclass(frozen=True)
class Rounds:
    """How often each subject is measured, and on how much."""

    memory: int
    start: int
    noop: int
    noop_cells: int
    prints: int
    interrupts: int
    cpu: int
    cpu_repeats: int
    threads: int
    sessions: int
    kernel_lives: int
    kernel_cells: int
    kernel_memory: int
    kinds: int
    snapshots: int
    snapshot_cells: int
    large: int
    messages: int
    store: int
    lab: int
    workers: int


FULL = Rounds(
    memory=2,
    start=9,
    noop=3,
    noop_cells=300,
    prints=5,
    interrupts=12,
    cpu=3,
    cpu_repeats=3,
    threads=5,
    sessions=3,
    kernel_lives=7,
    kernel_cells=3,
    kernel_memory=2,
    kinds=31,
    snapshots=2,
    snapshot_cells=200,
    large=1 << 30,
    messages=15,
    store=5,
    lab=3,
    workers=3,
)
QUICK = Rounds(
    memory=1,
    start=3,
    noop=1,
    noop_cells=100,
    prints=2,
    interrupts=4,
    cpu=1,
    cpu_repeats=2,
    threads=2,
    sessions=2,
    kernel_lives=2,
    kernel_cells=1,
    kernel_memory=1,
    kinds=5,
    snapshots=1,
    snapshot_cells=50,
    large=1 << 28,
    messages=3,
    store=2,
    lab=1,
    workers=1,
)


@dataclass(frozen=True)
class Setting:
    """The surroundings of a run."""

    native: Path
    folder: Path
    rounds: Rounds
    tick: Tick

    def workspace(self) -> Path:
        """A new empty folder."""
        return Path(tempfile.mkdtemp(dir=self.folder))

    @contextmanager
    def sandbox(self) -> Iterator[BaseSandbox]:
        """A sandbox that has run something, over a new folder."""
        with create_sandbox(workspace=self.workspace()) as sandbox:
            succeed(sandbox.execute("pass"))
            yield sandbox


def succeed(result: SandboxResult) -> SandboxResult:
    """The result, if the code ran to its end."""
    if not result.success:
        raise RuntimeError(f"the guest's code failed: {result.outcome.message} {result.error}\n{result.stderr[-2000:]}")
    return result
