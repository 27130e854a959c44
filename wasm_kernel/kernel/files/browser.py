"""The file browser: widgets of the kernel's host, so it works while a cell runs, and whatever the guest does.

Everything happens on the kernel's loop; what touches the disk goes to a thread. A callback that fails says so in the
widget. What is deleted or moved is what was named when the person was asked, not what is selected by then.
"""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import ipywidgets as w

from wasm_kernel.errors import ConfigurationError, WasmKernelError
from wasm_kernel.host.folder import Folder
from wasm_kernel.host.workspace import Survey, survey
from wasm_kernel.kernel.files import listing, preview, style, transfer
from wasm_kernel.kernel.files.listing import Entry, Marks, Page, View
from wasm_kernel.kernel.render import bar, counted, escape, sentence, visible
from wasm_kernel.model.units import format_size

if TYPE_CHECKING:
    from wasm_kernel.kernel.kernel import WasmKernel

_PAUSE = 1.0  # seconds between looks while a cell runs
_SHARE = 10  # and at least so many times as long as the last look took
_MOST = 4  # browsers of one kernel: an older one is closed
_NAMED = 20  # names listed in a question
_SIGNS = {"new": "+", "changed": "~"}
_ROWS = (8, 16)  # lines of the list, at least and at most
_numbers = itertools.count(1)


@dataclass(frozen=True)
class _Seen:
    """The workspace at one moment."""

    entries: list[Entry]
    survey: Survey
    marks: Marks
    seconds: float


class Browsers:
    """The browsers of one kernel."""

    def __init__(self, kernel: WasmKernel) -> None:
        self._kernel = kernel
        self._open: list[Browser] = []
        self._timer: asyncio.TimerHandle | None = None

    def make(self, folder: str) -> Browser:
        """A new one."""
        browser = Browser(self._kernel, folder)
        self._open.append(browser)
        while len(self._open) > _MOST:
            self._open.pop(0).close()
        if self._timer is None:
            self._timer = self._kernel.loop.call_later(_PAUSE, self._tick)
        return browser

    def refresh(self) -> None:
        """A cell has run."""
        for browser in self._open:
            browser.refresh()

    def _tick(self) -> None:
        self._timer = self._kernel.loop.call_later(_PAUSE, self._tick)
        if self._kernel.busy_with() is not None:
            for browser in self._open:
                browser.refresh(gently=True)


