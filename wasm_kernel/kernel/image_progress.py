"""Build the image from a kernel, in a separate process; whoever waits for it sees how far it is.

A build belongs to nobody: the first request that needs the guest begins it. A front end with a side panel shows its
progress as a notification. Elsewhere every cell that waits shows it; and while no cell runs, the kernel is shown as
busy, and a notice at each step goes to its log and to front ends that show what belongs to no cell.
"""

from __future__ import annotations

import json
import logging
import subprocess
import sys
import tempfile
import threading
import time
import uuid
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any

from wasm_kernel.errors import Interrupted, WasmKernelError
from wasm_kernel.kernel import render

Publish = Callable[[str, dict[str, Any]], None]
_NAMES = {
    "fetch": "fetching the runtime",
    "interposer": "compiling the filter",
    "compile": "compiling it for this CPU",
    "packages": "fetching IPython",
    "base memory": "importing the scientific stack",
}
_EVERY = 0.5  # seconds between two pictures of one step
_COMMAND = [sys.executable, "-P", "-m", "wasm_kernel.apps.cli", "image", "build", "--json"]
_INTERRUPTED = "building the sandbox's image was interrupted; run the cell again to continue"


class BuildFailed(WasmKernelError):
    """The image could not be built; the message says why and what to do."""


class ImageBuild:
    """One build, or the wait for another process that is building. Its methods can be called on any thread.

    Attributes:
        done: Has a result when the image is there; `BuildFailed`, or `Interrupted` after `cancel`, otherwise.
        text: What it is doing now, for a person.
        step: Which step that is, and of how many.
        fraction: How much of all is done.
        is_followed: Whether the person sees its progress in a side panel, so that cells need not show it.
    """

    def __init__(self, notice: Publish, log: logging.Logger) -> None:
        """``notice``: publishes what belongs to no cell, while none runs."""
        self.done: Future[None] = Future()
        self.text = "wasm-kernel: building the sandbox, once on this machine"
        self._notice, self._log = notice, log
        self.step, self.fraction, self.is_followed = (1, 1), 0.0, False
        self._viewers: list[Callable[[], None]] = []
        self._lock = threading.Lock()
        self._cancelled = False
        self._process: subprocess.Popen[str] | None = None
        self._started, self._shown, self._step = time.monotonic(), 0.0, ""
        threading.Thread(target=self._run, name="wasm-kernel-image", daemon=True).start()

    def watch(self, publish: Publish) -> None:
        """Show a cell that waits how far the build is, now and from now on."""
        if self.is_followed:
            return
        display_id = str(uuid.uuid4())
        with self._lock:
            publish("display_data", self._bundle(display_id))
            self._viewers.append(lambda: publish("update_display_data", self._bundle(display_id)))

    def follow(self, viewer: Callable[[], None]) -> None:
        """Call something whenever there is progress, and at the end. On the thread that builds."""
        with self._lock:
            self._viewers.append(viewer)
        self.done.add_done_callback(lambda done: viewer())

    def cancel(self) -> None:
        """Stop building. What is finished stays."""
        self._cancelled = True
        if self._process is not None:
            self._process.terminate()

    def _run(self) -> None:
        try:
            self._build()
        except BaseException as e:  # noqa: BLE001 - whoever waits gets it
            if not isinstance(e, Interrupted):
                self._log.warning("%s", e)
            self._show("wasm-kernel: stopped before the sandbox was built", self.fraction)
            self.done.set_exception(e)
        else:
            seconds = time.monotonic() - self._started
            self._show(f"wasm-kernel: the sandbox is ready ({seconds:.0f} s, once on this machine)", 1.0)
            self.done.set_result(None)

    def _build(self) -> None:
        with tempfile.TemporaryFile("w+") as errors:
            process = self._process = subprocess.Popen(
                _COMMAND, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=errors, text=True
            )
            if self._cancelled:  # before there was a process to end
                process.terminate()
            assert process.stdout is not None
            with process.stdout:
                for line in process.stdout:
                    self._progressed(json.loads(line))
            status = process.wait()
            if self._cancelled:
                raise Interrupted(_INTERRUPTED)
            if status != 0:
                errors.seek(0)
                problem = errors.read().strip()
                raise BuildFailed(f"the sandbox's image could not be built. {problem}\n→ run `wasm-kernel doctor`")

    def _progressed(self, state: dict[str, Any]) -> None:
        step, index, count = str(state.get("step", "")), state.get("index", 1), state.get("count", 1)
        fraction = float(state.get("fraction", 0))
        now = time.monotonic()
        if step == self._step and now - self._shown < _EVERY and fraction < 1:
            return
        who = "another process is " if state.get("waiting") else ""
        text = (
            f"wasm-kernel: {who}building the sandbox, once on this machine: step {index} of {count}, "
            f"{_NAMES.get(step, step)}, {fraction:.0%}; {now - self._started:.0f} s"
        )
        begins, self._step, self._shown, self.step = step != self._step, step, now, (index, count)
        self._show(text, (index - 1 + fraction) / max(count, 1))
        if begins:
            self._log.warning("%s", text.removeprefix("wasm-kernel: "))
            if not self.is_followed:
                self._notice("display_data", self._bundle(str(uuid.uuid4())))

    def _show(self, text: str, fraction: float) -> None:
        with self._lock:
            self.text, self.fraction = text, fraction
            for viewer in self._viewers:
                viewer()

    def _bundle(self, display_id: str) -> dict[str, Any]:
        return {
            "data": {"text/plain": self.text, "text/html": render.progress(self.text, self.fraction)},
            "metadata": {},
            "transient": {"display_id": display_id},
        }
