"""The side of a file browser that previews the selected file."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import ipywidgets as w

from wasm_kernel.kernel.files import media, preview
from wasm_kernel.kernel.files.acts import Acts, reason
from wasm_kernel.kernel.files.listing import Entry
from wasm_kernel.kernel.files.transfer import Links
from wasm_kernel.kernel.render import escape
from wasm_kernel.model.units import format_size

_NOTHING = '<span class="wk-dim">Select a file to preview it.</span>'


class Pane:
    """Shows the latest selection, skipping those made while a file was being read."""

    def __init__(self, acts: Acts, where: Callable[[], tuple[Path, Links | None]]) -> None:
        self._acts, self._where = acts, where
        self._chosen: list[Entry] = []
        self._shown: tuple[Any, ...] = ()
        self._reading = False
        self._about = w.HTML()
        self._found = preview.Preview()
        self._draw = acts.button("Draw", "image", "Show this SVG as a picture", self._drawn, "draw")
        self.widget = w.VBox([self._about])
        self.widget.add_class("wk-right")

    def show(self, chosen: Sequence[Entry]) -> None:
        """The selection has changed, or its file may have."""
        identity = tuple((e.path, e.size, e.modified_ns) for e in chosen)
        if identity == self._shown and identity:
            return
        self._chosen, self._shown = list(chosen), identity
        if self._is_file():
            if not self._reading:
                self._acts.start(self._read)
        elif not chosen:
            self._fill(_NOTHING)
        elif len(chosen) == 1:
            what = "a folder: open it" if chosen[0].kind == "folder" else "neither a file nor a folder"
            self._fill(_title(chosen[0], what))
        else:
            total = format_size(sum(e.size for e in chosen))
            self._fill(f'<div class="wk-title">{len(chosen):,} selected</div><span class="wk-dim">{total}</span>')

    def _is_file(self) -> bool:
        return len(self._chosen) == 1 and self._chosen[0].kind in ("file", "link")

    async def _read(self) -> None:
        self._reading = True
        try:
            shown: tuple[Any, ...] = ()
            while shown != self._shown and self._is_file():
                shown, entry = self._shown, self._chosen[0]
                root, links = self._where()
                try:
                    found = await asyncio.to_thread(preview.preview, root, entry, links)
                except (OSError, ValueError) as e:
                    found = preview.Preview("", f'<div class="wk-error">{escape(reason(e))}</div>')
                if shown == self._shown:
                    self._fill(_title(entry, found.said) + found.markup, found)
        finally:
            self._reading = False

    def _fill(self, markup: str, found: preview.Preview | None = None) -> None:
        self._found = found or preview.Preview()
        self._about.value = markup
        parts = (self._draw, self._about) if self._found.drawing else (self._about,)
        if parts != self.widget.children:
            self.widget.children = parts

    async def _drawn(self) -> None:
        if self._found.drawing and self._is_file():
            title = _title(self._chosen[0], self._found.said)
            self._fill(title + media.drawing(self._found.drawing) + self._found.markup)


def _title(entry: Entry, said: str) -> str:
    size = format_size(entry.size) if entry.kind == "file" else ""
    facts = " · ".join(filter(None, (entry.type, size, said)))
    return f'<div class="wk-title">{escape(entry.name)}</div><div class="wk-dim">{escape(facts)}</div>'
