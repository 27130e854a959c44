"""Comms made by user code (ipywidgets), over the wire."""

import comm
from comm.base_comm import BaseComm, CommManager

from . import door, wire


class GuestComm(BaseComm):
    """A comm whose messages go to the host."""

    def publish_msg(self, msg_type, data=None, metadata=None, buffers=None, **keys):
        content = {"data": data or {}, "comm_id": self.comm_id, **keys}
        packed = tuple(bytes(memoryview(b).cast("B")) for b in buffers or ())
        door.send(wire.Comm(msg_type, content, metadata or {}, packed))


manager = CommManager()


def install():
    """Make every comm a `GuestComm`."""
    comm.create_comm = lambda *args, **kwargs: GuestComm(*args, **kwargs)
    comm.get_comm_manager = lambda: manager


def receive(action, content, metadata, buffers):
    """A comm message from the front end. An unknown comm_id is ignored, as ipykernel does."""
    message = {"header": {}, "content": content, "metadata": metadata, "buffers": [memoryview(b) for b in buffers]}
    if action == "comm_msg" and content.get("comm_id") not in manager.comms:
        return
    getattr(manager, action)(None, None, message)


def known(target=None):
    """Open comms by id."""
    return {
        key: {"target_name": item.target_name}
        for key, item in manager.comms.items()
        if target is None or item.target_name == target
    }
