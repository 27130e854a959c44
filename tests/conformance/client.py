"""A real kernel process and its client, as short as tests want them."""

from __future__ import annotations

import os
import re
import time
from dataclasses import dataclass, field
from pathlib import Path
from queue import Empty
from typing import Any

from jupyter_client.manager import KernelManager

Message = dict[str, Any]
PATIENCE = 60.0
_COLOURS = re.compile(r"\x1b\[[0-9;]*m")


def plain(text: str) -> str:
    """Text without its colours."""
    return _COLOURS.sub("", text)


def _parent(message: Message) -> str | None:
    return message["parent_header"].get("msg_id")


def _idle(message: Message) -> bool:
    return message["msg_type"] == "status" and message["content"]["execution_state"] == "idle"


@dataclass
class Cell:
    """What came of one request: its reply, and everything on IOPub that names it as its parent."""

    reply: Message
    messages: list[Message] = field(default_factory=list)

    @property
    def ok(self) -> bool:
        return self.reply["status"] == "ok"

    @property
    def outputs(self) -> list[Message]:
        return [m for m in self.messages if m["msg_type"] not in ("status", "execute_input")]

    @property
    def kinds(self) -> list[str]:
        return [m["msg_type"] for m in self.outputs]

    def of(self, kind: str) -> list[Message]:
        """The contents of all messages of a kind."""
        return [m["content"] for m in self.messages if m["msg_type"] == kind]

    def stream(self, name: str) -> str:
        return plain("".join(c["text"] for c in self.of("stream") if c["name"] == name))

    @property
    def stdout(self) -> str:
        return self.stream("stdout")

    @property
    def stderr(self) -> str:
        return self.stream("stderr")

    @property
    def result(self) -> str | None:
        """The text of the last expression's value."""
        found = self.of("execute_result")
        return found[-1]["data"].get("text/plain") if found else None

    @property
    def data(self) -> Message:
        """The mime bundle of the one thing displayed or returned."""
        (shown,) = self.of("execute_result") + self.of("display_data")
        return shown["data"]

    @property
    def traceback(self) -> str:
        return plain("\n".join("\n".join(c["traceback"]) for c in self.of("error")))

    @property
    def said(self) -> str:
        """All that a person reads, whichever way it came."""
        shown = "".join(c["data"].get("text/plain", "") for c in self.of("display_data"))
        return self.stdout + self.stderr + shown + self.traceback


def unsealed(folder: Path) -> Path:
    """A configuration under which outputs pass as they are."""
    folder.mkdir(exist_ok=True)
    (folder / "jupyter_wasm_kernel_config.py").write_text("c.WasmKernel.seal_outputs = False\n")
    return folder


