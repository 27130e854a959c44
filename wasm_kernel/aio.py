"""Sessions for asyncio programs: many of them at once in one process, each one sealed and resumable.

>>> from wasm_kernel import aio
>>> async def main():
...     async with await aio.create_session() as session:
...         execution = session.execute("for i in range(3): print(i)")
...         async for event in execution:
...             print(event)
...         return (await execution).success

Every execution is logged before its result is there, as in a notebook: `AsyncSession.undo` takes it back, and a process
that is killed loses nothing that was answered. All of a session's methods are for the loop on which it was opened.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import threading
import uuid
from collections import deque
from collections.abc import AsyncIterator, Callable, Coroutine, Generator, Mapping
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Any, Self, TypeVar

from wasm_kernel.errors import ConfigurationError, SandboxClosed
from wasm_kernel.guest import wire
from wasm_kernel.model.differences import compare_files, compare_variables
from wasm_kernel.model.outcome import SandboxResult
from wasm_kernel.model.policy import ExecutionPolicy
from wasm_kernel.model.records import check_session_id
from wasm_kernel.model.snapshot_retention import CheckpointRules
from wasm_kernel.model.snapshots import Snapshot
from wasm_kernel.model.units import format_size
from wasm_kernel.sessions.catalog import prepared_root
from wasm_kernel.sessions.code_questions import CodeQuestions
from wasm_kernel.sessions.files import SessionFile, list_session_files, open_session_file, write_session_file
from wasm_kernel.sessions.guest_access import Execution, to_its_end
from wasm_kernel.sessions.host_tools import HostTools, Tool
from wasm_kernel.sessions.log import SandboxLogger
from wasm_kernel.sessions.opening import OpenedSession, resume
from wasm_kernel.sessions.runtime import SessionRuntime
from wasm_kernel.sessions.session_sandboxes import open_live
from wasm_kernel.sessions.snapshots import fork_snapshot
from wasm_kernel.sessions.timeline import Timeline

__all__ = ["AsyncExecution", "AsyncSession", "create_session", "open_session"]

T = TypeVar("T")
_log = logging.getLogger(__name__)
_unwanted: set[asyncio.Future[None]] = set()  # sessions that are closed as soon as they are open


class AsyncExecution:
    """Code that runs in a session: iterate over its events as they come, await its result, or both.

    It runs whether anybody looks or not. Cancelling who awaits the result interrupts the code.
    """

    def __init__(self, session: AsyncSession, code: str, on_input: Callable[[wire.InputRequest], str] | None) -> None:
        self._session, self._loop = session, asyncio.get_running_loop()
        self._events: deque[wire.Event] = deque()
        self._guard, self._told, self._news = threading.Lock(), False, asyncio.Event()
        self._has_turn = self._unwanted = False
        self._task = self._loop.create_task(session._run(self, code, on_input))
        self._task.add_done_callback(lambda task: self._news.set())

    def _take(self, event: wire.Event) -> None:
        """Keep an event; on the sandbox's thread. The policy's `output_bytes` bounds how many there can be."""
        with self._guard:
            self._events.append(event)
            told, self._told = self._told, True
        if not told:  # one notice for many events: a guest may print a million lines
            with contextlib.suppress(RuntimeError):  # the loop is closed
                self._loop.call_soon_threadsafe(self._news.set)

    async def __aiter__(self) -> AsyncIterator[wire.Event]:
        """Each event once, as it comes; ends with the code."""
        while True:
            await self._news.wait()
            self._news.clear()
            ended = self._task.done()  # looked at before the events: none comes after
            with self._guard:
                events, self._events, self._told = self._events, deque(), False
            for event in events:
                yield event
            if ended:
                self._news.set()
                return

    def __await__(self) -> Generator[Any, None, SandboxResult]:
        return self._result().__await__()

    async def _result(self) -> SandboxResult:
        try:
            return await asyncio.shield(self._task)
        except asyncio.CancelledError:
            self._unwanted = True
            if not self._has_turn:  # what waits never begins
                self._task.cancel()
            elif not self._task.done():
                self._session.interrupt()
            raise

    def _begins(self) -> None:
        """The guest has the code; on the sandbox's thread."""
        if self._unwanted:  # since it had its turn, but nothing that could be interrupted
            self._session.interrupt()


