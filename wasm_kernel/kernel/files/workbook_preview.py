"""The first cells of an Excel workbook. Runs in the process of `contents`.

A workbook is a zip of XML, and both can be made to explode. So only so many bytes of each part are unpacked, only by
deflate, whose output can be limited; a part that declares a document type or an entity is refused, because none of
Excel's does; and reading ends with the last row that is shown. No formula is evaluated: its last result is in the file.
"""

from __future__ import annotations

import re
import zipfile
import zlib
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import IO
from xml.parsers import expat

from wasm_kernel.kernel.files.preview_parts import COLUMNS, ROWS, NotThat, Preview, short, table_html
from wasm_kernel.model.units import counted

ZIP_BYTES = 256 << 20
_MEMBERS = 20_000
_SMALL_PART = 1 << 20  # bytes of parts that say where what is
_LARGE_PART = 32 << 20  # of a sheet, and of the strings
_BLOCK = 64 << 10
_SHEETS = 2000
_STYLES = 10_000
_TEXT = 1000  # characters of a cell that are kept
_STRING = 400
_REFERENCE = re.compile(r"([A-Z]{1,3})([0-9]{1,7})\Z")
_DATES = {*range(14, 23), 45, 46, 47}  # number formats that every workbook has
_NOT_A_DATE = re.compile(r'"[^"]*"|\[[^\]]*\]|\\.')
_NOT_A_WORKBOOK = "not an Excel workbook"


class _Enough(Exception):
    """All that is shown has been read."""


@dataclass
class Workbook:
    """What a workbook says of itself: its sheets, as name, state and id, and whether it counts days from 1904."""

    sheets: list[tuple[str, str, str]] = field(default_factory=list)
    from_1904: bool = False


def show_workbook(file: IO[bytes], size: int) -> Preview:
    """The first rows of its first sheet that is not hidden, and the names of all."""
    if size > ZIP_BYTES:
        raise NotThat("too large to look into")
    try:
        with zipfile.ZipFile(file) as archive:
            if len(archive.infolist()) > _MEMBERS:
                raise NotThat("too many parts to look into")
            return _show(archive)
    except (zipfile.BadZipFile, zlib.error, expat.ExpatError, RuntimeError, EOFError, OSError, ValueError):
        raise NotThat(_NOT_A_WORKBOOK) from None


def _show(archive: zipfile.ZipFile) -> Preview:
    book = _workbook(archive)
    names = [name for name, _, _ in book.sheets]
    visible = [sheet for sheet in book.sheets if sheet[1] in ("", "visible")]
    said = counted(len(names), "sheet")
    if len(names) > 1:
        said += ": " + ", ".join(short(name) for name in names[:10]) + (", …" if len(names) > 10 else "")
    part = _part_of(archive, visible[0][2]) if visible else ""
    if part not in archive.namelist():
        return said, table_html(("sheet", ""), [(short(name), state) for name, state, _ in book.sheets[:ROWS]])
    cells, more = _cells(archive, part)
    shown = _texts(archive, cells, book.from_1904)
    rows = sorted({row for row, _ in shown})
    width = max((column for _, column in shown), default=0)
    header = ["", *(_letters(column) for column in range(1, min(width, COLUMNS) + 1)), *(["…"] * (width > COLUMNS))]
    body = [
        [row, *(shown.get((row, column), "") for column in range(1, min(width, COLUMNS) + 1))]
        for row in range(1, (rows[-1] if rows else 0) + 1)
    ]
    of_it = f"{'the first ' if more else ''}{counted(len(body), 'row')}"
    where = f" of {short(visible[0][0])}" if len(names) > 1 else ""
    return f"{said}; {of_it}{where}", table_html(header, body)


# ---- parts


