"""The tools that an agent gets. Their docstrings are what a model reads: short, with when to use which."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import threading
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from functools import partial
from pathlib import PurePosixPath
from typing import Annotated, Any, ParamSpec, TypeVar

from mcp.server.mcpserver import Context, MCPServer
from mcp.server.mcpserver.exceptions import ResourceError, ToolError
from mcp.types import CallToolResult, ToolAnnotations
from pydantic import Field

from wasm_kernel.errors import SessionLocked, WasmKernelError
from wasm_kernel.guest import wire
from wasm_kernel.mcp.agent_sessions import AgentSessions
from wasm_kernel.mcp.content import quoted, result_content
from wasm_kernel.mcp.long_texts import LongTexts
from wasm_kernel.model.snapshots import Snapshot
from wasm_kernel.model.units import format_size
from wasm_kernel.sessions.packages import install_packages
from wasm_kernel.sessions.session_list import SessionSummary

P = ParamSpec("P")
T = TypeVar("T")

_EVERY = 1.0  # seconds between reports of progress
_MOST_READ = 1 << 20  # bytes of a file in one answer
_MOST_EDITED = 16 << 20
_MOST_DOWNLOADED = 32 << 20  # as a resource
_MOST_LISTED = 500
_INSTEAD = {"`%session snapshots`": "`list_snapshots`", "`%session log`": "`list_snapshots`"}
_READS = ToolAnnotations(read_only_hint=True, open_world_hint=False)
_CHANGES = ToolAnnotations(read_only_hint=False, destructive_hint=False, open_world_hint=False)
_DESTROYS = ToolAnnotations(read_only_hint=False, destructive_hint=True, open_world_hint=False)

Session = Annotated[
    str, Field(description="name of the session: letters, digits, hyphens; made by the first run or file")
]
FilePath = Annotated[str, Field(description="path in the session's /app, such as 'data/a.csv'")]
Moment = Annotated[str, Field(description="a snapshot's label or id, as list_snapshots gives them")]


def _told(function: Callable[P, Awaitable[T]]) -> Callable[P, Awaitable[T]]:
    """Say what went wrong to the agent, as it is meant for who called; any other failure stays in the log."""

    @functools.wraps(function)
    async def call(*args: P.args, **kwargs: P.kwargs) -> T:
        try:
            return await function(*args, **kwargs)
        except SessionLocked:
            raise ToolError(
                "another program has this session open, such as a second server for agents; "
                "use another session, or ask the person to end that program"
            ) from None
        except (WasmKernelError, ValueError) as e:
            raise ToolError(_for_agents(str(e))) from None
        except OSError as e:  # without the host's paths
            raise ToolError(e.strerror or type(e).__name__) from None

    return call


def _for_agents(text: str) -> str:
    """An error's text, with the tool in the place of the magic that it names."""
    for magic, tool in _INSTEAD.items():
        text = text.replace(magic, tool)
    return text


