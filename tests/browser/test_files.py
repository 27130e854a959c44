"""The file browser of `%session files`, downloads and uploads, as a person uses them."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest
from playwright.sync_api import FrameLocator, Locator, expect

from tests.browser.lab import Notebook

Make = Callable[..., Notebook]

FILES = r"""
import os, json, struct, zlib, sqlite3
os.makedirs('data/raw', exist_ok=True)
open('cities.csv', 'w').write('city,m\nBern,542\nLima,154\n')
open('notes.md', 'w').write('# Notes\n\nAll is well.\n')
open('model.py', 'w').write('def area(r):\n    "The area of a circle."\n    return 3.14159 * r ** 2\n')
json.dump({'name': 'Bern', 'at': [46.9, 7.4], 'tags': {'capital': True, 'river': None}}, open('place.json', 'w'))
open('data/raw/x.bin', 'wb').write(bytes(range(256)) * 40)
rows = b''.join(b'\0' + bytes((x * 2 % 256, y * 2 % 256, 160)) * 1 + b''.join(bytes((i * 2 % 256, y * 2 % 256, 160)) for i in range(1, 120)) for y in range(80) for x in (0,))
chunk = lambda k, d: struct.pack('>I', len(d)) + k + d + struct.pack('>I', zlib.crc32(k + d))
open('picture.png', 'wb').write(b'\x89PNG\r\n\x1a\n' + chunk(b'IHDR', struct.pack('>IIBBBBB', 120, 80, 8, 2, 0, 0, 0)) + chunk(b'IDAT', zlib.compress(rows)) + chunk(b'IEND', b''))
"""


class Files:
    """A file browser in a cell's output."""

    def __init__(self, nb: Notebook, number: int) -> None:
        self.nb, self.root = nb, nb.output(number).locator(".wk-files")
        expect(self.root).to_be_visible()

    @property
    def list(self) -> Locator:
        return self.root.locator(".wk-list select")

    def row(self, name: str) -> Locator:
        return self.list.locator("option", has_text=re.compile(rf"\s{re.escape(name)}/?\s"))

    def choose(self, *names: str) -> None:
        for n, name in enumerate(names):
            self.row(name).click(modifiers=["Control"] if n else [])

    def press(self, name: str) -> None:
        self.root.get_by_role("button", name=name, exact=True).click()

    @property
    def preview(self) -> Locator:
        return self.root.locator(".wk-right")

    @property
    def panel(self) -> Locator:
        return self.root.locator(".wk-panel")

    @property
    def upload_page(self) -> FrameLocator:
        return self.root.frame_locator(".wk-panel iframe")


@pytest.fixture
def files(notebook: Make) -> Files:
    nb = notebook(FILES, "%session files")
    nb.run_all()
    return Files(nb, 1)


def test_browse_and_preview(files: Files) -> None:
    for name in ("data", "cities.csv", "notes.md", "model.py", "place.json", "picture.png"):
        expect(files.row(name)).to_have_count(1)
    files.choose("cities.csv")
    expect(files.preview.locator("table")).to_contain_text("Lima")
    files.nb.screenshot("files_csv")
    files.choose("model.py")
    expect(files.preview.locator("pre .k").first).to_have_text("def")
    files.choose("place.json")
    expect(files.preview.locator("details").first).to_contain_text("Bern")
    files.nb.screenshot("files_json")
    files.choose("picture.png")
    expect(files.preview.locator("img")).to_be_visible()
    assert files.preview.locator("img").evaluate("i => i.naturalWidth") == 120
    files.nb.screenshot("files_picture")
    files.row("data").dblclick()
    expect(files.row("raw")).to_have_count(1)
    files.choose("raw")
    files.list.press("Enter")
    expect(files.row("x.bin")).to_have_count(1)
    files.choose("x.bin")
    expect(files.preview.locator("pre")).to_contain_text("0000  00 01 02 03")
    files.nb.screenshot("files_hex")
    files.list.press("Backspace")
    expect(files.row("raw")).to_have_count(1)
    files.root.get_by_role("button", name="/app").click()
    expect(files.row("cities.csv")).to_have_count(1)
