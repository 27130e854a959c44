"""A file's contents as HTML. `preview` runs this in a separate process.

The file is the guest's, and the code that reads it here (regular expressions of highlighters, parsers, sqlite) was not
written for hostile input. So this process has little memory and time, no secrets in its environment, and only one open
file; `preview` kills it after some seconds. It executes nothing it reads, and escapes everything it writes.
"""

from __future__ import annotations

import contextlib
import csv
import io
import itertools
import json
import os
import sys
from collections.abc import Callable, Iterator
from typing import IO, Any

from wasm_kernel.kernel.files.preview_parts import COLUMNS, ROWS, NotThat, Preview, short, table_html
from wasm_kernel.kernel.render import escape, visible
from wasm_kernel.model.units import counted

TEXT_BYTES = 64 << 10
JSON_BYTES = 1 << 20
SQLITE_BYTES = 64 << 20
HEX_BYTES = 256
MEMORY = 512 << 20
SECONDS = 4

_MAX_LINES = 400
_MAX_LINE = 400
_NODES, _DEPTH, _STRING = 600, 12, 200
_NAMES = 200

# ---- text


def decode(data: bytes, *, cut: bool) -> str | None:
    """The data as text, if it is text. ``cut``: it may end in the middle of a character."""
    if data.startswith((b"\xff\xfe", b"\xfe\xff")):
        return data[: len(data) // 2 * 2].decode("utf-16", "replace")
    if b"\0" in data:
        return None
    text = data.decode("utf-8-sig", "replace")
    bad = text.count("\N{REPLACEMENT CHARACTER}")
    strange = sum(1 for c in text if ord(c) < 32 and c not in "\t\n\r\f\x1b")
    if bad - cut > len(text) // 20 + (0 if len(text) > 20 else 1) or strange > len(text) // 20:
        return None
    return text


def clean(text: str) -> tuple[str, bool]:
    """Text without hiding or reordering characters, limited in lines and length; whether some was left out."""
    lines = text.replace("\r\n", "\n").replace("\r", "\n").split("\n")
    shown = [visible(line[:_MAX_LINE].replace("\t", "    ")) + ("…" if len(line) > _MAX_LINE else "") for line in lines]
    return "\n".join(shown[:_MAX_LINES]), len(lines) > _MAX_LINES


def text_html(text: str, name: str) -> str:
    """Text as HTML, highlighted if the ending says how."""
    return f'<pre class="wk-code">{_highlighted(text, name) or escape_lines(text)}</pre>'


def escape_lines(text: str) -> str:
    """Lines in HTML."""
    return "\n".join(map(escape, text.split("\n")))


def _highlighted(text: str, name: str) -> str:
    try:
        from pygments import highlight
        from pygments.formatters.html import HtmlFormatter
        from pygments.lexers import get_lexer_for_filename
        from pygments.util import ClassNotFound
    except ImportError:
        return ""
    ending = name.rpartition(".")[2]
    if "." not in name or not ending.isalnum() or len(ending) > 12 or ending.lower() in ("txt", "log"):
        return ""
    try:
        lexer = get_lexer_for_filename(f"x.{ending}", stripnl=False, ensurenl=False)
    except ClassNotFound:
        return ""
    return str(highlight(text, lexer, HtmlFormatter(nowrap=True)))


def show_text(data: bytes, name: str, size: int) -> Preview:
    """The beginning of a text; `NotThat` if it is not text."""
    text = decode(data[:TEXT_BYTES], cut=size > TEXT_BYTES)
    if text is None:
        raise NotThat("not text")
    text, left_out = clean(text)
    partly = left_out or size > TEXT_BYTES
    return ("the beginning" if partly else counted(len(text.splitlines()), "line")), text_html(text, name)


# ---- tables


def show_csv(data: bytes, name: str, size: int) -> Preview:
    """The first rows of a table in text form."""
    text = decode(data[:TEXT_BYTES], cut=size > TEXT_BYTES)
    if text is None:
        raise NotThat("not text")
    first = text[:2000].partition("\n")[0]
    delimiter = "\t" if name.lower().endswith(".tsv") else max(",;\t|", key=first.count)
    csv.field_size_limit(TEXT_BYTES)
    rows = []
    with contextlib.suppress(csv.Error):  # show what could be read so far
        for row in itertools.islice(csv.reader(io.StringIO(text, newline=""), delimiter=delimiter), ROWS + 2):
            rows.append([short(cell) for cell in row[:COLUMNS]] + (["…"] if len(row) > COLUMNS else []))
    if not rows:
        raise NotThat("empty")
    more = len(rows) > ROWS + 1 or size > TEXT_BYTES
    header, body = rows[0], rows[1 : ROWS + 1]
    what = counted(len(body), "row")
    said = f"the first {what}" if more else what
    return f"{said}, {counted(len(header), 'column')}", table_html(header, body)


# ---- JSON


def show_json(data: bytes, name: str, size: int) -> Preview:
    """JSON as a tree to open and close."""
    if size > JSON_BYTES:
        raise NotThat("too large for a tree")
    try:
        value = json.loads(
            data.decode("utf-8-sig"), parse_int=lambda digits: digits if len(digits) > 400 else int(digits)
        )
    except (ValueError, RecursionError):
        raise NotThat("not JSON, or too deep") from None
    left = [_NODES]
    markup = _tree(value, "", 0, left)
    return ("the beginning" if left[0] <= 0 else "", f'<div class="wk-json">{markup}</div>')


def _tree(value: Any, key: str, depth: int, left: list[int]) -> str:
    left[0] -= 1
    name = f'<span class="wk-key">{escape(short(key))}</span> ' if key else ""
    if not isinstance(value, dict | list):
        text = json.dumps(value, ensure_ascii=False)
        text = text if len(text) <= _STRING else text[:_STRING] + "…"
        return f'<div>{name}<span class="wk-{type(value).__name__.lower()}">{escape(text)}</span></div>'
    size = counted(len(value), "key" if isinstance(value, dict) else "item")
    brackets = "{}" if isinstance(value, dict) else "[]"
    if not value:
        return f"<div>{name}{brackets}</div>"
    if depth >= _DEPTH:
        return f"<div>{name}{brackets[0]}…{brackets[1]} {size}</div>"
    inner = []
    items: Iterator[tuple[str, Any]] = (
        iter(value.items()) if isinstance(value, dict) else ((str(n), v) for n, v in enumerate(value))
    )
    for inner_key, item in items:
        if left[0] <= 0:
            inner.append("<div>…</div>")
            break
        inner.append(_tree(item, inner_key, depth + 1, left))
    opened = " open" if depth == 0 else ""
    summary = f'{name}<span class="wk-dim">{brackets[0]}{size}{brackets[1]}</span>'
    return f"<details{opened}><summary>{summary}</summary>{''.join(inner)}</details>"


# ---- sqlite: names of tables


def show_sqlite(file: IO[bytes], size: int) -> Preview:
    """The names of tables and views, from a copy in memory. No view, trigger or default of the file is evaluated."""
    import sqlite3

    if size > SQLITE_BYTES:
        raise NotThat("too large to look into")
    data = file.read(SQLITE_BYTES + 1)
    if not data.startswith(b"SQLite format 3\0") or len(data) < 100:
        raise NotThat("not a SQLite database")
    copy = bytearray(data)
    copy[18:20] = b"\1\1"  # a database in WAL mode needs other files; read only what is in the main one
    allowed = {sqlite3.SQLITE_SELECT, sqlite3.SQLITE_READ}

    def judge(action: int, table: str | None, *_: object) -> int:
        mine = action == sqlite3.SQLITE_SELECT or (table or "").lower() in ("sqlite_master", "sqlite_schema")
        return sqlite3.SQLITE_OK if action in allowed and mine else sqlite3.SQLITE_DENY

    connection = sqlite3.connect(":memory:")
    try:
        connection.execute("PRAGMA trusted_schema=OFF")
        connection.deserialize(bytes(copy))
        connection.set_progress_handler(lambda: 1, 2_000_000)
        connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, 1 << 20)
        connection.set_authorizer(judge)
        query = "SELECT type, name, sql FROM sqlite_master WHERE type IN ('table', 'view') LIMIT ?"
        rows = connection.execute(query, (_NAMES + 1,)).fetchall()
    except (sqlite3.Error, UnicodeDecodeError) as e:
        raise NotThat(f"it cannot be read: {str(e)[:200]}") from None
    finally:
        connection.close()
    shown = [(str(name), str(kind), short(" ".join(str(sql or "")[:400].split()))) for kind, name, sql in rows[:_NAMES]]
    views = sum(kind == "view" for _, kind, _ in shown)
    what = ", ".join(
        counted(n, noun) for n, noun in ((len(shown) - views, "table"), (views, "view")) if n or noun == "table"
    )
    return ("at least " if len(rows) > _NAMES else "") + what, table_html(("name", "", "definition"), shown)


