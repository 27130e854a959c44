"""Creating folders, renaming, moving and deleting, with undo where possible: each after a question.

The change applies to what the question named, not to what is selected by then.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import ipywidgets as w

from wasm_kernel.errors import ConfigurationError
from wasm_kernel.host.files.folder import Folder
from wasm_kernel.host.files.workspace_survey import survey
from wasm_kernel.kernel.files import transfer
from wasm_kernel.kernel.files.acts import Said, names
from wasm_kernel.kernel.files.shown import Shown
from wasm_kernel.kernel.render import escape, visible
from wasm_kernel.model.units import counted

if TYPE_CHECKING:
    from wasm_kernel.sessions.recovery import Kept

_LISTED = 20  # names in a question
_SUGGESTED = 500  # folders to choose from


class Changes:
    """The questions of one browser."""

    def __init__(self, browser: Shown) -> None:
        self._browser, self._panel, self._runtime = browser, browser.panel, browser.runtime

    async def new_folder(self) -> None:
        """Create a folder in the current one."""
        name, here = _field(w.Text(placeholder="name")), self._browser.view.folder

        async def make() -> Said:
            path = _below(here, name.value)
            await self._on_disk(lambda folder: folder.make_folder(path, exist_ok=False))
            return Said(f"Made: {path}")

        self._panel.ask("Name of the new folder:", name, "Create", make)

    async def rename(self) -> None:
        """Rename the selected entry."""
        if len(self._browser.chosen()) != 1:
            return
        (entry,) = self._browser.chosen()
        name = _field(w.Text(value=visible(entry.name)))

        async def rename() -> Said:
            target = _below(entry.path.rpartition("/")[0], name.value)
            await self._on_disk(lambda folder: folder.move(entry.path, target))
            self._browser.select(target)
            return Said(f"Renamed {visible(entry.name)} to {name.value.strip()}")

        self._panel.ask(f"New name for <b>{escape(entry.name)}</b>:", name, "Rename", rename)

    async def move(self) -> None:
        """Move the selection to another folder."""
        chosen = self._browser.chosen()
        folders = await asyncio.to_thread(_folders, self._browser.root)
        taken = {e.path for e in chosen}
        suggested = [f"/app/{f}" for f in folders if f not in taken][:_SUGGESTED]
        target = _field(w.Combobox(placeholder="/app/folder", options=suggested))

        async def move() -> Said:
            into = transfer.relative(target.value.strip() or "/app")

            def each(folder: Folder) -> None:
                for entry in chosen:
                    folder.move(entry.path, f"{into}/{entry.name}" if into else entry.name)

            await self._on_disk(each)
            return Said(f"Moved to /app/{into}: {names([e.name for e in chosen])}")

        self._panel.ask(f"Move <b>{escape(names([e.name for e in chosen]))}</b> to:", target, "Move", move)

    # ---- deleting

    async def delete(self) -> None:
        """Delete the selection. What the last checkpoint contains can be restored."""
        chosen = self._browser.chosen()
        if not chosen:
            return
        kept = await self._kept([e.path for e in chosen])
        listed = "".join(
            f"<div>{escape(e.name)}{'/ and everything in it' if e.kind == 'folder' else ''}</div>"
            for e in chosen[:_LISTED]
        )
        more = f"<div>… and {len(chosen) - _LISTED:,} more</div>" if len(chosen) > _LISTED else ""

        async def delete() -> Said:
            def each(folder: Folder) -> None:
                for entry in chosen:
                    with contextlib.suppress(FileNotFoundError):
                        folder.remove(entry.path, recursive=True)

            await self._on_disk(each)
            text = f"Deleted: {names([e.name for e in chosen])}"
            return Said(text, "Undo", lambda: self._undelete(kept)) if kept is not None and kept.files else Said(text)

        what = counted(len(chosen), "item")
        names_of = f'<div class="wk-names">{listed}{more}</div>'
        question = f'Delete {what}?{names_of}<div class="wk-dim">{_undoable(kept)}</div>'
        self._panel.ask(question, None, "Delete", delete, danger=True)

    async def _kept(self, paths: Sequence[str]) -> Kept | None:
        """Which of these the newest checkpoint can restore; None without checkpoints."""
        from wasm_kernel.sessions.recovery import kept

        if not self._runtime.rules.on:
            return None
        await self._runtime.settled()  # the last cell's may still be in progress
        live = self._runtime.live
        return await asyncio.to_thread(kept, live.root, live.session_id, paths)

    async def _undelete(self, kept: Kept) -> None:
        from wasm_kernel.sessions.recovery import bring_back

        live = self._runtime.live
        sizes = {os.fsdecode(f.path): f.size for f in kept.files if f.kind == "file"}
        transfer.check_upload(await asyncio.to_thread(live.sandbox.quota), sizes)
        taken = await asyncio.to_thread(bring_back, live.root, live.session_id, kept.files)
        text = f"Restored from the last checkpoint: {counted(len(kept.files) - len(taken), 'item')}"
        self._browser.acts.say(
            Said(text + (f"; not restored, because the name is taken: {names(taken)}" if taken else ""))
        )
        self._browser.refresh()

    async def _on_disk(self, act: Callable[[Folder], None]) -> None:
        root = self._browser.root

        def work() -> None:
            with Folder(root, backslashes=True) as folder:
                act(folder)

        await asyncio.to_thread(work)


def _undoable(kept: Kept | None) -> str:
    if kept is None:
        return "This cannot be undone: checkpoints are switched off."
    if not kept.lost:
        return "This can be undone from the last checkpoint."
    return (
        f"Cannot be undone, because no checkpoint has the current version: <b>{escape(names(kept.lost))}</b>. "
        "A checkpoint is taken after each cell."
    )


def _field(made: w.Text | w.Combobox) -> w.Text | w.Combobox:
    """A text field that sends its value when it loses focus, before the next button press, not while one types."""
    made.continuous_update = False
    made.add_class("wk-wide")
    return made


def _folders(root: Path) -> list[str]:
    """Folders whose names can be typed."""
    return ["", *sorted(f for f in survey(root).folders if visible(f) == f)]


def _below(folder: str, name: str) -> str:
    """The path for a name that a person typed."""
    name = name.strip()
    if not name or "/" in name or name in (".", ".."):
        raise ConfigurationError(f"{name!r} is not a valid name; write one without a slash")
    return f"{folder}/{name}" if folder else name
