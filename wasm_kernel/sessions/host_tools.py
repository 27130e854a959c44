"""Functions of the program that embeds a sandbox, for the code in it to call: `create_sandbox(tools={...})`.

The guest sees Python functions of these names. A call crosses as JSON both ways: what the guest sends is checked
against the function's own signature and annotations before the function sees it, and what it returns is checked, too.
Size, number and time of calls are bounded. A guest learns of an error only what the function says by `ToolError`.
"""

from __future__ import annotations

import copy
import functools
import inspect
import json
import keyword
import logging
import threading
import types
import typing
from collections.abc import Callable, Collection, Mapping
from concurrent.futures import Future, wait
from typing import Any, Literal, Union

from wasm_kernel.errors import ConfigurationError, ToolError
from wasm_kernel.guest import wire

Tool = Callable[..., Any]

MOST_CALLS = 100  # by one execution
MOST_SECONDS = 30.0  # for one call
MOST_UNFINISHED = 8  # calls that nobody waits for any more, and that go on: each has a thread
MOST_BYTES = 1 << 20  # of JSON: of a call, and of an answer
_MOST_DEPTH = 50
_TAKEN = ("In", "Out", "exit", "quit", "open", "get_ipython")  # in every cell's namespace from the beginning
_REQUEST = "tool"  # the magic's name: no magic of the host's is called so

_log = logging.getLogger(__name__)


class HostTools:
    """The tools of one sandbox. `begin` before each execution; `answer` on any thread."""

    def __init__(self, functions: Mapping[str, Tool]) -> None:
        self._tools = {name: _Checked(name, function) for name, function in functions.items()}
        self._calls = 0
        self._unfinished: list[Future[bytes]] = []

    @classmethod
    def of(cls, functions: Mapping[str, Tool] | None) -> HostTools | None:
        """Those that a caller gave; None if there are none."""
        return cls(functions) if functions else None

    def for_another(self) -> HostTools:
        """The same tools for another sandbox, whose calls are counted by themselves."""
        other = copy.copy(self)
        other._calls, other._unfinished = 0, []
        return other

    def begin(self) -> list[dict[str, str]]:
        """An execution begins: what the guest is told of the tools."""
        self._calls = 0
        return [{"name": name, "doc": tool.doc} for name, tool in self._tools.items()]

    def answer(self, request: wire.HostMagic) -> bytes:
        """Carry out a call of the guest's, or say why not. Never raises."""
        if request.name != _REQUEST:
            return wire.ANSWER_REFUSED
        try:
            self._calls += 1
            if self._calls > MOST_CALLS:
                raise ToolError(f"tools were called {MOST_CALLS} times, which is all that one execution may do")
            name, arguments, named = _call(request.line)
            tool = self._tools.get(name)
            if tool is None:
                raise ToolError(f"there is no tool {name[:100]!r}; there are {', '.join(self._tools)}")
            return wire.ANSWER_TEXT + self._in_time(name, lambda: tool(arguments, named))
        except ToolError as e:
            return wire.ANSWER_ERROR + str(e).encode("utf-8", "replace")[:MOST_BYTES]

    def _in_time(self, name: str, work: Callable[[], bytes]) -> bytes:
        """What work returns, if it does so in time. A function that does not end is left behind on its thread."""
        self._unfinished = [call for call in self._unfinished if not call.done()]
        if len(self._unfinished) >= MOST_UNFINISHED:
            raise ToolError(f"{MOST_UNFINISHED} calls of tools have not ended yet; {name} can be called when one has")
        answer: Future[bytes] = Future()
        self._unfinished.append(answer)

        def run() -> None:
            try:
                answer.set_result(work())
            except BaseException as e:  # noqa: BLE001  as a Future has it
                answer.set_exception(e)

        threading.Thread(target=run, name=f"wasm-kernel-tool-{name}", daemon=True).start()
        if not wait([answer], MOST_SECONDS).done:
            raise ToolError(f"{name} did not answer within {MOST_SECONDS:g} s")
        failed = answer.exception()
        if failed is None or isinstance(failed, ToolError):
            return answer.result()
        _log.error("the tool %s failed", name, exc_info=failed)  # its text may tell of the host, so it stays here
        raise ToolError(f"{name} failed: {type(failed).__name__}; the program's log has more")


def _call(line: str) -> tuple[str, list[Any], dict[str, Any]]:
    """Name and arguments of a call, as far as the guest's bytes are one."""
    if len(line) > MOST_BYTES:
        raise ToolError(f"the arguments are {len(line):,} characters of JSON; a tool takes {MOST_BYTES:,}")
    try:
        found = json.loads(line)
    except (ValueError, RecursionError):
        raise ToolError("the call is not JSON") from None
    if wire.nested_deeper_than(found, _MOST_DEPTH):
        raise ToolError(f"the arguments are nested deeper than {_MOST_DEPTH}")
    match wire.without_surrogates(found):
        case {"tool": str(name), "arguments": list(arguments), "named": dict(named), **rest} if not rest:
            return name, arguments, named
    raise ToolError("the call is not one of a tool")