def _parse(
    archive: zipfile.ZipFile,
    name: str,
    most: int,
    begin: Callable[[str, dict[str, str]], None],
    end: Callable[[str], None] | None = None,
    text: Callable[[str], None] | None = None,
) -> None:
    """Read a part; tags come without their prefixes. It ends early with `_Enough`."""
    if archive.getinfo(name).compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
        raise NotThat("packed in a way that Excel does not")

    def refuse(*_: object) -> None:
        raise NotThat("workbooks with their own XML declarations are not read")

    parser = expat.ParserCreate()
    parser.buffer_text = True
    parser.StartDoctypeDeclHandler = refuse
    parser.EntityDeclHandler = refuse
    parser.StartElementHandler = lambda tag, attributes: begin(tag.rpartition(":")[2], attributes)
    if end is not None:
        parser.EndElementHandler = lambda tag: end(tag.rpartition(":")[2])
    if text is not None:
        parser.CharacterDataHandler = text
    read = 0
    try:
        with archive.open(name) as part:
            while block := part.read(_BLOCK):
                read += len(block)
                if read > most:
                    raise NotThat("a part of it is too long to look into")
                parser.Parse(block, False)
            parser.Parse(b"", True)
    except _Enough:
        pass


def _workbook(archive: zipfile.ZipFile) -> Workbook:
    found = Workbook()

    def begin(tag: str, attributes: dict[str, str]) -> None:
        if tag == "workbookPr":
            found.from_1904 = attributes.get("date1904") in ("1", "true")
        elif tag == "sheet" and len(found.sheets) < _SHEETS:
            id_ = next((value for name, value in attributes.items() if name.endswith(":id")), "")
            found.sheets.append((attributes.get("name", ""), attributes.get("state", ""), id_))

    try:
        _parse(archive, "xl/workbook.xml", _SMALL_PART, begin)
    except KeyError:
        raise NotThat(_NOT_A_WORKBOOK) from None
    return found


def _part_of(archive: zipfile.ZipFile, sheet_id: str) -> str:
    """The part that holds a sheet."""
    found = ["xl/worksheets/sheet1.xml"]

    def begin(tag: str, attributes: dict[str, str]) -> None:
        if tag == "Relationship" and attributes.get("Id") == sheet_id:
            target = attributes.get("Target", "")
            found.append(target.lstrip("/") if target.startswith("/") else f"xl/{target}")

    if "xl/_rels/workbook.xml.rels" in archive.namelist():
        _parse(archive, "xl/_rels/workbook.xml.rels", _SMALL_PART, begin)
    return found[-1]


@dataclass
class Cell:
    """A cell as the file has it: its type, its style, and its text."""

    kind: str
    style: str
    text: str = ""


def _cells(archive: zipfile.ZipFile, part: str) -> tuple[dict[tuple[int, int], Cell], bool]:
    """The cells of the first rows, by row and column, one column more than is shown; whether there are more rows."""
    cells: dict[tuple[int, int], Cell] = {}
    row = column = 0
    more, wanted = False, False
    cell: Cell | None = None

    def begin(tag: str, attributes: dict[str, str]) -> None:
        nonlocal row, column, more, cell, wanted
        if tag == "row":
            given = attributes.get("r", "")
            row, column = (int(given) if given.isascii() and given.isdigit() and len(given) < 8 else row + 1), 0
            if row > ROWS:
                more = True
                raise _Enough
        elif tag == "c":
            match = _REFERENCE.match(attributes.get("r", ""))
            column = _number(match[1]) if match else column + 1
            cell = Cell(attributes.get("t", "n"), attributes.get("s", ""))
            if row > 0 and column <= COLUMNS + 1:
                cells[row, column] = cell
        wanted = tag in ("v", "t") and cell is not None

    def end(tag: str) -> None:
        nonlocal cell, wanted
        wanted = False
        if tag == "c":
            cell = None

    def text(data: str) -> None:
        if wanted and cell is not None and len(cell.text) < _TEXT:
            cell.text += data[:_TEXT]

    _parse(archive, part, _LARGE_PART, begin, end, text)
    return cells, more


# ---- what cells say


