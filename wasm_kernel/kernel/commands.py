"""The host's magics: %session, %prune, %pip. They start only from the text of a cell the user sent."""

from __future__ import annotations

import argparse
import asyncio
import json
import re
import shlex
import threading
import uuid
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from wasm_kernel.errors import ConfigurationError, Interrupted, NotAllowed, PackageError
from wasm_kernel.host import workspace
from wasm_kernel.host.ledger import read_record, write_record
from wasm_kernel.kernel import render
from wasm_kernel.kernel.cells import HostMagic
from wasm_kernel.kernel.render import Html
from wasm_kernel.model import limits
from wasm_kernel.model.outcome import SandboxResult
from wasm_kernel.model.records import BadRecord
from wasm_kernel.model.retention import RetentionPolicy
from wasm_kernel.model.snapshots import Snapshot
from wasm_kernel.model.units import format_age, format_duration, format_size, parse_duration, parse_size

if TYPE_CHECKING:
    from wasm_kernel.kernel.kernel import WasmKernel
    from wasm_kernel.sessions.session import LiveSession

Message = dict[str, Any]
_SHOWN_ROWS = 200


@dataclass(frozen=True)
class Answer:
    """What a magic gives: plain data for `x = %magic`, and text with its HTML twin to show.

    ``afterwards`` instead: something that has to wait until the guest is at rest. ``last``: and after which the rest of
    the cell would run in a guest that is about to be replaced, so that nothing may follow it.
    ``view`` makes what front ends with widgets show in place of the text, when it is shown.
    """

    data: Any = None
    text: str = ""
    html: str = ""
    afterwards: Callable[[], Awaitable[Answer]] | None = None
    last: bool = True
    view: Callable[[], Message] | None = None

    def json(self, *, used: bool) -> bytes:
        """What the guest gets for it."""
        return json.dumps(self.data if used else None).encode()


def _table(
    data: Any,
    header: Sequence[str],
    rows: Sequence[render.Row],
    *,
    numbers: Sequence[int] = (),
    caption: str = "",
    most: int = _SHOWN_ROWS,
) -> Answer:
    markup = render.table(header, rows[:most], numbers=numbers, caption=caption)
    text = render.plain(header, rows[:most], numbers=numbers, caption=caption)
    if len(rows) > most:
        more = f"… and {len(rows) - most} more"
        markup, text = markup + render.sentence(more), f"{text}\n{more}"
    return Answer(data, text, markup)


def _say(text: str, data: Any = None) -> Answer:
    return Answer(data, text, "".join(map(render.sentence, text.splitlines())))


class Shown:
    """A line of progress in a cell's output, replaced by the next."""

    def __init__(self, kernel: WasmKernel, parent: Message, *, silent: bool) -> None:
        self._kernel, self._parent, self._silent = kernel, parent, silent
        self._id = str(uuid.uuid4())
        self._begun = False

    def tell(self, line: str) -> None:
        """Show a line. Called on any thread."""
        if not self._silent:
            self._send({"text/plain": line, "text/html": render.progress(line)})

    def clear(self) -> None:
        """Nothing more is going on."""
        if self._begun:
            self._send({"text/plain": "", "text/html": ""})

    def _send(self, data: dict[str, str]) -> None:
        kind = "update_display_data" if self._begun else "display_data"
        self._begun = True
        content = {"data": data, "metadata": {}, "transient": {"display_id": self._id}}
        self._kernel.publish(self._parent, kind, content)


class _Usage(argparse.ArgumentParser):
    def error(self, message: str) -> Any:
        raise ConfigurationError(f"{self.prog}: {message}; see {self.prog}?")

    def exit(self, status: int = 0, message: str | None = None) -> Any:
        raise ConfigurationError(message or f"see {self.prog}?")


def _words(line: str) -> list[str]:
    try:
        return shlex.split(line, comments=True)
    except ValueError as e:
        raise ConfigurationError(f"{line!r} cannot be read: {e}") from None