class _Checked:
    """A function whose arguments and result are checked against its annotations."""

    def __init__(self, name: str, function: Tool) -> None:
        if name in _TAKEN:
            raise ConfigurationError(f"a tool is called {name!r}, which is a name of IPython's; give it another one")
        if not isinstance(name, str) or not name.isidentifier() or keyword.iskeyword(name) or name.startswith("_"):
            raise ConfigurationError(
                f"a tool is called {name!r}; its name must be a Python name, without _ at its begin"
            )
        if not callable(function) or inspect.iscoroutinefunction(function):
            raise ConfigurationError(f"tool {name} is {function!r}; it must be an ordinary function")
        # What partial() has filled in, such as a key, is the program's: the guest neither sees nor gives it.
        self._filled, described = frozenset[str](), function
        if isinstance(function, functools.partial):
            self._filled, described = frozenset(function.keywords), function.func
        try:
            self._signature = _offered(function, self._filled)
            routine = inspect.isroutine(function)  # others are objects with __call__, and partial()
            hints = typing.get_type_hints(function) if routine else _annotations(self._signature)
        except (TypeError, ValueError, NameError) as e:
            raise ConfigurationError(f"tool {name}: its parameters cannot be read ({e}); wrap it in a def") from None
        self._name, self._function, self._hints = name, function, hints
        for parameter, hint in hints.items():
            _check_hint(f"tool {name}: {parameter}", hint)
        self.doc = f"{name}{self._signature}\n\n{inspect.getdoc(described) or ''}".rstrip()

    def __call__(self, arguments: list[Any], named: dict[str, Any]) -> bytes:
        for name in self._filled & named.keys():
            raise ToolError(f"{self._name}: got an unexpected keyword argument {name!r}")
        try:
            bound = self._signature.bind(*arguments, **named)
        except TypeError as e:
            raise ToolError(f"{self._name}: {e}") from None
        for name, value in bound.arguments.items():
            kind, hint = self._signature.parameters[name].kind, self._hints.get(name, Any)
            values = [value]
            if kind in (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD):
                values = list(value.values()) if isinstance(value, dict) else list(value)
            if not all(_is(one, hint) for one in values):
                raise ToolError(f"{self._name}: {name} is {type(value).__name__}; it must be {_text(hint)}")
        result = self._function(*bound.args, **bound.kwargs)
        try:
            told = json.dumps(_plain(result), ensure_ascii=False).encode("utf-8", "replace")
        except (TypeError, RecursionError) as e:
            raise ToolError(f"{self._name} returned what is not JSON: {e}") from None
        if not _is(result, self._hints.get("return", Any)):
            promised = _text(self._hints["return"])
            raise ToolError(f"{self._name} returned {type(result).__name__}; it is annotated to return {promised}")
        if len(told) > MOST_BYTES:
            raise ToolError(f"{self._name} returned {len(told):,} bytes of JSON; {MOST_BYTES:,} is the most")
        return told


def _plain(value: Any, depth: int = 0) -> Any:
    """A value of exactly JSON's kinds. `TypeError` for any other: objects do not cross, however they look."""
    if value is None or type(value) in (bool, int, float, str):
        return value
    if depth < _MOST_DEPTH:
        if type(value) in (list, tuple):
            return [_plain(item, depth + 1) for item in value]
        if type(value) is dict and all(type(key) is str for key in value):
            return {key: _plain(item, depth + 1) for key, item in value.items()}
    raise TypeError(f"{type(value).__name__} at depth {depth}")


def _offered(function: Tool, filled: Collection[str]) -> inspect.Signature:
    """A function's parameters, as far as the guest may know and give them."""
    signature = inspect.signature(function, eval_str=True)
    parameters = [
        one if one.default is one.empty or _is_plain(one.default) else one.replace(default=_HIDDEN)
        for name, one in signature.parameters.items()
        if name not in filled
    ]
    return signature.replace(parameters=parameters)


class _Hidden:
    """Stands for a default that is an object of the host's: how that prints is not for the guest."""

    def __repr__(self) -> str:
        return "..."


_HIDDEN = _Hidden()


def _is_plain(value: Any) -> bool:
    try:
        _plain(value)
    except TypeError:
        return False
    return True


def _annotations(signature: inspect.Signature) -> dict[str, Any]:
    """The annotations that there are, as `typing.get_type_hints` would give them."""
    found = {name: parameter.annotation for name, parameter in signature.parameters.items()}
    found["return"] = signature.return_annotation
    return {name: hint for name, hint in found.items() if hint is not signature.empty}


def _check_hint(where: str, hint: Any) -> None:
    """Refuse annotations that say nothing about JSON."""
    origin, inner = typing.get_origin(hint), typing.get_args(hint)
    if hint in (Any, None, type(None), bool, int, float, str, list, dict, tuple) or origin is Literal:
        return
    if origin in (Union, types.UnionType, list, tuple) or (origin is dict and inner[0] is str):
        for one in inner:
            if one is not Ellipsis:
                _check_hint(where, one)
        return
    kinds = "None, bool, int, float, str, list, dict[str, …], Literal, and unions of these"
    raise ConfigurationError(f"{where} is annotated {_text(hint)}; values of tools are {kinds}")


def _is(value: Any, hint: Any) -> bool:
    """Whether a JSON value is what an annotation says."""
    origin, inner = typing.get_origin(hint), typing.get_args(hint)
    if hint is Any:
        return True
    if origin is Literal:
        return any(type(value) is type(one) and value == one for one in inner)
    if origin in (Union, types.UnionType):
        return any(_is(value, one) for one in inner)
    if origin is tuple and Ellipsis not in inner:
        return isinstance(value, list | tuple) and len(value) == len(inner) and all(map(_is, value, inner))
    if origin in (list, tuple) or hint in (list, tuple):
        return isinstance(value, list | tuple) and all(_is(item, (inner or (Any,))[0]) for item in value)
    if origin is dict or hint is dict:
        return isinstance(value, dict) and all(_is(item, (inner or (str, Any))[1]) for item in value.values())
    if hint is None or hint is type(None):
        return value is None
    return type(value) is hint or (hint is float and type(value) is int)


def _text(hint: Any) -> str:
    return hint.__name__ if isinstance(hint, type) and not typing.get_args(hint) else str(hint).replace("typing.", "")
