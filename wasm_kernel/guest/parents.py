"""Which request output belongs to: that of the cell which started the asyncio task that prints, as in ipykernel.

Each request is kept in a context variable, and a task has a copy of the context it was started in. So the event loop
only has to say, before it lets a task go on, whose output follows; what prints pays nothing.
"""

import contextvars
from asyncio import base_events, events
from datetime import datetime

from . import door, wire

_NOTHING = {"header": {"msg_id": ""}, "msg_id": "", "msg_type": "", "parent_header": {}, "metadata": {}, "content": {}}
_request = contextvars.ContextVar("request", default=_NOTHING)
_CONTENT = ("code", "silent", "store_history", "user_expressions", "allow_stdin")
control = _NOTHING
idents = {"shell": [], "control": []}
_told = ""  # the request that the host takes for the present one; None: no request of its own


def begin(request):
    """A turn begins. A request of a front end's becomes the one that output belongs to."""
    global control, _told
    about = request.get("parent")
    if about is None:
        _told = None
        return
    idents["shell"] = [part.encode("latin-1") for part in about.get("ident", ())]
    _told = enter(request)["msg_id"]
    if "control" in about:
        control = _message(about["control"])
        idents["control"] = [part.encode("latin-1") for part in about["control"].get("ident", ())]


def enter(request):
    """Make a request of a front end's the one that output belongs to in this context."""
    message = _message(request["parent"])
    message["content"] = request.get("content") or {name: request[name] for name in _CONTENT if name in request}
    _request.set(message)
    return message


def _message(about):
    header = dict(about["header"])
    try:
        header["date"] = datetime.fromisoformat(header["date"])
    except (KeyError, TypeError, ValueError):
        pass
    rest = {"parent_header": {}, "metadata": about.get("metadata") or {}, "content": {}, "buffers": []}
    return {"header": header, "msg_id": header["msg_id"], "msg_type": header.get("msg_type", ""), **rest}


def current():
    """The request that output belongs to here."""
    return _request.get()


def use(message):
    """Let output belong to another request, in this context; for `reset`."""
    token = _request.set(message)
    tell(message)
    return token


def reset(token):
    """Undo `use`."""
    _request.reset(token)
    tell(_request.get())


def tell(message):
    """What follows belongs to this request."""
    global _told
    header = message.get("header") if isinstance(message, dict) else None
    name = header.get("msg_id") if isinstance(header, dict) else None
    if name != _told and name and isinstance(name, str):
        door.send(wire.Parent(name))
        _told = name


def follow_tasks():
    """Let the event loop say whose output follows, before each step of a task and when it stops."""
    step, forever = events.Handle._run, base_events.BaseEventLoop.run_forever

    def _run(self):
        message = self._context.get(_request, _NOTHING)
        if message["msg_id"] != _told:
            tell(message)
        return step(self)

    def run_forever(self):
        try:
            return forever(self)
        finally:
            tell(_request.get())

    events.Handle._run = _run
    base_events.BaseEventLoop.run_forever = run_forever
