"""The file browser's looks, in the front end's own colours, and its keys. Nothing from the guest is in here.

ipywidgets' list has neither icons nor a double click. Icons are backgrounds of its rows, in a style sheet made for each
page of files. A few lines of script make keys and double clicks press the existing buttons; a front end
that does not run them still has the buttons.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from urllib.parse import quote

from wasm_kernel.kernel.files.listing import SORTS, Entry, header, name_width
from wasm_kernel.kernel.render import escape

_PAPER = '<path d="M3.5 1.5h6l3 3v10h-9z" fill="none" stroke="{c}"/><path d="M9.5 1.5v3h3" fill="none" stroke="{c}"/>'
_GREY = "#8a919c"
_ICONS = {
    "folder": '<path d="M1 3.500h5l1.5 1.700H15V13.500H1z" fill="#d9a441"/>',
    "link": '<path d="M3 13V7h7" fill="none" stroke="#5b8fd6" stroke-width="1.6"/>'
    '<path d="M9 3.5 13.5 7 9 10.500z" fill="#5b8fd6"/>',
    "table": '<path d="M1.5 2.500h13v11h-13zM1.5 6h13M1.5 9.700h13M6 2.500v11" fill="none" stroke="#3f9c5a"/>',
    "image": '<path d="M1.5 2.500h13v11h-13z" fill="none" stroke="#a06cc8"/>'
    '<path d="m3 12 3.5-5 2.5 3 1.5-1.600L13 12z" fill="#a06cc8"/>',
    "code": '<path d="M5.5 4 1.8 8l3.7 4M10.5 4l3.7 4-3.7 4" fill="none" stroke="#5b8fd6" stroke-width="1.6"/>',
    "text": _PAPER.format(c=_GREY) + f'<path d="M5.5 7h5M5.5 9.300h5M5.5 11.600h3" stroke="{_GREY}"/>',
    "sound": '<path d="M6 12V3l7-1.300V10.5" fill="none" stroke="#c2708a" stroke-width="1.3"/>'
    '<circle cx="4.3" cy="12" r="2" fill="#c2708a"/><circle cx="11.3" cy="10.7" r="2" fill="#c2708a"/>',
    "film": '<path d="M1.5 3h13v10h-13z" fill="none" stroke="#c2708a"/>'
    '<path d="m6.3 5.5 4.2 2.5-4.2 2.500z" fill="#c2708a"/>',
    "pdf": _PAPER.format(c="#cf5b4e") + '<path d="M5.5 8h5M5.5 10h5M5.5 12h2" stroke="#cf5b4e" stroke-width="1.3"/>',
    "archive": f'<path d="M2 2.500h12v3.300H2zM3 6v7.500h10V6" fill="none" stroke="{_GREY}"/>'
    f'<path d="M6.5 8.300h3" stroke="{_GREY}" stroke-width="1.5"/>',
    "other": _PAPER.format(c=_GREY),
}

_HERE = Path(__file__).parent
_SCRIPT = (_HERE / "keys.js").read_text().replace("\n", " ").replace('"', "&quot;")
STATIC = f'<style onload="{_SCRIPT}">{(_HERE / "browser.css").read_text()}</style>'


def _address(group: str) -> str:
    svg = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 16 16">{_ICONS[group]}</svg>'
    return f'url("data:image/svg+xml,{quote(svg, safe="")}")'


def head(entries: Sequence[Entry], sort: str) -> str:
    """The line above a list as HTML; `keys.js` sorts by what is clicked."""
    orders = list(SORTS)
    return "".join(
        f'<span class="wk-by" role="button" tabindex="0" data-order="{orders.index(order)}">{escape(text)}</span>'
        if order
        else escape(text)
        for text, order in header(name_width(entries), sort)
    )


def rows(entries: Sequence[Entry], scope: str) -> str:
    """A style sheet for one page of files: icons, and a bar at the side of what the last cell made or changed."""
    found: dict[str, list[int]] = {}
    for number, entry in enumerate(entries, 1):
        found.setdefault(f"background-image:{_address(entry.group)}", []).append(number)
        if entry.mark:
            name = "success" if entry.mark == "new" else "warn"
            found.setdefault(f"box-shadow:inset 3px 0 var(--jp-{name}-color1,currentColor)", []).append(number)
    rules = (
        ",".join(f".{scope} .wk-list option:nth-child({n})" for n in numbers) + f"{{{rule}}}"
        for rule, numbers in found.items()
    )
    return f"<style>{''.join(rules)}</style>"
