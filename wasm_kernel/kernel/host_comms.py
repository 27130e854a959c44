"""Widgets made by the host itself, next to those of the guest: their comms, and whom a message is for.

A comm belongs to the host if the host's comm manager knows its id. Everything else is the guest's. Messages for the
host's are handled at once, on the main thread, even while a cell runs.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import comm
from comm.base_comm import BaseComm, CommManager

Message = dict[str, Any]


class HostComms:
    """The host's comms; created with the host's first widget."""

    def __init__(self, publish: Callable[..., None]) -> None:
        """``publish``: sends a message as part of the request that is being answered."""
        self._manager = manager = CommManager()
        self.quiet = False  # while it is set, no front end is told of new widgets: they ask

        class HostComm(BaseComm):
            """A comm whose messages go straight to the front ends."""

            def publish_msg(
                self, msg_type: str, data: Any = None, metadata: Any = None, buffers: Any = None, **keys: Any
            ) -> None:
                content = {"data": data or {}, "comm_id": self.comm_id, **keys}
                packed = [memoryview(b).cast("B") for b in buffers or ()]
                if not host.quiet:
                    publish(msg_type, content, metadata, packed)

        host = self
        comm.create_comm = HostComm
        comm.get_comm_manager = lambda: manager

    def owns(self, message: Message) -> bool:
        """Whether a comm message is for the host."""
        return message["content"].get("comm_id") in self._manager.comms

    def receive(self, action: str, message: Message) -> None:
        """A message from a front end."""
        getattr(self._manager, action)(None, None, message)

    def known(self) -> dict[str, str]:
        """Open comms: id to target."""
        return {key: item.target_name for key, item in self._manager.comms.items()}

    def states(self) -> tuple[dict[str, Any], list[list[Any]], list[Any]]:
        """All the host's widgets, for a page that was reloaded: states, buffer paths, buffers."""
        from ipywidgets.widgets.widget import _instances, _remove_buffers

        states, paths, buffers = {}, [], []
        for key, widget in list(_instances.items()):
            if key in self._manager.comms:
                state = {
                    "model_name": widget._model_name,
                    "model_module": widget._model_module,
                    "model_module_version": widget._model_module_version,
                    "state": widget.get_state(),
                }
                bare, own_paths, own_buffers = _remove_buffers(state)
                states[key] = bare
                paths += [[key, *path] for path in own_paths]
                buffers += own_buffers
        return states, paths, buffers
