"""Tables and bars for notebooks: HTML in the front end's own colours, and the same as plain text."""

from __future__ import annotations

import html
import re
from collections.abc import Sequence
from typing import Any

Row = Sequence[object]
# JupyterLab gives tables stripes, borders and centred cells; each is overridden where Lab sets it.
_SIZE = "font-size:var(--jp-code-font-size,13px);color:var(--jp-content-font-color1,inherit)"
_QUIET = "font-size:var(--jp-code-font-size,13px);color:var(--jp-content-font-color2,inherit)"
_TABLE = f"border:none;border-collapse:collapse;margin:.3em 0;{_SIZE}"
_ROW = "background:none;border:none"
_CELL = "padding:.2em 1.6em .2em 0;text-align:{align};border:none;vertical-align:baseline;max-width:none"
_NUMBER = ";white-space:nowrap;font-variant-numeric:tabular-nums"
_HEAD = _CELL + ";font-weight:600;border-bottom:1px solid var(--jp-border-color1,rgba(128,128,128,.5))"
_KEY = _CELL + ";white-space:nowrap;color:var(--jp-content-font-color2,inherit)"
_BAR = "width:9em;height:.8em;vertical-align:baseline;accent-color:var(--jp-brand-color1,auto)"
_MONO = "font-family:var(--jp-code-font-family,monospace);white-space:nowrap"
_COMMAND = re.compile("`([^`]+)`")


def visible(value: object) -> str:
    """Text that may come from a guest, without characters that hide or reorder the text around them."""
    return "".join(c if c.isprintable() else "\N{REPLACEMENT CHARACTER}" for c in str(value))


def bar(fraction: float, label: str) -> str:
    """A bar with its label, as HTML."""
    share = min(max(fraction, 0.0), 1.0)
    return f'<progress max="1" value="{share:.4f}" style="{_BAR}"></progress>&ensp;{escape(label)}'


def progress(label: str, fraction: float | None = None) -> str:
    """What is going on and how far it is, if known, as HTML."""
    shown = f'<progress style="{_BAR}"></progress>&ensp;{escape(label)}' if fraction is None else bar(fraction, label)
    return f'<div style="{_SIZE}">{shown}</div>'


def escape(value: object) -> str:
    """Text escaped for HTML."""
    return html.escape(visible(value))


def sentence(text: str, style: str = _SIZE) -> str:
    """A line of text in HTML; text between backticks is something to type."""
    marked = _COMMAND.sub(r"<code>\1</code>", escape(text))
    return f'<div style="{style}">{marked}</div>'


def aside(text: str) -> dict[str, Any]:
    """Content of a display: a line that is good to know and no more, with what to type between backticks."""
    data = {"text/plain": f"[wasm-kernel] {text.replace('`', '')}", "text/html": sentence(text, _QUIET)}
    return {"data": data, "metadata": {}, "transient": {}}


class Html(str):
    """A table cell that is already HTML; ``text`` is shown in the plain-text twin."""

    text: str

    def __new__(cls, markup: str, text: str) -> Html:
        made = super().__new__(cls, markup)
        made.text = text
        return made


def code(text: str) -> Html:
    """An id in a monospaced font."""
    return Html(f'<span style="{_MONO}">{escape(text)}</span>', text)


def table(header: Sequence[str], rows: Sequence[Row], *, numbers: Sequence[int] = (), caption: str = "") -> str:
    """A table as HTML; columns in ``numbers`` are aligned to the right. Without a header, the first column is one."""

    def cell(tag: str, style: str, column: int, value: object) -> str:
        number = column in numbers
        style = style.format(align="right" if number else "left") + (_NUMBER if number else "")
        return f'<{tag} style="{style}">{value if isinstance(value, Html) else escape(value)}</{tag}>'

    def line(tag: str, style: str, values: Row) -> str:
        cells = (cell(tag, style if n or header else _KEY, n, value) for n, value in enumerate(values))
        return f'<tr style="{_ROW}">{"".join(cells)}</tr>'

    head = f"<thead>{line('th', _HEAD, header)}</thead>" if header else ""
    body = "".join(line("td", _CELL, row) for row in rows)
    return f'{sentence(caption) if caption else ""}<table style="{_TABLE}">{head}<tbody>{body}</tbody></table>'


def plain(header: Sequence[str], rows: Sequence[Row], *, numbers: Sequence[int] = (), caption: str = "") -> str:
    """The same table as plain text."""
    texts = [[visible(v.text if isinstance(v, Html) else v) for v in row] for row in rows]
    lines = [list(header), *texts] if header else texts
    widths = [max((len(line[n]) for line in lines), default=0) for n in range(len(lines[0]))] if lines else []
    shown = []
    for line in lines:
        cells = [t.rjust(w) if n in numbers else t.ljust(w) for n, (t, w) in enumerate(zip(line, widths, strict=True))]
        shown.append("  ".join(cells).rstrip())
    return "\n".join([*([caption] if caption else []), *shown])
