"""How messages reach their handlers, which are ipykernel's: one loop for the shell channel, one thread for control.

ipykernel's own way, through tornado's streams and several threads, takes longer than a cell of ours.
"""

from __future__ import annotations

import asyncio
import contextlib
import gc
import logging
import signal
import sys
import threading
import time
from collections import deque
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any

import zmq
from ipykernel.kernelbase import Kernel
from jupyter_client.session import Session

from wasm_kernel.kernel import heap
from wasm_kernel.kernel.bell import Bell
from wasm_kernel.kernel.channels import Channels, readable
from wasm_kernel.kernel.starter import Starter

Message = dict[str, Any]
# Answered at once while a cell runs. The others wait for their turn, as in ipykernel.
_AT_ONCE = (
    "kernel_info_request",
    "complete_request",
    "inspect_request",
    "is_complete_request",
    "history_request",
    "comm_info_request",
    "connect_request",
)
_NEEDS_THE_GUEST = ("execute_request", "complete_request", "inspect_request", "is_complete_request")
_AT_REST = 2.0  # seconds after a request; a checkpoint is written by then
_TAKES_TURNS = 0.0005  # seconds that a thread which computes keeps a cell waiting, such as one that writes a checkpoint
_SELDOM = 10_000  # objects that are made before a collection; a cell makes some hundred
_SUBSHELLS = ("create_subshell_request", "delete_subshell_request", "list_subshell_request")


