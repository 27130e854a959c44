"""kill -9 while quick cells follow each other: every cell that was answered is back, variables and files."""

from __future__ import annotations

import os
import random
import signal
import threading
from collections.abc import Callable
from queue import Empty

import pytest

from tests.conformance.client import Kernel

pytestmark = pytest.mark.filterwarnings("ignore")
Start = Callable[..., Kernel]
CELLS = 200
FILE_EVERY = 7


def code(n: int) -> str:
    file = f"; open('f{n}', 'w').write('{n}' * {n})" if n % FILE_EVERY == 0 else ""
    return f"n = {n}; seen.append({n}); table[{n} % 5] = 'x' * {n}{file}"


def answered(kernel: Kernel, sent: dict[str, int]) -> int:
    """The last of these cells that was answered before the kernel was gone."""
    last = 0
    while True:
        try:
            reply = kernel.client.get_shell_msg(timeout=0.3)
        except Empty:
            return last
        if reply["msg_type"] == "execute_reply" and reply["parent_header"].get("msg_id") in sent:
            assert reply["content"]["status"] == "ok"
            last = max(last, sent[reply["parent_header"]["msg_id"]])
            if last == CELLS:
                return last


def run_until_killed(kernel: Kernel, sent: dict[str, int], seconds: float) -> int:
    """Kill a kernel after a while; the last of these cells that was answered."""
    timer = threading.Timer(seconds, os.kill, (kernel.pid, signal.SIGKILL))
    timer.start()
    last = answered(kernel, sent)
    timer.cancel()
    timer.join()
    kernel.stop()
    return last


CHECK = f"""
import os
print(n, seen == list(range(1, n + 1)), all(table[k % 5] == 'x' * k for k in range(n, max(0, n - 5), -1)),
      all(open(f'f{{k}}').read() == str(k) * k for k in range({FILE_EVERY}, n + 1, {FILE_EVERY})))
"""


@pytest.mark.parametrize("seed", range(4))
def test_every_answered_cell_is_back(start: Start, seed: int) -> None:
    """Kills at random moments of 200 cells; those that came back are killed again."""
    chance = random.Random(seed)
    kernel = start(WASM_KERNEL_SESSION="notebook")
    kernel.ok("n, seen, table = 0, [], {}")
    done = 0
    for _ in range(3):
        sent = {kernel.start(code(n)): n for n in range(done + 1, CELLS + 1)}
        last = run_until_killed(kernel, sent, chance.uniform(0.02, 0.6))
        kernel = start(WASM_KERNEL_SESSION="notebook")
        cell = kernel.ok(CHECK)
        there, *whole = cell.stdout.split()
        assert whole == ["True", "True", "True"], cell.stdout
        # More than were answered: answers that libzmq's thread had not sent yet died with the kernel.
        assert max(done, last) <= int(there) <= CELLS
        assert "could not" not in cell.stderr
        new, done = int(there) - done, int(there)
    if new > 2:
        kernel.ok("%session undo 3")  # the check, and the last two
        assert kernel.ok("print(n)").stdout == f"{done - 2}\n"


def large(n: int) -> str:
    """Every third cell makes an array of 40 MB."""
    return f"n = {n}; big = np.full(5_000_000, {n})" if n % 3 == 0 else f"n = {n}"


@pytest.mark.parametrize("seed", range(2))
def test_large_cells_are_back_too_and_those_after_them(start: Start, seed: int) -> None:
    chance = random.Random(seed)
    kernel = start(WASM_KERNEL_SESSION="notebook")
    kernel.ok("import numpy as np; n, big = 0, None")
    sent = {kernel.start(large(n)): n for n in range(1, CELLS + 1)}
    last = run_until_killed(kernel, sent, chance.uniform(0.3, 1.0))
    kernel = start(WASM_KERNEL_SESSION="notebook")
    cell = kernel.ok("print(n, n < 3 or bool((big == n // 3 * 3).all()))")
    there, whole = cell.stdout.split()
    assert last <= int(there) <= CELLS and whole == "True", (last, cell.stdout, cell.stderr)
