"""New folders, other names, other places, deleting and what can be undone of it: each after a question.

What is changed is what was named when the person was asked, not what is selected by then.
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
from wasm_kernel.host.folder import Folder
from wasm_kernel.host.workspace import survey
from wasm_kernel.kernel.files import transfer
from wasm_kernel.kernel.files.acts import Said, names
from wasm_kernel.kernel.render import counted, escape, visible

if TYPE_CHECKING:
    from wasm_kernel.kernel.files.browser import Browser
    from wasm_kernel.sessions.recovery import Kept

_LISTED = 20  # names in a question
_SUGGESTED = 500  # folders to choose from


class Changes:
    """The questions of one browser."""

    def __init__(self, browser: Browser) -> None:
        self._browser, self._panel, self._kernel = browser, browser.panel, browser.kernel

    async def new_folder(self) -> None:
        """Make a folder in the one that is shown."""
        name, here = _field(w.Text(placeholder="name")), self._browser.view.folder

        async def make() -> Said:
            path = _below(here, name.value)
            await self._on_disk(lambda folder: folder.make_folder(path, exist_ok=False))
            return Said(f"Made: {path}")

        self._panel.ask("New folder, in the folder shown:", name, "Make folder", make)

    async def rename(self) -> None:
        """Give what is selected another name."""
        if len(self._browser.chosen()) != 1:
            return
        (entry,) = self._browser.chosen()
        name = _field(w.Text(value=visible(entry.name)))

        async def rename() -> Said:
            target = _below(entry.path.rpartition("/")[0], name.value)
            await self._on_disk(lambda folder: folder.move(entry.path, target))
            self._browser.select(target)
            return Said(f"{visible(entry.name)} is called {name.value.strip()} now")

        self._panel.ask(f"New name of <b>{escape(entry.name)}</b>:", name, "Rename", rename)

    async def move(self) -> None:
        """Put what is selected into another folder."""
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
        """Delete what is selected. What the last checkpoint has can be brought back."""
        chosen = self._browser.chosen()
        if not chosen:
            return
        kept = await self._kept([e.path for e in chosen])
        listed = "".join(
            f"<div>{escape(e.name)}{'/ and all that is in it' if e.kind == 'folder' else ''}</div>"
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
        """What the newest checkpoint has of these; None without checkpoints."""
        from wasm_kernel.sessions.recovery import kept

        if not self._kernel.checkpoint:
            return None
        await self._kernel.timeline.settled()  # that of the last cell may be under way
        live = self._kernel.live
        return await asyncio.to_thread(kept, live.root, live.session_id, paths)

    async def _undelete(self, kept: Kept) -> None:
        from wasm_kernel.sessions.recovery import bring_back

        live = self._kernel.live
        sizes = {os.fsdecode(f.path): f.size for f in kept.files if f.kind == "file"}
        await asyncio.to_thread(transfer.check_upload, live.folder, self._browser.policy, sizes)
        taken = await asyncio.to_thread(bring_back, live.root, live.session_id, kept.files)
        text = f"Brought back from the last checkpoint: {counted(len(kept.files) - len(taken), 'item')}"
        self._browser.acts.say(Said(text + (f"; there again already: {names(taken)}" if taken else "")))
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
        return "This can be undone: the last checkpoint has it."
    return (
        f"Cannot be brought back, because no checkpoint has it as it is now: <b>{escape(names(kept.lost))}</b>. "
        "One is made after each cell."
    )


def _field(made: w.Text | w.Combobox) -> w.Text | w.Combobox:
    """Sent when it is left, so before the button that is pressed next; while one types, a part could be sent alone."""
    made.continuous_update = False
    made.add_class("wk-wide")
    return made


def _folders(root: Path) -> list[str]:
    """Folders that can be typed."""
    return ["", *sorted(f for f in survey(root).folders if visible(f) == f)]


def _below(folder: str, name: str) -> str:
    """A path of a name that a person typed."""
    name = name.strip()
    if not name or "/" in name or name in (".", ".."):
        raise ConfigurationError(f"{name!r} is no name; it must be one without a slash")
    return f"{folder}/{name}" if folder else name
