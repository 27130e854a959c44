"""`%session add` and `%session mount`: what lies beside the notebook, copied into the session or shown to it."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable

from wasm_kernel.errors import ConfigurationError, Interrupted, PathRefused
from wasm_kernel.host.files import notebook_folder
from wasm_kernel.host.files.folder_walk import Item
from wasm_kernel.host.files.quota import Quota
from wasm_kernel.kernel.magics.answers import Answer, Message, ProgressLine, say
from wasm_kernel.kernel.magics.host import Group
from wasm_kernel.model.grants import legible
from wasm_kernel.model.units import counted, format_size

_USUALLY_DONE = 1.0  # seconds after which progress is shown
_EVERY = 0.3


class NotebookFileMagics(Group):
    """Files of the notebook's folder. ``cancelled``: set when the running cell is interrupted."""

    cancelled = threading.Event()

    async def session_add(self, words: list[str], parent: Message) -> Answer:
        """Copy files or folders from the notebook's folder into /app."""
        if not words or any(word.startswith("--") for word in words):
            raise ConfigurationError("%session add PATH …: give files or folders beside the notebook")
        live, cancelled = (await self._host.ready(parent)).live, self.cancelled
        await asyncio.to_thread(self._place.follow, live)
        source = self._place.folder
        quota = await asyncio.to_thread(live.sandbox.quota)

        def look() -> tuple[list[str], list[Item]]:
            paths = [path for word in words for path in notebook_folder.matching(source, word)]
            return paths, notebook_folder.survey(source, paths, quota.max_entries)

        paths, found = await asyncio.to_thread(look)
        files = [item for item in found if item.kind == "file"]
        total = sum(item.size for item in files)
        _check(files, len(found), total, quota)
        details = [f"{legible(path, 200)}{_size_of(path, files)}" for path in paths]
        await self._host.require("add", f"copy from {legible(str(source), 400)} into this session", details)
        shown = ProgressLine(self._host.publish, parent, silent=False)
        try:
            progress = _progress(shown, total, cancelled)
            await asyncio.to_thread(notebook_folder.copy, source, paths, live.folder, quota.free, progress)
        finally:
            shown.clear()
        names = ", ".join(f"/app/{path.strip('/')}" for path in paths[:5]) + (", …" if len(paths) > 5 else "")
        text = f"Copied into this session: {names} ({counted(len(files), 'file')}, {format_size(total)})"
        return say(text, [item.path for item in files])

    async def session_mount(self, words: list[str], parent: Message) -> Answer:
        """Show the notebook's folder, or one in it, at /data, read-only; --off ends that."""
        if len(words) > 1 or (words and words[0].startswith("--") and words != ["--off"]):
            raise ConfigurationError("%session mount [FOLDER], or %session mount --off")
        runtime, data = await self._host.ready(parent), self._host.data_folder
        if words == ["--off"]:
            return Answer(afterwards=self._unmounted)
        await asyncio.to_thread(self._place.follow, runtime.live)
        folder = await asyncio.to_thread(data.find, words[0] if words else "")
        await self._host.require("mount", f"read everything in {legible(str(folder), 400)}, at /data")

        async def show() -> Answer:
            await data.show(folder)
            return say(f"{folder} is at `/data` now, read-only. To end that: `%session mount --off`", folder.name)

        return Answer(afterwards=show)

    async def _unmounted(self) -> Answer:
        before = self._host.data_folder.shown
        await self._host.data_folder.show(None)
        return say(f"{before} is no longer at `/data`." if before is not None else "Nothing is shown at `/data`.")


def _check(files: list[Item], count: int, total: int, quota: Quota) -> None:
    """Refuse what does not fit before anything is copied."""
    large = next((item for item in files if item.size > quota.max_file), None)
    otherwise = "or leave the files where they are and read them at /data: %session mount"
    if large is not None:
        raise PathRefused(
            f"{large.path!r} has {format_size(large.size)}, and a file of this session may have "
            f"{format_size(quota.max_file)}; raise that with %session limits file=…, {otherwise}"
        )
    if total > quota.free:
        raise PathRefused(
            f"there is no room: the files have {format_size(total)}, and this session's disk limit leaves "
            f"{format_size(quota.free)}; raise it with %session limits disk=…, {otherwise}"
        )
    if count > quota.free_entries:
        raise PathRefused(
            f"these are {count:,} files and folders, and this session may have {quota.free_entries:,} more; raise "
            f"that with %session limits files=…, {otherwise}"
        )


def _size_of(path: str, files: list[Item]) -> str:
    """What a path brings, for the question."""
    name = "/".join(part for part in path.split("/") if part not in ("", "."))
    own = [item for item in files if item.path == name]
    inside = own or [item for item in files if not name or item.path.startswith(f"{name}/")]
    count = "" if own else f"{counted(len(inside), 'file')}, "
    return f" ({count}{format_size(sum(item.size for item in inside))})"


def _progress(shown: ProgressLine, total: int, cancelled: threading.Event) -> Callable[[int], None]:
    """Called with each piece that was copied: says how far it is if it takes long, and ends it on an interrupt."""
    done, told = 0, time.monotonic() + _USUALLY_DONE - _EVERY

    def progress(size: int) -> None:
        nonlocal done, told
        if cancelled.is_set():
            raise Interrupted("copying was interrupted; files that are there are whole")
        done += size
        now = time.monotonic()
        if now - told > _EVERY:
            told = now
            shown.tell(f"copying: {format_size(done)} of {format_size(total)}", done / max(total, 1))

    return progress
