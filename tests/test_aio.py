"""Sessions on an event loop: what they run, save, undo and fork, many at once."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import threading
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import anyio
import pytest

from wasm_kernel import ConfigurationError, ExecutionPolicy, SandboxClosed, SessionLocked, Stream, aio

Body = Callable[[aio.AsyncSession], Awaitable[None]]


@pytest.fixture
def in_session(tmp_path: Path) -> Callable[[Body], None]:
    """Run a coroutine function in a new session."""

    def run(body: Body) -> None:
        async def main() -> None:
            async with await aio.create_session("one", tmp_path) as session:
                await body(session)

        asyncio.run(main())

    return run


async def value(session: aio.AsyncSession, code: str) -> str:
    """The last expression's text."""
    result = await session.execute(code)
    assert result.success and result.result is not None, result
    text: str = result.result["text/plain"]
    return text


def test_events_come_while_the_code_runs(in_session: Callable[[Body], None]) -> None:
    async def body(session: aio.AsyncSession) -> None:
        execution = session.execute("print('first')\ninput('?')\nprint('last')", on_input=lambda request: seen.pop())
        seen = ["given"]
        texts = [event.text async for event in execution if isinstance(event, Stream)]
        assert "".join(texts) == "first\nlast\n"
        assert not seen
        assert (await execution).success
        assert [event async for event in execution] == []  # each comes once

    in_session(body)


def test_what_was_cancelled_is_interrupted_and_the_session_goes_on(in_session: Callable[[Body], None]) -> None:
    async def body(session: aio.AsyncSession) -> None:
        await session.execute("x = 1")
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(session.execute("x = 2\nwhile True: pass"), 1)
        assert await value(session, "x") == "2"

    in_session(body)


def test_what_waits_for_its_turn_is_cancelled_alone(tmp_path: Path) -> None:
    """Nothing happens to what runs, and what was cancelled never does."""

    async def main() -> None:
        async with await aio.create_session("one", tmp_path) as session:
            code = "import os, time\nopen('runs', 'w').close()\nwhile not os.path.exists('go'): time.sleep(0.01)\nran = [1]"
            first, second = session.execute(code), session.execute("ran.append(2)")
            waits = asyncio.ensure_future(second._result())
            while not (session.workspace / "runs").exists():
                await asyncio.sleep(0.01)
            waits.cancel()
            with pytest.raises(asyncio.CancelledError):
                await waits
            (session.workspace / "go").touch()
            assert (await first).success
            assert await value(session, "ran") == "[1]"

    asyncio.run(main())


@pytest.mark.parametrize("pause", [0, 0.001, 0.01, 0.05])
def test_what_was_begun_is_finished_also_if_nobody_waits(
    in_session: Callable[[Body], None], pause: float, caplog: pytest.LogCaptureFixture
) -> None:
    """Nothing stays half done, or locked, and the next one is not in its way."""

    async def body(session: aio.AsyncSession) -> None:
        await session.execute("x = 1")
        await session.snapshot("one")
        for begin in (lambda: session.snapshot("two"), lambda: session.restore("one"), session.undo, session.reset):
            await session.execute("x = 2")
            waits = asyncio.ensure_future(begin())
            await asyncio.sleep(pause)
            waits.cancel()
            await asyncio.wait([waits])
            await session.restore("one")
            assert await value(session, "x") == "1"

    in_session(body)
    assert caplog.records == []


def test_after_the_end_there_is_nothing(tmp_path: Path) -> None:
    async def main() -> None:
        session = await aio.create_session("one", tmp_path)
        await session.execute("x = 1")
        await session.close()
        for begin in (session.snapshot, session.undo, session.redo, session.reset, session.fork):
            with pytest.raises(SandboxClosed, match="open it again"):
                await begin()
        assert await session.files() == []

    asyncio.run(main())


def test_code_that_wants_a_line_is_answered_even_if_nobody_can(in_session: Callable[[Body], None]) -> None:
    async def body(session: aio.AsyncSession) -> None:
        def broken(request: object) -> str:
            raise RuntimeError("no terminal")

        result = await asyncio.wait_for(session.execute("input('?')", on_input=broken), 60)
        assert not result.success

    in_session(body)


