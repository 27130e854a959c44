"""Widgets to move files between the session and the person's own computer; `transfer` does the work."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

import ipywidgets as w

from wasm_kernel.kernel.files import transfer
from wasm_kernel.kernel.files.acts import Said, names, row
from wasm_kernel.kernel.files.listing import Entry
from wasm_kernel.kernel.files.panel import Panel
from wasm_kernel.kernel.files.shown import Shown
from wasm_kernel.kernel.render import escape
from wasm_kernel.model.names import key_of
from wasm_kernel.model.units import format_size

_NOTE = (
    f"Up to {format_size(transfer.MESSAGE)} at once: the Jupyter server silently drops anything larger. "
    "With wasm-kernel's server extension there is no such limit."
)


class Exchange:
    """Downloads and uploads of one browser. ``uploads``: the place for uploads, whatever else is shown."""

    def __init__(self, browser: Shown) -> None:
        self._browser = browser
        self.uploads = w.VBox()
        self._panels: dict[str, Panel] = {}
        self._save = browser.acts.button("Download", "download", "Download the selection", self._download)
        self._link = w.HTML()
        self._link.add_class("wk-link")

    # ---- down

    def download_button(self, chosen: Sequence[Entry]) -> Any:
        """Offer these for download: by a link to the server extension or, without it, by a button that makes a link."""
        links = self._browser.links
        zipped = _as_zip(chosen)
        if links is None:
            self._save.description = _label(zipped)
            self._save.disabled = not chosen
            return self._save
        self._link.value = _link(links, [e for e in chosen if e.kind != "other"], zipped=zipped)
        return self._link

    async def _download(self) -> None:
        """Without the server extension: put the bytes into the page, as a link."""
        chosen, root = self._browser.chosen(), self._browser.root
        made = await asyncio.to_thread(
            transfer.downloads, root, [e.path for e in chosen], self._browser.links, as_zip=_as_zip(chosen)
        )
        links = "".join(f"<div>{d.markup()}</div>" for d in made)
        panel = self._browser.panel
        panel.open([w.HTML(f"Ready: {links}"), row(panel.closing("Done", "cancel"))])

    # ---- up

    async def upload(self) -> None:
        """Accept uploads into the current folder. The upload panel stays until the person closes it."""
        folder, links = self._browser.view.folder, self._browser.links
        self._panels = {key: known for key, known in self._panels.items() if known.is_open}
        if folder in self._panels:
            return
        panel = self._panels[folder] = Panel(self._browser.acts, self._browser.refresh, "wk-upload")
        self.uploads.children = tuple(known.widget for known in self._panels.values())
        if links is not None:
            where = f'src="{escape(links.upload(folder))}" data-folder="{key_of(folder)}"'
            frame = f'<iframe {where} title="Upload" loading="eager"></iframe>'
            panel.open([w.HTML(frame), row(panel.closing("Done", "done"))])
            return
        field = w.FileUpload(multiple=True, description="Choose files")

        def arrived(change: Any) -> None:
            if change.new:
                self._browser.acts.start(lambda: self._received(panel, folder, change.new))

        field.observe(arrived, "value")
        note = w.HTML(f'<div class="wk-dim">{escape(_NOTE)}</div>')
        panel.open([note, row(field, panel.closing("Done", "done"))])

    async def _received(self, place: Panel, folder: str, value: Sequence[Any]) -> None:
        wanted = transfer.upload_names([str(f["name"]) for f in value])
        files = {name: f["content"] for name, f in zip(wanted, value, strict=True)}
        sizes = {name: len(data) for name, data in files.items()}
        root, panel = self._browser.root, self._browser.panel
        transfer.check_upload(await asyncio.to_thread(self._browser.quota), sizes)
        taken = await asyncio.to_thread(transfer.existing, root, folder, wanted)

        def keep(**how: bool) -> Callable[[], Awaitable[Said]]:
            async def act() -> Said:
                written = await asyncio.to_thread(transfer.store, root, folder, files, **how)
                return Said(f"Uploaded: {names(written)}")

            return act

        place.close()
        if not taken:
            await panel.answering(keep())()
            return
        both = self._browser.acts.button(
            "Keep both", "", "Add a number to the new names", panel.answering(keep(both=True))
        )
        question = f"Already exists: <b>{escape(names(taken))}</b>"
        panel.ask(question, None, "Replace", keep(replace=True), danger=True, more=(both,))


def _as_zip(chosen: Sequence[Entry]) -> bool:
    return len(chosen) > 1 or any(e.kind == "folder" for e in chosen)


def _label(zipped: bool) -> str:
    return "Download zip" if zipped else "Download"


def _link(links: transfer.Links, chosen: Sequence[Entry], *, zipped: bool) -> str:
    label = f'<i class="fa fa-download"></i> {_label(zipped)}'
    kind = "lm-Widget jupyter-widgets jupyter-button widget-button"
    address = links.archive([e.path for e in chosen]) if zipped else links.file(chosen[0].path) if chosen else ""
    if not chosen or len(address) > transfer.LONGEST_LINK:
        why = ' title="Too many names for one link; download their folder instead"' if chosen else ""
        return f'<a class="{kind} wk-off" aria-disabled="true"{why}>{label}</a>'
    return f'<a class="{kind}" href="{escape(address)}" download title="Download the selection">{label}</a>'
