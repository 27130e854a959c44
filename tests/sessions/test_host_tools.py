"""Tools: functions of the embedding program that a guest may call, and all that it may not do with them."""

from __future__ import annotations

import functools
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal

import pytest

from wasm_kernel import BaseSandbox, ConfigurationError, ExecutionPolicy, OutcomeKind, ToolError, create_sandbox
from wasm_kernel.guest import wire
from wasm_kernel.sessions import host_tools

_released = threading.Event()


def search(query: str, limit: int = 2, *, order: Literal["up", "down"] = "up") -> list[str]:
    """Find things."""
    found = [f"{query} {n}" for n in range(limit)]
    return found if order == "up" else found[::-1]


def refuse(what: Any) -> None:
    """Say no."""
    raise ToolError(f"nothing is called {what}")


def broken() -> None:
    """Fail as programs do."""
    raise OSError("/secret/path: no such file")


def odd() -> object:
    """Return what does not cross."""
    return object()


def mistaken() -> int:
    """Return something else than promised."""
    return "three"  # type: ignore[return-value]


def leaky():  # type: ignore[no-untyped-def]
    """Return what does not cross, and promise nothing."""
    return [Path("secret")]


def large(size: int) -> str:
    """Return much."""
    return "x" * size


def slow() -> None:
    """Take for ever."""
    _released.wait(60)


def total(*numbers: float, **named: float) -> float:
    """Add numbers."""
    return sum(numbers) + sum(named.values())


TOOLS: dict[str, Callable[..., Any]] = {
    f.__name__: f for f in (search, refuse, broken, mistaken, leaky, large, slow, total)
}


@pytest.fixture(scope="module")
def sandbox(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """A sandbox with tools."""
    with create_sandbox(workspace=tmp_path_factory.mktemp("tools"), tools=TOOLS) as made:
        yield made
    _released.set()


def said(sandbox: BaseSandbox, code: str) -> str:
    """The value of the code, or its error."""
    result = sandbox.execute(code)
    if result.error is not None:
        return f"{result.error.name}: {result.error.value}"
    text: str = (result.result or {}).get("text/plain", "")
    return text


def test_a_call_reaches_the_function_and_its_result_the_guest(sandbox: BaseSandbox) -> None:
    assert said(sandbox, "search('a', order='down')") == "['a 1', 'a 0']"
    assert said(sandbox, "total(1, 2.5, more=3)") == "6.5"
    assert said(sandbox, "search.__doc__").startswith('"search(query: str, limit: int = 2')
    assert said(sandbox, "get_ipython().run_line_magic('who_ls', '')") == "[]"  # none of them is a variable


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        ("search(1)", "RuntimeError: search: query is int; it must be str"),
        ("search('a', True)", "RuntimeError: search: limit is bool; it must be int"),
        ("search('a', order='left')", "RuntimeError: search: order is str; it must be Literal['up', 'down']"),
        ("search()", "RuntimeError: search: missing a required argument: 'query'"),
        ("search('a', b=1)", "RuntimeError: search: got an unexpected keyword argument 'b'"),
        ("search(object())", "TypeError: a tool takes None, bool, int, float, str, list or dict; this is object"),
        ("total(1, 'a')", "RuntimeError: total: numbers is tuple; it must be float"),
        ("refuse('x')", "RuntimeError: nothing is called x"),
        ("mistaken()", "RuntimeError: mistaken returned str; it is annotated to return int"),
        ("leaky()", "RuntimeError: leaky returned what is not JSON: PosixPath at depth 1"),
        ("broken()", "RuntimeError: broken failed: OSError; the program's log has more"),
    ],
)
def test_what_does_not_fit_is_said(sandbox: BaseSandbox, code: str, expected: str) -> None:
    assert said(sandbox, code) == expected


def test_a_name_the_code_took_for_itself_stays_its_own(sandbox: BaseSandbox) -> None:
    assert said(sandbox, "search = 5") == ""
    assert said(sandbox, "search") == "5"
    assert said(sandbox, "del search") == ""
    assert said(sandbox, "search('b', 1)") == "['b 0']"