# ---- everything else


def show_hex(data: bytes, size: int) -> Preview:
    """The first bytes."""
    lines = []
    for start in range(0, min(len(data), HEX_BYTES), 8):
        row = data[start : start + 8]
        text = "".join(chr(b) if 32 <= b < 127 else "·" for b in row)
        lines.append(f"{start:04x}  {row.hex(' '):23}  {text}")
    more = f"the first {HEX_BYTES} bytes" if size > HEX_BYTES else ""
    return more, f'<pre class="wk-code">{escape_lines(chr(10).join(lines))}</pre>'


def show(file: IO[bytes], name: str, size: int) -> Preview:
    """A file's contents, read as its name suggests; otherwise as text or bytes."""
    from wasm_kernel.kernel.files.array_preview import show_array, show_arrays
    from wasm_kernel.kernel.files.workbook_preview import show_workbook

    ending = "." + name.lower().rpartition(".")[2] if "." in name else ""
    note = ""
    special: dict[str, Callable[[], Preview]] = {
        **dict.fromkeys((".xlsx", ".xlsm"), lambda: show_workbook(file, size)),
        **dict.fromkeys((".sqlite", ".sqlite3", ".db"), lambda: show_sqlite(file, size)),
        ".npy": lambda: show_array(file, size),
        ".npz": lambda: show_arrays(file),
    }
    try:
        if ending in special:
            return special[ending]()
    except NotThat as e:
        note = str(e)
        file.seek(0)
    data = file.read(JSON_BYTES if ending in (".json", ".geojson", ".ipynb") else TEXT_BYTES)
    readers = {".csv": show_csv, ".tsv": show_csv, ".json": show_json, ".geojson": show_json, ".ipynb": show_json}
    for reader in (readers.get(ending), show_text):
        if reader is not None:
            try:
                said, markup = reader(data, name, size)
                return ", ".join(filter(None, (note, said))), markup
            except NotThat as e:
                note = note or (str(e) if reader is not show_text else "")
    said, markup = show_hex(data, size)
    return ", ".join(filter(None, (note, said))), markup


def restrict() -> None:
    """Less memory and time for this process, no files written, no processes started."""
    import resource

    for what, most in (
        (resource.RLIMIT_AS, MEMORY),
        (resource.RLIMIT_CPU, SECONDS),
        (resource.RLIMIT_FSIZE, 0),
        (resource.RLIMIT_CORE, 0),
    ):
        with contextlib.suppress(ValueError, OSError):  # macOS has no address-space limit
            resource.setrlimit(what, (most, most))


def main() -> None:
    """Read the file from standard input, with its name as the argument; print a JSON list."""
    restrict()
    name = sys.argv[1]
    with os.fdopen(0, "rb", closefd=False) as file:
        size = os.fstat(0).st_size
        said, markup = show(file, name, size)
    sys.stdout.write(json.dumps([said, markup]))
