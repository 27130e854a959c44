"""What an execution gives, gathered while it runs and held to the policy's caps."""

from __future__ import annotations

import codecs
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from wasm_kernel.guest import wire
from wasm_kernel.model.outcome import GuestError
from wasm_kernel.model.policy import ExecutionPolicy

OnEvent = Callable[[wire.Event], None]
_HOW = "in a notebook %session limits"


@dataclass(frozen=True)
class Notice(wire.Stream):
    """A message of the sandbox's own, among what the guest printed."""


@dataclass
class OutputBuffer:
    """What an execution gave so far, held to the policy's caps.

    Attributes:
        room: Bytes that each of "stdout", "stderr" and "display" may have; by default what the policy says.
        told: What was already said to be too much, and is not said again.
        between_cells: Whether no cell runs: the caps are for all that happens then in a minute.
        max_reply: Bytes that the reply may have.
        parents: Whether the receiver is told which request output belongs to.
        on_begin: Called once, when the guest asks for its request.
    """

    policy: ExecutionPolicy
    on_event: OnEvent | None
    room: Mapping[str, int] = field(default_factory=dict)
    told: set[str] = field(default_factory=set)
    between_cells: bool = False
    max_reply: int | None = None
    parents: bool = False
    streams: dict[str, list[str]] = field(default_factory=lambda: {"stdout": [], "stderr": []})
    sizes: dict[str, int] = field(default_factory=lambda: {"stdout": 0, "stderr": 0, "display": 0})
    cut: set[str] = field(default_factory=set)
    result: dict[str, Any] | None = None
    displays: list[dict[str, Any]] = field(default_factory=list)
    error: GuestError | None = None
    reply: wire.Reply | None = None
    failure: BaseException | None = None
    on_begin: Callable[[], None] | None = None

    def __post_init__(self) -> None:
        decoder = codecs.getincrementaldecoder("utf-8")
        self._lock = threading.RLock()  # the guest's workers print on threads of their own
        self._decoders = {"stdout": decoder("replace"), "stderr": decoder("replace")}
        self._limits = {
            "stdout": self.policy.stdout_max_bytes,
            "stderr": self.policy.stderr_max_bytes,
            "display": self.policy.display_max_bytes,
        }
        self.room = {**self._limits, **self.room}

    def begin(self) -> None:
        """The guest asks for its request. It may do so as often as it likes."""
        called, self.on_begin = self.on_begin, None
        if called is not None:
            called()

    def write(self, fd: int, data: bytes) -> None:
        """Bytes the guest wrote to stdout (1) or stderr (2)."""
        name = "stderr" if fd == 2 else "stdout"
        if name not in self.cut:
            self.print(name, self._decoders[name].decode(data))

    def print(self, name: str, text: str) -> None:
        """Text for "stdout" or "stderr". On any thread."""
        with self._lock:
            if name not in self.cut:
                self._print(name, text)

    def _print(self, name: str, text: str) -> None:
        data = text.encode()  # its size now: a byte that is not valid UTF-8 has become three
        left = self.room[name] - self.sizes[name]
        self.sizes[name] += min(len(data), left)
        if len(data) <= left:
            self._text(name, text)
        else:
            self._text(name, data[:left].decode("utf-8", "ignore"))
            self.notice(name, f"{name} was cut after {self._most(name)} ({name}_max_bytes; {_HOW} output=…)")

    def _most(self, what: str) -> str:
        most = f"{self._limits[what]} bytes"
        return f"the {most} a minute that there are between cells" if self.between_cells else most

    def _text(self, name: str, text: str) -> None:
        if text:
            self.streams[name].append(text)
            self.emit(wire.Stream(name, text))

    def notice(self, what: str, text: str) -> None:
        """Say, once, that something was too much. On any thread."""
        with self._lock:
            self.cut.add(what)
            if what not in self.told:
                self.told.add(what)
                notice = Notice("stdout" if what == "stdout" else "stderr", f"\n[wasm-kernel: {text}]\n")
                self.streams[notice.name].append(notice.text)
                self.emit(notice)

    def take(self, event: wire.Event, size: int) -> bool:
        """An event the guest sent, of this many bytes; whether it was let through."""
        if self.sizes["display"] + size > self.room["display"]:
            self.refuse()
            if "error" in self.told or not isinstance(event, wire.ErrorRaised):
                return False
            self.told.add("error")  # the error that ended the cell is still shown, once and shortened
            event = wire.ErrorRaised(event.ename[:200], event.evalue[:2000], ["(traceback cut)"])
        else:
            self.sizes["display"] += size
        if isinstance(event, wire.ExecuteResult):
            self.result = event.data
        elif isinstance(event, wire.DisplayData):
            self.displays.append(event.data)
        elif isinstance(event, wire.ErrorRaised):
            self.error = GuestError(event.ename, event.evalue, event.traceback)
        self.emit(event)
        return True

    def belongs_to(self, parent: wire.Parent) -> None:
        """What follows belongs to another request."""
        if self.parents:
            self.emit(parent)

    def refuse(self, why: str = "") -> None:
        """Something the guest sent is too much: for the policy, or for a reason given."""
        most, how = self._most("display"), f"display_max_bytes; {_HOW} display=…"
        self.notice("display", f"display data was dropped: {why or f'it would exceed {most} ({how})'}")

    def take_reply(self, reply: wire.Reply, size: int) -> None:
        """The guest's answer, of this many bytes."""
        if self.max_reply is not None and size > self.max_reply:
            raise wire.TooMuch(f"the reply has {size} bytes; {self.max_reply} are allowed")
        self.reply = reply

    def emit(self, event: wire.Event) -> None:
        """Pass an event on. A callback that raises is not called again; `execute` raises for it at the end."""
        with self._lock:
            if self.on_event is not None:
                try:
                    self.on_event(event)
                except BaseException as e:  # noqa: BLE001 - it belongs to the caller of execute
                    self.failure, self.on_event = e, None

    def finish(self) -> None:
        """Show what an incomplete character left behind."""
        for name, decoder in self._decoders.items():
            if name not in self.cut:
                self.print(name, decoder.decode(b"", final=True))

    def text(self, name: str) -> str:
        """All that was kept of a stream."""
        return "".join(self.streams[name])