class Browser:
    """One file browser."""

    def __init__(self, kernel: WasmKernel, folder: str = "") -> None:
        self._kernel = kernel
        self._view = View(folder)
        self._page: Page | None = None
        self._seen: _Seen | None = None
        self._links: transfer.Links | None = None
        self._linked_session = ""
        self._selected: tuple[str, ...] = ()
        self._previewed: tuple[Any, ...] = ()
        self._quiet = False  # a change of ours, not of the person's
        self._wanted, self._looking, self._rest = False, False, 0.0
        self._showing = False
        self._tasks: set[asyncio.Task[None]] = set()
        self._scope = f"wk-files-{next(_numbers)}"
        self._build()
        self.refresh()

    # ---- widgets

    def _build(self) -> None:
        self._rows = w.HTML()
        self._crumbs = _bar()
        self._quota = w.HTML()
        self._up = self._button("", "arrow-up", "Up (Backspace)", self._go_up, "up")
        self._open = self._button("Open", "folder-open", "Open the folder (Enter, double click)", self._go_in, "open")
        self._save = self._button("Download", "download", "Download what is selected", self._download)
        self._link = w.HTML()
        self._link.add_class("wk-link")
        self._add = self._button("Upload", "upload", "Upload files into this folder", self._upload)
        self._new = self._button("New folder", "plus", "Make a folder here", self._ask_folder)
        self._rename = self._button("Rename", "pencil", "Give it another name (F2)", self._ask_name, "rename")
        self._move = self._button("Move", "arrow-right", "Move to another folder", self._ask_target)
        self._delete = self._button("Delete", "trash", "Delete, after a question (Delete)", self._ask_delete, "delete")
        self._again = self._button("", "refresh", "Look again", self._look_again, "again")
        self._filter = w.Text(placeholder="Filter: part or *.csv")
        self._filter.observe(lambda change: self._changed(wanted=change.new, page=0), "value")
        self._sort = w.Dropdown(options=[(text, key) for key, text in listing.SORTS.items()], value=self._view.sort)
        self._sort.observe(lambda change: self._changed(sort=change.new, page=0), "value")
        self._panel = w.VBox()
        self._panel.add_class("wk-panel")
        self._panel.add_class("wk-empty")
        self._message = w.HTML()
        self._head = w.HTML()
        self._list = w.SelectMultiple(rows=_ROWS[0])
        self._list.add_class("wk-list")
        self._list.observe(self._picked, "index")
        self._foot = w.HTML()
        self._previous = self._button("", "chevron-left", "The page before", self._go_back)
        self._next = self._button("", "chevron-right", "The next page", self._go_on)
        self._about = w.HTML()
        self._image = w.Image()
        self._tools = _bar(
            self._up, self._open, self._save, self._add, self._new, self._rename, self._move, self._delete
        )
        left = w.VBox([self._head, self._list, _bar(self._previous, self._next, self._foot, kind="wk-foot")])
        left.add_class("wk-left")
        self._right = w.VBox([self._about])
        self._right.add_class("wk-right")
        body = w.HBox([left, self._right])
        body.add_class("wk-body")
        grow = w.HTML()
        grow.add_class("wk-grow")
        top = _bar(self._crumbs, grow, self._quota)
        view = _bar(self._filter, self._sort, self._again)
        self.widget = w.VBox(
            [w.HTML(style.STATIC), self._rows, top, self._tools, view, self._panel, self._message, body]
        )
        self.widget.add_class("wk-files")
        self.widget.add_class(self._scope)
        self._enable()

    def _button(self, text: str, icon: str, tooltip: str, act: Callable[[], Awaitable[None]], name: str = "") -> Any:
        made = w.Button(description=text, icon=icon, tooltip=tooltip)
        made.on_click(lambda _: self._start(act))
        if name:
            made.add_class(f"wk-{name}")
        return made

    def mime_bundle(self) -> dict[str, Any]:
        """What a front end shows as this."""
        kind = "application/vnd.jupyter.widget-view+json"
        return {kind: self.widget._repr_mimebundle_()[kind]}

    def close(self) -> None:
        """Take the widgets away."""
        for widget in _all_of(self.widget):
            widget.close()

    # ---- doing things

    def _start(self, act: Callable[[], Awaitable[None]]) -> None:
        task = self._kernel.loop.create_task(self._guarded(act))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _guarded(self, act: Callable[[], Awaitable[None]]) -> None:
        """What fails is said in the widget: nobody reads a kernel's log."""
        try:
            await act()
        except (WasmKernelError, OSError, ValueError) as e:
            self._say(_reason(e), error=True)
        except Exception as e:
            self._kernel.log.exception("the file browser failed")
            self._say(f"The file browser itself failed: {type(e).__name__}: {e}", error=True)

    def _say(self, text: str, *, error: bool = False) -> None:
        markup = sentence(text)
        self._message.value = f'<div class="wk-error" role="alert">{escape(text)}</div>' if error else markup

    @property
    def _root(self) -> Path:
        folder: Path = self._kernel.live.folder
        return folder

    # ---- looking

    def refresh(self, *, gently: bool = False) -> None:
        """Look again, soon; ``gently``: unless looking takes long and was done a moment ago."""
        if gently and self._kernel.loop.time() < self._rest:
            return
        self._wanted = True
        if not self._looking:
            self._start(self._look)

    async def _look(self) -> None:
        self._looking = True
        try:
            while self._wanted:
                self._wanted = False
                root, view = self._root, self._view
                result = self._kernel.last_result
                try:
                    seen = await asyncio.to_thread(_see, root, view.folder, result)
                except (OSError, ValueError):
                    if not view.folder:
                        raise
                    self._view = self._view.up()  # the folder is gone: the guest may delete what we look at
                    self._wanted = True
                    continue
                self._rest = self._kernel.loop.time() + _SHARE * seen.seconds
                if view.folder == self._view.folder:
                    self._seen = seen
                    self._show()
                else:
                    self._wanted = True
                await self._find_links()
        finally:
            self._looking = False

    async def _find_links(self) -> None:
        session_id = self._kernel.live.session_id
        if session_id != self._linked_session:
            self._linked_session = session_id
            self._links = await asyncio.to_thread(transfer.find_links, self._kernel.home.environ, session_id)
            self._enable()

    def _changed(self, **changes: Any) -> None:
        """Sort, filter or page."""
        if not self._quiet:
            self._view = replace(self._view, **changes)
            self._show()

    def _go(self, view: View) -> None:
        self._view = view
        self._selected = ()
        self._quiet = True
        self._filter.value = view.wanted
        self._quiet = False
        self._message.value = ""
        self._close_panel()
        self.refresh()

    def _show(self) -> None:
        """Bring the widgets up to what was seen."""
        if self._seen is None:
            return
        page = self._page = listing.arrange(self._seen.entries, self._view)
        self._view = replace(self._view, page=page.number)
        self._rows.value = style.rows(page.entries, self._scope)
        self._head.value = f'<div class="wk-head">{escape(listing.header(listing.name_width(page.entries)))}</div>'
        self._show_list(page)
        self._show_crumbs()
        gone = self._seen.marks.deleted_in(self._view.folder)
        parts = [page.describe() if page.total else "This folder is empty"]
        done = {e.mark for e in page.entries}
        if done - {""}:
            parts.append("by the last cell: " + ", ".join(f"{_SIGNS[m]} {m}" for m in _SIGNS if m in done))
        if gone:
            parts.append(f"{'−' if done - {''} else 'by the last cell: −'} deleted: {_names(gone, 5)}")
        self._foot.value = f'<span class="wk-dim">{escape("; ".join(parts))}</span>'
        for button, on in ((self._previous, page.number > 0), (self._next, page.number + 1 < page.pages)):
            button.layout.display = None if page.pages > 1 else "none"
            button.disabled = not on
        used, limit = self._seen.survey.used_bytes, self._kernel.live.sandbox.policy.workspace_bytes
        self._quota.value = bar(used / limit if limit else 1.0, f"{format_size(used)} of {format_size(limit)}")
        self._enable()
        self._show_preview()

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
        way = listing.crumbs(self._view.folder)
        if getattr(self, "_way", None) == way:
            return
        self._way = way
        old = self._crumbs.children
        made: list[Any] = []
        for number, (label, folder) in enumerate(way):
            last = number == len(way) - 1
            button = self._button(label, "", visible(folder) or "/app", self._go_to(folder))
            button.add_class("wk-crumb")
            button.disabled = last
            if made:
                slash = w.HTML('<span class="wk-slash">/</span>')
                made.append(slash)
            made.append(button)
        self._crumbs.children = made
        for widget in old:
            widget.close()

    def _go_to(self, folder: str) -> Callable[[], Awaitable[None]]:
        async def go() -> None:
            self._go(self._view.into(folder))

        return go

    # ---- what is selected

    def _picked(self, change: Any) -> None:
        if self._quiet or self._page is None:
            return
        entries = self._page.entries
        self._selected = tuple(entries[n].path for n in change.new if n < len(entries))
        self._message.value = ""
        self._enable()
        self._show_preview()

    def _chosen(self) -> list[Entry]:
        return [e for e in self._page.entries if e.path in self._selected] if self._page is not None else []

    def _enable(self) -> None:
        """Buttons do what they can do with what is selected."""
        chosen = self._chosen()
        self._up.disabled = not self._view.folder
        self._open.disabled = not (len(chosen) == 1 and chosen[0].kind in ("folder", "link"))
        self._rename.disabled = len(chosen) != 1
        self._move.disabled = self._delete.disabled = self._save.disabled = not chosen
        plain = [e for e in chosen if e.kind != "other"]
        zipped = len(chosen) > 1 or any(e.kind == "folder" for e in chosen)
        if self._links is None:
            self._save.description = "Download zip" if zipped else "Download"
        else:
            self._link.value = _link_button(self._links, plain, zipped=zipped)
        shown = self._save if self._links is None else self._link
        tools = tuple(shown if t in (self._save, self._link) else t for t in self._tools.children)
        if tools != self._tools.children:
            self._tools.children = tools

    # ---- preview

    def _show_preview(self) -> None:
        chosen = self._chosen()
        identity = tuple((e.path, e.size, e.modified_ns) for e in chosen)
        if identity == self._previewed and identity:
            return
        self._previewed = identity
        if len(chosen) == 1 and chosen[0].kind in ("file", "link"):
            if not self._showing:
                self._start(self._preview)
        elif not chosen:
            self._fill('<span class="wk-dim">Select a file to see what is in it.</span>')
        elif len(chosen) == 1:
            what = "a folder: open it" if chosen[0].kind == "folder" else "neither a file nor a folder"
            self._fill(_title(chosen[0], what))
        else:
            total = format_size(sum(e.size for e in chosen))
            self._fill(f'<div class="wk-title">{len(chosen):,} selected</div><span class="wk-dim">{total}</span>')

    async def _preview(self) -> None:
        """The newest selection, however many there were meanwhile."""
        self._showing = True
        try:
            shown: tuple[Any, ...] = ()
            while shown != self._previewed:
                shown = self._previewed
                chosen = self._chosen()
                if len(chosen) != 1 or chosen[0].kind not in ("file", "link"):
                    return
                entry = chosen[0]
                try:
                    found = await asyncio.to_thread(preview.preview, self._root, entry)
                except (OSError, ValueError) as e:
                    if shown == self._previewed:
                        self._fill(_title(entry, "") + f'<div class="wk-error">{escape(_reason(e))}</div>')
                    continue
                if shown == self._previewed:
                    markup = found.markup
                    if entry.ending in (*preview.SOUNDS, *preview.FILMS) and self._links is not None:
                        markup = preview.media(entry, self._links.file(entry.path))
                    self._fill(_title(entry, found.said) + markup, found)
        finally:
            self._showing = False

    def _fill(self, markup: str, found: preview.Preview | None = None) -> None:
        self._about.value = markup
        if found is not None and found.image:
            self._image.format, self._image.value = found.format, found.image
            self._right.children = (self._about, self._image)
        elif len(self._right.children) > 1:
            self._right.children = (self._about,)
            self._image.value = b""

    # ---- going about

    async def _go_up(self) -> None:
        if self._view.folder:
            self._go(self._view.up())

    async def _go_in(self) -> None:
        chosen = self._chosen()
        if len(chosen) != 1 or chosen[0].kind not in ("folder", "link"):
            return
        entry = chosen[0]
        if entry.kind == "link":
            kind = await asyncio.to_thread(_kind_of, self._root, entry.path)
            if kind != "folder":
                raise ConfigurationError(f"{visible(entry.name)!r} is a link to a file; its contents are shown beside")
        self._go(self._view.into(entry.path))

    async def _go_back(self) -> None:
        self._changed(page=self._view.page - 1)

    async def _go_on(self) -> None:
        self._changed(page=self._view.page + 1)

    async def _look_again(self) -> None:
        self._linked_session = ""
        self._message.value = ""
        self.refresh()

    # ---- questions

    def _ask(
        self,
        question: str,
        field: Any,
        label: str,
        act: Callable[[], Awaitable[str]],
        *,
        danger: bool = False,
        more: Sequence[Any] = (),
    ) -> None:
        """Ask in the widget; what ``act`` returns is said afterwards."""

        async def done() -> None:
            said = await act()
            self._close_panel()
            self._say(said)
            self.refresh()

        sure = self._button(label, "", "", done, "ok")
        sure.button_style = "danger" if danger else "primary"
        parts = [w.HTML(question), *([field] if field is not None else []), _bar(sure, *more, self._cancel())]
        self._open_panel(parts)

    def _cancel(self, text: str = "Cancel") -> Any:
        async def cancel() -> None:
            self._close_panel()

        return self._button(text, "", "(Escape)", cancel, "cancel")

    def _open_panel(self, parts: Sequence[Any]) -> None:
        old = self._panel.children
        self._panel.children = tuple(parts)
        self._panel.remove_class("wk-empty")
        self._message.value = ""
        for widget in old:
            for inner in _all_of(widget):
                inner.close()

    def _close_panel(self) -> None:
        if self._panel.children:
            self._open_panel(())
        self._panel.add_class("wk-empty")

    async def _ask_folder(self) -> None:
        name, here = w.Text(placeholder="name"), self._view.folder
        name.add_class("wk-wide")

        async def make() -> str:
            path = _below(here, name.value)
            await self._on_disk(lambda folder: folder.make_folder(path, exist_ok=False))
            return f"Made: {path}"

        self._ask("New folder, in the folder shown:", name, "Make folder", make)

    async def _ask_name(self) -> None:
        if len(self._chosen()) != 1:
            return
        (entry,) = self._chosen()
        name = w.Text(value=visible(entry.name))
        name.add_class("wk-wide")

        async def rename() -> str:
            target = _below(entry.path.rpartition("/")[0], name.value)
            await self._on_disk(lambda folder: folder.move(entry.path, target))
            self._selected = (target,)
            return f"{visible(entry.name)} is called {name.value} now"

        self._ask(f"New name of <b>{escape(entry.name)}</b>:", name, "Rename", rename)

    async def _ask_target(self) -> None:
        chosen = self._chosen()
        folders = await asyncio.to_thread(_folders, self._root)
        taken = {e.path for e in chosen}
        target = w.Combobox(placeholder="/app/folder", options=[f"/app/{f}" for f in folders if f not in taken][:500])
        target.add_class("wk-wide")

        async def move() -> str:
            into = transfer.relative(target.value.strip() or "/app")
            for entry in chosen:
                to = f"{into}/{entry.name}" if into else entry.name
                await self._on_disk(lambda folder, a=entry.path, b=to: folder.move(a, b))  # type: ignore[misc]
            return f"Moved to /app/{into}: {_names([e.name for e in chosen], 5)}"

        self._ask(f"Move <b>{escape(_names([e.name for e in chosen], 5))}</b> to:", target, "Move", move)

    async def _ask_delete(self) -> None:
        chosen = self._chosen()
        if not chosen:
            return
        shown = "".join(
            f"<div>{escape(e.name)}{'/ and all that is in it' if e.kind == 'folder' else ''}</div>"
            for e in chosen[:_NAMED]
        )
        more = f"<div>… and {len(chosen) - _NAMED:,} more</div>" if len(chosen) > _NAMED else ""
        undo = (
            "A cell that has run left a checkpoint: <code>%session log</code> shows which, "
            "<code>%session undo</code> and <code>%session restore</code> bring files back from them."
            if self._kernel.checkpoint
            else "This cannot be undone: checkpoints are switched off."
        )

        async def delete() -> str:
            for entry in chosen:
                await self._on_disk(lambda folder, path=entry.path: folder.remove(path, recursive=True))  # type: ignore[misc]
            return f"Deleted: {_names([e.name for e in chosen], 5)}"

        what = counted(len(chosen), "item")
        question = f'Delete {what}?<div class="wk-names">{shown}{more}</div><div class="wk-dim">{undo}</div>'
        self._ask(question, None, "Delete", delete, danger=True)

    async def _on_disk(self, act: Callable[[Folder], None]) -> None:
        root = self._root

        def work() -> None:
            with Folder(root, backslashes=True) as folder:
                act(folder)

        await asyncio.to_thread(work)

    # ---- to and from the person's computer

    async def _download(self) -> None:
        """Without the server's part: the bytes go into the page, as a link."""
        chosen = self._chosen()
        zipped = len(chosen) > 1 or any(e.kind == "folder" for e in chosen)
        made = await asyncio.to_thread(
            transfer.downloads, self._root, [e.path for e in chosen], self._links, as_zip=zipped
        )
        links = "".join(f"<div>{d.markup()}</div>" for d in made)
        self._open_panel([w.HTML(f"Ready: {links}"), _bar(self._cancel("Done"))])

    async def _upload(self) -> None:
        root, folder, policy = self._root, self._view.folder, self._kernel.live.sandbox.policy
        if self._links is not None:
            free = await asyncio.to_thread(transfer.room, root, policy)
            address = escape(self._links.upload(folder, min(free, 10**15 - 1)))
            frame = f'<iframe src="{address}" title="Upload" loading="eager"></iframe>'
            self._open_panel([w.HTML(frame), _bar(self._cancel("Done"))])
            return
        field = w.FileUpload(multiple=True, description="Choose files")

        def arrived(change: Any) -> None:
            if change.new:
                self._start(lambda: self._received(folder, change.new))

        field.observe(arrived, "value")
        note = (
            f"Up to {format_size(transfer.MESSAGE)} in all at once: a larger choice is dropped by the Jupyter server "
            "without a word. With wasm-kernel's server extension there is no such limit."
        )
        self._open_panel([w.HTML(f'<div class="wk-dim">{escape(note)}</div>'), _bar(field, self._cancel("Done"))])

    async def _received(self, folder: str, value: Sequence[Any]) -> None:
        names = transfer.upload_names([str(f["name"]) for f in value])
        files = {name: f["content"] for name, f in zip(names, value, strict=True)}
        sizes = {name: len(data) for name, data in files.items()}
        root, policy = self._root, self._kernel.live.sandbox.policy
        await asyncio.to_thread(transfer.check_upload, root, policy, sizes)
        taken = await asyncio.to_thread(transfer.existing, root, folder, names)

        def keep(**how: bool) -> Callable[[], Awaitable[str]]:
            async def act() -> str:
                written = await asyncio.to_thread(transfer.store, root, folder, files, **how)
                return f"Uploaded: {_names(written, 5)}"

            return act

        if not taken:
            self._say(await keep()())
            self._close_panel()
            self.refresh()
            return

        async def both() -> None:
            said = await keep(both=True)()
            self._close_panel()
            self._say(said)
            self.refresh()

        other = self._button("Keep both", "", "The new ones get a number", both)
        question = f"There already: <b>{escape(_names(taken, 5))}</b>"
        self._ask(question, None, "Replace", keep(replace=True), danger=True, more=(other,))


