"""A host that may die: runs cells in a process of its own, which the test outlives.

Reads a JSON object from standard input: ``folder``, ``cells``, and optionally ``thread_stack`` to run the guest on a
thread with that much stack. Prints a line before each cell, and at the end what it came to. The cell "RESET" resets,
"DIE" ends the process as a signal would.
"""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
import threading
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from wasm_kernel import create_sandbox
from wasm_kernel.host.runtime import engine

_LAST_WORDS = "LAST WORDS "


@dataclass(frozen=True)
class Death:
    """How it ended: its exit status, and what it said before."""

    status: int
    said: str
    last_words: dict[str, Any]


def run(folder: Path, cells: list[str], thread_stack: int | None = None) -> Death:
    """Run cells in another process, whose temporary files are in the folder, too."""
    order = {"folder": str(folder / "workspace"), "cells": cells, "thread_stack": thread_stack}
    (folder / "tmp").mkdir(exist_ok=True)
    done = subprocess.run(
        [sys.executable, "-m", "tests.attacks.victim"],
        input=json.dumps(order), env={**os.environ, "TMPDIR": str(folder / "tmp")},
        capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    last = done.stdout.rpartition(_LAST_WORDS)[2] if _LAST_WORDS in done.stdout else "{}"
    return Death(done.returncode, done.stdout[-2000:] + done.stderr[-2000:], json.loads(last))


def main() -> None:
    """The other process."""
    order = json.load(sys.stdin)
    if order["thread_stack"]:
        engine.THREAD_STACK = order["thread_stack"]
    problems: list[str] = []
    threading.excepthook = lambda problem: problems.append(repr(problem.exc_value)[:200])
    sandbox = create_sandbox(workspace=order["folder"])
    scratch = sandbox._sandbox.scratch
    sandbox.execute("1")
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    for i, cell in enumerate(order["cells"]):
        print(f"cell {i}", flush=True)
        try:
            if cell == "DIE":
                os._exit(9)
            if cell == "RESET":
                sandbox.reset()
            else:
                print(sandbox.execute(cell).outcome.kind, flush=True)
        except Exception as e:  # noqa: BLE001 - the host must not raise
            problems.append(repr(e)[:200])
    grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    works = sandbox.execute("print(6 * 7)").stdout == "42\n"
    sandbox.close()
    words = {"works": works, "grown_kib": grown, "problems": problems, "left": scratch.exists()}
    print(_LAST_WORDS + json.dumps(words))


if __name__ == "__main__":
    main()
