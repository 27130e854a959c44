"""`%session` through time: snapshots, undo and redo, the log, differences, forks."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from wasm_kernel.errors import ConfigurationError
from wasm_kernel.kernel import render
from wasm_kernel.kernel.answers import Answer, Message, Usage, none, say, table
from wasm_kernel.model.grants import legible
from wasm_kernel.model.snapshots import Snapshot
from wasm_kernel.model.units import format_age, format_duration, format_size

if TYPE_CHECKING:
    from wasm_kernel.kernel.kernel import WasmKernel


class TimeTravel:
    """The part of `Commands` that has to do with a session's past."""

    _kernel: WasmKernel

    async def _session_snapshot(self, words: list[str], parent: Message) -> Answer:
        """Save this moment."""
        from wasm_kernel.sessions.snapshots import make_room

        label = " ".join(words).strip()
        await self._kernel.ready(parent)

        async def take() -> Answer:
            await asyncio.to_thread(make_room, self._kernel.home.root)
            snapshot = await self._kernel.timeline.take(label)
            name = f" {label!r}" if label else ""
            return say(f"Snapshot{name} taken. Back to it: `%session restore {label or snapshot.snapshot_id[:8]}`")

        return Answer(afterwards=take, last=False)

    async def _session_snapshots(self, words: list[str], parent: Message) -> Answer:
        """Every saved moment of this session."""
        none(words, "%session snapshots")
        await self._kernel.ready(parent)
        await self._kernel.timeline.settled()
        found = await asyncio.to_thread(self._kernel.timeline.snapshots)
        now = datetime.now(UTC)
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
        rows = [
            (
                render.code(s.snapshot_id[:8]),
                s.label or _moment(s),
                format_age((now - s.created_at).total_seconds()),
                format_size(s.memory_bytes),
                f"{render.counted(s.file_count, 'file')}, {format_size(s.file_bytes)}",
                format_size(s.stored_bytes),
            )
            for s in found
        ]
        header = ("snapshot", "", "taken", "memory", "files", "added to disk")
        return table(data, header, rows, numbers=(3, 4, 5), caption=render.counted(len(found), "snapshot"))

    async def _session_restore(self, words: list[str], parent: Message) -> Answer:
        """Go back to a saved moment: variables and files."""
        wanted = " ".join(words).strip()
        await self._kernel.ready(parent)

        async def restore() -> Answer:
            timeline = self._kernel.timeline
            await timeline.settled()
            snapshot = await asyncio.to_thread(timeline.find, wanted)
            await timeline.restore(snapshot)
            return say(f"Restored: {snapshot.label or _moment(snapshot)}. Variables and files are as they were then.")

        return Answer(afterwards=restore)

    async def _session_undo(self, words: list[str], parent: Message) -> Answer:
        """As before the last cell, or the last so many."""
        number = words[0] if words else "1"
        none(words[1:], "%session undo")
        if not number.isdigit() or int(number) < 1:
            raise ConfigurationError(f"%session undo {number}: give the number of cells to undo, from 1 on")
        await self._kernel.ready(parent)

        async def undo() -> Answer:
            snapshot = await self._kernel.timeline.undo(int(number))
            return say(f"Undone. Variables and files are as {_moment(snapshot)}. Forth again: `%session redo`")

        return Answer(afterwards=undo)

    async def _session_redo(self, words: list[str], parent: Message) -> Answer:
        """What was undone, again."""
        none(words, "%session redo")
        await self._kernel.ready(parent)

        async def redo() -> Answer:
            snapshot = await self._kernel.timeline.redo()
            return say(f"Redone. Variables and files are as {_moment(snapshot)}.")

        return Answer(afterwards=redo)

    async def _session_log(self, words: list[str], parent: Message) -> Answer:
        """What each cell did."""
        none(words, "%session log")
        await self._kernel.ready(parent)
        await self._kernel.timeline.settled()
        known = await asyncio.to_thread(self._kernel.timeline.snapshots)
        found = [s for s in known if s.metadata.get("number")]
        behind = self._kernel.timeline.behind(known)
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
        return table(data, header, rows, numbers=(3, 6), caption=f"{render.counted(len(rows), 'cell')} can be undone")

    async def _session_diff(self, words: list[str], parent: Message) -> Answer:
        """What differs between two saved moments, or between one and now."""
        from wasm_kernel.kernel.timeline import compare, compare_files
        from wasm_kernel.sessions.recorder import read_snapshot

        if not 1 <= len(words) <= 2:
            raise ConfigurationError("%session diff A [B]: give one snapshot, to compare with the last cell, or two")
        live = await self._kernel.ready(parent)
        timeline = self._kernel.timeline
        await timeline.settled()
        ends = [await asyncio.to_thread(timeline.find, word) for word in words]
        if len(ends) == 1:
            ends.append((await asyncio.to_thread(timeline.snapshots))[0])
        store = live.recorder.store
        old, new = [await asyncio.to_thread(read_snapshot, store, s.session_id, s.snapshot_id) for s in ends]
        found = {"variables": compare(old.variables, new.variables), "files": compare_files(old, new)}
        rows = [
            (what, kind, ", ".join(names)) for what, kinds in found.items() for kind, names in kinds.items() if names
        ]
        caption = f"From {ends[0].label or _moment(ends[0])} to {ends[1].label or _moment(ends[1])}"
        if not rows:
            return say(f"{caption}: no difference.", found)
        return table(found, (), rows, caption=caption)

    async def _session_fork(self, words: list[str], parent: Message) -> Answer:
        """A new session from here, or from a saved moment."""
        from wasm_kernel.sessions.snapshots import fork_session

        parser = Usage("%session fork", add_help=False)
        parser.add_argument("--notebook", default=None)
        parser.add_argument("snapshot", nargs="?", default=None)
        options = parser.parse_args(words)
        live = await self._kernel.ready(parent)
        copy = self._copy_of_notebook(options.notebook) if options.notebook is not None else None
        if copy is not None:
            await self._kernel.require("export", f"write a copy of the notebook to {legible(str(copy), 400)}")

        async def fork() -> Answer:
            timeline = self._kernel.timeline
            if options.snapshot is None:
                snapshot = await timeline.take("fork")
            else:
                await timeline.settled()
                snapshot = await asyncio.to_thread(timeline.find, options.snapshot)
            name = str(copy) if copy is not None else None
            root = self._kernel.home.root
            new = await asyncio.to_thread(
                fork_session, live.session_id, root, snapshot_id=snapshot.snapshot_id, notebook=name
            )
            if copy is None:
                return say(f"Forked: session {new} goes on from here. Use it: `%session attach {new}`", new)
            await asyncio.to_thread(self._write_copy, copy, new)
            return say(f"Forked: open {copy.name} to go on from here, in session {new}.", new)

        return Answer(afterwards=fork, last=False)

    def _copy_of_notebook(self, name: str) -> Path:
        """Where a copy of the notebook would go; refused if it cannot."""
        notebook = self._kernel.home.notebook
        if notebook is None:
            raise ConfigurationError("this kernel has no notebook to copy; %session fork without --notebook works")
        plain = name if name.endswith(".ipynb") else f"{name}.ipynb"
        if Path(plain).name != plain or plain.startswith("."):
            raise ConfigurationError(f"{name!r} is no plain file name; the copy goes beside the notebook")
        if (notebook.parent / plain).exists():
            raise ConfigurationError(f"{plain!r} is there already; choose another name")
        return notebook.parent / plain

    def _write_copy(self, copy: Path, session_id: str) -> None:
        from wasm_kernel.sessions.notebooks import adopt_notebook

        notebook = self._kernel.home.notebook
        assert notebook is not None
        with copy.open("xb") as file:
            file.write(notebook.read_bytes())
        adopt_notebook(self._kernel.home.root, session_id, copy)


def _moment(snapshot: Snapshot) -> str:
    """When a snapshot was taken, as a person thinks of it."""
    number = snapshot.metadata.get("number")
    if number == 0:
        return "before the first cell"
    if snapshot.trigger == "session_close":
        return "when the kernel was closed"
    return f"after cell [{number}]" if number else f"at {snapshot.created_at.astimezone():%Y-%m-%d %H:%M:%S}"


def _changes(found: Any) -> str:
    """+new ~changed −gone."""
    if not isinstance(found, dict):
        return ""
    signs = (("+", "added"), ("~", "changed"), ("−", "removed"))
    return " ".join(f"{sign}{name}" for sign, kind in signs for name in found.get(kind, ()))
