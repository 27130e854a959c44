"""The Jupyter kernel: cells go to the sandbox, its events to the front end.

The message loop is ipykernel's. The guest runs on the sandbox's thread, so this process answers while a cell runs:
interrupts on the control channel, completion (with nothing, until the cell is done), heartbeats.
"""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import platformdirs
import zmq
from ipykernel.kernelbase import Kernel
from jupyter_client.session import Session

from wasm_kernel import __version__
from wasm_kernel.apps.image_progress import BuildFailed, ImageBuild
from wasm_kernel.errors import SandboxError, WasmKernelError
from wasm_kernel.guest import wire
from wasm_kernel.host import image
from wasm_kernel.host.sandbox import Sandbox
from wasm_kernel.model.outcome import SandboxResult
from wasm_kernel.model.policy import ExecutionPolicy
from wasm_kernel.sessions.catalog import create_session_folder, prepared_root
from wasm_kernel.sessions.log import SandboxLogger
from wasm_kernel.sessions.session import LiveSession

T = TypeVar("T")
_MESSAGE_TYPES = {
    wire.DisplayData: "display_data",
    wire.UpdateDisplay: "update_display_data",
    wire.ExecuteResult: "execute_result",
}


def workspace_root() -> Path:
    """Where sessions' folders are: `WASM_KERNEL_WORKSPACE`, or a folder of the user's, never the current one."""
    given = os.environ.get("WASM_KERNEL_WORKSPACE")
    return Path(given).expanduser() if given else Path(platformdirs.user_data_dir("wasm-kernel")) / "workspace"


def _header(parent: dict[str, Any]) -> dict[str, Any]:
    """What the guest may know of a request: enough for ipywidgets.Output to capture what it leads to."""
    header = parent.get("header", {})
    return {"msg_id": header.get("msg_id", ""), "msg_type": header.get("msg_type", "")}


