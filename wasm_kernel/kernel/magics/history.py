"""`%session` commands for history: snapshots, undo and redo, the log, differences, forks."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from typing import Any

from wasm_kernel.errors import ConfigurationError
from wasm_kernel.kernel import render
from wasm_kernel.kernel.magics.answers import Answer, Message, Usage, none, say, table
from wasm_kernel.kernel.magics.host import Group
from wasm_kernel.kernel.notebook_copy import copy_path, write_copy
from wasm_kernel.model.differences import compare_files, compare_variables
from wasm_kernel.model.grants import legible
from wasm_kernel.model.snapshots import Snapshot, moment_of
from wasm_kernel.model.units import counted, format_age, format_duration, format_size


class HistoryMagics(Group):
    """The commands that take, show and restore snapshots."""

    async def session_snapshot(self, words: list[str], parent: Message) -> Answer:
        """Take a snapshot."""
        from wasm_kernel.sessions.snapshots import make_room

        label = " ".join(words).strip()
        runtime = await self._host.ready(parent)

        async def take() -> Answer:
            await asyncio.to_thread(make_room, self._place.root, own=runtime.live.session_id)
            snapshot = await runtime.take(label, count=runtime.count + 1)
            name = f" {label!r}" if label else ""
            return say(
                f"Snapshot{name} taken. To go back to it: `%session restore {label or snapshot.snapshot_id[:8]}`"
            )

        return Answer(afterwards=take, last=False)

    async def session_snapshots(self, words: list[str], parent: Message) -> Answer:
        """List this session's snapshots."""
        none(words, "%session snapshots")
        await self._host.ready(parent)
        await self._host.current.timeline.settled()
        found = await asyncio.to_thread(self._host.current.timeline.snapshots)
        known, now = {s.snapshot_id: s for s in found}, datetime.now(UTC)
        behind = {s.snapshot_id for s in self._host.current.timeline.behind(found)}
        last = self._host.current.timeline.last
        here = moment_of(last, known).snapshot_id if last is not None else ""
        data = [
            {
                "snapshot_id": s.snapshot_id,
                "label": s.label,
                "trigger": s.trigger,
                "cell": s.metadata.get("number"),
                "age_seconds": round((now - s.created_at).total_seconds()),
                "stored_bytes": s.stored_bytes,
            }
            for s in found
        ]
        moments = [s for s in found if moment_of(s, known) is s]
        rows = [
            (
                render.code(s.snapshot_id[:8]),
                (s.label or _moment(s)) + _where(s, here, behind),
                format_age((now - s.created_at).total_seconds()),
                format_size(s.memory_bytes),
                f"{counted(s.file_count, 'file')}, {format_size(s.file_bytes)}" if s.file_count else "none",
                format_size(s.stored_bytes) if s.stored_bytes else "nothing",
            )
            for s in moments
        ]
        header = ("snapshot", "moment", "taken", "memory", "files", "added to disk")
        return table(data, header, rows, numbers=(3, 4, 5), caption=counted(len(rows), "snapshot"))

    async def session_restore(self, words: list[str], parent: Message) -> Answer:
        """Go back to a snapshot: variables and files."""
        wanted = " ".join(words).strip()
        await self._host.ready(parent)

        async def restore() -> Answer:
            timeline = self._host.current.timeline
            await timeline.settled()
            snapshot = await asyncio.to_thread(timeline.find, wanted)
            await timeline.restore(snapshot)
            return say(
                f"Restored: {snapshot.label or _moment(snapshot)}. Variables and files are as they were at that point."
            )

        return Answer(afterwards=restore)

    async def session_undo(self, words: list[str], parent: Message) -> Answer:
        """Undo the last cell, or the last N."""
        number = words[0] if words else "1"
        none(words[1:], "%session undo")
        if not (number.isascii() and number.isdigit() and len(number) < 9 and int(number)):
            raise ConfigurationError(
                f"%session undo {legible(number, 40)}: give the number of cells to undo, 1 or more"
            )
        await self._host.ready(parent)

        async def undo() -> Answer:
            snapshot = await self._host.current.timeline.undo(int(number))
            return say(f"Undone. Variables and files are as they were {_moment(snapshot)}. To redo: `%session redo`")

        return Answer(afterwards=undo)

    async def session_redo(self, words: list[str], parent: Message) -> Answer:
        """Redo what was undone."""
        none(words, "%session redo")
        await self._host.ready(parent)

        async def redo() -> Answer:
            snapshot = await self._host.current.timeline.redo()
            return say(f"Redone. Variables and files are as they were {_moment(snapshot)}.")

        return Answer(afterwards=redo)

    async def session_log(self, words: list[str], parent: Message) -> Answer:
        """Show what each cell did."""
        none(words, "%session log")
        await self._host.ready(parent)
        await self._host.current.timeline.settled()
        known = await asyncio.to_thread(self._host.current.timeline.snapshots)
        found = [s for s in known if s.metadata.get("number")]
        behind = {s.snapshot_id for s in self._host.current.timeline.behind(known)}
        data, rows = [], []
        for s in reversed(found):
            cell, seconds = str(s.metadata.get("cell", "")), s.metadata.get("seconds")
            variables, files = _changes(s.metadata.get("variables")), _changes(s.metadata.get("files"))
            data.append(
                {
                    "snapshot_id": s.snapshot_id,
                    "number": s.metadata["number"],
                    "cell": cell,
                    "seconds": seconds,
                    "variables": s.metadata.get("variables"),
                    "files": s.metadata.get("files"),
                    "stored_bytes": s.stored_bytes,
                    "undone": s.snapshot_id not in behind,
                }
            )
            rows.append(
                (
                    f"[{s.metadata['number']}]" + ("" if s.snapshot_id in behind else " undone"),
                    s.created_at.astimezone().strftime("%H:%M:%S"),
                    (cell.splitlines() or [""])[0][:60],
                    format_duration(seconds) if isinstance(seconds, int | float) else "",
                    variables,
                    files,
                    format_size(s.stored_bytes),
                )
            )
        header = ("cell", "time", "", "took", "variables", "files", "stored")
        undoable = len(self._host.current.timeline.undoable(known))
        return table(data, header, rows, numbers=(3, 6), caption=f"{counted(undoable, 'cell')} can be undone")

    async def session_diff(self, words: list[str], parent: Message) -> Answer:
        """Compare two snapshots, or one with the last cell."""
        if not 1 <= len(words) <= 2:
            raise ConfigurationError("%session diff A [B]: give one snapshot, to compare with the last cell, or two")
        await self._host.ready(parent)
        timeline = self._host.current.timeline
        await timeline.settled()
        ends = [await asyncio.to_thread(timeline.find, word) for word in words]
        if len(ends) == 1:
            ends.append((await asyncio.to_thread(timeline.snapshots))[0])
        old, new = [await asyncio.to_thread(timeline.read, s) for s in ends]
        found = {"variables": compare_variables(old.variables, new.variables), "files": compare_files(old, new)}
        rows = [
            (what, kind, ", ".join(names)) for what, kinds in found.items() for kind, names in kinds.items() if names
        ]
        caption = f"From {ends[0].label or _moment(ends[0])} to {ends[1].label or _moment(ends[1])}"
        if not rows:
            return say(f"{caption}: no difference.", found)
        return table(found, (), rows, caption=caption)

    async def session_fork(self, words: list[str], parent: Message) -> Answer:
        """Start a new session from here, or from a snapshot."""
        from wasm_kernel.sessions.snapshots import fork_session

        parser = Usage("%session fork", add_help=False)
        parser.add_argument("--notebook", default=None)
        parser.add_argument("snapshot", nargs="?", default=None)
        options = parser.parse_args(words)
        runtime = await self._host.ready(parent)
        await asyncio.to_thread(self._place.follow, runtime.live)  # the notebook may have been renamed
        notebook = self._place.notebook
        copy = copy_path(notebook, options.notebook) if options.notebook is not None else None
        if copy is not None:
            await self._host.require("export", f"write a copy of the notebook to {legible(str(copy), 400)}")

        async def fork() -> Answer:
            timeline = self._host.current.timeline
            if options.snapshot is None:
                snapshot = await runtime.take("fork", count=runtime.count + 1)
            else:
                await timeline.settled()
                snapshot = await asyncio.to_thread(timeline.find, options.snapshot)
            name = str(copy) if copy is not None else None
            root = self._place.root
            new = await asyncio.to_thread(
                fork_session, runtime.live.session_id, root, snapshot_id=snapshot.snapshot_id, notebook=name
            )
            if copy is None or notebook is None:
                return say(f"Forked: session {new} continues from here. To use it: `%session attach {new}`", new)
            await asyncio.to_thread(write_copy, notebook, copy, root, new)
            return say(f"Forked: open {copy.name} to continue from here, in session {new}.", new)

        return Answer(afterwards=fork, last=False)


def _moment(snapshot: Snapshot) -> str:
    """When a snapshot was taken, for a person to read."""
    number = snapshot.metadata.get("number")
    if number == 0:
        return "before the first cell"
    if snapshot.trigger == "session_close":
        return "when the kernel was closed"
    return f"after cell [{number}]" if number else f"at {snapshot.created_at.astimezone():%Y-%m-%d %H:%M:%S}"


def _where(snapshot: Snapshot, here: str, behind: set[str]) -> str:
    """How a moment relates to the present one."""
    if snapshot.snapshot_id == here:
        return " (now)"
    is_undone = "number" in snapshot.metadata and snapshot.snapshot_id not in behind
    return " (undone)" if is_undone else ""


def _changes(found: Any) -> str:
    """+new ~changed −gone."""
    if not isinstance(found, dict):
        return ""
    signs = (("+", "added"), ("~", "changed"), ("−", "removed"))
    return " ".join(f"{sign}{name}" for sign, kind in signs for name in found.get(kind, ()))
