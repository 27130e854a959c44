"""Workers that are killed at random moments, two of them on one root at any time.

A module of workers (`tests.sessions.workers`) imports everything once and forks a worker for each line it reads (an
operation and a number to vary it), answering with the worker's process id. A worker says that it has begun, and then
goes on for ever. A killed one is gone, and its locks free, only when it was waited for: the system may first have to
end what it was in the middle of, such as an fsync. An empty line asks for that.
"""

from __future__ import annotations

import contextlib
import os
import random
import signal
import subprocess
import sys
import time
import traceback
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import psutil

Operation = Callable[[Path, Path, random.Random], None]


def serve(operations: Mapping[str, Operation]) -> None:
    """Fork workers on request: what a module of workers does. What one fails with is written to a file."""
    root, place = Path(sys.argv[1]), Path(sys.argv[2])
    for line in sys.stdin:
        if not line.strip():
            with contextlib.suppress(ChildProcessError):
                while True:
                    os.wait()
            print(flush=True)
            continue
        operation, number = line.split()
        begun, begins = os.pipe()
        worker = os.fork()
        if worker == 0:
            try:
                os.close(begun)
                os.write(begins, b".")
                os.close(begins)
                operations[operation](root, place, random.Random(int(number)))
            except BaseException:  # noqa: BLE001 - whatever it is, the test shows it
                (place / f"failed-{operation}-{number}").write_text(traceback.format_exc())
            os._exit(1)
        os.close(begins)
        os.read(begun, 1)
        os.close(begun)
        print(worker, flush=True)


class Nursery:
    """Starts workers, and kills them."""

    def __init__(self, workers: str, root: Path, place: Path) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", workers, root, place],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            cwd=Path(__file__).parent.parent.parent,
        )

    def _ask(self, line: str) -> str:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(f"{line}\n")
        self._process.stdin.flush()
        return self._process.stdout.readline()

    def _start(self, operation: str, number: int) -> int:
        return int(self._ask(f"{operation} {number}"))

    def kill_all(
        self, share: Mapping[str, int], longest: Mapping[str, float], chance: random.Random, look: Callable[[int], None]
    ) -> int:
        """Start as many of each operation as its share, each killed within its longest time; how many were killed."""
        victims = [operation for operation, times in share.items() for _ in range(times)]
        chance.shuffle(victims)
        running: list[tuple[float, int]] = []
        killed = 0
        for number, operation in enumerate(victims):
            pid = self._start(operation, number)
            running.append((time.monotonic() + chance.uniform(0, longest[operation]), pid))
            if len(running) == 2:  # the one whose time comes first
                running.sort()
                killed += _kill(*running.pop(0))
            look(number)
        for moment, pid in running:
            killed += _kill(moment, pid)
        self._ask("")
        return killed

    def run_until(self, operation: str, done: Callable[[], object]) -> None:
        """Let one worker do something once, however long that takes here, and kill it."""
        pid, end = self._start(operation, 0), time.monotonic() + 60
        while not done() and time.monotonic() < end:
            time.sleep(0.01)
        _kill(0.0, pid)
        self._ask("")

    def close(self) -> None:
        """Nobody is left."""
        for child in psutil.Process(self._process.pid).children():
            child.kill()
        self._process.kill()
        self._process.communicate()


def _kill(moment: float, pid: int) -> int:
    time.sleep(max(0.0, moment - time.monotonic()))
    os.kill(pid, signal.SIGKILL)
    return 1


@contextmanager
def opened(workers: str, root: Path, place: Path) -> Iterator[Nursery]:
    """A nursery for one test."""
    place.mkdir()
    nursery = Nursery(workers, root, place)
    try:
        yield nursery
    finally:
        nursery.close()