class Kernel:
    """A kernel that runs."""

    def __init__(
        self, root: Path, *, name: str = "wasm", cwd: Path | None = None, sealed: bool = True, **env: str
    ) -> None:
        self.root = root
        if not sealed:
            env["JUPYTER_CONFIG_DIR"] = str(unsealed(root.parent / f"{root.name}-unsealed"))
        self.manager = KernelManager(kernel_name=name)
        environ = {name: value for name, value in os.environ.items() if not name.startswith("JPY_")}
        self.manager.start_kernel(env={**environ, "WASM_KERNEL_WORKSPACE": str(root), **env}, cwd=cwd and str(cwd))
        self.others: list[Message] = []  # what came on IOPub while something else was looked for
        self.connect()

    def connect(self) -> None:
        self.replies: dict[str | None, Message] = {}  # what came elsewhere while something else was looked for
        self.client = self.manager.blocking_client()
        self.client.start_channels()
        self.client.wait_for_ready(timeout=PATIENCE)

    @property
    def pid(self) -> int:
        return self.manager.provisioner.process.pid

    def stop(self) -> None:
        self.client.stop_channels()
        self.manager.shutdown_kernel(now=True)

    # ---- cells

    def run(self, code: str, answers: tuple[str, ...] = (), **options: Any) -> Cell:
        """Run a cell to its end; ``answers`` are what a person types."""
        return self.finish(self.start(code, allow_stdin=options.pop("allow_stdin", bool(answers)), **options), answers)

    def ok(self, code: str, **options: Any) -> Cell:
        cell = self.run(code, **options)
        assert cell.ok, cell.said or cell.reply
        return cell

    def start(self, code: str, **options: Any) -> str:
        """Send a cell without waiting for it."""
        return self.client.execute(code, **{"allow_stdin": False, **options})

    def finish(self, msg_id: str, answers: tuple[str, ...] = ()) -> Cell:
        messages: list[Message] = [m for m in self.others if _parent(m) == msg_id]
        self.others = [m for m in self.others if _parent(m) != msg_id]
        left, end = list(answers), time.monotonic() + PATIENCE
        while not (messages and _idle(messages[-1])):
            assert time.monotonic() < end, f"no end in sight; so far {[m['content'] for m in messages[-5:]]}"
            try:
                message = self.client.get_iopub_msg(timeout=0.05 if left else 1)
                (messages if _parent(message) == msg_id else self.others).append(message)
            except Empty:
                if left and self.client.stdin_channel.msg_ready():
                    asked = self.client.get_stdin_msg(timeout=1)
                    assert asked["msg_type"] == "input_request"
                    self.client.input(left.pop(0))
        return Cell(self.reply_to(msg_id)["content"], messages)

    def reply_to(self, msg_id: str, channel: str = "shell", timeout: float = PATIENCE) -> Message:
        get = self.client.get_control_msg if channel == "control" else self.client.get_shell_msg
        end = time.monotonic() + timeout
        while msg_id not in self.replies:
            message = get(timeout=max(0.01, end - time.monotonic()))
            self.replies[_parent(message)] = message
        return self.replies.pop(msg_id)

    # ---- other messages

    def send(
        self, kind: str, content: Message | None = None, channel: str = "shell", buffers: list[bytes] | None = None
    ) -> str:
        session = self.client.session
        message = session.msg(kind, content or {})
        socket = (self.client.control_channel if channel == "control" else self.client.shell_channel).socket
        session.send(socket, message, buffers=buffers)
        return message["header"]["msg_id"]

    def ask(
        self, kind: str, content: Message | None = None, channel: str = "shell", timeout: float = PATIENCE
    ) -> Message:
        """The content of the reply to a request."""
        return self.reply_to(self.send(kind, content, channel), channel, timeout)["content"]

    def comm(self, comm_id: str, data: Message, buffers: list[bytes] | None = None) -> Cell:
        """A comm message to the kernel, and all it leads to; it has no reply."""
        return self._without_reply(self.send("comm_msg", {"comm_id": comm_id, "data": data}, buffers=buffers))

    def open_comm(self, comm_id: str, target: str, data: Message | None = None) -> Cell:
        content = {"comm_id": comm_id, "target_name": target, "data": data or {}}
        return self._without_reply(self.send("comm_open", content))

    def _without_reply(self, msg_id: str) -> Cell:
        messages = []
        while True:
            message = self.client.get_iopub_msg(timeout=PATIENCE)
            if _parent(message) != msg_id:
                self.others.append(message)
                continue
            messages.append(message)
            if _idle(message):
                return Cell({"status": "ok"}, messages)

    def wait_for(self, kind: str, text: str = "") -> Message:
        """The next message of a kind on IOPub that holds a text."""
        while True:
            message = self.client.get_iopub_msg(timeout=PATIENCE)
            self.others.append(message)
            if message["msg_type"] == kind and text in str(message["content"]):
                return message


def eventually(condition: Any, within: float = PATIENCE) -> bool:
    """Whether something comes true soon."""
    end = time.monotonic() + within
    while not condition():
        if time.monotonic() > end:
            return False
        time.sleep(0.02)
    return True