class Commands:
    """The magics of one kernel."""

    def __init__(self, kernel: WasmKernel) -> None:
        self._kernel = kernel

    @property
    def last_result(self) -> SandboxResult | None:
        """What the last cell gave."""
        return self._kernel.last_result

    async def do(self, magic: HostMagic, parent: Message, cancelled: threading.Event) -> Answer:
        """Do what a magic says. Raises what the user did wrong."""
        words = _words(magic.line)
        if magic.name == "prune":
            return await self._prune(words)
        if magic.name == "pip":
            return await self._pip(words, parent, cancelled)
        name, words = (words[0], words[1:]) if words else ("info", [])
        action = getattr(self, f"_session_{name}", None)
        if action is None:
            raise ConfigurationError(f"%session {name} is not known; there are {', '.join(_SUBCOMMANDS['session'])}")
        answer: Answer = await action(words, parent)
        return answer

    # ---- %session

    async def _session_info(self, words: list[str], parent: Message) -> Answer:
        """What the session is and uses."""
        _none(words, "%session info")
        kernel = self._kernel
        live = await kernel.ready(parent)
        await asyncio.to_thread(kernel.home.follow, live)
        survey = await asyncio.to_thread(workspace.survey, live.folder)
        record = read_record(live.folder)
        policy, extra = live.sandbox.policy, record.extra if record is not None else {}
        memory = self.last_result.memory_bytes if self.last_result is not None else live.sandbox.base_bytes
        age = (datetime.now(UTC) - record.created_at).total_seconds() if record is not None else 0.0
        notebook = kernel.home.notebook
        data = {
            "session_id": live.session_id,
            "title": str(extra.get("title") or ""),
            "notebook": notebook.name if notebook is not None else None,
            "files": len(survey.files),
            "disk_bytes": survey.used_bytes,
            "disk_limit_bytes": policy.workspace_bytes,
            "memory_bytes": memory,
            "memory_limit_bytes": policy.memory_bytes,
            "timeout_seconds": policy.timeout_seconds,
            "cells": extra.get("execution_count", 0),
            "age_seconds": round(age),
        }
        most = format_size(policy.memory_bytes)
        rows: list[render.Row] = [("session", render.code(live.session_id))]
        if data["title"]:
            rows.append(("title", data["title"]))
        rows += [
            ("notebook", str(notebook) if notebook is not None else "none: this session is this kernel's own"),
            ("folder", f"{live.folder} (in cells: /app)"),
            ("files", f"{len(survey.files):,}"),
            ("disk", _used(survey.used_bytes, policy.workspace_bytes)),
            ("memory", _used(memory, policy.memory_bytes) if memory else f"nothing has run yet; {most} at most"),
            ("time per cell", limits.describe("timeout", policy.timeout_seconds)),
            ("created", f"{format_age(age)}, {render.counted(data['cells'], 'cell')} run"),
        ]
        return _table(data, (), rows)

    async def _session_list(self, words: list[str], parent: Message) -> Answer:
        """Every session of this user."""
        from wasm_kernel.sessions.listing import list_sessions

        _none(words, "%session list")
        here = await self._here(parent)
        found = await asyncio.to_thread(list_sessions, self._kernel.home.root)
        now = datetime.now(UTC)
        data, rows = [], []
        for s in found:
            age = (now - s.updated_at).total_seconds() if s.updated_at else None
            name = Path(s.notebook).name
            former = f"formerly {Path(s.former_notebook).name}" if s.former_notebook else ""
            state = "this one" if s.session_id == here else "in use" if s.live else s.problem
            data.append(
                {
                    "session_id": s.session_id,
                    "title": s.title,
                    "notebook": name or None,
                    "size_bytes": s.size_bytes,
                    "unused_seconds": None if age is None else round(age),
                    "state": state,
                }
            )
            unused = "" if age is None else format_age(age)
            rows.append(
                (render.code(s.session_id), s.title or name or former, format_size(s.size_bytes), unused, state)
            )
        total = format_size(sum(s.size_bytes for s in found))
        header = ("session", "title or notebook", "size", "last used", "")
        return _table(data, header, rows, numbers=(2,), caption=f"{render.counted(len(found), 'session')}, {total}")

    async def _here(self, parent: Message) -> str:
        """This kernel's session; empty when it has none, because there are as many as are allowed."""
        try:
            return (await self._kernel.ready(parent)).session_id
        except NotAllowed:
            return ""

    async def _session_files(self, words: list[str], parent: Message) -> Answer:
        """The files in /app, or in a folder of it: a browser where there are widgets, else a table."""
        from wasm_kernel.sessions.files import list_session_files

        live = await self._kernel.ready(parent)
        folder = words[0].removeprefix("/app").strip("/") if words else ""
        _none(words[1:], "%session files")
        found = await asyncio.to_thread(list_session_files, live.session_id, self._kernel.home.root, folders=True)
        shown = [f for f in found if not folder or f.startswith(f"{folder}/")]
        if folder and not shown:
            raise ConfigurationError(f"there is no folder {folder!r} with files in /app")
        data = [{"path": f, "size": f.size, "kind": f.kind, "modified": f.modified_at.isoformat()} for f in shown]
        rows = [
            (
                f + ("/" if f.kind == "folder" else ""),
                "" if f.kind == "folder" else format_size(f.size),
                f.modified_at.strftime("%Y-%m-%d %H:%M"),
            )
            for f in shown
        ]
        files = [f for f in shown if f.kind != "folder"]
        caption = (
            f"{render.counted(len(files), 'file')}, {format_size(sum(f.size for f in files))} in /app/{folder}".rstrip(
                "/"
            )
        )
        table = _table(data, ("name", "size", "changed (UTC)"), rows, numbers=(1,), caption=caption)
        return replace(table, view=lambda: self._kernel.browsers.make(folder).mime_bundle())

    async def _session_download(self, words: list[str], parent: Message) -> Answer:
        """Links to download files, or a zip of files and folders."""
        from wasm_kernel.kernel.files import transfer

        as_zip = "--zip" in words
        names = [w for w in words if w != "--zip"]
        if not names or any(w.startswith("--") for w in names):
            raise ConfigurationError("%session download PATH … [--zip]: give files of /app, or folders with --zip")
        live = await self._kernel.ready(parent)
        paths = [transfer.relative(name) for name in names]
        links = await asyncio.to_thread(transfer.find_links, self._kernel.home.environ, live.session_id)
        made = await asyncio.to_thread(transfer.downloads, live.folder, paths, links, as_zip=as_zip)
        sizes = ("made while it is sent" if d.size is None else format_size(d.size) for d in made)
        text = "\n".join(f"{d.name}: {size}" for d, size in zip(made, sizes, strict=True))
        where = f"Links are shown in notebooks. On this machine: {live.folder}"
        return Answer([d.name for d in made], f"{text}\n{where}", transfer.markup(made))

    async def _session_limits(self, words: list[str], parent: Message) -> Answer:
        """Show or change limits."""
        live = await self._kernel.ready(parent)
        wanted = {}
        for word in words:
            name, equals, value = word.partition("=")
            if not equals or not value:
                raise ConfigurationError(f"{word!r} is no limit; write NAME=VALUE, such as memory=2G or timeout=60")
            wanted[name] = value
        if wanted:
            policy = limits.changed(live.sandbox.policy, wanted, self._kernel.home.maxima)
            self._kernel.home.policy = policy

            async def change() -> Answer:
                await asyncio.to_thread(live.change_policy, policy)
                return self._limits_table(live)

            return Answer(afterwards=change, last=False)
        return self._limits_table(live)

    def _limits_table(self, live: LiveSession) -> Answer:
        policy, maxima = live.sandbox.policy, self._kernel.home.maxima
        data: dict[str, Any] = {}
        rows: list[render.Row] = []
        for name, limit in limits.LIMITS.items():
            value = data[name] = limits.current(policy, name)
            most = limits.number(name, maxima[name]) if name in maxima else None
            at_most = [limits.describe(name, most) if most else ""] if maxima else []
            rows.append((name, limits.describe(name, value), *at_most, limit.meaning))
        header = ("limit", "value", *(["at most"] if maxima else []), "bounds")
        return _table(data, header, rows, numbers=(1, 2) if maxima else (1,))

    async def _session_watch(self, words: list[str], parent: Message) -> Answer:
        """Show after each cell which files it changed."""
        if words not in (["on"], ["off"], []):
            raise ConfigurationError(f"%session watch {' '.join(words)}: say on or off")
        if words:
            self._kernel.watch = words == ["on"]
        state = "on" if self._kernel.watch else "off"
        return _say(f"Changed files are {'shown after each cell' if self._kernel.watch else 'not shown'}.", state)

    async def _session_reset(self, words: list[str], parent: Message) -> Answer:
        """A fresh interpreter over the same files."""
        _none(words, "%session reset")
        await self._kernel.ready(parent)

        async def reset() -> Answer:
            await self._kernel.timeline.reset()
            self._kernel.forget_guest()
            return _say("The interpreter is fresh; the files in /app are as they were.")

        return Answer(afterwards=reset)

    async def _session_new(self, words: list[str], parent: Message) -> Answer:
        """A new, empty session for this notebook."""
        _none(words, "%session new")
        before = (await self._kernel.ready(parent)).session_id

        async def move() -> Answer:
            await self._kernel.move(self._kernel.home.move_to_new)
            now = self._kernel.live.session_id
            return _say(f"This notebook has a new session, {now}. The old one stays: `%session attach {before}`", now)

        return Answer(afterwards=move)

    async def _session_attach(self, words: list[str], parent: Message) -> Answer:
        """Go on in another session."""
        session_id = _one(words, "%session attach ID")
        await self._kernel.ready(parent)

        async def move() -> Answer:
            await self._kernel.move(lambda now: self._kernel.home.move_to(session_id, now))
            with_what = "its variables" if self._kernel.home.resumed is not None else "a fresh interpreter"
            return _say(f"This notebook now uses session {session_id}, with {with_what}.", session_id)

        return Answer(afterwards=move)

    async def _session_rename(self, words: list[str], parent: Message) -> Answer:
        """Give the session a title."""
        title = " ".join(words).strip()[:200]
        if not title:
            raise ConfigurationError("%session rename NAME: the name is missing")
        live = await self._kernel.ready(parent)
        record = read_record(live.folder)
        if record is None:
            raise ConfigurationError("this session has no metadata; its title cannot be kept")
        write_record(live.folder, record.touched(datetime.now(UTC), title=title), sync=True)
        return _say(f"This session is called {title!r} now.", title)

    async def _session_delete(self, words: list[str], parent: Message) -> Answer:
        """Delete a session and its files."""
        from wasm_kernel.sessions.catalog import delete_session_workspace

        sure = "--yes" in words
        words = [w for w in words if w != "--yes"]
        current = await self._here(parent)
        session_id = words[0] if words else current
        _none(words[1:], "%session delete")
        root = self._kernel.home.root
        if not session_id or not (root / session_id).is_dir():
            raise ConfigurationError(f"there is no session {session_id}; `%session list` shows which there are")
        if not sure:
            here = "this session" if session_id == current else f"session {session_id}"
            return _say(f"This would delete {here} and all its files. To do it: `%session delete {session_id} --yes`")

        async def delete() -> Answer:
            if session_id == current:
                await self._kernel.move(self._kernel.home.move_to_new)
            await asyncio.to_thread(delete_session_workspace, session_id, root, self._kernel.home.logger)
            return _say(f"Session {session_id} and its files are deleted.", session_id)

        return Answer(afterwards=delete) if session_id == current else await delete()

    async def _session_export(self, words: list[str], parent: Message) -> Answer:
        """Write the session to one file beside the notebook."""
        from wasm_kernel.sessions.archive import export_session

        name = _one(words, "%session export FILE.zip")
        if Path(name).name != name or name.startswith("."):
            raise ConfigurationError(f"{name!r} is no plain file name; the file is written beside the notebook")
        live = await self._kernel.ready(parent)
        notebook = self._kernel.home.notebook
        target = (notebook.parent if notebook is not None else Path.cwd()) / name
        if target.exists():
            raise ConfigurationError(f"{name!r} is there already; choose another name")
        await asyncio.to_thread(export_session, live.session_id, target, self._kernel.home.root)
        return _say(f"Written: {target} ({format_size(target.stat().st_size)})", name)

    # ---- %session: snapshots

    async def _session_snapshot(self, words: list[str], parent: Message) -> Answer:
        """Save this moment."""
        from wasm_kernel.sessions.snapshots import make_room

        label = " ".join(words).strip()
        await self._kernel.ready(parent)

        async def take() -> Answer:
            await asyncio.to_thread(make_room, self._kernel.home.root)
            snapshot = await self._kernel.timeline.take(label)
            name = f" {label!r}" if label else ""
            return _say(f"Snapshot{name} taken. Back to it: `%session restore {label or snapshot.snapshot_id[:8]}`")

        return Answer(afterwards=take, last=False)

    async def _session_snapshots(self, words: list[str], parent: Message) -> Answer:
        """Every saved moment of this session."""
        _none(words, "%session snapshots")
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
        return _table(data, header, rows, numbers=(3, 4, 5), caption=render.counted(len(found), "snapshot"))

    async def _session_restore(self, words: list[str], parent: Message) -> Answer:
        """Go back to a saved moment: variables and files."""
        wanted = " ".join(words).strip()
        await self._kernel.ready(parent)

        async def restore() -> Answer:
            timeline = self._kernel.timeline
            await timeline.settled()
            snapshot = await asyncio.to_thread(timeline.find, wanted)
            await timeline.restore(snapshot)
            return _say(f"Restored: {snapshot.label or _moment(snapshot)}. Variables and files are as they were then.")

        return Answer(afterwards=restore)

    async def _session_undo(self, words: list[str], parent: Message) -> Answer:
        """As before the last cell, or the last so many."""
        number = words[0] if words else "1"
        _none(words[1:], "%session undo")
        if not number.isdigit() or int(number) < 1:
            raise ConfigurationError(f"%session undo {number}: give the number of cells to undo, from 1 on")
        await self._kernel.ready(parent)

        async def undo() -> Answer:
            snapshot = await self._kernel.timeline.undo(int(number))
            return _say(f"Undone. Variables and files are as {_moment(snapshot)}. Forth again: `%session redo`")

        return Answer(afterwards=undo)

    async def _session_redo(self, words: list[str], parent: Message) -> Answer:
        """What was undone, again."""
        _none(words, "%session redo")
        await self._kernel.ready(parent)

        async def redo() -> Answer:
            snapshot = await self._kernel.timeline.redo()
            return _say(f"Redone. Variables and files are as {_moment(snapshot)}.")

        return Answer(afterwards=redo)

    async def _session_log(self, words: list[str], parent: Message) -> Answer:
        """What each cell did."""
        _none(words, "%session log")
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
        return _table(data, header, rows, numbers=(3, 6), caption=f"{render.counted(len(rows), 'cell')} can be undone")

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
            return _say(f"{caption}: no difference.", found)
        return _table(found, (), rows, caption=caption)

    async def _session_fork(self, words: list[str], parent: Message) -> Answer:
        """A new session from here, or from a saved moment."""
        from wasm_kernel.sessions.snapshots import fork_session

        parser = _Usage("%session fork", add_help=False)
        parser.add_argument("--notebook", default=None)
        parser.add_argument("snapshot", nargs="?", default=None)
        options = parser.parse_args(words)
        live = await self._kernel.ready(parent)
        copy = self._copy_of_notebook(options.notebook) if options.notebook is not None else None

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
                return _say(f"Forked: session {new} goes on from here. Use it: `%session attach {new}`", new)
            await asyncio.to_thread(self._write_copy, copy, new)
            return _say(f"Forked: open {copy.name} to go on from here, in session {new}.", new)

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

    def changed_files(self, result: SandboxResult) -> Answer:
        """Which files a cell created, changed or deleted."""
        rewritten = [name for name in result.files_modified if name not in set(result.files_created)]
        kinds = (("+", result.files_created), ("~", rewritten), ("−", result.files_deleted))
        rows = [(sign, name) for sign, names in kinds for name in names]
        return _table(None, (), rows) if rows else Answer()

    # ---- %prune

    async def _prune(self, words: list[str]) -> Answer:
        from wasm_kernel.sessions.pruning import plan_prune, prune_sessions

        parser = _Usage("%prune", add_help=False)
        parser.add_argument("--older-than", default=None)
        parser.add_argument("--max-sessions", type=int, default=None)
        parser.add_argument("--dry-run", action="store_true")
        parser.add_argument("--yes", action="store_true")
        options = parser.parse_args(words)
        older = options.older_than
        if older is None and options.max_sessions is None:
            older = "24h"
        kernel = self._kernel
        root = kernel.home.root
        here = frozenset([kernel.live.session_id]) if kernel.has_session else frozenset()
        policy = RetentionPolicy(
            max_age_hours=parse_duration(older) / 3600 if older is not None else None,
            max_sessions=options.max_sessions,
            keep=here,
        )
        if options.yes and not options.dry_run:
            result = await asyncio.to_thread(prune_sessions, 0, root, logger=kernel.home.logger, policy=policy)
            data = {"deleted": result.deleted_sessions, "reclaimed_bytes": result.reclaimed_bytes}
            return _say(str(result) + "".join(f"\n{name}: {text}" for name, text in result.errors.items()), data)
        found = await asyncio.to_thread(plan_prune, root, policy)
        rows = [
            (
                render.code(d.session_id),
                _name(root, d.session_id),
                format_size(d.size_bytes),
                format_age(d.age_hours * 3600),
            )
            for d in found.remove
        ]
        freed = format_size(found.reclaimed_bytes)
        data = {"would_delete": [d.session_id for d in found.remove], "would_reclaim_bytes": found.reclaimed_bytes}
        if not rows:
            return _say("No session would be deleted.", data)
        caption = f"{render.counted(len(rows), 'session')} would be deleted, {freed} freed. To do it, add `--yes`."
        return _table(data, ("session", "title or notebook", "size", "last used"), rows, numbers=(2,), caption=caption)

    def prune_at_start(self) -> None:
        """What the configuration asks for; on a thread, and never a kernel's failure."""
        from wasm_kernel.sessions.pruning import prune_sessions

        kernel = self._kernel
        try:
            wanted = dict(kernel.retention)
            policy = RetentionPolicy(
                max_age_hours=parse_duration(str(wanted["older_than"])) / 3600 if "older_than" in wanted else None,
                max_sessions=wanted.get("max_sessions"),
                max_total_bytes=parse_size(str(wanted["max_total"])) if "max_total" in wanted else None,
                keep=frozenset([kernel.live.session_id]),
            )
            prune_sessions(0, kernel.home.root, logger=kernel.home.logger, policy=policy)
        except Exception:
            kernel.log.exception("the prune at the start failed")

    # ---- %pip

    async def _pip(self, words: list[str], parent: Message, cancelled: threading.Event) -> Answer:
        from wasm_kernel.sessions.packages import install_packages, list_packages, uninstall_packages

        if not self._kernel.allow_pip:
            raise ConfigurationError("%pip is switched off here (WasmKernel.allow_pip)")
        action, words = (words[0], words[1:]) if words else ("", [])
        live = await self._kernel.ready(parent)
        root = self._kernel.home.root
        if action == "list":
            _none(words, "%pip list")
            found = await asyncio.to_thread(list_packages, live.session_id, root)
            data = [{"name": p.name, "version": p.version, "built_in": p.built_in} for p in found]
            rows = [(p.name, p.version, "" if p.built_in else "this session's own") for p in found]
            return _table(
                data, ("package", "version", ""), rows, caption=render.counted(len(found), "package"), most=1000
            )
        quiet = {"-q", "--quiet", "-y", "--yes"}
        upgrade = bool({"-U", "--upgrade"} & set(words))
        names = [w for w in words if w not in {*quiet, "-U", "--upgrade"}]
        if action not in ("install", "uninstall") or not names:
            raise ConfigurationError("say %pip install NAME …, %pip list or %pip uninstall NAME …; see %pip?")
        shown = Shown(self._kernel, parent, silent=bool(quiet & {"-q", "--quiet"} & set(words)))
        try:
            if action == "uninstall":
                done = await asyncio.to_thread(uninstall_packages, live.session_id, names, root, cancel=cancelled)
            else:
                done = await asyncio.to_thread(
                    install_packages,
                    live.session_id,
                    names,
                    root,
                    on_progress=shown.tell,
                    upgrade=upgrade,
                    cancel=cancelled,
                )
        except PackageError as e:
            if e.cause == "cancelled":
                raise Interrupted(str(e)) from None
            raise
        finally:
            shown.clear()
        changes = {"added": [str(p) for p in done.added], "removed": [str(p) for p in done.removed]}
        return _say("\n".join([str(done), *done.notes]), changes)

    # ---- completion

    def complete(self, code: str, position: int) -> Message | None:
        """Completions in a line of one of our magics; None elsewhere."""
        line = code[:position].rpartition("\n")[2]
        match = re.match(r"\s*(?:[\w\s,.]+=\s*)?%(session|prune|pip)\s+(.*)\Z", line)
        if match is None:
            return None
        *before, word = match[2].split(" ")
        first = [w for w in before if w]
        choices: Sequence[str] = _SUBCOMMANDS[match[1]]
        if match[1] == "session" and first:
            choices = _ARGUMENTS.get(first[0], ())
            if first[0] in ("attach", "delete"):
                choices = [*choices, *self._known_ids()]
        found = sorted(c for c in choices if c.startswith(word))
        start = position - len(word)
        return {"status": "ok", "matches": found, "cursor_start": start, "cursor_end": position, "metadata": {}}

    def _known_ids(self) -> list[str]:
        from wasm_kernel.model.records import is_session_id

        try:
            return [p.name for p in self._kernel.home.root.iterdir() if is_session_id(p.name)][:1000]
        except OSError:
            return []


