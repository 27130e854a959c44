"""Processes that tests start: they listen to Control-C, and none stays behind."""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import sys
import time
from collections import Counter
from collections.abc import Iterator

import psutil

GRACE = 30.0  # for those that are about to end
_PR_SET_CHILD_SUBREAPER = 36


def listen_to_interrupts() -> None:
    """Give SIGINT its usual meaning here, and so in every process that is started from here.

    A shell's background job ignores it, and what a process ignores its children ignore, too.
    """
    if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def adopt_orphans() -> None:
    """From now on a descendant whose parent dies becomes a child of this process rather than of init."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


_shared: list[str] = []


@contextlib.contextmanager
def shared(words: str) -> Iterator[None]:
    """Processes with these words in their command lines may outlive tests meanwhile: something wider starts them late."""
    _shared.append(words)
    try:
        yield
    finally:
        _shared.remove(words)


@contextlib.contextmanager
def none_left() -> Iterator[None]:
    """Fail if what was started meanwhile still runs at the end, after a grace.

    Only children are compared: orphans become children, and what a server started that was there before is that
    server's. A process that took the place of one that was there before (a kernel that was restarted) is no new one.
    """
    before = _children()
    yield
    end = time.monotonic() + GRACE
    while (left := _new(before)) and time.monotonic() < end:
        time.sleep(0.02)
    for pid in left:
        _kill(pid)
    if left:
        named = [f"{pid}: {command[:500]}" for pid, command in left.items()]
        raise AssertionError("\n".join(["processes were left behind (they are killed now):", *named]))


def _children() -> dict[int, str]:
    """Their process ids and command lines."""
    try:  # most tests start nothing, and this is a hundred times faster than to read /proc
        os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
    except ChildProcessError:
        return {}
    found = {}
    for process in psutil.Process().children():
        found[process.pid] = ""
        with contextlib.suppress(psutil.NoSuchProcess):  # it has ended
            found[process.pid] = " ".join(process.cmdline())
    return found


def _new(before: dict[int, str]) -> dict[int, str]:
    """Those that were not there before and have not ended."""
    after = _children()
    replaced = Counter(command for pid, command in before.items() if pid not in after)
    found = {}
    for pid, command in after.items():
        if pid in before or _reaped(pid) or any(words in command for words in _shared):
            continue
        if replaced[command]:
            replaced[command] -= 1
        else:
            found[pid] = command
    return found


def _reaped(pid: int) -> bool:
    """Whether a child has ended. Nobody waits for an orphan, so this does."""
    try:
        return os.waitpid(pid, os.WNOHANG) != (0, 0)
    except ChildProcessError:
        return True


def _kill(pid: int) -> None:
    with contextlib.suppress(psutil.NoSuchProcess):
        process = psutil.Process(pid)
        for each in [*process.children(recursive=True), process]:
            with contextlib.suppress(psutil.NoSuchProcess):
                each.kill()
        process.wait(60)
