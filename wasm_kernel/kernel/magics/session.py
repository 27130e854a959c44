"""`%session`: what the session is and holds, its limits, and moving to another one."""

from __future__ import annotations

import asyncio
import re
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from wasm_kernel.errors import ConfigurationError, NotAllowed
from wasm_kernel.guest.host_help import HELP
from wasm_kernel.host.disk.records import read_record, write_record
from wasm_kernel.host.files import workspace_survey
from wasm_kernel.kernel import render
from wasm_kernel.kernel.magics.answers import Answer, Message, none, one, say, table
from wasm_kernel.kernel.magics.host import Group
from wasm_kernel.kernel.magics.naming import one_line
from wasm_kernel.kernel.render import Html
from wasm_kernel.model import limits
from wasm_kernel.model.grants import legible
from wasm_kernel.model.outcome import SandboxResult
from wasm_kernel.model.units import counted, format_age, format_size
from wasm_kernel.sessions.session import LiveSession

_OLDER = (
    "an earlier version, with which the variables were saved; %session reset moves to the current one, without them"
)


class SessionMagics(Group):
    """Commands about the session itself. ``watch``: whether to show changed files after each cell."""

    watch = False

    # ---- %session

    async def session_help(self, words: list[str], parent: Message) -> Answer:
        """List the commands."""
        none(words, "%session help")
        usage, _, more = HELP["session"].partition("\n\n    The host runs")
        lines = [re.split(r" {3,}", line.strip(), maxsplit=1) for line in usage.splitlines() if "%session" in line]
        rows: list[render.Row] = [(render.code(command), meaning) for command, meaning in lines]
        return table(None, ("command", "what it does"), rows, caption=" ".join(f"The host runs{more}".split()))

    async def session_info(self, words: list[str], parent: Message) -> Answer:
        """Show what the session is and how much it uses."""
        none(words, "%session info")
        runtime = await self._host.ready(parent)
        live, last = runtime.live, runtime.last_result
        await asyncio.to_thread(self._place.follow, live)
        survey = await asyncio.to_thread(workspace_survey.survey, live.folder)
        quota = await asyncio.to_thread(live.sandbox.quota)
        await asyncio.to_thread(runtime.metadata.write)  # also of the last cells
        record = read_record(live.folder)
        policy, extra = live.sandbox.policy, record.extra if record is not None else {}
        memory = last.memory_bytes if last is not None else live.sandbox.base_bytes
        age = (datetime.now(UTC) - record.created_at).total_seconds() if record is not None else 0.0
        notebook = self._place.notebook
        data = {
            "session_id": live.session_id,
            "title": str(extra.get("title") or ""),
            "notebook": notebook.name if notebook is not None else None,
            "files": len(survey.files),
            "disk_bytes": quota.used,
            "disk_limit_bytes": policy.workspace_bytes,
            "memory_bytes": memory,
            "memory_limit_bytes": policy.memory_bytes,
            "timeout_seconds": policy.timeout_seconds,
            "cells": extra.get("execution_count", 0),
            "age_seconds": round(age),
            "older_image": live.sandbox.image.key if live.on_older_image else None,
            "trusted": self._host.outputs_trusted,
            "grants": list(self._host.granted.given()),
            "network": self._host.network_access.in_force,
            "remote": self._place.remote.facts if self._place.remote is not None else None,
            "data_folder": shown.name if (shown := self._host.data_folder.shown) is not None else None,
        }
        most = format_size(policy.memory_bytes)
        rows: list[render.Row] = [("session", render.code(live.session_id))]
        if data["title"]:
            rows.append(("title", data["title"]))
        rows += [
            ("notebook", str(notebook) if notebook is not None else "none: this session belongs to this kernel only"),
            ("folder", f"{live.folder} (in cells: /app)"),
            ("/data", self._host.data_folder.described),
            ("files", f"{len(survey.files):,}"),
            ("disk", "unknown: folders nested too deep" if quota.used is None else _used(quota.used, quota.limit)),
            ("memory", _used(memory, policy.memory_bytes) if memory else f"nothing has run yet; limit {most}"),
            ("time per cell", limits.describe("timeout", policy.timeout_seconds)),
            ("created", f"{format_age(age)}, {counted(data['cells'], 'cell')} run"),
            *([("sandbox", _OLDER)] if live.on_older_image else []),
            ("outputs", "unsealed" if data["trusted"] else "sealed"),
            ("network", ", ".join(data["network"]) or "none"),
            *([("object store", self._place.remote.described)] if self._place.remote is not None else []),
            ("grants", ", ".join(data["grants"]) or "none"),
        ]
        return table(data, (), rows)

    async def session_list(self, words: list[str], parent: Message) -> Answer:
        """List every session of this user."""
        from wasm_kernel.sessions.session_list import list_sessions

        none(words, "%session list")
        here = await self._here(parent)
        found = await asyncio.to_thread(list_sessions, self._place.root)
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
        listed = table(data, header, rows, numbers=(2,), caption=f"{counted(len(found), 'session')}, {total}")
        return replace(listed, private=True)

    async def _here(self, parent: Message) -> str:
        """This kernel's session; empty if it has none because the maximum number of sessions is reached."""
        try:
            return (await self._host.ready(parent)).live.session_id
        except NotAllowed:
            return ""

    async def session_files(self, words: list[str], parent: Message) -> Answer:
        """Browse the files in /app, or in a folder of it; a table where there are no widgets."""
        from wasm_kernel.kernel.files.transfer import relative
        from wasm_kernel.sessions.files import list_session_files

        live = (await self._host.ready(parent)).live
        folder = relative(words[0]) if words else ""
        none(words[1:], "%session files")
        found = await asyncio.to_thread(list_session_files, live.session_id, self._place.root, folders=True)
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
        caption = f"{counted(len(files), 'file')}, {format_size(sum(f.size for f in files))} in /app/{folder}".rstrip(
            "/"
        )
        listed = table(data, ("name", "size", "changed (UTC)"), rows, numbers=(1,), caption=caption)
        return replace(listed, view=lambda: self._host.browser(folder))

    async def session_download(self, words: list[str], parent: Message) -> Answer:
        """Links to download files, or a zip of files and folders."""
        from wasm_kernel.kernel.files import transfer

        as_zip = "--zip" in words
        names = [w for w in words if w != "--zip"]
        if not names or any(w.startswith("--") for w in names):
            raise ConfigurationError("%session download PATH … [--zip]: give files in /app, or folders with --zip")
        live = (await self._host.ready(parent)).live
        paths = [transfer.relative(name) for name in names]
        links = await asyncio.to_thread(transfer.find_links, self._place.environ, live.session_id)
        made = await asyncio.to_thread(transfer.downloads, live.folder, paths, links, as_zip=as_zip)
        sizes = ("size not known yet" if d.size is None else format_size(d.size) for d in made)
        text = "\n".join(f"{d.name}: {size}" for d, size in zip(made, sizes, strict=True))
        where = f"Links are shown in notebooks. On this machine: {live.folder}"
        return Answer([d.name for d in made], f"{text}\n{where}", transfer.markup(made))

    async def session_limits(self, words: list[str], parent: Message) -> Answer:
        """Show or change limits."""
        runtime = await self._host.ready(parent)
        live = runtime.live
        wanted = limits.parse_changes(words)
        if wanted:
            policy = limits.changed(live.sandbox.policy, wanted, self._place.maxima)
            self._place.policy = policy

            async def change() -> Answer:
                async with runtime.guest:  # an asyncio task of the guest's may be going on
                    await asyncio.to_thread(live.change_policy, policy)
                return self._limits_table(live)

            return Answer(afterwards=change, last=False)
        return self._limits_table(live)

    def _limits_table(self, live: LiveSession) -> Answer:
        policy, maxima = live.sandbox.policy, self._place.maxima
        data: dict[str, Any] = {}
        rows: list[render.Row] = []
        for name, limit in limits.LIMITS.items():
            value = data[name] = limits.current(policy, name)
            most = limits.number(name, maxima[name]) if name in maxima else None
            at_most = [limits.describe(name, most) if most else ""] if maxima else []
            rows.append((name, limits.describe(name, value), *at_most, limit.meaning))
        header = ("limit", "value", *(["at most"] if maxima else []), "bounds")
        return table(data, header, rows, numbers=(1, 2) if maxima else (1,))

    async def session_watch(self, words: list[str], parent: Message) -> Answer:
        """Switch on or off showing which files each cell changed."""
        if words not in (["on"], ["off"], []):
            raise ConfigurationError(f"%session watch {' '.join(words)}: write on or off")
        if words:
            self.watch = words == ["on"]
        state = "on" if self.watch else "off"
        return say(f"Changed files are {'shown after each cell' if self.watch else 'not shown'}.", state)

    async def session_reset(self, words: list[str], parent: Message) -> Answer:
        """Start a fresh interpreter; files stay."""
        none(words, "%session reset")
        runtime = await self._host.ready(parent)

        async def reset() -> Answer:
            await runtime.reset()
            self._host.forget_widgets()
            return say("The interpreter is fresh; the files in /app are unchanged.")

        return Answer(afterwards=reset)

    async def session_new(self, words: list[str], parent: Message) -> Answer:
        """Give this notebook a new, empty session."""
        none(words, "%session new")
        before = (await self._host.ready(parent)).live.session_id

        async def move() -> Answer:
            now = (await self._host.current.move(self._place.move_to_new)).live.session_id
            return say(
                f"This notebook has a new session, {now}. To go back to the old one: `%session attach {before}`", now
            )

        return Answer(afterwards=move)

    async def session_attach(self, words: list[str], parent: Message) -> Answer:
        """Continue in another session."""
        session_id = one(words, "%session attach ID")
        live = (await self._host.ready(parent)).live
        remote = self._place.remote
        if remote is None or session_id == live.session_id:
            self._place.check_other(session_id, live)
        described = [await asyncio.to_thread(self._describe, session_id)]
        if remote is not None and (elsewhere := await asyncio.to_thread(remote.describe, session_id)):
            described.append(elsewhere)
        await self._host.require("attach", "continue in another session, with its files and variables", described)

        async def move() -> Answer:
            opened = await self._host.current.move(lambda now: self._place.move_to(session_id, now))
            with_what = "its variables" if opened.manifest is not None else "a fresh interpreter"
            return say(f"This notebook now uses session {session_id}, with {with_what}.", session_id)

        return Answer(afterwards=move)

    async def session_rename(self, words: list[str], parent: Message) -> Answer:
        """Give the session a title."""
        title = " ".join(words).strip()[:200]
        if not title:
            raise ConfigurationError("%session rename NAME: the name is missing")
        live = (await self._host.ready(parent)).live
        record = read_record(live.folder)
        if record is None:
            raise ConfigurationError("this session has no metadata, so it cannot have a title")
        write_record(live.folder, record.touched(datetime.now(UTC), title=title), sync=True)
        return say(f"This session is now called {title!r}.", title)

    async def session_delete(self, words: list[str], parent: Message) -> Answer:
        """Delete a session and its files."""
        from wasm_kernel.sessions.deletion import delete_session_workspace

        sure = "--yes" in words
        words = [w for w in words if w != "--yes"]
        current = await self._here(parent)
        session_id = words[0] if words else current
        none(words[1:], "%session delete")
        root = self._place.root
        if not session_id or not (root / session_id).is_dir():
            raise ConfigurationError(f"there is no session {session_id}; `%session list` shows all")
        if not sure:
            here = "this session" if session_id == current else f"session {session_id}"
            return say(f"This would delete {here} and all its files. To do it: `%session delete {session_id} --yes`")

        if session_id != current:
            described = await asyncio.to_thread(self._describe, session_id)
            await self._host.require("delete", "delete another session and all its files", [described])

        async def delete() -> Answer:
            if session_id == current:
                await self._host.current.move(self._place.move_to_new)
            await asyncio.to_thread(delete_session_workspace, session_id, root, self._place.logger)
            remote = self._place.remote
            also = await asyncio.to_thread(remote.deleted, session_id) if remote is not None else ""
            return say(f"Session {session_id} and its files are deleted{also}.", session_id)

        return Answer(afterwards=delete) if session_id == current else await delete()

    async def session_export(self, words: list[str], parent: Message) -> Answer:
        """Write the session to one file next to the notebook."""
        from wasm_kernel.sessions.archive import export_session

        name = one(words, "%session export FILE.zip")
        if Path(name).name != name or name.startswith("."):
            raise ConfigurationError(f"{name!r} is not a plain file name; the file is written next to the notebook")
        live = (await self._host.ready(parent)).live
        target = self._place.folder / name
        if target.exists():
            raise ConfigurationError(f"{name!r} already exists; choose another name")
        await self._host.require("export", f"write this session's files to {legible(str(target), 400)}")
        await asyncio.to_thread(export_session, live.session_id, target, self._place.root)
        return say(f"Written: {target} ({format_size(target.stat().st_size)})", name)

    def _describe(self, session_id: str) -> str:
        """A session described in one line."""
        from wasm_kernel.sessions.session_list import list_sessions

        found = next(iter(list_sessions(self._place.root, only=session_id)), None)
        if found is None:
            return legible(session_id)
        name = found.title or Path(found.notebook or found.former_notebook).name
        age = (datetime.now(UTC) - found.updated_at).total_seconds() if found.updated_at is not None else None
        return one_line(session_id, name, found.size_bytes, age)

    def changed_files(self, result: SandboxResult) -> Answer:
        """Which files a cell created, changed or deleted."""
        rewritten = [name for name in result.files_modified if name not in set(result.files_created)]
        kinds = (("+", result.files_created), ("~", rewritten), ("−", result.files_deleted))
        rows = [(sign, name) for sign, names in kinds for name in names]
        return table(None, (), rows) if rows else Answer()


def _used(size: float, limit: float) -> Html:
    label = f"{format_size(size)} of {format_size(limit)}"
    return Html(render.bar(size / limit if limit else 1.0, label), label)
