"""The guest's output on its way to the front ends. Called on the sandbox's thread."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from wasm_kernel.guest import wire
from wasm_kernel.kernel.open_comms import OpenComms
from wasm_kernel.kernel.seal import terminal
from wasm_kernel.kernel.streams import Later, StreamBuffer

if TYPE_CHECKING:
    from wasm_kernel.kernel.host_comms import HostComms
    from wasm_kernel.kernel.seal.sealed_messages import Seal

Message = dict[str, Any]
PRIVATE = "wasm_kernel_private"  # in the metadata of outputs for the person, which the guest must not see
_MESSAGE_TYPES = {
    wire.DisplayData: "display_data",
    wire.UpdateDisplay: "update_display_data",
    wire.ExecuteResult: "execute_result",
}


class Outputs:
    """Turns events into messages, in order, collecting text for a moment.

    Attributes:
        comms: The guest's open comms.
        host_comms: The host's own, once it has widgets.
        trusted: Whether the guest's outputs are shown unsealed.
        is_panels: Whether a comm message is one of the side panel's.
    """

    def __init__(self, publish: Callable[..., None], later: Later) -> None:
        self._publish = publish
        self._text = StreamBuffer(self._send_text, later)
        self.comms = OpenComms()
        self._refused_in: Message | None = None  # the request that already reported a comm that was not opened
        self.host_comms: HostComms | None = None
        self.trusted = False
        self.is_panels: Callable[[Message], bool] = lambda content: False
        self._streams = {name: terminal.StreamFilter() for name in ("stdout", "stderr")}
        self._seal: Seal | None = None

    @property
    def seal(self) -> Seal:
        """Makes outputs harmless; imported with the first output that is not plain text."""
        if self._seal is None:
            from wasm_kernel.kernel.seal.sealed_messages import Seal

            self._seal = Seal()
        return self._seal

    def forget_guest(self) -> None:
        """The guest starts afresh: its widgets are gone."""
        self.comms.clear()
        if self._seal is not None:
            self._seal.forget()

    def show(self, event: wire.Event, parent: Message, *, number: int, silent: bool = False) -> None:
        """An event of a request: of a cell with a number, or of something else."""
        if not isinstance(event, wire.Stream):
            self._text.flush()
        if isinstance(event, wire.Comm):
            self._show_comm(event, parent, silent=silent)
        elif silent:
            return
        elif isinstance(event, wire.Stream):
            text = event.text if self.trusted else self._streams[event.name].write(event.text)
            if text:
                self._text.write(parent, event.name, text)
        elif isinstance(event, wire.ClearOutput):
            self._publish(parent, "clear_output", {"wait": event.wait})
        elif isinstance(event, wire.ErrorRaised):
            content = {"ename": event.ename, "evalue": event.evalue, "traceback": event.traceback}
            self._publish(parent, "error", content if self.trusted else terminal.defused_error(content))
        elif isinstance(event, wire.DisplayData | wire.UpdateDisplay | wire.ExecuteResult):
            shown: Message = {"data": event.data, "metadata": event.metadata}
            if not self.trusted:
                shown = {"data": self.seal.bundle(event.data), "metadata": self.seal.metadata(event.metadata)}
            if isinstance(event, wire.ExecuteResult):
                shown["execution_count"] = number
            else:
                shown["transient"] = event.transient if self.trusted else self.seal.transient(event.transient)
            self._publish(parent, _MESSAGE_TYPES[type(event)], shown)

    def _show_comm(self, event: wire.Comm, parent: Message, *, silent: bool) -> None:
        if self.host_comms is not None and self.host_comms.owns({"content": event.content}):
            return  # the guest must not speak for the host's widgets
        if self.is_panels(event.content):
            return  # nor on the side panel's comm
        refusal = self.comms.note(event.action, event.content)
        if refusal:
            self._say_refused(parent, refusal, silent=silent)
            return
        sealed = event if self.trusted else self.seal.comm(event)
        if sealed is None:
            if event.action == "comm_open":  # no front end has it
                self.comms.note("comm_close", event.content)
            return
        if self.host_comms is not None:
            sealed = _with_host_widgets(sealed, self.host_comms)
        self._publish(parent, sealed.action, sealed.content, sealed.metadata, list(sealed.buffers))

    def note_front_end(self, action: str, content: Message) -> None:
        """A front end has opened or closed a comm, or sent a message on one."""
        self.comms.note(action, content)
        if action == "comm_open" and not self.trusted:
            self.seal.opened_by_front_end(content)

    def flush(self) -> None:
        """Send the collected text, before anything else is sent."""
        self._text.flush()

    def _say_refused(self, parent: Message, refusal: str, *, silent: bool) -> None:
        """Report it once per request: the guest may try again and again."""
        if not silent and self._refused_in != parent:
            self._refused_in = parent
            self._send_text(parent, "stderr", f"\n[wasm-kernel: a widget's comm was not opened: {refusal}]\n")

    def _send_text(self, parent: Message, name: str, text: str) -> None:
        self._publish(parent, "stream", {"name": name, "text": text})


def _with_host_widgets(event: wire.Comm, host: HostComms) -> wire.Comm:
    """A reloaded page asks the guest for all widgets: add the host's to the answer."""
    data = event.content.get("data")
    if event.action != "comm_msg" or not isinstance(data, dict) or data.get("method") != "update_states":
        return event
    states, paths, buffers = host.states()
    theirs, their_paths = data.get("states"), data.get("buffer_paths")
    merged = {
        **data,
        "states": {**(theirs if isinstance(theirs, dict) else {}), **states},
        "buffer_paths": [*(their_paths if isinstance(their_paths, list) else []), *paths],
    }
    return wire.Comm(
        event.action,
        {**event.content, "data": merged},
        event.metadata,
        (*event.buffers, *(bytes(b) for b in buffers)),
    )