class AsyncSession:
    """A live session on the running event loop. One execution at a time; the next one waits for it.

    Attributes:
        session_id: Its name; `open_session` opens it again, also from another process later.
        problem: What was lost since it was last open, in one sentence; usually empty.
    """

    def __init__(
        self,
        opened: OpenedSession,
        rules: CheckpointRules,
        tools: HostTools | None,
        data: Path | None,
        logger: SandboxLogger,
    ) -> None:
        self.session_id, self.problem = opened.live.session_id, opened.problem
        self._logger, self._rules, self._tools, self._data = logger, rules, tools, data
        self._runtime = SessionRuntime(opened, rules, startup_code="", logger=logger, log=_log)
        self._timeline = Timeline(self._runtime, _log)
        self._turn = asyncio.Lock()
        self._instead_of: Callable[[str], str] | None = None
        self._closed = False
        self._closing: asyncio.Task[None] | None = None

    @property
    def policy(self) -> ExecutionPolicy:
        """Its limits."""
        return self._runtime.live.policy

    @property
    def root(self) -> Path:
        """The folder of all sessions."""
        return self._runtime.live.root

    @property
    def workspace(self) -> Path:
        """The folder the guest sees as `/app`."""
        return self._runtime.live.folder

    @property
    def running(self) -> bool:
        """Whether code runs in it, or waits to."""
        return self._turn.locked()

    def advise(self, how_to_allow: Callable[[str], str], instead_of: Callable[[str], str] | None = None) -> None:
        """What code reads that may not do something.

        ``how_to_allow``: how somebody allows it to connect to a host, as the end of a sentence. ``instead_of``: what to
        do instead of a notebook's magic, such as ``pip`` or ``session``.
        """
        self._runtime.sandbox.network.advice = how_to_allow
        self._instead_of = instead_of

    # ---- running code

    def execute(self, code: str, *, on_input: Callable[[wire.InputRequest], str] | None = None) -> AsyncExecution:
        """Begin to run code, as a notebook's cell would run; see `AsyncExecution`.

        ``on_input``: called on a thread when the code wants a line of input; without it `input()` raises in the code.
        Errors in the code are no exceptions here: look at the result's ``success``, ``outcome`` and ``error``.
        """
        if self._closed:
            raise SandboxClosed(f"session {self.session_id} is closed; open it again with open_session()")
        return AsyncExecution(self, code, on_input)

    async def _run(
        self, execution: AsyncExecution, code: str, on_input: Callable[[wire.InputRequest], str] | None
    ) -> SandboxResult:
        runtime = self._runtime
        async with self._turn:
            if self._closed:
                raise SandboxClosed(f"session {self.session_id} was closed before this ran")
            async with runtime.guest:
                execution._has_turn = True
                number = runtime.count
                options: dict[str, Any] = {"allow_stdin": on_input is not None}
                if self._tools is not None:
                    options["tools"] = self._tools.begin()
                asked = CodeQuestions(runtime, on_input, self._tools, self._instead_of).asked
                cell = Execution(code, number, execution._take, options, asked, on_begin=execution._begins)
                result = await runtime.execute(cell)
                runtime.count_cell(number)
            await runtime.save_cell()
        return result

    async def _whole(self, work: Callable[[], Coroutine[Any, Any, T]]) -> T:
        if self._closed:
            raise SandboxClosed(f"session {self.session_id} is closed; open it again with open_session()")
        return await to_its_end(self._turn, work)

    def interrupt(self) -> bool:
        """Raise KeyboardInterrupt in the running code; False if none runs."""
        return self._runtime.sandbox.interrupt()

    async def reset(self) -> None:
        """Start a fresh interpreter; files stay."""
        await self._whole(self._runtime.reset)

    # ---- its files

    async def files(self, pattern: str | None = None) -> list[SessionFile]:
        """Its files, sorted; ``pattern`` as for `wasm_kernel.list_session_files`."""
        return await asyncio.to_thread(list_session_files, self.session_id, self.root, pattern)

    async def read_file(self, path: str, most: int | None = None) -> bytes:
        """A file's bytes, ``most`` of them; also while code runs."""

        def read() -> bytes:
            with open_session_file(self.session_id, path, self.root, logger=self._logger) as file:
                return file.read(-1 if most is None else most)

        return await asyncio.to_thread(read)

    async def write_file(self, path: str, data: bytes) -> int:
        """Write a file, whole or not at all; `ConfigurationError` if it is more than the session's limits leave."""

        def write() -> int:
            quota = self._runtime.sandbox.quota()
            if len(data) > min(quota.free, quota.max_file) or not quota.free_entries:
                free = format_size(min(quota.free, quota.max_file))
                raise ConfigurationError(
                    f"{path} would have {format_size(len(data))}; the session has {free} left for it"
                )
            return write_session_file(self.session_id, path, data, self.root, logger=self._logger)

        return await asyncio.to_thread(write)

    # ---- its history

    async def snapshot(self, label: str = "") -> Snapshot:
        """Save this moment, variables and files, until it is deleted."""
        return await self._whole(lambda: self._runtime.take(label))

    async def snapshots(self) -> list[Snapshot]:
        """All moments that can be gone back to, newest first: those with a label, and those after each execution."""
        await self._timeline.settled()
        return await asyncio.to_thread(self._timeline.snapshots)

    async def restore(self, snapshot: str) -> None:
        """Go back, or forward, to a snapshot by its label or id: variables and files."""

        async def restore() -> None:
            await self._timeline.settled()
            await self._timeline.restore(await asyncio.to_thread(self._timeline.find, snapshot))

        await self._whole(restore)

    async def undo(self, executions: int = 1) -> None:
        """Undo the last executions: variables and files."""
        await self._whole(lambda: self._timeline.undo(executions))

    async def redo(self) -> None:
        """Redo what `undo` undid, one execution at a time."""
        await self._whole(self._timeline.redo)

    async def compare(self, before: str, after: str | None = None) -> dict[str, dict[str, list[str]]]:
        """Which variables and files differ between two snapshots, or between one and now."""
        async with self._turn:
            await self._timeline.settled()
            old = await asyncio.to_thread(self._timeline.find, before)
            new = await asyncio.to_thread(self._timeline.find, after) if after else self._timeline.last or old
            then, now = [await asyncio.to_thread(self._timeline.read, one) for one in (old, new)]
        return {"variables": compare_variables(then.variables, now.variables), "files": compare_files(then, now)}

    async def fork(self, snapshot: str | None = None, *, name: str | None = None) -> AsyncSession:
        """A new session that goes on from this moment, or from a snapshot; both go their own ways from there.

        It has the same limits and tools, and random numbers of its own.
        """

        async def moment() -> Snapshot:
            await self._timeline.settled()
            if snapshot is not None:
                return await asyncio.to_thread(self._timeline.find, snapshot)
            return await self._runtime.take("fork")

        start = await self._whole(moment)
        forked = partial(fork_snapshot, start.snapshot_id, self.root, session_id=name, logger=self._logger)
        session_id = await asyncio.to_thread(forked)
        tools = self._tools.for_another() if self._tools is not None else None
        return await _opened(session_id, self.root, self.policy, tools, self._data, self._rules, self._logger)

    # ---- its end

    async def close(self) -> None:
        """Save it, and let others open it. Running code is interrupted.

        It is closed also if who waits for that is cancelled.
        """
        if self._closing is None:
            self._closed = True
            self._closing = asyncio.get_running_loop().create_task(self._end())
        await asyncio.shield(self._closing)

    async def _end(self) -> None:
        if self._turn.locked():
            self.interrupt()
        async with self._turn:
            self._runtime.background.stop()
            await asyncio.to_thread(_close, self._runtime)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()


