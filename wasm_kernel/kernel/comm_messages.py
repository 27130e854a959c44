"""Widgets' messages: for the guest's widgets, or for the host's own."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from wasm_kernel.errors import SandboxError
from wasm_kernel.guest import wire
from wasm_kernel.host.runtime.output_buffer import Notice
from wasm_kernel.kernel.attribution import Attribution, Request
from wasm_kernel.kernel.captured_outputs import CapturedOutputs
from wasm_kernel.kernel.cell_run import known_to_guest
from wasm_kernel.kernel.outputs import Outputs
from wasm_kernel.sessions.runtime import SessionRuntime

if TYPE_CHECKING:
    from wasm_kernel.kernel.host_comms import HostComms
    from wasm_kernel.kernel.side_panel.panel_comm import SidePanel

Message = dict[str, Any]
PANEL = "wasm-kernel"  # the target that a front end's side panel opens


class CommMessages:
    """What front ends send on comms. On the kernel's loop."""

    def __init__(
        self,
        outputs: Outputs,
        attribution: Attribution,
        publish: Callable[..., None],
        make_panel: Callable[[], SidePanel],
    ) -> None:
        """``publish``: sends a message of the host's own, as part of the request that is being answered.

        ``make_panel``: the kernel's end of the side panel, made when the first front end opens one.
        """
        self._make_panel = make_panel
        self._panel: SidePanel | None = None
        self._outputs, self._attribution, self._publish = outputs, attribution, publish
        outputs.is_panels = self._is_panels
        self._captured = CapturedOutputs()

    def prepare_host(self) -> HostComms:
        """Make widgets created from now on the host's; imports what they need."""
        if self._outputs.host_comms is None:
            from wasm_kernel.kernel.host_comms import HostComms

            self._outputs.host_comms = HostComms(self._publish)
        return self._outputs.host_comms

    def is_for_host(self, message: Message) -> bool:
        """Whether a message is for one of the host's widgets, or for the side panel."""
        host, kind = self._outputs.host_comms, message["header"]["msg_type"]
        if not kind.startswith("comm_"):
            return False
        return self._is_for_panel(message) or (kind != "comm_open" and host is not None and host.owns(message))

    def _is_for_panel(self, message: Message) -> bool:
        if self._panel is None and message["content"].get("target_name") == PANEL:
            self._panel = self._make_panel()
        return self._is_panels(message["content"])

    def _is_panels(self, content: Message) -> bool:
        """Whether a message is on the side panel's comm, or would open one."""
        owned = self._panel is not None and self._panel.owns(content.get("comm_id"))
        return owned or content.get("target_name") == PANEL

    @property
    def has_panel(self) -> bool:
        """Whether a front end has a side panel open."""
        return self._panel is not None and self._panel.is_open

    def session_changed(self) -> None:
        """A cell has run, or the session is elsewhere: front ends that show it are told."""
        if self._panel is not None:
            self._panel.changed()

    def known(self, target: str | None) -> dict[str, Message]:
        """The open comms, of one target or all. The guest's are known because their messages pass through here."""
        host = self._outputs.host_comms
        known = {**self._outputs.comms.known(), **(host.known() if host is not None else {})}
        return {key: {"target_name": name} for key, name in known.items() if target in (None, name)}

    async def receive(self, action: str, parent: Message, runtime: SessionRuntime | None) -> None:
        """Handle a message; one for the guest waits until the running cell ends."""
        if self._is_for_panel(parent):
            assert self._panel is not None
            self._panel.receive(action, parent)
        elif self.is_for_host(parent):
            self.prepare_host().receive(action, parent)
        elif runtime is not None:  # else the page is older than this kernel: nothing here knows its widgets
            await self._receive_for_guest(action, parent, runtime)

    def for_guest(self, action: str, parent: Message) -> tuple[Message, tuple[bytes, ...]] | None:
        """A message as a request to the guest, and its buffers; None: it must not get it. Called once per message."""
        content = self._captured.for_guest(action, parent["content"])
        if content is None:
            return None
        self._outputs.note_front_end(action, content)
        request = {
            "op": "comm",
            "action": action,
            "content": content,
            "metadata": parent.get("metadata", {}),
            "parent": known_to_guest(parent),
        }
        return request, tuple(bytes(b) for b in parent.get("buffers", ()))

    async def _receive_for_guest(self, action: str, parent: Message, runtime: SessionRuntime) -> None:
        prepared = self.for_guest(action, parent)
        if prepared is None:
            return
        shown = self._attribution.of(Request(parent))

        def show(event: wire.Event) -> None:
            if isinstance(event, Notice):  # no front end shows output that belongs to a widget's message
                runtime.on_background_event(event)
            else:
                shown(event)

        runtime.background.stop()
        async with runtime.guest:
            with contextlib.suppress(SandboxError):
                await runtime.ask(*prepared, show)
        runtime.background.schedule()
