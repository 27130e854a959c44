"""Prints the PSS of a process with one sandbox and of the same process with more, each after running some code.

Arguments: the code, how many sandboxes to add, how many seconds to rest before looking. Output: JSON, in bytes.
"""

import json
import sys
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path

from wasm_kernel import create_sandbox


def pss() -> int:
    """This process's proportional set size in bytes."""
    for line in Path("/proc/self/smaps_rollup").read_text().splitlines():
        if line.startswith("Pss:"):
            return int(line.split()[1]) << 10
    raise RuntimeError("smaps_rollup has no Pss line")


def main(code: str, more: int, rest: float) -> None:
    """Measure and print."""
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))

        def add(number: int) -> None:
            sandbox = stack.enter_context(create_sandbox(workspace=folder / str(number)))
            result = sandbox.execute(code)
            assert result.success, result.error

        add(0)
        time.sleep(rest)
        one = pss()
        for number in range(1, more + 1):
            add(number)
        time.sleep(rest)
        print(json.dumps({"one": one, "all": pss()}))


main(sys.argv[1], int(sys.argv[2]), float(sys.argv[3]))