def _texts(archive: zipfile.ZipFile, cells: dict[tuple[int, int], Cell], from_1904: bool) -> dict[tuple[int, int], str]:
    """Cells as people see them."""
    strings = _strings(archive, {cell.text for cell in cells.values() if cell.kind == "s"})
    dates = _date_styles(archive) if any(cell.kind == "n" and cell.style for cell in cells.values()) else set()

    def shown(cell: Cell) -> str:
        if cell.kind == "s":
            return strings.get(cell.text, "")
        if cell.kind == "b":
            return {"0": "FALSE", "1": "TRUE"}.get(cell.text, cell.text)
        if cell.kind == "n":
            return _number_text(cell.text, is_date=cell.style in dates, from_1904=from_1904)
        return cell.text

    return {where: short(text) for where, cell in cells.items() if (text := shown(cell))}


def _strings(archive: zipfile.ZipFile, wanted: set[str]) -> dict[str, str]:
    """The shared strings of these numbers."""
    name = "xl/sharedStrings.xml"
    numbers = {int(text) for text in wanted if text.isascii() and text.isdigit() and len(text) < 9}
    if not numbers or name not in archive.namelist():
        return {}
    found: dict[str, str] = {}
    number, last, taking, sounds = -1, max(numbers), False, 0

    def begin(tag: str, _: dict[str, str]) -> None:
        nonlocal number, taking, sounds
        if tag == "si":
            number += 1
            if number > last:
                raise _Enough
        sounds += tag == "rPh"  # how it is pronounced
        taking = tag == "t" and not sounds and number in numbers

    def end(tag: str) -> None:
        nonlocal taking, sounds
        taking = False
        sounds -= tag == "rPh"

    def text(data: str) -> None:
        if taking and len(known := found.get(str(number), "")) < _STRING:
            found[str(number)] = known + data[:_STRING]

    _parse(archive, name, _LARGE_PART, begin, end, text)
    return found


def _date_styles(archive: zipfile.ZipFile) -> set[str]:
    """The styles by which numbers are dates or times."""
    name = "xl/styles.xml"
    if name not in archive.namelist():
        return set()
    formats: dict[str, str] = {}
    styles: list[str] = []
    inside = False

    def begin(tag: str, attributes: dict[str, str]) -> None:
        nonlocal inside
        if tag == "numFmt" and len(formats) < _STYLES:
            formats[attributes.get("numFmtId", "")] = attributes.get("formatCode", "")[:200]
        elif tag == "cellXfs":
            inside = True
        elif tag == "xf" and inside and len(styles) < _STYLES:
            styles.append(attributes.get("numFmtId", ""))

    def end(tag: str) -> None:
        nonlocal inside
        inside = inside and tag != "cellXfs"

    _parse(archive, name, _SMALL_PART, begin, end)

    def is_date(format_id: str) -> bool:
        if format_id in formats:
            return bool(re.search("[ymdhs]", _NOT_A_DATE.sub("", formats[format_id]).lower()))
        return format_id.isdigit() and len(format_id) < 4 and int(format_id) in _DATES

    return {str(number) for number, format_id in enumerate(styles) if is_date(format_id)}


def _number_text(text: str, *, is_date: bool, from_1904: bool) -> str:
    try:
        value = float(text)
        if is_date:
            day = datetime(1904, 1, 1) if from_1904 else datetime(1899, 12, 30)
            moment = (day + timedelta(days=value) + timedelta(microseconds=500)).replace(microsecond=0)
            return f"{moment:%Y-%m-%d}" if not value % 1 else f"{moment:%Y-%m-%d %H:%M:%S}"
        return f"{value:.15g}"
    except (ValueError, OverflowError):
        return text


def _number(letters: str) -> int:
    """The number of a column: A is 1, AA is 27."""
    found = 0
    for letter in letters:
        found = found * 26 + ord(letter) - 64
    return found


def _letters(number: int) -> str:
    found = ""
    while number:
        number, rest = divmod(number - 1, 26)
        found = chr(65 + rest) + found
    return found