_SUBCOMMANDS: dict[str, tuple[str, ...]] = {
    "session": tuple(
        name.removeprefix("_session_") for name in vars(Commands) if re.fullmatch(r"_session_[a-z]+", name)
    ),
    "prune": ("--older-than", "--max-sessions", "--dry-run", "--yes"),
    "pip": ("install", "list", "uninstall"),
}
_ARGUMENTS: dict[str, tuple[str, ...]] = {
    "watch": ("on", "off"),
    "limits": tuple(f"{name}=" for name in limits.LIMITS),
    "delete": ("--yes",),
    "download": ("--zip",),
}


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


def _none(words: list[str], usage: str) -> None:
    if words:
        raise ConfigurationError(f"{usage} does not take {words[0]!r}")


def _one(words: list[str], usage: str) -> str:
    if len(words) != 1:
        raise ConfigurationError(f"{usage}: give exactly one")
    return words[0]


def _name(root: Path, session_id: str) -> str:
    """What a person knows a session by."""
    try:
        record = read_record(root / session_id)
    except BadRecord:
        return ""
    extra = record.extra if record is not None else {}
    return str(extra.get("title") or Path(str(extra.get("notebook") or "")).name)[:200]


def _used(size: float, limit: float) -> Html:
    label = f"{format_size(size)} of {format_size(limit)}"
    return Html(render.bar(size / limit if limit else 1.0, label), label)
