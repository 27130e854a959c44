"""What an execution gives, gathered while it runs and held to the policy's caps."""

from __future__ import annotations

import codecs
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from wasm_kernel.guest import wire
from wasm_kernel.model.outcome import GuestError
from wasm_kernel.model.policy import ExecutionPolicy

OnEvent = Callable[[wire.Event], None]


@dataclass
class Capture:
    """What an execution gave so far, held to the policy's caps."""

    policy: ExecutionPolicy
    on_event: OnEvent | None
    streams: dict[str, list[str]] = field(default_factory=lambda: {"stdout": [], "stderr": []})
    sizes: dict[str, int] = field(default_factory=lambda: {"stdout": 0, "stderr": 0, "display": 0})
    cut: set[str] = field(default_factory=set)
    result: dict[str, Any] | None = None
    displays: list[dict[str, Any]] = field(default_factory=list)
    error: GuestError | None = None
    reply: wire.Reply | None = None
    failure: BaseException | None = None

    def __post_init__(self) -> None:
        decoder = codecs.getincrementaldecoder("utf-8")
        self._decoders = {"stdout": decoder("replace"), "stderr": decoder("replace")}

    def write(self, fd: int, data: bytes) -> None:
        """Bytes the guest wrote to stdout (1) or stderr (2)."""
        name = "stderr" if fd == 2 else "stdout"
        if name in self.cut:
            return
        limit = self.policy.stderr_max_bytes if fd == 2 else self.policy.stdout_max_bytes
        left = limit - self.sizes[name]
        text = self._decoders[name].decode(data)
        size = len(text.encode())  # what it is now: a byte that is no UTF-8 has become three
        if size > left:
            text = text.encode()[:left].decode("utf-8", "ignore")
        self.sizes[name] += size
        self._text(name, text)
        if size > left:
            how = f"{name}_max_bytes; in a notebook %session limits output=…"
            self._notice(name, f"{name} was cut after {limit} bytes ({how})")

    def _text(self, name: str, text: str) -> None:
        if text:
            self.streams[name].append(text)
            self.emit(wire.Stream(name, text))

    def _notice(self, what: str, text: str) -> None:
        if what not in self.cut:
            self.cut.add(what)
            stream = "stdout" if what == "stdout" else "stderr"
            self._text(stream, f"\n[wasm-kernel: {text}]\n")

    def take(self, event: wire.Event, size: int) -> bool:
        """An event the guest sent, of this many bytes; whether it was let through."""
        if self.sizes["display"] + size > self.policy.display_max_bytes:
            self.refuse()
            if "error" in self.cut or not isinstance(event, wire.ErrorRaised):
                return False
            self.cut.add("error")  # the error that ended the cell is worth a short word, once
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

    def refuse(self, why: str = "") -> None:
        """Something the guest sent is too much: for the policy, or for a reason given."""
        limit = self.policy.display_max_bytes
        how = "display_max_bytes; in a notebook %session limits display=…"
        self._notice("display", f"display data was dropped: {why or f'it would pass {limit} bytes ({how})'}")

    def emit(self, event: wire.Event) -> None:
        """Hand an event on. A callback that raises is not called again; `execute` raises for it at the end."""
        if self.on_event is not None:
            try:
                self.on_event(event)
            except BaseException as e:  # noqa: BLE001 - it belongs to the caller of execute
                self.failure, self.on_event = e, None

    def finish(self) -> None:
        """Show what an incomplete character left behind."""
        for name, decoder in self._decoders.items():
            self._text(name, decoder.decode(b"", final=True))

    def text(self, name: str) -> str:
        """All that was kept of a stream."""
        return "".join(self.streams[name])
