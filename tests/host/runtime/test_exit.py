"""The process ends well, whatever its sandboxes are doing."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

_START = """
import sys, threading, time, tempfile
from wasm_kernel import create_sandbox
sandboxes = [create_sandbox(workspace=tempfile.mkdtemp(dir={folder!r})) for _ in range(2)]
"""

_ENDINGS = {
    "open": "for s in sandboxes: s.execute('x = 1')",
    "never used": "pass",
    "running": "threading.Thread(target=sandboxes[0].execute, args=('while True: pass',), daemon=True).start(); time.sleep(0.3)",
    "printing": "threading.Thread(target=sandboxes[0].execute, args=('while True: print(1)',), daemon=True).start(); time.sleep(0.3)",
    "sleeping": "threading.Thread(target=sandboxes[0].execute, args=('import time; time.sleep(999)',), daemon=True).start(); time.sleep(0.3)",
    "in C code": "threading.Thread(target=sandboxes[0].execute, args=('import numpy as np; a = np.ones((3000, 3000)); a @ a',), daemon=True).start(); time.sleep(0.4)",
    "asking": "threading.Thread(target=sandboxes[0].execute, args=('input()',), kwargs=dict(on_input=lambda r: time.sleep(999)), daemon=True).start(); time.sleep(0.3)",
    "half built": "import wasm_kernel.host.runtime.live_guest as h; h.LiveGuest._live = lambda self: time.sleep(999); threading.Thread(target=sandboxes[0].execute, args=('1',), daemon=True).start(); time.sleep(0.2)",
    "by an exception": "sandboxes[0].execute('1'); raise SystemExit(7)",
    "crashed": "sandboxes[0].execute('import os; os.abort()')",
}


@pytest.mark.parametrize("ending", list(_ENDINGS))
def test_exit(ending: str, tmp_path: Path) -> None:
    started = time.monotonic()
    process = subprocess.run(
        [sys.executable, "-c", _START.format(folder=str(tmp_path)) + _ENDINGS[ending]],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert process.returncode == (7 if ending == "by an exception" else 0), process.stderr
    assert "Fatal" not in process.stderr
    assert time.monotonic() - started < 30


def test_control_c_interrupts_the_cell_and_then_the_caller(tmp_path: Path) -> None:
    code = _START.format(folder=str(tmp_path)) + (
        "def go(e): print('go', flush=True)\n"
        "try: sandboxes[0].execute('x = 5\\nprint(1)\\nwhile True: pass', on_event=go)\n"
        "except KeyboardInterrupt: print(sandboxes[0].execute('x').result)\n"
    )
    process = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    assert process.stdout.readline() == "go\n"
    process.send_signal(signal.SIGINT)
    rest, _ = process.communicate(timeout=30)
    assert "{'text/plain': '5'}" in rest
