"""Processes that delete what is in a bin, side by side.

To delete is one short system call after another, and after each of them a thread waits for the interpreter's lock. So
four threads delete no more in a second than one does, and processes as many times as much as there are processors. They
run the same code as a thread does (`delete_tree`) and answer by name only: what is left, for whatever reason, is for
whoever asked, as is all that a process was told that does not answer any more.

A process ends when nobody can tell it more, so it does not outlive a killed prune by much. Until then it holds the
bin's lock, too.
"""

from __future__ import annotations

import contextlib
import os
import queue
import subprocess
import sys
from collections import deque
from collections.abc import Iterable, Iterator
from pathlib import Path
from types import TracebackType

from wasm_kernel.host.disk import deleting_process
from wasm_kernel.model.names import METADATA_NAME

_PROGRAM = """
import sys
sys.path.append(sys.argv[1])
from wasm_kernel.host.disk.deleting_process import main
main(int(sys.argv[2]), sys.argv[3])
"""
_ROOT = str(Path(deleting_process.__file__).parents[3])


class Deleters:
    """Processes for one bin: a context manager. Where none can be started, `delete` deletes nothing."""

    def __init__(self, folder: int, count: int) -> None:
        """``folder``: the bin's handle. ``count``: how many."""
        self._folder = folder
        self._free: queue.SimpleQueue[subprocess.Popen[bytes]] = queue.SimpleQueue()
        self._all: list[subprocess.Popen[bytes]] = []
        with contextlib.suppress(OSError):
            for _ in range(count):
                self._all.append(self._start())
        for process in self._all:
            self._free.put(process)

    def _start(self) -> subprocess.Popen[bytes]:
        # Neither its environment nor packages that this process has been given matter to it.
        command = [sys.executable, "-I", "-S", "-c", _PROGRAM, _ROOT, str(self._folder), METADATA_NAME]
        pipe = subprocess.PIPE
        return subprocess.Popen(
            command,
            stdin=pipe,
            stdout=pipe,
            stderr=subprocess.DEVNULL,
            pass_fds=(self._folder,),
            start_new_session=True,  # a Control-C is for who waits for the prune
        )

    @property
    def count(self) -> int:
        """How many there are."""
        return len(self._all)

    @property
    def ids(self) -> list[int]:
        """Their process ids."""
        return [process.pid for process in self._all]

    def __enter__(self) -> Deleters:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        for process in self._all:
            with contextlib.suppress(OSError), process:  # waits for it
                pass

    def delete(self, portions: Iterable[list[str]]) -> Iterator[tuple[list[str], list[str]]]:
        """Delete folders of the bin, in portions; each portion again, with those of it that are left.

        For as many threads at once as there are processes. A process has its next portion before it is done with one.
        """
        process = self._free.get()
        told: deque[list[str]] = deque()
        for names in portions:
            _tell(process, names)
            told.append(names)
            if len(told) > 1:
                yield told[0], _left(process, told.popleft())
        while told:
            yield told[0], _left(process, told.popleft())
        self._free.put(process)


def _tell(process: subprocess.Popen[bytes], names: list[str]) -> None:
    assert process.stdin is not None
    with contextlib.suppress(OSError):  # it is gone, and will not answer
        process.stdin.write(f"{' '.join(names)}\n".encode())
        process.stdin.flush()


def _left(process: subprocess.Popen[bytes], names: list[str]) -> list[str]:
    assert process.stdout is not None
    answer = process.stdout.readline()
    return answer.decode().split() if answer.endswith(b"\n") else names


def processors() -> int:
    """How many processors this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