def test_sizes_are_bounded_both_ways(sandbox: BaseSandbox) -> None:
    most = host_tools.MOST_BYTES
    assert said(sandbox, f"len(large({most - 100}))") == str(most - 100)
    assert "bytes of JSON; 1,048,576 is the most" in said(sandbox, f"len(large({most}))")
    assert "characters of JSON; a tool takes 1,048,576" in said(sandbox, f"refuse('x' * {most})")
    assert "nested deeper than 50" in said(sandbox, "a = []\nfor _ in range(60): a = [a]\nrefuse(a)")


def test_calls_are_counted_per_execution(sandbox: BaseSandbox) -> None:
    found = said(sandbox, "for n in range(1000): total(n)")
    assert found == "RuntimeError: tools were called 100 times, which is all that one execution may do"
    assert said(sandbox, "n") == "100"
    assert said(sandbox, "total(1)") == "1"


def test_a_call_has_its_time(sandbox: BaseSandbox, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(host_tools, "MOST_SECONDS", 0.2)
    assert said(sandbox, "slow()") == "RuntimeError: slow did not answer within 0.2 s"


def test_calls_that_never_end_are_few(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(host_tools, "MOST_SECONDS", 0.01)
    monkeypatch.setattr(host_tools, "MOST_UNFINISHED", 3)
    released = threading.Event()
    before = threading.active_count()
    with create_sandbox(workspace=tmp_path, tools={"slow": lambda: released.wait(60), "total": total}) as made:
        found = [said(made, "slow()") for _ in range(5)]
        assert threading.active_count() <= before + 5  # three of them, and the sandbox's
        assert found[2] == "RuntimeError: slow did not answer within 0.01 s"
        assert found[3:] == ["RuntimeError: 3 calls of tools have not ended yet; slow can be called when one has"] * 2
        assert "3 calls of tools" in said(made, "total(1)")
        released.set()
        end = time.monotonic() + 60
        while "3 calls of tools" in said(made, "total(1)"):
            assert time.monotonic() < end


class _Doubled:
    """An object that can be called."""

    def __call__(self, number: int) -> int:
        return 2 * number


def numbered() -> dict[str, int]:
    """Return keys that JSON has not."""
    return {1: 2}  # type: ignore[dict-item]


def nested(depth: int) -> list:  # type: ignore[type-arg]
    """Return a list in a list in a list."""
    return [nested(depth - 1)] if depth else []


def same(value: str) -> str:
    """Return what was given, if it can be written."""
    value.encode()
    return value


def pair(both: tuple[int, str]) -> tuple[int, str]:
    """Give back a number and a text."""
    return both


@pytest.mark.parametrize(
    ("arguments", "tool", "expected"),
    [
        ("[3]", "search_one", b"Xsearch_one: query is int; it must be str"),
        ('["a"]', "search_one", b'T["a 0"]'),
        ('["a"]', "doubled", b"Xdoubled: number is str; it must be int"),
        ("[4]", "doubled", b"T8"),
        ('[[1, "a"]]', "pair", b'T[1, "a"]'),
        ('[["a", 1]]', "pair", b"Xpair: both is list; it must be tuple[int, str]"),
        ('[[1, "a", 2]]', "pair", b"Xpair: both is list; it must be tuple[int, str]"),
        ("[1e999]", "doubled", b"Xdoubled: number is float; it must be int"),
        ("[]", "numbered", b"Xnumbered returned what is not JSON: dict at depth 0"),
        ("[49]", "nested", b"T" + b"[" * 50 + b"]" * 50),
        ("[50]", "nested", b"Xnested returned what is not JSON: list at depth 50"),
        (r'["\ud800"]', "same", b'T"?"'),
        ("[" + "9" * 5000 + "]", "doubled", b"Xthe call is not JSON"),
    ],
)
def test_whatever_can_be_called_is_checked(arguments: str, tool: str, expected: bytes) -> None:
    made = {"doubled": _Doubled(), "search_one": functools.partial(search, limit=1)}
    made |= {function.__name__: function for function in (pair, numbered, nested, same)}
    answer = host_tools.HostTools(made).answer(
        wire.HostMagic("tool", f'{{"tool": "{tool}", "arguments": {arguments}, "named": {{}}}}')
    )
    assert answer == expected


def ask_by_name(query: str, where=Path("/secret/path")) -> str:  # type: ignore[no-untyped-def]
    """Ask one of several."""
    return f"{query} {where}"


def ask(query: str, where: Path, **options: str) -> list[str]:
    """Ask somebody."""
    return [query, str(where), options.get("key", "")]


def test_what_the_program_has_filled_in_is_its_own(tmp_path: Path) -> None:
    """A key by partial(): the guest neither reads nor replaces it. Nor does it read how the host's objects print."""
    asked, found = functools.partial(ask, where=Path("/secret/path"), key="s3cret"), functools.partial(search, limit=1)
    with create_sandbox(workspace=tmp_path, tools={"ask": asked, "ask_by_name": ask_by_name, "found": found}) as made:
        assert said(made, "ask('a')") == "['a', '/secret/path', 's3cret']"
        assert said(made, "ask('a', key='x')") == "RuntimeError: ask: got an unexpected keyword argument 'key'"
        assert said(made, "ask('a', where='x')") == "RuntimeError: ask: got an unexpected keyword argument 'where'"
        assert "secret" not in said(made, "ask.__doc__ + ask_by_name.__doc__ + str(vars(ask))")
        doc = made.execute("print(ask_by_name.__doc__); print(found.__doc__)").stdout
        assert "ask_by_name(query: str, where=...) -> str" in doc
        assert "found(query: str, *, order: Literal['up', 'down'] = 'up') -> list[str]\n\nFind things." in doc


def test_an_interrupt_or_a_time_limit_does_not_wait_for_a_tool(tmp_path: Path) -> None:
    released = threading.Event()
    policy = ExecutionPolicy(timeout_seconds=0.5)
    with create_sandbox(policy=policy, workspace=tmp_path, tools={"slow": lambda: released.wait(25)}) as made:
        began = time.monotonic()
        assert made.execute("slow()").outcome.kind is OutcomeKind.TIME_LIMIT
        threading.Timer(0.1, made.interrupt).start()
        assert made.execute("slow()").outcome.kind is OutcomeKind.INTERRUPTED
        assert time.monotonic() - began < 20
        released.set()


def test_between_executions_no_tool_is_called(sandbox: BaseSandbox) -> None:
    called: list[object] = []
    with create_sandbox(workspace=sandbox.workspace / "other", tools={"note": called.append}) as other:
        other.execute(
            "import asyncio\nasync def later():\n    await asyncio.sleep(0.01)\n    note(1)\n"
            "task = asyncio.ensure_future(later())"
        )
        time.sleep(0.05)
        other._sandbox.ask({"op": "pump", "seconds": 0.5})
        assert called == []
        assert "only while a cell runs" in said(other, "task.exception()")


@pytest.mark.parametrize(
    "line",
    [
        "",
        "[]",
        "5",
        "{",
        '{"tool": "search"}',
        '{"tool": 1, "arguments": [], "named": {}}',
        '{"tool": "search", "arguments": {}, "named": {}}',
        '{"tool": "search", "arguments": ["a"], "named": {}, "x": 1}',
        '{"tool": "__class__", "arguments": [], "named": {}}',
        "[" * 100_000,
        '{"tool": "\\ud800", "arguments": [], "named": {}}',
    ],
)
def test_forged_calls_are_refused(line: str) -> None:
    tools = host_tools.HostTools(TOOLS)
    tools.begin()
    assert tools.answer(wire.HostMagic("tool", line))[:1] == wire.ANSWER_ERROR


def test_other_magics_are_none_of_its_business() -> None:
    assert host_tools.HostTools(TOOLS).answer(wire.HostMagic("session", "delete --yes")) == wire.ANSWER_REFUSED


async def _later() -> None:
    """A coroutine function."""


@pytest.mark.parametrize(
    ("tools", "expected"),
    [
        ({"a b": search}, "a tool is called 'a b'"),
        ({"_hidden": search}, "a tool is called '_hidden'"),
        ({"class": search}, "a tool is called 'class'"),
        ({"open": search}, "a tool is called 'open', which is a name of IPython's"),
        ({"x": 5}, "tool x is 5; it must be an ordinary function"),
        ({"x": _later}, "it must be an ordinary function"),
        ({"odd": odd}, "tool odd: return is annotated object; values of tools are"),
    ],
)
def test_tools_that_cannot_work_are_refused_at_once(tools: dict[str, Any], expected: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match=expected):
        create_sandbox(workspace=tmp_path, tools=tools)