async def create_session(
    name: str | None = None,
    workspace_root: Path | str | None = None,
    policy: ExecutionPolicy | None = None,
    *,
    tools: Mapping[str, Tool] | None = None,
    data: Path | None = None,
    rules: CheckpointRules | None = None,
    logger: SandboxLogger | None = None,
) -> AsyncSession:
    """Create a session and open it. ``name``: letters, digits and hyphens; without it, a new UUID.

    ``tools``: functions of yours that its code may call; see `wasm_kernel.create_sandbox`.
    ``data``: a folder that it sees at /data, read-only.
    ``rules``: how many moments are kept to go back to; 30 by default.
    """
    root = prepared_root(workspace_root)
    session_id = check_session_id(name) if name is not None else str(uuid.uuid4())
    return await _opened(session_id, root, policy, HostTools.of(tools), data, rules, logger, new=True)


async def open_session(
    name: str,
    workspace_root: Path | str | None = None,
    policy: ExecutionPolicy | None = None,
    *,
    tools: Mapping[str, Tool] | None = None,
    data: Path | None = None,
    rules: CheckpointRules | None = None,
    logger: SandboxLogger | None = None,
) -> AsyncSession:
    """Open a session where it was left, with its variables; if there is none of this name, create it.

    `SessionLocked` if another process, or another part of this one, has it open.
    """
    root = prepared_root(workspace_root)
    return await _opened(check_session_id(name), root, policy, HostTools.of(tools), data, rules, logger)


async def _opened(
    session_id: str,
    root: Path,
    policy: ExecutionPolicy | None,
    tools: HostTools | None,
    data: Path | None,
    rules: CheckpointRules | None,
    logger: SandboxLogger | None,
    *,
    new: bool = False,
) -> AsyncSession:
    logger = logger or SandboxLogger(level="error")
    opening = asyncio.ensure_future(asyncio.to_thread(_open, root, session_id, policy, data, logger, new))
    try:
        opened = await asyncio.shield(opening)
    except asyncio.CancelledError:  # nobody will have it, so nobody would close it
        closing = asyncio.ensure_future(_close_unwanted(opening))
        _unwanted.add(closing)
        closing.add_done_callback(_unwanted.discard)
        await asyncio.shield(closing)  # goes on also when anyio cancels this once more
        raise
    return AsyncSession(opened, rules or CheckpointRules(), tools, data, logger)


def _open(
    root: Path,
    session_id: str,
    policy: ExecutionPolicy | None,
    data: Path | None,
    logger: SandboxLogger,
    new: bool,
) -> OpenedSession:
    live = open_live(root, session_id, policy, logger, new=new)
    try:
        opened = resume(live)
        if data is not None:
            opened.live.sandbox.show_data(data)
        return opened
    except BaseException:
        live.close()
        raise


async def _close_unwanted(opening: asyncio.Future[OpenedSession]) -> None:
    with contextlib.suppress(Exception):
        await asyncio.to_thread((await opening).live.close)


def _close(runtime: SessionRuntime) -> None:
    runtime.close(take=True)
    runtime.live.close()
