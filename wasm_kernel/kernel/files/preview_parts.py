"""What the readers of previews share: how much is shown, tables, and how to say that a file is not what it seems."""

from __future__ import annotations

from collections.abc import Sequence

from wasm_kernel.kernel.render import escape

ROWS, COLUMNS, CELL = 50, 20, 80

Preview = tuple[str, str]
"""What is shown of a file: a sentence about it, and it as HTML."""


class NotThat(Exception):
    """The file is not what its name says, or too large; the message says which."""


def table_html(header: Sequence[object], rows: Sequence[Sequence[object]]) -> str:
    """Rows as a table."""

    def line(tag: str, cells: Sequence[object]) -> str:
        return "<tr>" + "".join(f"<{tag}>{escape(c)}</{tag}>" for c in cells) + "</tr>"

    head = f"<thead>{line('th', header)}</thead>" if header else ""
    return f'<table class="wk-table">{head}<tbody>{"".join(line("td", r) for r in rows)}</tbody></table>'


def short(text: str) -> str:
    """A cell's text, cut."""
    return text if len(text) <= CELL else text[: CELL - 1] + "…"
