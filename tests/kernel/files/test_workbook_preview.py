"""The first cells of Excel's workbooks, and of those made to do harm."""

from __future__ import annotations

import io
import re
import zipfile
from html import unescape

import pytest

from wasm_kernel.kernel.files import workbook_preview
from wasm_kernel.kernel.files.preview_parts import NotThat
from wasm_kernel.kernel.files.workbook_preview import show_workbook

NAMESPACE = 'xmlns="http://schemas.openxmlformats.org/spreadsheetml/2006/main"'
RELATED = 'xmlns:r="http://schemas.openxmlformats.org/officeDocument/2006/relationships"'
SHEET = f"""<?xml version="1.0"?><worksheet {NAMESPACE}><sheetData>
<row r="1"><c r="A1" t="s"><v>0</v></c><c r="B1" t="s"><v>2</v></c><c r="C1" t="inlineStr"><is><t>when</t></is></c></row>
<row r="2"><c r="A2" t="s"><v>1</v></c><c r="B2"><v>542.10000000000002</v></c><c r="C2" s="1"><v>45230</v></c>
<c r="D2" t="b"><v>1</v></c></row>
<row r="4"><c r="A4" t="str"><f>A1&amp;"x"</f><v>made</v></c><c r="B4" t="e"><v>#DIV/0!</v></c>
<c r="C4" s="2"><v>45230.75</v></c></row>
</sheetData></worksheet>"""
PARTS = {
    "xl/workbook.xml": f'<workbook {NAMESPACE} {RELATED}><workbookPr/><sheets><sheet name="Secret" state="hidden" r:id="rId1"/>'
    '<sheet name="Cities" sheetId="2" r:id="rId9"/></sheets></workbook>',
    "xl/_rels/workbook.xml.rels": '<Relationships><Relationship Id="rId1" Target="worksheets/sheet1.xml"/>'
    '<Relationship Id="rId9" Target="/xl/worksheets/other.xml"/></Relationships>',
    "xl/worksheets/sheet1.xml": "<worksheet/>",
    "xl/worksheets/other.xml": SHEET,
    "xl/sharedStrings.xml": f"<sst {NAMESPACE}><si><t>city</t></si><si><r><t>Be</t></r><r><t>rn &lt;b&gt;</t></r>"
    "<rPh><t>beh</t></rPh></si><si><t>height</t></si></sst>",
    "xl/styles.xml": f'<styleSheet {NAMESPACE}><numFmts><numFmt numFmtId="164" formatCode="&quot;day&quot; dd/mm"/></numFmts>'
    '<cellStyleXfs><xf numFmtId="14"/></cellStyleXfs><cellXfs><xf numFmtId="0"/><xf numFmtId="14"/><xf numFmtId="164"/></cellXfs>'
    "</styleSheet>",
}


def packed(parts: dict[str, str], how: int = zipfile.ZIP_DEFLATED) -> io.BytesIO:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", how) as archive:
        for name, text in parts.items():
            archive.writestr(name, text)
    out.seek(0)
    return out


def rows(markup: str) -> list[list[str]]:
    return [[unescape(cell) for cell in re.findall(r"<t[hd]>(.*?)</t[hd]>", line)] for line in markup.split("<tr>")[1:]]


def show(**changed: str) -> tuple[str, list[list[str]]]:
    names = {"sheet": "xl/worksheets/other.xml", "strings": "xl/sharedStrings.xml", "book": "xl/workbook.xml"}
    file = packed(PARTS | {names[name]: text for name, text in changed.items()})
    said, markup = show_workbook(file, 1000)
    return said, rows(markup)


def test_the_first_sheet_that_is_not_hidden() -> None:
    said, table = show()
    assert said == "2 sheets: Secret, Cities; 4 rows of Cities"
    assert table == [
        ["", "A", "B", "C", "D"],
        ["1", "city", "height", "when", ""],
        ["2", "Bern <b>", "542.1", "2023-10-31", "TRUE"],
        ["3", "", "", "", ""],
        ["4", "made", "#DIV/0!", "2023-10-31 18:00:00", ""],
    ]


def test_only_the_beginning_is_read() -> None:
    cells = "".join(f'<c r="{column}{{n}}"><v>1</v></c>' for column in ("A", "T", "U", "XFD"))
    long = "".join(f'<row r="{n}">{cells.format(n=n)}</row>' for n in range(1, 60)) + "not xml at all <"
    said, table = show(sheet=f"<worksheet><sheetData>{long}")
    assert said == "2 sheets: Secret, Cities; the first 50 rows of Cities"
    assert len(table) == 51 and table[0][-2:] == ["T", "…"]
    endless = "<worksheet>" + '<row><c t="inlineStr"><is><t>x</t></is></c></row>' * 100_000
    assert show(sheet=endless)[1][50][:2] == ["50", "x"]


@pytest.mark.parametrize(
    ("changed", "why"),
    [
        ({"sheet": '<!DOCTYPE w [<!ENTITY a "ha">]><worksheet>&a;</worksheet>'}, "declarations"),
        ({"strings": '<!DOCTYPE w SYSTEM "file:///etc/passwd"><sst/>'}, "declarations"),
        ({"sheet": "<worksheet>" + " " * (64 << 20)}, "too long"),
        ({"strings": "<sst>" + " " * (64 << 20)}, "too long"),
        ({"sheet": "no XML"}, "not an Excel workbook"),
    ],
)
def test_parts_that_are_traps(changed: dict[str, str], why: str) -> None:
    with pytest.raises(NotThat, match=why):
        show(**changed)


def test_strange_cells_are_nothing_worse(monkeypatch: pytest.MonkeyPatch) -> None:
    odd = "".join(
        f"<row r='{row}'><c r='{where}' t='{kind}' s='99999'><v>{value}</v></c></row>"
        for row, where, kind, value in (
            ("-1", "A1", "s", "99999999999999999999"),
            ("x", "ZZZZ9", "n", "1e999"),
            ("1", "A" * 5000, "s", "-1"),
            ("2", "B2", "n", "nan"),
            ("3", "?", "what", "y" * 5000),
            ("0", "A0", "n", "1"),
        )
    )
    _, table = show(sheet=f"<worksheet>{odd}</worksheet>")
    assert table[-1][1] == "y" * 79 + "…"
    _, table = show(sheet='<worksheet><row r="1"><c r="A1" s="1"><v>9e99</v></c></row></worksheet>')
    assert table[1] == ["1", "9e99"]


def test_other_ways_to_pack_are_refused() -> None:
    """Their output cannot be limited: one such part would fill the memory."""
    with pytest.raises(NotThat, match="packed"):
        show_workbook(packed(PARTS, zipfile.ZIP_LZMA), 1000)
    many = packed(PARTS | {f"x{n}": "" for n in range(30)})
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(workbook_preview, "_MEMBERS", 20)
        with pytest.raises(NotThat, match="too many"):
            show_workbook(many, 1000)
    with pytest.raises(NotThat, match="too large"):
        show_workbook(many, 1 << 40)