def _see(root: Path, folder: str, result: Any) -> _Seen:
    import time

    begun = time.monotonic()
    marks = Marks()
    if result is not None:
        marks = Marks.of(result.files_created, result.files_modified, result.files_deleted)
    entries = listing.scan(root, folder, marks)
    return _Seen(entries, survey(root), marks, time.monotonic() - begun)


def _kind_of(root: Path, path: str) -> str:
    with Folder(root, backslashes=True) as folder:
        return transfer.kind_of(folder, path)[0]


def _folders(root: Path) -> list[str]:
    """Folders that can be typed."""
    return ["", *sorted(f for f in survey(root).folders if visible(f) == f)]


def _below(folder: str, name: str) -> str:
    """A path of a name that a person typed."""
    name = name.strip()
    if not name or "/" in name or name in (".", ".."):
        raise ConfigurationError(f"{name!r} is no name; it must be one without a slash")
    return f"{folder}/{name}" if folder else name


def _bar(*children: Any, kind: str = "") -> Any:
    made = w.HBox(list(children))
    made.add_class("wk-bar")
    if kind:
        made.add_class(kind)
    return made


def _all_of(widget: Any) -> list[Any]:
    found = [widget]
    for child in getattr(widget, "children", ()):
        found += _all_of(child)
    return found


