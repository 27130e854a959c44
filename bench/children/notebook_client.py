"""Runs cells in a kernel, as a person who chose "Run all" would, and says what became of each. For a native worker."""

import math
import statistics
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from bench.children.kernel_client import Kernel, KernelGone, kind_of

_PATIENCE = 120.0  # for anything
_TWO = 2  # kernels at once, where nothing is timed

Started = tuple[list[str], str, dict[str, str]]  # a kernel: argv, interrupt mode, environment variables
Cell = dict[str, Any]


def notebook(started: Started, place: str, cells: list[str], *, at_once: bool = False) -> list[Cell]:
    """Start a kernel in a folder, run cells in it, one by one or all sent ``at_once``, and shut it down.

    Of each cell: its printed `text`, its `error` or None, and `seconds` from sending it, and of the kernel's process
    (`age`), until the first text or, without any, until idle.
    """
    argv, mode, extra = started
    with Kernel(argv, mode, place, place=place, extra=extra) as kernel:
        kernel.ready()
        pieces = [cells] if at_once else [[code] for code in cells]
        done = [cell for piece in pieces for cell in _outcomes(kernel, piece)]
        kernel.shut_down(_PATIENCE)
    return done


def _outcomes(kernel: Kernel, cells: list[str]) -> list[Cell]:
    """Send them all, and wait for all."""
    sent = {kernel.execute(code, stop_on_error=False): time.perf_counter() for code in cells}
    found: dict[str, Cell] = {request: {"text": "", "error": None} for request in sent}
    came: dict[str, float] = {}
    missing = {(request, kind) for request in sent for kind in ("execute_reply", "idle")}
    while missing:
        received = kernel.receive(_PATIENCE)
        if received is None:
            raise KernelGone(f"a cell did not end within {_PATIENCE:.0f} s: {kernel.complaints()}")
        message = received[1]
        request, kind, content = message["parent_header"].get("msg_id"), kind_of(message), message["content"]
        if request not in sent:
            continue
        missing.discard((request, kind))
        if kind == "stream" and content["name"] == "stdout":
            found[request]["text"] += content["text"]
            came.setdefault(request, time.perf_counter())
        elif kind == "execute_reply" and content["status"] != "ok":
            found[request]["error"] = f"{content.get('ename')}: {content.get('evalue')}"
        elif kind == "idle":
            came.setdefault(request, time.perf_counter())
    for request, cell in found.items():
        cell.update(seconds=came[request] - sent[request], age=came[request] - kernel.started)
    return list(found.values())


def apart(jobs: list[tuple[Started, str, list[str], list[str]]]) -> list[tuple[list[Cell], list[Cell]]]:
    """Of each job the first cells in one kernel, the second in another in the same folder that comes after it."""
    with ThreadPoolExecutor(_TWO) as pool:
        return list(pool.map(_pair, jobs))


def _pair(job: tuple[Started, str, list[str], list[str]]) -> tuple[list[Cell], list[Cell]]:
    started, place, first, second = job
    return _tried(started, place, first), _tried(started, place, second)


def _tried(started: Started, folder: str, cells: list[str]) -> list[Cell]:
    """Like `notebook`; a kernel that dies has failed with every cell."""
    try:
        return notebook(started, folder, cells)
    except KernelGone as e:
        return [{"text": "", "error": str(e), "seconds": 0.0, "age": 0.0}] * len(cells)


def trips(started: Started, place: str, before: list[str], count: int, pause: float) -> dict[str, float]:
    """Seconds of `pass`, execute_request to idle: median and p99 of ``count``, ``pause`` seconds apart."""
    argv, mode, extra = started
    with Kernel(argv, mode, place, place=place, extra=extra) as kernel:
        kernel.ready()
        for code in [*before, *["pass"] * 20]:
            kernel.run(code)
        taken = []
        for _ in range(count):
            if pause:
                time.sleep(pause)
            asked = time.perf_counter()
            taken.append(kernel.run("pass") - asked)
        taken.sort()
        return {"median": statistics.median(taken), "p99": taken[math.ceil(0.99 * count) - 1]}
