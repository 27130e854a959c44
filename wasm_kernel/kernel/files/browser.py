"""The file browser: widgets of the kernel's host, so it works while a cell runs, whatever the guest does.

This module is about showing and navigating; `changes`, `exchange` and `pane` act on the selection. Everything happens
on the kernel's loop, except disk access, which happens on a thread.
"""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import Any

import ipywidgets as w

from wasm_kernel.errors import ConfigurationError
from wasm_kernel.host.files.folder import Folder
from wasm_kernel.host.files.quota import Quota
from wasm_kernel.kernel.files import listing, style, transfer
from wasm_kernel.kernel.files.acts import Act, Acts, all_of, names, row
from wasm_kernel.kernel.files.changes import Changes
from wasm_kernel.kernel.files.exchange import Exchange
from wasm_kernel.kernel.files.listing import Entry, Page, View
from wasm_kernel.kernel.files.looking import Looks, Seen
from wasm_kernel.kernel.files.pane import Pane
from wasm_kernel.kernel.files.panel import Panel
from wasm_kernel.kernel.render import bar, escape, visible
from wasm_kernel.model.names import key_of
from wasm_kernel.model.units import format_size
from wasm_kernel.sessions.runtime import SessionRuntime

_PAUSE = 1.0  # seconds between looks while a cell runs
_SHARE = 10  # and at least this many times as long as the last look took
_MOST = 4  # browsers of one kernel: beyond that, the oldest is closed
_SIGNS = {"new": "+", "changed": "~"}
_ROWS = (8, 16)  # lines of the list, at least and at most
_numbers = itertools.count(1)


class Browsers:
    """The browsers of one kernel."""

    def __init__(self, runtime: SessionRuntime, environ: Mapping[str, str]) -> None:
        self._runtime, self._environ = runtime, environ
        self._open: list[Browser] = []
        self._looks = Looks()
        self._timer: asyncio.TimerHandle | None = None

    @property
    def open(self) -> list[list[str]]:
        """Those that are open: the id under which front ends know each, and the folder it began with."""
        return [[browser.widget.model_id, browser.folder] for browser in self._open]

    def make(self, folder: str, model_id: str | None = None) -> Browser:
        """Open a new browser; with ``model_id``, one that front ends know already."""
        browser = Browser(self._runtime, self._environ, folder, self._looks, model_id)
        self._open.append(browser)
        while len(self._open) > _MOST:
            self._open.pop(0).close()
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(_PAUSE, self._tick)
        return browser

    def refresh(self) -> None:
        """A cell has run."""
        for browser in self._open:
            browser.refresh()

    def _tick(self) -> None:
        self._timer = asyncio.get_running_loop().call_later(_PAUSE, self._tick)
        if self._runtime.running:
            for browser in self._open:
                browser.refresh(gently=True)


