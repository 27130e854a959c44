"""Tables and bars for notebooks: HTML in the front end's own colours, and the same as plain text."""

from __future__ import annotations

import html
from collections.abc import Sequence

Row = Sequence[object]
_TABLE = (
    "border-collapse:collapse;margin:.3em 0;font-size:var(--jp-code-font-size,13px);"
    "color:var(--jp-content-font-color1,inherit)"
)
_CELL = "padding:.15em 1em .15em 0;text-align:{align};border:none;background:none;vertical-align:top"
_HEAD = _CELL + ";font-weight:600;border-bottom:1px solid var(--jp-border-color1,#bbb)"


def visible(value: object) -> str:
    """Text that may come from a guest, without characters that hide or reorder what stands around them."""
    return "".join(c if c.isprintable() else "\N{REPLACEMENT CHARACTER}" for c in str(value))


def bar(fraction: float, label: str) -> str:
    """A bar and what it stands for, as HTML."""
    share = min(max(fraction, 0.0), 1.0)
    return f'<progress max="1" value="{share:.4f}" style="width:9em;vertical-align:middle"></progress> {escape(label)}'


def escape(value: object) -> str:
    """Text in HTML."""
    return html.escape(visible(value))


class Html(str):
    """A cell of a table that is HTML already; ``text`` is what the plain twin shows."""

    text: str

    def __new__(cls, markup: str, text: str) -> Html:
        made = super().__new__(cls, markup)
        made.text = text
        return made


def table(header: Sequence[str], rows: Sequence[Row], *, numbers: Sequence[int] = (), caption: str = "") -> str:
    """A table as HTML; columns in ``numbers`` are aligned to the right."""

    def cell(tag: str, style: str, column: int, value: object) -> str:
        align = "right" if column in numbers else "left"
        return (
            f'<{tag} style="{style.format(align=align)}">{value if isinstance(value, Html) else escape(value)}</{tag}>'
        )

    head = "".join(cell("th", _HEAD, n, name) for n, name in enumerate(header))
    body = "".join(
        "<tr>" + "".join(cell("td", _CELL, n, value) for n, value in enumerate(row)) + "</tr>" for row in rows
    )
    title = f'<div style="margin-top:.3em">{escape(caption)}</div>' if caption else ""
    return f'{title}<table style="{_TABLE}">{"<tr>" + head + "</tr>" if header else ""}{body}</table>'


def plain(header: Sequence[str], rows: Sequence[Row], *, numbers: Sequence[int] = (), caption: str = "") -> str:
    """The same as text."""
    texts = [[visible(v.text if isinstance(v, Html) else v) for v in row] for row in rows]
    lines = [list(header), *texts] if header else texts
    widths = [max((len(line[n]) for line in lines), default=0) for n in range(len(lines[0]))] if lines else []
    shown = []
    for line in lines:
        cells = [t.rjust(w) if n in numbers else t.ljust(w) for n, (t, w) in enumerate(zip(line, widths, strict=True))]
        shown.append("  ".join(cells).rstrip())
    return "\n".join([*([caption] if caption else []), *shown])
