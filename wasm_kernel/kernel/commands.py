"""The host's magics: %session, %prune, %pip. They start only from the text of a cell the user sent."""

from __future__ import annotations

import asyncio
import re
import threading
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from wasm_kernel.errors import ConfigurationError, Interrupted, NotAllowed, PackageError
from wasm_kernel.host import workspace
from wasm_kernel.host.ledger import read_record, write_record
from wasm_kernel.kernel import render
from wasm_kernel.kernel.answers import Answer, Message, Shown, Usage, none, one, say, table, words_of
from wasm_kernel.kernel.cells import HostMagic
from wasm_kernel.kernel.grants import SETTING, VARIABLE, forbidden
from wasm_kernel.kernel.render import Html
from wasm_kernel.kernel.travel import TimeTravel
from wasm_kernel.model import limits
from wasm_kernel.model.grants import GRANTS, legible
from wasm_kernel.model.outcome import SandboxResult
from wasm_kernel.model.records import BadRecord
from wasm_kernel.model.retention import RetentionPolicy
from wasm_kernel.model.units import format_age, format_size, parse_duration, parse_size

if TYPE_CHECKING:
    from wasm_kernel.kernel.kernel import WasmKernel
    from wasm_kernel.sessions.session import LiveSession


class Commands(TimeTravel):
    """The magics of one kernel."""

    def __init__(self, kernel: WasmKernel) -> None:
        self._kernel = kernel

    @property
    def last_result(self) -> SandboxResult | None:
        """What the last cell gave."""
        return self._kernel.last_result

    async def do(self, magic: HostMagic, parent: Message, cancelled: threading.Event) -> Answer:
        """Do what a magic says. Raises what the user did wrong."""
        words = words_of(magic.line)
        if magic.name == "prune":
            return await self._prune(words, used=magic.used)
        if magic.name == "pip":
            return await self._pip(words, parent, cancelled)
        name, words = (words[0], words[1:]) if words else ("info", [])
        action = getattr(self, f"_session_{name}", None)
        if action is None:
            raise ConfigurationError(f"%session {name} is not known; there are {', '.join(_SUBCOMMANDS['session'])}")
        if name == "list" and magic.used:
            await self._kernel.require("list", "read the names of all your sessions and of their notebooks")
        answer: Answer = await action(words, parent)
        return answer

    # ---- %session

    async def _session_info(self, words: list[str], parent: Message) -> Answer:
        """What the session is and uses."""
        none(words, "%session info")
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
            "trusted": kernel.outputs_trusted,
            "grants": list(kernel.granted.given()),
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
            ("outputs", "shown as they are" if data["trusted"] else "sealed"),
            ("grants", ", ".join(data["grants"]) or "none"),
        ]
        return table(data, (), rows)

    async def _session_list(self, words: list[str], parent: Message) -> Answer:
        """Every session of this user."""
        from wasm_kernel.sessions.listing import list_sessions

        none(words, "%session list")
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
        listed = table(data, header, rows, numbers=(2,), caption=f"{render.counted(len(found), 'session')}, {total}")
        return replace(listed, private=True)

    async def _here(self, parent: Message) -> str:
        """This kernel's session; empty when it has none, because there are as many as are allowed."""
        try:
            return (await self._kernel.ready(parent)).session_id
        except NotAllowed:
            return ""

    async def _session_files(self, words: list[str], parent: Message) -> Answer:
        """The files in /app, or in a folder of it: a browser where there are widgets, else a table."""
        from wasm_kernel.kernel.files.transfer import relative
        from wasm_kernel.sessions.files import list_session_files

        live = await self._kernel.ready(parent)
        folder = relative(words[0]) if words else ""
        none(words[1:], "%session files")
        found = await asyncio.to_thread(list_session_files, live.session_id, self._kernel.home.root, folders=True)
        shown = [f for f in found if not folder or f.startswith(f"{folder}/")]
        if folder and not any(f == folder and f.kind == "folder" for f in found):
            raise ConfigurationError(f"there is no folder {folder!r} in /app")
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
        listed = table(data, ("name", "size", "changed (UTC)"), rows, numbers=(1,), caption=caption)
        return replace(listed, view=lambda: self._kernel.browsers.make(folder).mime_bundle())

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
        return table(data, header, rows, numbers=(1, 2) if maxima else (1,))

    async def _session_watch(self, words: list[str], parent: Message) -> Answer:
        """Show after each cell which files it changed."""
        if words not in (["on"], ["off"], []):
            raise ConfigurationError(f"%session watch {' '.join(words)}: say on or off")
        if words:
            self._kernel.watch = words == ["on"]
        state = "on" if self._kernel.watch else "off"
        return say(f"Changed files are {'shown after each cell' if self._kernel.watch else 'not shown'}.", state)

    async def _session_reset(self, words: list[str], parent: Message) -> Answer:
        """A fresh interpreter over the same files."""
        none(words, "%session reset")
        await self._kernel.ready(parent)

        async def reset() -> Answer:
            await self._kernel.timeline.reset()
            self._kernel.forget_guest()
            return say("The interpreter is fresh; the files in /app are as they were.")

        return Answer(afterwards=reset)

    async def _session_new(self, words: list[str], parent: Message) -> Answer:
        """A new, empty session for this notebook."""
        none(words, "%session new")
        before = (await self._kernel.ready(parent)).session_id

        async def move() -> Answer:
            await self._kernel.move(self._kernel.home.move_to_new)
            now = self._kernel.live.session_id
            return say(f"This notebook has a new session, {now}. The old one stays: `%session attach {before}`", now)

        return Answer(afterwards=move)

    async def _session_attach(self, words: list[str], parent: Message) -> Answer:
        """Go on in another session."""
        session_id = one(words, "%session attach ID")
        live = await self._kernel.ready(parent)
        self._kernel.home.check_other(session_id, live)
        described = await asyncio.to_thread(self._describe, session_id)
        await self._kernel.require("attach", "go on in another session, with its files and variables", [described])

        async def move() -> Answer:
            await self._kernel.move(lambda now: self._kernel.home.move_to(session_id, now))
            with_what = "its variables" if self._kernel.home.resumed is not None else "a fresh interpreter"
            return say(f"This notebook now uses session {session_id}, with {with_what}.", session_id)

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
        return say(f"This session is called {title!r} now.", title)

    async def _session_delete(self, words: list[str], parent: Message) -> Answer:
        """Delete a session and its files."""
        from wasm_kernel.sessions.catalog import delete_session_workspace

        sure = "--yes" in words
        words = [w for w in words if w != "--yes"]
        current = await self._here(parent)
        session_id = words[0] if words else current
        none(words[1:], "%session delete")
        root = self._kernel.home.root
        if not session_id or not (root / session_id).is_dir():
            raise ConfigurationError(f"there is no session {session_id}; `%session list` shows which there are")
        if not sure:
            here = "this session" if session_id == current else f"session {session_id}"
            return say(f"This would delete {here} and all its files. To do it: `%session delete {session_id} --yes`")

        if session_id != current:
            described = await asyncio.to_thread(self._describe, session_id)
            await self._kernel.require("delete", "delete another session and all its files", [described])

        async def delete() -> Answer:
            if session_id == current:
                await self._kernel.move(self._kernel.home.move_to_new)
            await asyncio.to_thread(delete_session_workspace, session_id, root, self._kernel.home.logger)
            return say(f"Session {session_id} and its files are deleted.", session_id)

        return Answer(afterwards=delete) if session_id == current else await delete()

    async def _session_export(self, words: list[str], parent: Message) -> Answer:
        """Write the session to one file beside the notebook."""
        from wasm_kernel.sessions.archive import export_session

        name = one(words, "%session export FILE.zip")
        if Path(name).name != name or name.startswith("."):
            raise ConfigurationError(f"{name!r} is no plain file name; the file is written beside the notebook")
        live = await self._kernel.ready(parent)
        notebook = self._kernel.home.notebook
        target = (notebook.parent if notebook is not None else Path.cwd()) / name
        if target.exists():
            raise ConfigurationError(f"{name!r} is there already; choose another name")
        await self._kernel.require("export", f"write this session's files to {legible(str(target), 400)}")
        await asyncio.to_thread(export_session, live.session_id, target, self._kernel.home.root)
        return say(f"Written: {target} ({format_size(target.stat().st_size)})", name)

    def _describe(self, session_id: str) -> str:
        """A session as a person knows it, in one line."""
        from wasm_kernel.sessions.listing import list_sessions

        found = next(iter(list_sessions(self._kernel.home.root, only=session_id)), None)
        if found is None:
            return legible(session_id)
        name = found.title or Path(found.notebook or found.former_notebook).name
        age = (datetime.now(UTC) - found.updated_at).total_seconds() if found.updated_at is not None else None
        return _line(session_id, name, found.size_bytes, age)

    # ---- %session: what it may do beyond itself

    async def _session_trust(self, words: list[str], parent: Message) -> Answer:
        """Show outputs as they are, or sealed again."""
        if words not in (["on"], ["off"]):
            raise ConfigurationError("%session trust on|off: say which of the two")
        kernel = self._kernel
        await kernel.ready(parent)
        if words == ["on"]:
            await kernel.require("trust", "show its outputs as they are: scripts in them act in your browser as you")
            kernel.granted.keep("trust")
            kernel.trust_outputs(True)
            return say(
                "This session is trusted: outputs are shown as they are from now on. Run earlier cells again to see "
                "theirs. To seal them again: `%session trust off`",
                "on",
            )
        kernel.granted.revoke("trust")
        kernel.trust_outputs(False)
        if kernel.outputs_trusted:
            raise ConfigurationError("outputs are shown as they are by the configuration (WasmKernel.seal_outputs)")
        return say("Outputs are sealed from now on. Run earlier cells again to seal theirs.", "off")

    async def _session_grants(self, words: list[str], parent: Message) -> Answer:
        """What this session may do beyond itself."""
        none(words, "%session grants")
        await self._kernel.ready(parent)
        given = self._kernel.granted.given()
        rows = []
        for name, meaning in GRANTS.items():
            when = given.get(name)
            source = forbidden(name)
            state = "never, says the administrator" if source else "asks first" if when is None else "allowed"
            since = "by the configuration" if when == "" else (when or "")[:16].replace("T", " ")
            rows.append((name, state, since, meaning))
        return table(list(given), ("grant", "", "since (UTC)", "with it this session's cells may"), rows)

    async def _session_revoke(self, words: list[str], parent: Message) -> Answer:
        """Take a grant back."""
        name = one(words, "%session revoke NAME")
        if name not in GRANTS:
            raise ConfigurationError(f"there is no grant {name!r}; there are {', '.join(GRANTS)}")
        kernel = self._kernel
        await kernel.ready(parent)
        kernel.granted.revoke(name)
        if name == "trust":
            kernel.trust_outputs(False)
        if name in kernel.granted.given():
            raise ConfigurationError(f"{name!r} is given by the configuration; take it out of {SETTING} or {VARIABLE}")
        return say(f"Taken back: you are asked again before this session's cells {GRANTS[name]}.", name)

    def changed_files(self, result: SandboxResult) -> Answer:
        """Which files a cell created, changed or deleted."""
        rewritten = [name for name in result.files_modified if name not in set(result.files_created)]
        kinds = (("+", result.files_created), ("~", rewritten), ("−", result.files_deleted))
        rows = [(sign, name) for sign, names in kinds for name in names]
        return table(None, (), rows) if rows else Answer()

    # ---- %prune

    async def _prune(self, words: list[str], *, used: bool) -> Answer:
        from wasm_kernel.sessions.housekeeping import carry_out, plan_housekeeping

        parser = Usage("%prune", add_help=False)
        parser.add_argument("--older-than", default=None)
        parser.add_argument("--max-sessions", type=int, default=None)
        parser.add_argument("--dry-run", action="store_true")
        parser.add_argument("--yes", action="store_true")
        options = parser.parse_args(words)
        older = options.older_than
        kernel = self._kernel
        root = kernel.home.root
        here = frozenset([kernel.live.session_id]) if kernel.has_session else frozenset()
        policy = RetentionPolicy(
            max_age_hours=parse_duration(older) / 3600 if older is not None else None,
            max_sessions=options.max_sessions,
            keep=here,
        )
        planned = await asyncio.to_thread(plan_housekeeping, root, policy)
        going = planned.sessions.remove
        if options.yes and not options.dry_run:
            if going or planned.forget:
                lines = [
                    _line(d.session_id, _name(root, d.session_id), d.size_bytes, d.age_hours * 3600) for d in going
                ]
                lines += [
                    f"{d.session_id}, deleted {format_age(d.age_hours * 3600)}: its snapshots" for d in planned.forget
                ]
                amount = f"{render.counted(len(lines), 'session')}, {format_size(planned.reclaimed_bytes)}"
                await kernel.require("prune", f"delete {amount}", lines)
            # What was asked about is done, and nothing else, however long the answer took.
            result = await asyncio.to_thread(carry_out, root, planned, kernel.home.logger)
            data = {"deleted": result.deleted_sessions, "reclaimed_bytes": result.reclaimed_bytes}
            return say(str(result) + "".join(f"\n{name}: {text}" for name, text in result.errors.items()), data)
        if used:
            await kernel.require("list", "read which of your sessions were not used for a while")
        rows = [
            (
                render.code(d.session_id),
                _name(root, d.session_id),
                format_size(d.size_bytes),
                format_age(d.age_hours * 3600),
            )
            for d in going
        ]
        freed = format_size(planned.reclaimed_bytes)
        data = {"would_delete": [d.session_id for d in going], "would_reclaim_bytes": planned.reclaimed_bytes}
        if not rows:
            text = "No session would be deleted."
            if planned.forget:
                text += f" Snapshots of {render.counted(len(planned.forget), 'deleted session')} would go, {freed}."
            if not policy.is_bounded:
                text += " Say which should go: `%prune --older-than 24h`, or `%prune --max-sessions N`."
            return say(text, data)
        caption = f"{render.counted(len(rows), 'session')} would be deleted, {freed} freed. To do it, add `--yes`."
        header = ("session", "title or notebook", "size", "last used")
        return replace(table(data, header, rows, numbers=(2,), caption=caption), private=True)

    def prune_at_start(self) -> None:
        """What the configuration asks for; on a thread, and never a kernel's failure."""
        from wasm_kernel.sessions.housekeeping import prune_sessions

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
            none(words, "%pip list")
            found = await asyncio.to_thread(list_packages, live.session_id, root)
            data = [{"name": p.name, "version": p.version, "built_in": p.built_in} for p in found]
            rows = [(p.name, p.version, "" if p.built_in else "this session's own") for p in found]
            return table(
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
        return say("\n".join([str(done), *done.notes]), changes)

    # ---- completion

    def complete(self, code: str, position: int) -> Message | None:
        """Completions in a line of one of our magics; None elsewhere."""
        line = code[:position].rpartition("\n")[2]
        match = re.match(r"\s*+(?:[\w\s,.]++=\s*+)?%(session|prune|pip)\s+(.*)\Z", line)
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
        name.removeprefix("_session_") for name in dir(Commands) if re.fullmatch(r"_session_[a-z]+", name)
    ),
    "prune": ("--older-than", "--max-sessions", "--dry-run", "--yes"),
    "pip": ("install", "list", "uninstall"),
}
_ARGUMENTS: dict[str, tuple[str, ...]] = {
    "watch": ("on", "off"),
    "trust": ("on", "off"),
    "revoke": tuple(GRANTS),
    "limits": tuple(f"{name}=" for name in limits.LIMITS),
    "delete": ("--yes",),
    "download": ("--zip",),
}


def _name(root: Path, session_id: str) -> str:
    """What a person knows a session by."""
    try:
        record = read_record(root / session_id)
    except BadRecord:
        return ""
    extra = record.extra if record is not None else {}
    return str(extra.get("title") or Path(str(extra.get("notebook") or "")).name)[:200]


def _line(session_id: str, name: str, size: int, age: float | None) -> str:
    """A session in a question: its names are somebody's text."""
    called = f" {legible(name)!r}" if name else ""
    return f"{session_id}{called}, {format_size(size)}" + (f", last used {format_age(age)}" if age is not None else "")


def _used(size: float, limit: float) -> Html:
    label = f"{format_size(size)} of {format_size(limit)}"
    return Html(render.bar(size / limit if limit else 1.0, label), label)
