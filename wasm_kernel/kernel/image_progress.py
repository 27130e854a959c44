"""Build the image from a kernel, in a separate process, with progress shown in the waiting cell."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import Callable
from typing import Any

from wasm_kernel.errors import Interrupted, WasmKernelError
from wasm_kernel.kernel import render

Publish = Callable[[str, dict[str, Any]], None]
_NAMES = {
    "fetch": "fetching the runtime",
    "compile": "compiling it for this CPU",
    "packages": "fetching IPython",
    "base memory": "importing the scientific stack",
}


class BuildFailed(WasmKernelError):
    """The image could not be built; the message says why and what to do."""


class ImageBuild:
    """One build, or the wait for another process that is building."""

    def __init__(self, publish: Publish) -> None:
        self._publish = publish
        self._cancelled = False
        self._process: subprocess.Popen[str] | None = None

    def run(self) -> None:
        """Build, showing progress. Raises `BuildFailed`, or `Interrupted` after `cancel`."""
        display_id = str(uuid.uuid4())
        started, shown, kind = time.monotonic(), 0.0, "display_data"
        command = [sys.executable, "-P", "-m", "wasm_kernel.apps.cli", "image", "build", "--json"]
        with tempfile.TemporaryFile("w+") as errors:
            process = self._process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=errors, text=True
            )
            assert process.stdout is not None
            with process.stdout:
                for line in process.stdout:
                    state = json.loads(line)
                    if time.monotonic() - shown < 0.5 and state["fraction"] < 1:
                        continue
                    shown = time.monotonic()
                    self._publish(kind, _picture(state, shown - started, display_id))
                    kind = "update_display_data"
            status = process.wait()
            if self._cancelled:
                raise Interrupted("building the sandbox's image was interrupted; run the cell again to continue")
            if status != 0:
                errors.seek(0)
                problem = errors.read().strip()
                raise BuildFailed(f"the sandbox's image could not be built. {problem}\n→ run `wasm-kernel doctor`")
        text = f"wasm-kernel: the sandbox is ready ({time.monotonic() - started:.0f} s, once on this machine)"
        self._publish(kind, _bundle(text, 1.0, display_id))

    def cancel(self) -> None:
        """Stop waiting. Callable from any thread."""
        self._cancelled = True
        if self._process is not None:
            self._process.terminate()


def _picture(state: dict[str, Any], elapsed: float, display_id: str) -> dict[str, Any]:
    step, index, count = state.get("step", ""), state.get("index", 1), state.get("count", 1)
    fraction = float(state.get("fraction", 0))
    whole = (index - 1 + fraction) / max(count, 1)
    who = "another process is " if state.get("waiting") else ""
    text = (
        f"wasm-kernel: {who}building the sandbox, once on this machine: step {index} of {count}, "
        f"{_NAMES.get(step, step)}, {fraction:.0%}; {elapsed:.0f} s"
    )
    return _bundle(text, whole, display_id)


def _bundle(text: str, fraction: float, display_id: str) -> dict[str, Any]:
    return {
        "data": {"text/plain": text, "text/html": render.progress(text, fraction)},
        "metadata": {},
        "transient": {"display_id": display_id},
    }
