"""Functions of the program that runs this sandbox, as Python functions. What they do happens outside."""

import json

from . import door, wire

_VALUES = "None, bool, int, float, str, list or dict"


class HostTool:
    """Calls one of them; arguments and result are JSON-like values."""

    def __init__(self, name, doc):
        self.__name__ = self.__qualname__ = name
        self.__doc__ = doc

    def __repr__(self):
        return f"<function {self.__name__} of the program that runs this sandbox>"

    def __call__(self, *arguments, **named):
        call = {"tool": self.__name__, "arguments": arguments, "named": named}
        answer = door.send(wire.HostMagic("tool", json.dumps(call, default=_refuse)))
        kind, rest = answer[:1], answer[1:]
        if kind == wire.ANSWER_TEXT:
            return json.loads(rest)
        if kind == wire.ANSWER_INTERRUPTED:
            raise KeyboardInterrupt
        if kind == wire.ANSWER_ERROR:
            raise RuntimeError(rest.decode("utf-8", "replace"))
        raise RuntimeError(f"{self.__name__} can be called only while a cell runs, and by a program that offers it")


def _refuse(value):
    raise TypeError(f"a tool takes {_VALUES}; this is {type(value).__name__}")


def offer(shell, tools):
    """Give cells the functions that they have not; what somebody else put there under their names stays."""
    for tool in tools:
        name = tool["name"]
        if shell.user_ns.get(name) is None or type(shell.user_ns[name]) is HostTool:
            shell.user_ns[name] = shell.user_ns_hidden[name] = HostTool(name, tool["doc"])