@pytest.mark.parametrize("code", ["input('?')", "ask()"])
def test_questions_that_wait_hold_up_no_other_session(tmp_path: Path, code: str) -> None:
    """An event loop has few threads for all that blocks; here it has one."""
    asked, released = threading.Event(), threading.Event()

    def ask(*request: Any) -> str:
        asked.set()
        released.wait(60)
        return "answer"

    async def main() -> None:
        asyncio.get_running_loop().set_default_executor(ThreadPoolExecutor(1))
        one, other = [await aio.create_session(name, tmp_path, tools={"ask": ask}) for name in ("one", "other")]
        waits = one.execute(code, on_input=ask)
        try:
            while not asked.is_set():
                await asyncio.sleep(0.02)
            assert await asyncio.wait_for(value(other, "6 * 7"), 30) == "42"
            assert await asyncio.wait_for(other.files(), 30) == []
        finally:
            released.set()
        assert (await waits).result == {"text/plain": "'answer'"}
        await asyncio.gather(one.close(), other.close())

    asyncio.run(main())


def test_calls_of_tools_are_counted_for_each_fork(tmp_path: Path) -> None:
    """A fork that runs code does not begin another's count anew."""
    halfway, go_on = threading.Event(), threading.Event()

    def note(number: int) -> int:
        if number == 90:
            halfway.set()
            go_on.wait(60)
        return number

    async def main() -> None:
        session = await aio.create_session("one", tmp_path, tools={"note": note})
        fork = await session.fork(name="other")
        running = session.execute("for n in range(180): note(n)")
        while not halfway.is_set():
            await asyncio.sleep(0.02)
        assert (await fork.execute("note(1)")).success
        go_on.set()
        error = (await running).error
        assert error is not None and "called 100 times" in error.value
        await asyncio.gather(session.close(), fork.close())

    asyncio.run(main())


def test_an_opening_that_is_cancelled_leaves_the_session_to_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun, really_open = threading.Event(), aio._open

    def slowly(*args: Any) -> Any:
        begun.set()
        return really_open(*args)

    async def main() -> None:
        monkeypatch.setattr(aio, "_open", slowly)
        opening = asyncio.ensure_future(aio.open_session("one", tmp_path))
        while not begun.is_set():
            await asyncio.sleep(0)
        opening.cancel()
        with pytest.raises(asyncio.CancelledError):
            await opening
        async with await aio.open_session("one", tmp_path) as session:
            assert await value(session, "1") == "1"

    asyncio.run(main())


def test_an_opening_within_a_scope_of_anyio_leaves_the_session_to_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Web servers' handlers are in such scopes, which cancel again and again whatever is awaited in them."""
    opens, closed = threading.Event(), threading.Event()
    real = aio._open

    def slowly(*args: Any) -> Any:
        assert opens.wait(60)
        opened = real(*args)
        close = opened.live.close
        monkeypatch.setattr(opened.live, "close", lambda: (close(), closed.set()))
        return opened

    async def main() -> None:
        monkeypatch.setattr(aio, "_open", slowly)
        with anyio.move_on_after(0.05):
            await aio.open_session("one", tmp_path)
        opens.set()
        assert await asyncio.to_thread(closed.wait, 60)
        async with await aio.open_session("one", tmp_path) as session:
            assert (await session.execute("1")).success

    asyncio.run(main())


def test_a_closing_that_is_cancelled_closes_all_the_same(tmp_path: Path) -> None:
    async def main() -> None:
        session = await aio.create_session("one", tmp_path)
        running = session.execute("while True: pass")
        await asyncio.sleep(0)
        closing = asyncio.ensure_future(session.close())
        await asyncio.sleep(0)
        closing.cancel()
        assert not (await running).success
        await session.close()
        await (await aio.open_session("one", tmp_path)).close()

    asyncio.run(main())


def test_what_waits_for_its_turn_does_not_run_after_the_end(tmp_path: Path) -> None:
    async def main() -> None:
        session = await aio.create_session("one", tmp_path)
        first, second = session.execute("while True: pass"), session.execute("while True: pass")
        await asyncio.sleep(0.5)
        await asyncio.wait_for(session.close(), 60)
        assert not (await first).success
        with pytest.raises(SandboxClosed, match="closed before this ran"):
            await second

    asyncio.run(main())