class SessionTools:
    """The tools, over the sessions that they work in."""

    def __init__(self, sessions: AgentSessions) -> None:
        self._sessions, self._long_texts = sessions, LongTexts()
        self._edits = asyncio.Lock()  # an agent may ask for several at once, of one file

    def register(self, server: MCPServer[Any]) -> None:
        """Add them, and the files as resources, to a server."""
        for hints, tools in (
            (_READS, (self.list_sessions, self.list_files, self.read_file, self.list_snapshots, self.compare)),
            (_READS, (self.read_output,)),
            (_CHANGES, (self.run_python, self.write_file, self.edit_file, self.snapshot, self.fork, self.install)),
            (_DESTROYS, (self.undo, self.redo, self.restore, self.discard)),
        ):
            for tool in tools:
                server.add_tool(_told(tool), annotations=hints, structured_output=False)
        server.resource("session://{session}/{+path}", name="file", description="A file of a session, as it is now.")(
            self.file_resource
        )

    # ---- code

    async def run_python(self, session: Session, code: str, context: Context[Any, Any]) -> CallToolResult:
        """Run Python in a session and return output, last value, images and errors.

        Variables, imports and files in /app stay for the next call, also in later conversations. numpy, pandas, scipy,
        matplotlib and scikit-learn are there; `install` adds packages, not pip. There is no shell. `undo` undoes a run.
        """
        async with _reporting(context, lambda: "running"), self._sessions.using(session, new=True) as live:
            execution = live.execute(code)
            events: list[wire.Event] = []
            result = await execution
            async for event in execution:
                events.append(event)
            if live.problem:
                events.insert(0, wire.Stream("stderr", live.problem + "\n"))
                live.problem = ""
            return result_content(events, result, self._long_texts)

    async def read_output(
        self,
        handle: Annotated[str, Field(description="as in the note where an output was cut")],
        offset: int = 0,
        length: int = 20_000,
    ) -> str:
        """Read on in a long output that was cut."""
        return self._long_texts.page(handle, offset, length)

    async def install(self, session: Session, packages: list[str], context: Context[Any, Any]) -> str:
        """Install pure-Python packages, such as 'humanize' or 'attrs>=23', for one session."""
        said, cancel = ["installing"], threading.Event()
        async with _reporting(context, lambda: said[-1]), self._sessions.using(session, new=True) as live:
            work = partial(install_packages, on_progress=said.append, cancel=cancel)
            try:
                change = await asyncio.to_thread(work, live.session_id, packages, live.root)
            except asyncio.CancelledError:
                cancel.set()
                raise
        added = ", ".join(map(str, change.added)) or "nothing new"
        return f"installed: {added}" + (
            f"; there already: {', '.join(map(str, change.present))}" if change.present else ""
        )

    # ---- files

    async def list_files(self, session: Session, pattern: str = "*") -> str:
        """List the files in /app with their sizes; pattern is a glob such as '*.csv'."""
        async with self._sessions.using(session) as live:
            found = await live.files(_in_app(pattern))
        lines = [f"{quoted(name)}\t{name.size:,} bytes" for name in found[:_MOST_LISTED]]
        if len(found) > _MOST_LISTED:
            lines.append(f"[… {len(found) - _MOST_LISTED:,} more; use a narrower pattern …]")
        return "\n".join(lines) or "no files"

    async def read_file(self, session: Session, path: FilePath) -> str:
        """Read a text file. For large or binary files use run_python and look at what you need."""
        async with self._sessions.using(session) as live:
            data = await live.read_file(_in_app(path), _MOST_READ + 1)
        if b"\0" in data[:4096]:
            raise ValueError(
                f"{path} is binary; read it with run_python, or as the resource session://{session}/{path}"
            )
        text = self._long_texts.cut(data[:_MOST_READ].decode("utf-8", "replace"), 50_000)
        more = f"\n[… only the first {_MOST_READ:,} bytes; read the rest with run_python …]"
        return text + more if len(data) > _MOST_READ else text

    async def write_file(self, session: Session, path: FilePath, text: str) -> str:
        """Write a text file, replacing what is there; folders are made."""
        async with self._sessions.using(session, new=True) as live:
            size = await live.write_file(_in_app(path), text.encode())
        return f"wrote {size:,} bytes to {path}"

    async def edit_file(self, session: Session, path: FilePath, old: str, new: str) -> str:
        """Replace one passage of a text file. `old` must occur exactly once: take in enough around it."""
        async with self._edits, self._sessions.using(session) as live:
            data = await live.read_file(_in_app(path), _MOST_EDITED + 1)
            if len(data) > _MOST_EDITED:
                raise ValueError(f"{path} has more than {_MOST_EDITED:,} bytes; edit it with run_python")
            text = data.decode()
            count = text.count(old) if old else 0
            if count != 1:
                raise ValueError(f"`old` occurs {count} times in {path}; it must be there once. Read the file again")
            await live.write_file(_in_app(path), text.replace(old, new).encode())
        return f"edited {path}"

    async def file_resource(self, session: str, path: str) -> bytes | str:
        """A file's contents: text if it is, else bytes."""
        try:
            async with self._sessions.using(session) as live:
                data = await live.read_file(str(PurePosixPath(path)), _MOST_DOWNLOADED + 1)
            if len(data) > _MOST_DOWNLOADED:  # rather than a part of it, which nobody could tell from the whole
                raise ValueError(f"{path} has more than {_MOST_DOWNLOADED:,} bytes; read parts of it with run_python")
        except (WasmKernelError, ValueError, OSError) as e:
            raise ResourceError(getattr(e, "strerror", None) or str(e)) from None
        try:
            return data.decode()
        except UnicodeDecodeError:
            return data

    # ---- moments

    async def snapshot(self, session: Session, label: str) -> str:
        """Save this moment under a name, variables and files, to come back to it with `restore`."""
        async with self._sessions.using(session, new=True) as live:
            taken = await live.snapshot(label)
        return f"saved {_named(taken)}"

    async def list_snapshots(self, session: Session) -> str:
        """List the moments one can go back to, newest first: those with a label, and those after each run."""
        async with self._sessions.using(session) as live:
            found = await live.snapshots()
        return "\n".join(_named(one) for one in found[:_MOST_LISTED]) or "none yet"

    async def restore(self, session: Session, moment: Moment) -> str:
        """Go back to a moment: variables and files are as they were then."""
        async with self._sessions.using(session) as live:
            await live.restore(moment)
        return f"the session is as it was at {moment}"

    async def undo(self, session: Session, runs: Annotated[int, Field(ge=1)] = 1) -> str:
        """Undo the last runs: variables and files. Use it when a run broke something; `redo` takes it back."""
        async with self._sessions.using(session) as live:
            await live.undo(runs)
        return f"undid {runs} run{'s' if runs > 1 else ''}"

    async def redo(self, session: Session) -> str:
        """Redo one run that was undone, if nothing ran since."""
        async with self._sessions.using(session) as live:
            await live.redo()
        return "redone"

    async def compare(self, session: Session, before: Moment, after: str | None = None) -> str:
        """Say which variables and files changed between two moments, or between one and now."""
        async with self._sessions.using(session) as live:
            found = await live.compare(before, after)
        lines = [
            f"{what} {kind}: {', '.join(map(quoted, names))}"
            for what, kinds in found.items()
            for kind, names in kinds.items()
            if names
        ]
        return "\n".join(lines) or "no difference"

    async def fork(self, session: Session, new: Session, moment: str | None = None) -> str:
        """Make a second session that goes on from here, or from a moment: try two ways, discard the worse."""
        await self._sessions.fork(session, new, moment)
        return f"session {new} goes on from {moment or 'the present'} of {session}; both are independent now"

    # ---- sessions

    async def list_sessions(self) -> str:
        """List the sessions that exist, with their last use and size."""
        found = await self._sessions.listed()
        lines = [_listed(session) for session in found[:_MOST_LISTED]]
        if len(found) > _MOST_LISTED:
            lines.append(f"[… {len(found) - _MOST_LISTED:,} older ones …]")
        return "\n".join(lines) or "none yet"

    async def discard(self, session: Session) -> str:
        """Delete a session for good: variables, files and snapshots. Only for what is no longer needed."""
        await self._sessions.discard(session)
        return f"session {session} is deleted"