class MessageLoop(Kernel):
    """Receives a kernel's messages, dispatches them, and always answers."""

    _execute_sleep = 0  # ipykernel waits for its IOPub thread; there is none here

    def __init__(self, channels: Channels, starter: Starter | None = None, **kwargs: Any) -> None:
        super().__init__(
            iopub_socket=channels.iopub,
            stdin_socket=channels.stdin,
            log=logging.getLogger("wasm_kernel.kernel"),
            **kwargs,
        )
        self.channels = channels
        self._starter = starter or Starter()
        self.record_ports(channels.ports)
        self.loop = asyncio.new_event_loop()
        asyncio.set_event_loop(self.loop)
        self._waiting: deque[tuple[Any, Message]] = deque()
        self._handled: Message = {}  # the last request whose turn came
        self._failed: Message | None = None  # the cell whose error aborted others, until one comes that was sent later
        self._answered = 0.0  # when the last cell was about to be answered
        self._arrived = asyncio.Event()
        self.message_waits: Callable[[], None] = lambda: None  # called when one has to wait for its turn
        self._stopping = threading.Event()
        self._begun = Bell()
        self._tidying: asyncio.TimerHandle | None = None
        for name in _SUBSHELLS:
            self.control_handlers[name] = self._no_subshells
        channels.iopub.welcome = self._welcome

    # ---- what a kernel says about itself

    def busy_with(self) -> Message | None:
        """The request whose cell is running."""
        return None

    def stays_busy(self) -> Message | None:
        """What to publish "busy" for again once another request was answered; None: the kernel is idle then."""
        return self.busy_with()

    def answers_at_once(self, message: Message) -> bool:
        """Whether a request is answered while a cell runs."""
        return message["header"]["msg_type"] in _AT_ONCE

    async def after_request(self) -> None:
        """A request was answered; the next one waits for this."""

    def interrupt(self) -> None:
        """Stop what runs. Called on any thread."""

    def end(self) -> None:
        """The kernel is about to end. Called on any thread, perhaps twice."""

    # ---- the loop

    def serve(self) -> None:
        """Answer requests until the kernel is shut down, or its starter is gone."""
        gc.freeze()  # what is imported stays: no collection has to look at it, in the middle of a cell
        gc.set_threshold(_SELDOM, *gc.get_threshold()[1:])
        sys.setswitchinterval(_TAKES_TURNS)
        self.loop = asyncio.new_event_loop()
        asyncio.set_event_loop(self.loop)
        self.loop.add_reader(self.channels.shell.FD, self._read_shell)
        self.loop.add_signal_handler(signal.SIGINT, self.interrupt)
        self.loop.add_signal_handler(signal.SIGTERM, self._terminate)
        control = threading.Thread(target=self._serve_control, name="wasm-kernel-control", daemon=True)
        control.start()
        self._publish_status("starting", "shell")
        self.loop.call_soon(self._read_shell)
        worker = self.loop.create_task(self._serve_shell())
        self._begun.hang(self.loop, self.channels.iopub.send_gathered)
        try:
            self.loop.run_forever()
        finally:
            self._begun.close()
            self._stopping.set()
            worker.cancel()
            control.join(5)
            self.channels.close()

    def _read_shell(self) -> None:
        """Read what has arrived. The file descriptor only signals changes, so read everything each time."""
        shell = self.channels.shell
        while not shell.closed and readable(shell):
            frames = shell.recv_multipart()
            try:
                idents, rest = self._wire.feed_identities(frames)
                message = self._wire.deserialize(rest)
            except Exception as e:  # noqa: BLE001 - a forged or broken message must not end the kernel
                self.log.error("a message was refused: %s", e)
                continue
            message["arrived"] = time.monotonic()
            if self._was_sent_before_the_error(message):
                message["aborted"] = True
            if self.busy_with() is not None and self.answers_at_once(message):
                self.loop.create_task(self._dispatch_beside_a_cell(idents, message))
            else:
                self._waiting.append((idents, message))
        if self._waiting:
            self._arrived.set()
            self.message_waits()

    async def _dispatch_beside_a_cell(self, idents: Any, message: Message) -> None:
        await self._dispatch(idents, message)
        self._read_shell()  # what came while the reply was sent: the descriptor may not signal it any more

    def about_to_answer(self) -> None:
        """A cell has ended: what arrived until now was not sent in answer to its reply."""
        self.channels.iopub.send_gathered()
        self._read_shell()
        self._answered = time.monotonic()

    async def _serve_shell(self) -> None:
        while not self._stopping.is_set():
            while not self._waiting:
                self._arrived.clear()
                await self._arrived.wait()
            idents, self._handled = self._waiting.popleft()
            await self._dispatch(idents, self._handled)
            try:
                await self.after_request()
            except Exception:
                self.log.exception("work after a request failed")
            self._tidy_later()
            self._read_shell()

    def _tidy_later(self) -> None:
        """Once no request has come for a while, give memory back that nobody uses."""
        if self._tidying is not None:
            self._tidying.cancel()
        self._tidying = self.loop.call_later(_AT_REST, heap.give_back)

    async def _dispatch(self, idents: Any, message: Message) -> None:
        """One request: busy, its handler, idle. Every failure becomes a reply."""
        self.set_parent(idents, message, channel="shell")
        kind = message["header"]["msg_type"]
        with self.channels.iopub.gathering(self.loop) if kind == "execute_request" else contextlib.nullcontext():
            await self._answer(idents, message, kind)

    def has_begun(self) -> None:
        """The guest has the code of a cell: there is time to tell the front ends. Called on any thread."""
        self._begun.ring()

    async def _answer(self, idents: Any, message: Message, kind: str) -> None:
        self.tell_status("busy", message)
        try:
            if message.pop("aborted", False):
                self._send_abort_reply(self.channels.shell, message, idents)
            elif (handler := self.shell_handlers.get(kind)) is None:
                self.log.warning("unknown message type: %r", kind)
            else:
                await handler(self.channels.shell, idents, message)
        except Exception as e:
            self.log.exception("%s failed", kind)
            content = error_content(
                type(e).__name__, f"the kernel itself failed: {e}; restart it if this happens again"
            )
            if kind.endswith("_request"):
                self._wire.send(self.channels.shell, kind.replace("_request", "_reply"), content, message, idents)
        self.tell_status("idle", message)

    def tell_status(self, status: str, message: Message) -> None:
        """Tell front ends that a request is being answered, or was. They show the last status they saw."""
        self._publish_status(status, "shell", message)
        work = self.stays_busy() if status == "idle" else None
        if work is not None:  # answered during a cell
            self._publish_status("busy", "shell", work)

    def _publish_status(self, status: str, channel: str, parent: Message | None = None) -> None:
        self._publish_plain("status", {"execution_state": status}, parent or self.get_parent(channel))

    def _publish_execute_input(self, code: str, parent: Message, execution_count: int) -> None:
        self._publish_plain("execute_input", {"code": code, "execution_count": execution_count}, parent)

    def _publish_plain(self, kind: str, content: Message, parent: Message) -> None:
        wire, topic = self._wire, self._topic(kind)
        self.channels.iopub.send_made(lambda: wire.serialize(wire.msg(kind, content, parent), topic))

    def next_cell(self) -> Message | None:
        """The first cell that waits for its turn."""
        waiting = (message for _, message in self._waiting if message["header"]["msg_type"] == "execute_request")
        return next(waiting, None)

    def _abort_queues(self, subshell_id: str | None = None) -> None:
        """After an error, abort the cells that were sent before its reply was, but not those sent after it."""
        self._failed = self._handled
        for _, message in self._waiting:
            if message["header"]["msg_type"] == "execute_request":
                message["aborted"] = True

    def _was_sent_before_the_error(self, message: Message) -> bool:
        """Whether a cell that arrives now was sent before the reply to the one that failed.

        "Run all" sends its cells one after the other, and one may still be on its way when the first has failed. Only
        times of one clock are compared: how long after the failed cell its sender sent this one, and how long that
        one took here.
        """
        failed = self._failed
        if failed is None or message["header"]["msg_type"] != "execute_request":
            return False
        if failed["header"].get("session") == message["header"].get("session"):
            with contextlib.suppress(KeyError, TypeError, AttributeError):
                later = (message["header"]["date"] - failed["header"]["date"]).total_seconds()
                if 0 <= later < self._answered - failed["arrived"]:
                    return True
            self._failed = None
        return False

    def _serve_control(self) -> None:
        """Serve the control channel and IOPub subscriptions; also notice when whoever started the kernel is gone."""
        control, iopub = self.channels.control, self.channels.iopub
        poller = zmq.Poller()
        poller.register(control, zmq.POLLIN)
        poller.register(iopub.fd, zmq.POLLIN)
        if self._starter.descriptor is not None:
            poller.register(self._starter.descriptor, zmq.POLLIN)
        while not self._stopping.is_set():
            ready = dict(poller.poll(500))
            if iopub.fd in ready:
                iopub.look_for_subscribers()
            if control in ready:
                self._answer_control(control.recv_multipart())
            elif self._starter.gone():
                self.log.warning("the process that started this kernel is gone; shutting down")
                self._terminate()

    def _answer_control(self, frames: list[bytes]) -> None:
        try:
            idents, rest = self._wire.feed_identities(frames)
            message = self._wire.deserialize(rest)
        except Exception as e:  # noqa: BLE001 - as on the shell channel
            self.log.error("a message was refused: %s", e)
            return
        self.set_parent(idents, message, channel="control")
        kind = message["header"]["msg_type"]
        self._publish_status("busy", "control", message)
        handler = self.control_handlers.get(kind)
        try:
            if kind in _NEEDS_THE_GUEST:
                content = error_content("WrongChannel", f"send {kind} on the shell channel: control is for interrupts")
                metadata = self.finish_metadata(message, self.init_metadata(message), content)
                reply = kind.replace("_request", "_reply")
                self._wire.send(self.channels.control, reply, content, message, idents, metadata=metadata)
            elif handler is None:
                self.log.warning("unknown message type on control: %r", kind)
            else:
                _drive(handler(self.channels.control, idents, message))
        except Exception as e:
            self.log.exception("%s failed on the control channel", kind)
            content = error_content(type(e).__name__, str(e))
            self._wire.send(self.channels.control, kind.replace("_request", "_reply"), content, message, idents)
        self._publish_status("idle", "control", message)
        if kind == "shutdown_request":
            self._stop()

    @property
    def _wire(self) -> Session:
        assert self.session is not None
        return self.session

    def _welcome(self, topic: bytes) -> list[bytes]:
        """The frames of iopub_welcome: a client that gets it will miss nothing from then on."""
        content = {"subscription": topic.decode("utf-8", "replace")}
        frames: list[bytes] = self._wire.serialize(self._wire.msg("iopub_welcome", content))
        return [topic, *frames] if topic else frames

    def publish(self, parent: Message, kind: str, content: Message, metadata: Any = None, buffers: Any = None) -> None:
        """Send a message to every front end. Called on any thread."""
        self._wire.send(
            self.iopub_socket, kind, content, parent, ident=self._topic(kind), metadata=metadata, buffers=buffers
        )

    # ---- requests that need no guest

    @property
    def kernel_info(self) -> Message:
        """What a client learns first. Claims neither a debugger nor subshells."""
        return {
            "protocol_version": "5.5",
            "implementation": self.implementation,
            "implementation_version": self.implementation_version,
            "language_info": self.language_info,
            "banner": self.banner,
            "help_links": list(self.help_links),
            "supported_features": [],
        }

    async def interrupt_request(self, stream: Any, ident: Any, parent: Message) -> None:
        """Runs on the control thread, whatever the cell does."""
        self.interrupt()
        self._wire.send(stream, "interrupt_reply", {"status": "ok"}, parent, ident=ident)

    async def debug_request(self, stream: Any, ident: Any, parent: Message) -> None:
        """There is no debugger; kernel_info does not claim one."""
        content = error_content("NotImplementedError", "this kernel has no debugger; %debug works after an error")
        self._wire.send(stream, "debug_reply", content, parent, ident=ident)

    async def _no_subshells(self, stream: Any, ident: Any, parent: Message) -> None:
        kind = parent["header"]["msg_type"].replace("_request", "_reply")
        if kind == "list_subshell_reply":
            content: Message = {"status": "ok", "subshell_id": []}
        else:
            content = error_content(
                "NotImplementedError", "this kernel has no subshells: its interpreter has one thread"
            )
        self._wire.send(stream, kind, content, parent, ident=ident)

    async def shutdown_request(self, stream: Any, ident: Any, parent: Message) -> None:
        """Shut down, for good or for a restart. Front ends are told on both channels."""
        content = await self.do_shutdown(bool(parent["content"].get("restart")))
        self._wire.send(stream, "shutdown_reply", content, parent, ident=ident)
        self.publish(parent, "shutdown_reply", content)
        if stream is not self.channels.control:
            self.loop.call_later(0.05, self._stop)

    async def do_shutdown(self, restart: bool) -> Message:
        """Release everything."""
        self._end()
        return {"status": "ok", "restart": restart}

    def _terminate(self) -> None:
        self._end()
        self._stop()

    def _end(self) -> None:
        """Whatever goes wrong at the end, such as a session's folder that is gone, the process ends."""
        try:
            self.end()
        except Exception:
            self.log.exception("the session could not be closed properly")

    def _stop(self) -> None:
        self._stopping.set()
        with contextlib.suppress(RuntimeError):
            self.loop.call_soon_threadsafe(self.loop.stop)


def error_content(name: str, value: str, traceback: list[str] | None = None) -> Message:
    """The content of an error reply, or of an error shown in a cell."""
    return {"status": "error", "ename": name, "evalue": value, "traceback": traceback or []}


def _drive(coroutine: Awaitable[Any]) -> None:
    """Run a handler that never awaits anything, without an event loop."""
    assert isinstance(coroutine, Coroutine)
    try:
        coroutine.send(None)
    except StopIteration:
        return
    coroutine.close()
    raise RuntimeError("a handler of the control channel waited for something")