def test_executions_wait_for_each_other(in_session: Callable[[Body], None]) -> None:
    async def body(session: aio.AsyncSession) -> None:
        await session.execute("seen = []")
        await asyncio.gather(*(session.execute(f"seen.append({n})") for n in range(20)))
        assert await value(session, "seen") == str(list(range(20)))

    in_session(body)


def test_undo_redo_restore_and_compare(in_session: Callable[[Body], None]) -> None:
    async def body(session: aio.AsyncSession) -> None:
        await session.execute("x = 1")
        await session.snapshot("start")
        await session.execute("x = 2; open('made.txt', 'w').write('a')")
        assert await session.compare("start") == {
            "variables": {"added": [], "removed": [], "changed": ["x"]},
            "files": {"added": ["made.txt"], "removed": [], "changed": []},
        }
        await session.undo()
        assert (await value(session, "x"), await session.files()) == ("1", [])
        await session.undo()  # the one that looked
        await session.redo()
        await session.execute("x = 3")
        await session.restore("start")
        assert await value(session, "x") == "1"
        with pytest.raises(ConfigurationError, match="no snapshot 'nothing'"):
            await session.restore("nothing")

    in_session(body)


def test_forks_go_their_own_ways(in_session: Callable[[Body], None]) -> None:
    async def body(session: aio.AsyncSession) -> None:
        await session.execute("x = 1; open('shared.txt', 'w').write('a')")
        forks = await asyncio.gather(*(session.fork(name=f"way-{n}") for n in range(3)))
        await asyncio.gather(*(fork.execute(f"x = 10 + {n}") for n, fork in enumerate(forks)))
        assert [await value(one, "x") for one in (session, *forks)] == ["1", "10", "11", "12"]
        assert [str(f) for f in await forks[0].files()] == ["shared.txt"]
        with pytest.raises(ConfigurationError, match="there is a session way-0 already"):
            await session.fork(name="way-0")
        await asyncio.gather(*(fork.close() for fork in forks))

    in_session(body)


def test_files_within_the_limits(tmp_path: Path) -> None:
    async def main() -> None:
        policy = ExecutionPolicy(workspace_bytes=1 << 20)
        async with await aio.create_session("one", tmp_path, policy) as session:
            assert await session.write_file("data/a.csv", b"a,b\n") == 4
            assert await value(session, "open('data/a.csv').read()") == r"'a,b\n'"
            assert await session.read_file("data/a.csv", 1) == b"a"
            with pytest.raises(ConfigurationError, match=r"large.bin would have 2\.0 MB"):
                await session.write_file("large.bin", bytes(2 << 20))

    asyncio.run(main())


def test_it_is_opened_again_where_it_was_left(tmp_path: Path) -> None:
    async def main() -> None:
        session = await aio.open_session("task", tmp_path)
        with pytest.raises(SessionLocked):
            await aio.open_session("task", tmp_path)
        await session.execute("x = 42")
        await session.close()
        await session.close()
        with pytest.raises(SandboxClosed, match="open it again"):
            session.execute("1")
        with pytest.raises(ConfigurationError, match="there is a session task already"):
            await aio.create_session("task", tmp_path)
        async with await aio.open_session("task", tmp_path) as again:
            assert await value(again, "x") == "42"

    asyncio.run(main())


def test_a_kill_loses_nothing_that_was_answered(tmp_path: Path) -> None:
    program = f"""
import asyncio, os, signal
from wasm_kernel import aio
async def main():
    session = await aio.open_session("killed", {str(tmp_path)!r})
    for n in range(5):
        await session.execute(f"x = {{n}}")
    os.kill(os.getpid(), signal.SIGKILL)
asyncio.run(main())
"""
    ended = subprocess.run([sys.executable, "-c", program], timeout=120, check=False)
    assert ended.returncode == -9

    async def look() -> str:
        async with await aio.open_session("killed", tmp_path) as session:
            return await value(session, "x")

    assert asyncio.run(look()) == "4"


def test_twenty_sessions_at_once(tmp_path: Path) -> None:
    async def main() -> list[str]:
        sessions = await asyncio.gather(*(aio.create_session(f"s{n}", tmp_path) for n in range(20)))
        found = await asyncio.gather(*(value(one, f"{n} * {n}") for n, one in enumerate(sessions)))
        await asyncio.gather(*(one.close() for one in sessions))
        return list(found)

    assert asyncio.run(main()) == [str(n * n) for n in range(20)]