class WasmKernel(Kernel):
    """A kernel whose code runs sealed in WebAssembly."""

    implementation = "wasm_kernel"
    implementation_version = __version__
    banner = (
        f"wasm-kernel {__version__}: Python in a WebAssembly sandbox. Files live in /app. "
        "numpy's default integer is 32-bit here."
    )
    language_info = {
        "name": "python",
        "version": "3.15.0",
        "mimetype": "text/x-python",
        "codemirror_mode": {"name": "ipython", "version": 3},
        "pygments_lexer": "ipython3",
        "nbconvert_exporter": "python",
        "file_extension": ".py",
    }

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self._session: LiveSession | None = None
        self._sandbox: Sandbox | None = None
        self._logger = SandboxLogger()
        self._building: ImageBuild | None = None
        # One request at a time for the guest, in order. ipykernel's handlers run on several event loops.
        self._turns = ThreadPoolExecutor(1, "wasm-kernel-turns")
        self._busy = 0
        for action in ("comm_open", "comm_msg", "comm_close"):
            self.shell_handlers[action] = partial(self._comm, action)

    @property
    def _wire(self) -> Session:
        assert self.session is not None
        return self.session

    # ---- the sandbox

    async def _in_turn(self, work: Callable[[], T]) -> T:
        """Do something with the guest when what was asked before is done."""
        self._busy += 1
        try:
            return await asyncio.wrap_future(self._turns.submit(work))
        finally:
            self._busy -= 1

    def _ready(self, parent: dict[str, Any]) -> Sandbox:
        """The sandbox; the first cell on a machine waits for the image, and sees how far it is."""
        if self._sandbox is None:
            if not image.is_built():
                self._building = ImageBuild(partial(self._publish, parent))
                try:
                    self._building.run()
                finally:
                    self._building = None
            session_id, folder, lock = create_session_folder(prepared_root(workspace_root()), self._logger)
            self._session = LiveSession(session_id, folder, image.load(), ExecutionPolicy(), lock)
            self._sandbox = self._session.sandbox
        return self._sandbox

    def _publish(
        self, parent: dict[str, Any], kind: str, content: dict[str, Any], metadata: Any = None, buffers: Any = None
    ) -> None:
        """Send something to every front end. Called on any thread."""
        self._wire.send(
            self.iopub_socket, kind, content, parent, ident=self._topic(kind), metadata=metadata, buffers=buffers
        )

    def _show(self, parent: dict[str, Any], silent: bool, event: wire.Event) -> None:
        if isinstance(event, wire.Comm):
            self._publish(parent, event.action, event.content, event.metadata, list(event.buffers))
        elif silent:
            return
        elif isinstance(event, wire.Stream):
            self._publish(parent, "stream", {"name": event.name, "text": event.text})
        elif isinstance(event, wire.ClearOutput):
            self._publish(parent, "clear_output", {"wait": event.wait})
        elif isinstance(event, wire.ErrorRaised):
            content = {"ename": event.ename, "evalue": event.evalue, "traceback": event.traceback}
            self._publish(parent, "error", content)
        elif isinstance(event, wire.DisplayData | wire.UpdateDisplay | wire.ExecuteResult):
            shown: dict[str, Any] = {"data": event.data, "metadata": event.metadata}
            if isinstance(event, wire.ExecuteResult):
                shown["execution_count"] = self.execution_count
            else:
                shown["transient"] = event.transient
            self._publish(parent, _MESSAGE_TYPES[type(event)], shown)

    # ---- requests

    async def do_execute(
        self,
        code: str,
        silent: bool,
        store_history: bool = True,
        user_expressions: dict[str, Any] | None = None,
        allow_stdin: bool = False,
        *,
        cell_meta: Any = None,
        cell_id: str | None = None,
    ) -> dict[str, Any]:
        """Run a cell. Whatever fails ends in an error reply: a cell never stays at [*]."""
        parent, ident = self.get_parent("shell"), self._parent_ident["shell"]
        options = {
            "silent": silent,
            "store_history": store_history,
            "user_expressions": user_expressions or {},
            "cell_id": cell_id,
            "parent": _header(parent),
        }

        def run() -> SandboxResult:
            sandbox = self._ready(parent)
            ask = partial(self._ask, sandbox, parent, ident) if allow_stdin else None
            show = partial(self._show, parent, silent)
            result = sandbox.execute(code, on_event=show, on_input=ask, options=options)
            if self._session is not None:
                self._session.refresh(result, self._logger)
            return result

        try:
            result = await self._in_turn(run)
        except KeyboardInterrupt:
            return self._failed(
                parent, "KeyboardInterrupt", "waiting for the sandbox's image was interrupted; run again"
            )
        except (WasmKernelError, BuildFailed) as e:
            return self._failed(parent, type(e).__name__, str(e))
        except Exception as e:
            self.log.exception("the kernel failed while it ran a cell")
            return self._failed(parent, type(e).__name__, f"the kernel itself failed: {e}; restart it to go on")
        return self._reply(parent, result)

    def _reply(self, parent: dict[str, Any], result: SandboxResult) -> dict[str, Any]:
        reply = {"execution_count": self.execution_count, "user_expressions": {}, "payload": []}
        if result.success:
            for name, kind in (("user_expressions", dict), ("payload", list)):
                value = result.reply.get(name)
                if isinstance(value, kind):
                    reply[name] = value
            return {"status": "ok", **reply}
        how, error = result.outcome, result.error
        name, value = (error.name, error.value) if error else (how.cause, how.message)
        traceback = error.traceback if error else []
        if not traceback:  # nothing was shown yet: the guest could not say it itself
            value = "\n→ ".join(part for part in (how.message, how.next_step) if part)
            return {**self._failed(parent, name, value), **reply}
        if how.state_lost:
            self._publish(parent, "stream", {"name": "stderr", "text": f"{how.message}\n"})
        return {"status": "error", "ename": name, "evalue": value, "traceback": traceback, **reply}

    def _failed(self, parent: dict[str, Any], name: str, value: str) -> dict[str, Any]:
        """Show an error of ours in the cell, and the reply that goes with it."""
        content = {"ename": name, "evalue": value, "traceback": [f"\x1b[0;31m{name}\x1b[0m: {value}"]}
        self._publish(parent, "error", content)
        return {"status": "error", "execution_count": self.execution_count, **content}

    def _ask(self, sandbox: Sandbox, parent: dict[str, Any], ident: Any, request: wire.InputRequest) -> str:
        """Ask the front end for a line, until it answers or the cell no longer wants it."""
        while self.stdin_socket.poll(0):
            self.stdin_socket.recv_multipart(zmq.NOBLOCK)  # an answer to an earlier question
        content = {"prompt": request.prompt, "password": request.password}
        self._wire.send(self.stdin_socket, "input_request", content, parent, ident=ident)
        while sandbox.waits_for_input:
            if self.stdin_socket.poll(50):
                _, reply = self._wire.recv(self.stdin_socket, zmq.NOBLOCK)
                value = reply["content"].get("value", "") if reply else ""
                if value == "\x04":
                    raise EOFError
                return str(value)
        return ""

    async def _guest(self, request: dict[str, Any], otherwise: dict[str, Any]) -> dict[str, Any]:
        """Ask the guest something small; ``otherwise`` when it is busy or there is none yet to ask."""
        if self._busy or not (self._sandbox is not None or image.is_built()):
            return otherwise
        try:
            reply = await self._in_turn(lambda: self._ready({}).ask(request))
        except SandboxError:
            return otherwise
        return reply if reply.get("status") != "error" else otherwise

    async def do_complete(self, code: str, cursor_pos: int | None) -> dict[str, Any]:
        """Completions, or none while a cell runs."""
        position = len(code) if cursor_pos is None else cursor_pos
        nothing = {"status": "ok", "matches": [], "cursor_start": position, "cursor_end": position, "metadata": {}}
        return await self._guest({"op": "complete", "code": code, "cursor_pos": position}, nothing)

    async def do_inspect(
        self, code: str, cursor_pos: int | None, detail_level: int = 0, omit_sections: Any = ()
    ) -> dict[str, Any]:
        """What is known of the object under the cursor."""
        position = len(code) if cursor_pos is None else cursor_pos
        request = {"op": "inspect", "code": code, "cursor_pos": position, "detail_level": detail_level}
        nothing = {"status": "ok", "data": {}, "metadata": {}, "found": False}
        return await self._guest({**request, "omit_sections": list(omit_sections)}, nothing)

    async def do_is_complete(self, code: str) -> dict[str, Any]:
        """Whether the code could run as it is."""
        return await self._guest({"op": "is_complete", "code": code}, {"status": "unknown"})

    async def comm_info_request(self, stream: Any, ident: Any, parent: dict[str, Any]) -> None:
        """Which comms are open in the guest."""
        target = parent["content"].get("target_name")
        reply = await self._guest({"op": "comm_info", "target_name": target}, {"status": "ok", "comms": {}})
        self._wire.send(stream, "comm_info_reply", reply, parent, ident)

    async def _comm(self, action: str, stream: Any, ident: Any, parent: dict[str, Any]) -> None:
        """A widget message for the guest; it waits for the cell that runs."""
        request = {
            "op": "comm",
            "action": action,
            "content": parent["content"],
            "metadata": parent.get("metadata", {}),
            "parent": _header(parent),
        }
        buffers = tuple(bytes(b) for b in parent.get("buffers", ()))
        sandbox = self._sandbox
        if sandbox is not None:
            await self._in_turn(lambda: sandbox.ask(request, buffers, partial(self._show, parent, False)))

    async def interrupt_request(self, stream: Any, ident: Any, parent: dict[str, Any]) -> None:
        """KeyboardInterrupt in the guest. Runs on the control thread, whatever the cell does."""
        building = self._building
        if self._sandbox is not None:
            self._sandbox.interrupt()
        elif building is not None:
            building.cancel()
        self._wire.send(stream, "interrupt_reply", {"status": "ok"}, parent, ident=ident)

    async def do_shutdown(self, restart: bool) -> dict[str, Any]:
        """End. The guest's memory goes; its files stay."""
        for stream in (sys.stdout, sys.stderr):
            if hasattr(stream, "flush_timeout"):
                stream.flush_timeout = 0.1  # else the control thread may wait 10 s for a stopped IO thread
        if self._session is not None:
            self._session.close()
        if self._building is not None:
            self._building.cancel()
        self._turns.shutdown(wait=False, cancel_futures=True)
        return {"status": "ok", "restart": restart}