class Browser:
    """One file browser.

    Attributes:
        runtime: The session that runs.
        acts: Starts what buttons do, and shows the result.
        panel: Where it asks questions.
        links: Addresses at the server extension; None without it.
        view: Which folder is shown, and how.
        folder: The folder it began with.
    """

    def __init__(
        self,
        runtime: SessionRuntime,
        environ: Mapping[str, str],
        folder: str = "",
        looks: Looks | None = None,
        model_id: str | None = None,
    ) -> None:
        self.folder = folder
        self.runtime, self._environ, self.view = runtime, environ, View(folder)
        self.links: transfer.Links | None = None
        self.acts = Acts()
        self.panel = Panel(self.acts, self.refresh)
        self._changes, self._exchange = Changes(self), Exchange(self)
        self._pane = Pane(self.acts, lambda: (self.root, self.links))
        self._looks = looks or Looks()
        self._page: Page | None = None
        self._seen: Seen | None = None
        self._way: list[tuple[str, str]] = []
        self._linked_session = ""
        self._selected: tuple[str, ...] = ()
        self._quiet = False  # the change is ours, not the person's
        self._wanted_since, self._looked_at, self._rest = 0.0, -1.0, 0.0
        self._looking = False
        self._scope = f"wk-files-{next(_numbers)}"
        self._build(model_id)
        self.refresh()

    @property
    def root(self) -> Path:
        """The session's folder on the host."""
        return self.runtime.live.folder

    def quota(self) -> Quota:
        """How much the session uses and may use, counted now. Blocks."""
        return self.runtime.sandbox.quota()

    # ---- widgets

    def _build(self, model_id: str | None) -> None:
        button = self.acts.button
        self._rows, self._quota, self._head, self._foot = w.HTML(), w.HTML(), w.HTML(), w.HTML()
        self._crumbs = row()
        self._up = button("", "arrow-up", "Up (Backspace)", self._go_up, "up")
        self._open = button("Open", "folder-open", "Open the folder (Enter, double click)", self._go_in, "open")
        self._add = button("Upload", "upload", "Upload files into this folder", self._exchange.upload, "add")
        self._new = button("New folder", "plus", "Create a folder here", self._changes.new_folder)
        self._rename = button("Rename", "pencil", "Rename (F2)", self._changes.rename, "rename")
        self._move = button("Move", "arrow-right", "Move to another folder", self._changes.move)
        self._delete = button("Delete", "trash", "Delete, after confirmation (Delete)", self._changes.delete, "delete")
        self._again = button("", "refresh", "Refresh", self._look_again, "again")
        self._filter = w.Text(placeholder="Filter: part of a name, or *.csv")
        self._filter.observe(lambda change: self._changed(wanted=change.new, page=0), "value")
        sorts = [(text, key) for key, text in listing.SORTS.items()]
        self._sort = w.Dropdown(options=sorts, value=self.view.sort, description="Order")
        self._sort.add_class("wk-order")
        self._sort.observe(lambda change: self._changed(sort=change.new, page=0), "value")
        self._list = w.SelectMultiple(rows=_ROWS[0], description="Files")
        self._list.add_class("wk-list")
        self._list.observe(self._picked, "index")
        self._previous = button("", "chevron-left", "Previous page", self._go_back)
        self._next = button("", "chevron-right", "Next page", self._go_on)
        self._tools = row(kind="wk-acts")
        left = w.VBox([self._head, self._list, row(self._previous, self._next, self._foot, kind="wk-foot")])
        left.add_class("wk-left")
        body = w.HBox([left, self._pane.widget])
        body.add_class("wk-body")
        grow = w.HTML()
        grow.add_class("wk-grow")
        top = row(self._crumbs, grow, self._quota)
        view = row(self._filter, self._sort, self._again)
        asked = (self._exchange.uploads, self.panel.widget, self.acts.line)
        shown = [w.HTML(style.STATIC), self._rows, top, self._tools, view, *asked, body]
        self.widget = w.VBox(shown, model_id=model_id)
        self.widget.add_class("wk-files")
        self.widget.add_class(self._scope)
        self._enable()

    def mime_bundle(self) -> dict[str, Any]:
        """The mime bundle of the browser."""
        kind = "application/vnd.jupyter.widget-view+json"
        return {kind: self.widget._repr_mimebundle_()[kind]}

    def close(self) -> None:
        """Remove the widgets."""
        for widget in all_of(self.widget):
            widget.close()

    # ---- looking

    def refresh(self, *, gently: bool = False) -> None:
        """Refresh soon; ``gently``: not if that takes long and was done a moment ago."""
        now = asyncio.get_running_loop().time()
        if gently and now < self._rest:
            return
        self._wanted_since = now
        if not self._looking:
            self.acts.start(self._look)

    async def _look(self) -> None:
        self._looking = True
        try:
            while self._looked_at < self._wanted_since:
                view, since = self.view, self._wanted_since
                try:
                    seen = await self._looks.at(self.root, view.folder, self.runtime.last_result, since, self.quota)
                except (OSError, ValueError):
                    if not view.folder:
                        raise
                    if view.folder == self.view.folder:
                        self.view = self.view.up()  # the folder is gone: the guest may delete what we show
                    continue
                self._rest = asyncio.get_running_loop().time() + _SHARE * seen.seconds
                if view.folder == self.view.folder:
                    self._looked_at, self._seen = since, seen
                    self._show()
                await self._find_links()
        finally:
            self._looking = False

    async def _find_links(self) -> None:
        session_id = self.runtime.live.session_id
        if session_id != self._linked_session:
            self._linked_session = session_id
            self.links = await asyncio.to_thread(transfer.find_links, self._environ, session_id)
            self._enable()

    async def _look_again(self) -> None:
        self._linked_session = ""
        self.acts.hush()
        self.refresh()

    # ---- showing

    def _show(self) -> None:
        """Update the widgets to what was found."""
        if self._seen is None:
            return
        page = self._page = listing.arrange(self._seen.entries, self.view)
        self.view = replace(self.view, page=page.number)
        self._rows.value = style.rows(page.entries, self._scope)
        self._show_list(page)
        self._show_crumbs()
        self._show_foot(page, self._seen.marks.deleted_in(self.view.folder))
        used, limit = self._seen.quota.used, self._seen.quota.limit
        text = f"{format_size(used) if used is not None else 'unknown'} of {format_size(limit)}"
        self._quota.value = bar(used / limit if limit and used is not None else 1.0, text)
        self._enable()
        self._show_head(page)
        self._pane.show(self.chosen())

    def _show_head(self, page: Page) -> None:
        """The line above the list, and for `keys.js`: which rows the kernel sees as selected, and which folder."""
        picked = ",".join(str(n) for n, entry in enumerate(page.entries) if entry.path in self._selected)
        known = f'data-picked="{picked}" data-folder="{key_of(self.view.folder)}"'
        self._head.value = f'<div class="wk-head" {known}>{style.head(page.entries, self.view.sort)}</div>'

    def _show_list(self, page: Page) -> None:
        paths = [e.path for e in page.entries]
        options = list(zip(listing.labels(page.entries, datetime.now().astimezone()), paths, strict=True))
        index = tuple(n for n, path in enumerate(paths) if path in self._selected)
        self._quiet = True
        try:
            with self._list.hold_sync():
                if list(self._list.options) != options:
                    self._list.options = options
                    self._list.rows = min(max(len(options), _ROWS[0]), _ROWS[1])
                self._list.index = index
        finally:
            self._quiet = False
        self._selected = tuple(paths[n] for n in index)

    def _show_crumbs(self) -> None:
        way = listing.crumbs(self.view.folder)
        if self._way == way:
            return
        self._way = way
        old = self._crumbs.children
        made: list[Any] = []
        for number, (label, folder) in enumerate(way):
            button = self.acts.button(label, "", visible(folder) or "/app", self._going_to(folder))
            button.add_class("wk-crumb")
            button.disabled = number == len(way) - 1
            if made:
                made.append(w.HTML('<span class="wk-slash">/</span>'))
            made.append(button)
        self._crumbs.children = made
        for widget in old:
            widget.close()

    def _show_foot(self, page: Page, gone: list[str]) -> None:
        parts = [page.describe() if page.total else "This folder is empty"]
        done = {e.mark for e in page.entries}
        if done - {""}:
            parts.append("by the last cell: " + ", ".join(f"{_SIGNS[m]} {m}" for m in _SIGNS if m in done))
        if gone:
            parts.append(f"{'−' if done - {''} else 'by the last cell: −'} deleted: {names(gone)}")
        self._foot.value = f'<span class="wk-dim">{escape("; ".join(parts))}</span>'
        for button, on in ((self._previous, page.number > 0), (self._next, page.number + 1 < page.pages)):
            button.layout.display = None if page.pages > 1 else "none"
            button.disabled = not on

    def _enable(self) -> None:
        """Enable the buttons that apply to the selection."""
        chosen = self.chosen()
        self._up.disabled = not self.view.folder
        self._open.disabled = not (len(chosen) == 1 and chosen[0].kind in ("folder", "link"))
        self._rename.disabled = len(chosen) != 1
        self._move.disabled = self._delete.disabled = not chosen
        save = self._exchange.download_button(chosen)
        tools = (self._up, self._open, save, self._add, self._new, self._rename, self._move, self._delete)
        if tools != self._tools.children:
            self._tools.children = tools

    # ---- the selection

    def chosen(self) -> list[Entry]:
        """The selected entries that still exist."""
        return [e for e in self._page.entries if e.path in self._selected] if self._page is not None else []

    def select(self, *paths: str) -> None:
        """Select these with the next refresh."""
        self._selected = paths

    def _picked(self, change: Any) -> None:
        if self._quiet or self._page is None:
            return
        entries = self._page.entries
        self._selected = tuple(entries[n].path for n in change.new if n < len(entries))
        self.acts.hush()
        self._enable()
        self._show_head(self._page)
        self._pane.show(self.chosen())

    # ---- navigation

    def _changed(self, **changes: Any) -> None:
        """Sort, filter or page."""
        if not self._quiet:
            self.view = replace(self.view, **changes)
            self._show()

    def _go(self, view: View) -> None:
        self.view = view
        self._selected = ()
        self._quiet = True
        self._filter.value = view.wanted
        self._quiet = False
        self.acts.hush()
        self.panel.close()
        self.refresh()

    def _going_to(self, folder: str) -> Act:
        async def go() -> None:
            self._go(self.view.into(folder))

        return go

    async def _go_up(self) -> None:
        if self.view.folder:
            self._go(self.view.up())

    async def _go_in(self) -> None:
        chosen = self.chosen()
        if len(chosen) != 1 or chosen[0].kind not in ("folder", "link"):
            return
        entry = chosen[0]
        if entry.kind == "link" and await asyncio.to_thread(_kind_of, self.root, entry.path) != "folder":
            raise ConfigurationError(
                f"{visible(entry.name)!r} is a link to a file; its contents are shown on the right"
            )
        self._go(self.view.into(entry.path))

    async def _go_back(self) -> None:
        self._changed(page=self.view.page - 1)

    async def _go_on(self) -> None:
        self._changed(page=self.view.page + 1)


def _kind_of(root: Path, path: str) -> str:
    with Folder(root, backslashes=True) as folder:
        return transfer.kind_of(folder, path)[0]