def _names(names: Sequence[str], most: int) -> str:
    shown = ", ".join(listing.shorten(n, 40) for n in names[:most])
    return shown + (f" and {len(names) - most:,} more" if len(names) > most else "")


def _title(entry: Entry, said: str) -> str:
    size = format_size(entry.size) if entry.kind == "file" else ""
    facts = " · ".join(filter(None, (entry.type, size, said)))
    return f'<div class="wk-title">{escape(entry.name)}</div><div class="wk-dim">{escape(facts)}</div>'


def _link_button(links: transfer.Links, chosen: Sequence[Entry], *, zipped: bool) -> str:
    text = "Download zip" if zipped else "Download"
    label = f'<i class="fa fa-download"></i> {text}'
    kind = "lm-Widget jupyter-widgets jupyter-button widget-button"
    if not chosen:
        return f'<a class="{kind} wk-off" aria-disabled="true">{label}</a>'
    address = links.archive([e.path for e in chosen]) if zipped else links.file(chosen[0].path)
    return f'<a class="{kind}" href="{escape(address)}" download title="Download what is selected">{label}</a>'


def _reason(error: Exception) -> str:
    if isinstance(error, OSError) and error.strerror:
        name = f": {visible(error.filename)}" if isinstance(error.filename, str) else ""
        return f"{error.strerror}{name}"
    return str(error)