def _in_app(path: str) -> str:
    """A path as code in the session may call it, too: from the root."""
    return path.removeprefix("/app/")


def _listed(session: SessionSummary) -> str:
    used = f"last used {session.updated_at:%Y-%m-%d %H:%M} UTC" if session.updated_at is not None else "not readable"
    return f"{session.session_id}\t{used}\t{format_size(session.size_bytes)}"


def _named(snapshot: Snapshot) -> str:
    cell = str(snapshot.metadata.get("cell", "")).strip().partition("\n")[0][:80]
    what = f"label {snapshot.label!r}" if snapshot.label else (f"after: {cell}" if cell else "")
    return f"{snapshot.snapshot_id[:8]}\t{snapshot.created_at:%H:%M:%S}\t{what}".rstrip()


@contextlib.asynccontextmanager
async def _reporting(context: Context[Any, Any], what: Callable[[], str]) -> AsyncIterator[None]:
    """Tell who waits that it goes on, and what is done."""

    async def report() -> None:
        started = time.monotonic()
        while True:
            await asyncio.sleep(_EVERY)
            passed = time.monotonic() - started
            await context.report_progress(passed, None, f"{what()} for {passed:.0f} s")

    reports = asyncio.ensure_future(report())
    try:
        yield
    finally:
        reports.cancel()
