"""The file browser of `%session files`, downloads and uploads, as a person uses them."""

from __future__ import annotations

import contextlib
import filecmp
import os
import re
import shutil
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest
from playwright.sync_api import FrameLocator, Locator, Page, expect

from tests.browser.lab import DARK, Notebook, open_lab, running_lab
from tests.conformance.client import eventually

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
        return self.list.locator("option", has_text=re.compile(rf"\s{re.escape(name)}/?\s".replace("\\ ", "\\s")))

    def choose(self, *names: str) -> None:
        for n, name in enumerate(names):
            self.row(name).click(modifiers=["Control"] if n else [])
        if len(names) > 1:  # front ends send clicks at once, but selections only when the last one was heard
            expect(self.preview).to_contain_text(f"{len(names)} selected")

    def press(self, name: str) -> None:
        """A button of the toolbar, by its text or its tooltip."""
        text = self.root.locator(".wk-bar > button", has_text=re.compile(rf"^\s*{name}$"))
        text.or_(self.root.locator(f'button[title="{name}"]')).first.click()

    def answer(self, name: str) -> None:
        """A button below a question, or where files are taken."""
        self.root.locator(".wk-panel button", has_text=re.compile(rf"^\s*{name}$")).click()

    @property
    def preview(self) -> Locator:
        return self.root.locator(".wk-right")

    @property
    def panel(self) -> Locator:
        return self.root.locator(".wk-panel:not(.wk-upload)")

    @property
    def upload_page(self) -> FrameLocator:
        return self.root.frame_locator(".wk-upload iframe")


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
    expect(files.root.locator(".wk-crumb")).to_have_count(2)  # those of the folder before are gone
    files.press("/app")
    expect(files.row("cities.csv")).to_have_count(1)


def test_keys_alone(files: Files) -> None:
    files.list.press("Home")
    expect(files.preview).to_contain_text("a folder: open it")
    files.list.press("Enter")
    expect(files.row("raw")).to_have_count(1)
    files.list.press("Backspace")
    expect(files.row("place.json")).to_have_count(1)
    files.list.press("End")
    expect(files.preview).to_contain_text("place.json")
    files.list.press("Shift+ArrowUp")
    expect(files.preview).to_contain_text("2 selected")
    files.list.press("Control+a")
    expect(files.preview).to_contain_text("6 selected")
    cells = files.nb.panel.locator(".jp-Cell").count()
    for key in "ddab":  # Lab's own: delete this cell, make others
        files.list.press(key)
    files.list.press("Delete")
    expect(files.panel).to_contain_text("Delete 6 items?")
    expect(files.panel.get_by_role("button", name="Delete")).to_be_focused()
    files.nb.page.keyboard.press("Escape")
    expect(files.panel).to_be_hidden()
    expect(files.list).to_be_focused()
    files.list.press("End")
    files.list.press("F2")
    expect(files.panel.locator("input")).to_be_focused()
    files.nb.page.keyboard.type("where.json")
    files.nb.page.keyboard.press("Enter")
    expect(files.row("where.json")).to_have_count(1)
    assert files.nb.panel.locator(".jp-Cell").count() == cells
    assert (files.nb.folder / "where.json").exists()


@contextlib.contextmanager
def _held_up(nb: Notebook) -> Iterator[None]:
    """The kernel hears nothing for a while, as over a slow line."""
    (kernel,) = [p for p in psutil.process_iter(["cmdline"]) if nb.kernel_id in " ".join(p.info["cmdline"] or ())]
    kernel.suspend()
    try:
        yield
    finally:
        kernel.resume()


def test_a_slow_kernel_does_what_was_meant(files: Files) -> None:
    """Front ends send a click at once, but what was selected or typed only when the last of it was answered."""
    nb = files.nb
    files.list.press("End")
    expect(files.preview).to_contain_text("place.json")
    with _held_up(nb):
        for key in ("ArrowUp", "Home", "ArrowDown", "End", "Home", "Enter"):
            files.list.press(key)
    expect(files.row("raw")).to_have_count(1)
    files.list.press("Backspace")
    files.choose("cities.csv")
    expect(files.preview).to_contain_text("Lima")
    with nb.page.expect_download() as waiting, _held_up(nb):
        files.row("data").click()
        files.choose("model.py")
        files.root.locator(".wk-acts a").click()
    assert waiting.value.suggested_filename == "model.py"
    files.list.press("F2")
    expect(files.panel.locator("input")).to_be_focused()
    with _held_up(nb):
        nb.page.keyboard.type("shape.py")
        nb.page.keyboard.press("Enter")
    expect(files.row("shape.py")).to_have_count(1)


MEDIA = r"""
import os, sqlite3, struct, zipfile, zlib
def sound(seconds):
    data = bytes(8000 * seconds)
    return b'RIFF' + struct.pack('<I', 36 + len(data)) + b'WAVEfmt ' + struct.pack('<IHHIIHH', 16, 1, 1, 8000, 8000, 1, 8) + b'data' + struct.pack('<I', len(data)) + data
open('short.wav', 'wb').write(sound(2)); open('long.wav', 'wb').write(sound(200))
def pdf(text, more):
    page = b'BT /F 24 Tf 40 100 Td (' + text + b') Tj ET'
    parts = [b'<</Type/Catalog/Pages 2 0 R>>', b'<</Type/Pages/Kids[3 0 R]/Count 1>>',
        b'<</Type/Page/Parent 2 0 R/MediaBox[0 0 300 200]/Contents 4 0 R/Resources<</Font<</F 5 0 R>>>>>>',
        b'<</Length %d>>stream\n%s\nendstream' % (len(page), page), b'<</Type/Font/Subtype/Type1/BaseFont/Helvetica>>']
    made, at = b'%PDF-1.4\n%' + bytes(more).replace(b'\0', b'x') + b'\n', []
    for n, part in enumerate(parts, 1):
        at.append(len(made)); made += b'%d 0 obj\n%s\nendobj\n' % (n, part)
    table = b''.join(b'%010d 00000 n \n' % a for a in at)
    return made + b'xref\n0 6\n0000000000 65535 f \n' + table + b'trailer<</Size 6/Root 1 0 R>>\nstartxref\n%d\n%%%%EOF' % len(made)
open('small.pdf', 'wb').write(pdf(b'A small PDF', 0)); open('large.pdf', 'wb').write(pdf(b'A large PDF', 3_000_000))
open('page.pdf', 'w').write('<script>window.hacked=1</script>')
chunk = lambda k, d: struct.pack('>I', len(d)) + k + d + struct.pack('>I', zlib.crc32(k + d))
rows = b''.join(b'\0' + os.urandom(3000) for y in range(900))
open('photo.png', 'wb').write(b'\x89PNG\r\n\x1a\n' + chunk(b'IHDR', struct.pack('>IIBBBBB', 1000, 900, 8, 2, 0, 0, 0)) + chunk(b'IDAT', zlib.compress(rows, 0)) + chunk(b'IEND', b''))
open('drawing.svg', 'w').write('<svg xmlns="http://www.w3.org/2000/svg" width="90" height="60" onload="window.hacked=2"><script>window.hacked=3</script><circle cx="45" cy="30" r="25" fill="teal"/></svg>')
base = sqlite3.connect('base.db'); base.execute('CREATE TABLE cities (name, m)'); base.commit(); base.close()
with zipfile.ZipFile('book.xlsx', 'w') as book: book.writestr('xl/workbook.xml', '<workbook><sheets><sheet name="Costs"/></sheets></workbook>')
"""


def test_sounds_documents_and_tables(notebook: Make) -> None:
    nb = notebook(MEDIA, "%session files")
    nb.run_all()
    files = Files(nb, 1)
    for name, source, seconds in (("short.wav", "data:audio/wav", 2), ("long.wav", "/wasm-kernel/sessions/", 200)):
        files.choose(name)
        sound = files.preview.locator("audio")
        expect(sound).to_have_attribute("src", re.compile(source))
        nb.page.wait_for_function("s => s.readyState > 0", arg=sound.element_handle())
        assert sound.evaluate("s => [s.duration, s.error]") == [seconds, None]
    sound.evaluate("async s => { s.muted = true; s.currentTime = 150; await s.play(); }")
    nb.page.wait_for_function("s => s.currentTime > 150.1", arg=sound.element_handle())
    files.choose("photo.png")
    expect(files.preview).to_contain_text("1,000 × 900 pixels")
    nb.page.wait_for_function("i => i.naturalWidth === 1000", arg=files.preview.locator("img").element_handle())
    nb.screenshot("files_photo")
    for name, source in (("small.pdf", "data:application/pdf"), ("large.pdf", "/wasm-kernel/sessions/")):
        files.choose(name)
        expect(files.preview.locator("object")).to_have_attribute("data", re.compile(source))
        if nb.page.evaluate("() => navigator.pdfViewerEnabled"):
            _wait_for_pdf_viewer(nb.page, source)
        nb.screenshot(f"files_{name.replace('.', '_')}")
    files.choose("page.pdf")
    expect(files.preview).to_contain_text("not a PDF")
    expect(files.preview.locator("object")).to_have_count(0)
    files.choose("drawing.svg")
    expect(files.preview.locator("pre")).to_contain_text("<circle")
    files.preview.get_by_role("button", name="Draw").click()
    nb.page.wait_for_function("i => i.naturalWidth === 90", arg=files.preview.locator("img").element_handle())
    nb.screenshot("files_drawing")
    files.choose("base.db")
    expect(files.preview.locator("table")).to_contain_text("cities")
    files.choose("book.xlsx")
    expect(files.preview.locator("table")).to_contain_text("Costs")
    assert nb.page.evaluate("() => window.hacked") is None


def _wait_for_pdf_viewer(page: Page, source: str) -> None:
    """Chromium shows a PDF by a page of its own, in the frame that asked for it."""
    for _ in range(200):
        for frame in page.frames:
            around = frame.parent_frame.url if frame.parent_frame is not None else ""
            pages = "() => document.querySelector('pdf-viewer')?.docLength_"
            if frame.url.startswith("chrome-extension://") and source in around and frame.evaluate(pages) == 1:
                return
        page.wait_for_timeout(100)
    raise AssertionError([frame.url[:100] for frame in page.frames])


def test_several_files_come_as_a_zip(files: Files) -> None:
    files.choose("cities.csv", "data")
    with files.nb.page.expect_download() as waiting:
        files.root.get_by_text("Download zip").click()
    assert waiting.value.suggested_filename == "files.zip"
    with zipfile.ZipFile(waiting.value.path()) as archive:
        assert archive.read("cities.csv") == b"city,m\nBern,542\nLima,154\n"
        assert archive.read("data/raw/x.bin") == bytes(range(256)) * 40
    with files.nb.page.expect_download() as waiting:
        files.choose("cities.csv")
        expect(files.root.get_by_text("Download zip")).to_have_count(0)
        files.root.locator(".wk-link a").click()
    assert waiting.value.suggested_filename == "cities.csv"
    assert waiting.value.path().read_bytes() == b"city,m\nBern,542\nLima,154\n"


def test_large_file_down_and_up(files: Files, tmp_path: Path) -> None:
    nb = files.nb
    large, inside = tmp_path / "large.bin", nb.folder / "inside.bin"
    large.write_bytes(os.urandom(1 << 20) * 150)
    shutil.copyfile(large, inside)
    files.press("Refresh")
    files.choose("inside.bin")
    with nb.page.expect_download() as waiting:
        files.root.locator(".wk-link a").click()
    assert filecmp.cmp(waiting.value.path(), large, shallow=False)
    inside.unlink()
    files.press("Upload")
    page = files.upload_page
    page.locator("input[type=file]").set_input_files(large)
    expect(page.locator("li")).to_contain_text("done")
    nb.screenshot("files_upload")
    assert filecmp.cmp(nb.folder / "large.bin", large, shallow=False)
    expect(files.row("large.bin")).to_have_count(1)  # the list was refreshed by itself
    (nb.folder / "large.bin").unlink()


def test_upload_asks_before_it_replaces_and_heeds_the_quota(files: Files, tmp_path: Path) -> None:
    nb = files.nb
    (tmp_path / "cities.csv").write_text("mine")
    (tmp_path / "huge.bin").write_bytes(bytes(30 << 20))
    files.press("Upload")
    page = files.upload_page
    page.locator("input[type=file]").set_input_files(tmp_path / "cities.csv")
    page.get_by_role("button", name="Keep both").click()
    expect(page.locator("li")).to_contain_text("as cities (2).csv")
    assert (nb.folder / "cities (2).csv").read_text() == "mine"
    assert (nb.folder / "cities.csv").read_text().startswith("city")
    page.locator("input[type=file]").set_input_files(tmp_path / "cities.csv")
    page.get_by_role("button", name="Replace").click()
    expect(page.locator("li").nth(1)).to_contain_text("done")
    assert (nb.folder / "cities.csv").read_text() == "mine"
    nb.run("%session limits disk=20M")
    expect(files.root).to_contain_text("of 20.0 MB")
    expect(files.root.locator("progress").first).to_have_attribute("value", re.compile(r"0\.00[1-9]"))
    sent: list[str] = []
    nb.page.on("request", lambda r: sent.append(r.url) if r.method == "PUT" and "wasm-kernel" in r.url else None)
    page.locator("input[type=file]").set_input_files(tmp_path / "huge.bin")
    expect(page.locator("#message")).to_contain_text("30.0 MB is too much")
    nb.screenshot("files_quota")
    assert not sent
    assert not (nb.folder / "huge.bin").exists()


def test_an_upload_goes_on_while_one_looks_around(files: Files, tmp_path: Path) -> None:
    nb = files.nb
    (tmp_path / "slow.bin").write_bytes(os.urandom(3 << 20))
    files.press("Upload")
    page = files.upload_page
    slow = nb.page.context.new_cdp_session(nb.page)
    slow.send("Network.enable")
    limits = {"offline": False, "latency": 0, "downloadThroughput": -1, "uploadThroughput": 1 << 20}
    slow.send("Network.emulateNetworkConditions", limits)
    try:
        page.locator("input[type=file]").set_input_files(tmp_path / "slow.bin")
        expect(page.locator("li progress")).to_have_attribute("value", re.compile(r"0\.[0-9]+"))
        nb.page.once("dialog", lambda dialog: dialog.dismiss())
        with nb.page.expect_event("dialog"):
            files.answer("Done")
        files.row("data").dblclick()
        expect(files.row("raw")).to_have_count(1)
        files.press("New folder")
        files.answer("Cancel")
    finally:
        slow.send("Network.emulateNetworkConditions", {**limits, "uploadThroughput": -1})
    expect(page.locator("li")).to_contain_text("done")
    assert filecmp.cmp(nb.folder / "slow.bin", tmp_path / "slow.bin", shallow=False)
    files.press("Upload")
    expect(files.root.locator(".wk-upload iframe")).to_have_count(2)
    nb.screenshot("files_two_uploads")


def test_new_folder_rename_move_and_delete(files: Files) -> None:
    nb = files.nb
    files.press("New folder")
    files.panel.locator("input").fill("results")
    files.panel.locator("input").press("Enter")
    expect(files.row("results")).to_have_count(1)
    files.choose("notes.md")
    files.list.press("F2")
    files.panel.locator("input").fill("read me.md")
    files.answer("Rename")
    expect(files.row("read me.md")).to_have_count(1)
    files.press("Move")
    files.panel.locator("input").fill("/app/results")
    files.answer("Move")
    expect(files.row("read me.md")).to_have_count(0)
    assert (nb.folder / "results" / "read me.md").exists()
    files.choose("results", "cities.csv")
    files.list.press("Delete")
    expect(files.panel).to_contain_text("Delete 2 items?")
    expect(files.panel).to_contain_text("Cannot be undone")  # no cell has run since
    expect(files.panel).to_contain_text("results/read me.md.")
    nb.screenshot("files_delete")
    files.answer("Cancel")
    expect(files.panel.locator("button")).to_have_count(0)  # else the next click may be on the old question
    assert (nb.folder / "cities.csv").exists()
    files.press("Delete")
    files.answer("Delete")
    expect(files.root).to_contain_text("Deleted: ")
    expect(files.row("results")).to_have_count(0)
    assert not (nb.folder / "cities.csv").exists()
    assert not (nb.folder / "results").exists()
    files.press("New folder")
    files.panel.locator("input").fill("../out")
    files.answer("Create")
    expect(files.root.get_by_role("alert")).to_contain_text("without a slash")


def test_what_was_deleted_comes_back(files: Files) -> None:
    nb = files.nb
    nb.run("later = 1")
    nb.run("%session snapshot kept")  # once it is there, all before it is stored
    files.choose("cities.csv", "data")
    files.press("Delete")
    expect(files.panel).to_contain_text("can be undone")
    files.answer("Delete")
    expect(files.row("cities.csv")).to_have_count(0)
    expect(files.preview).to_contain_text("Select a file")
    files.choose("notes.md")
    nb.screenshot("files_undo")
    files.root.get_by_role("button", name="Undo").click()
    expect(files.row("cities.csv")).to_have_count(1)
    assert (nb.folder / "cities.csv").read_text() == "city,m\nBern,542\nLima,154\n"
    assert (nb.folder / "data/raw/x.bin").read_bytes() == bytes(range(256)) * 40
    assert "1" in nb.text(nb.run("later"))
    files.choose("cities.csv")
    files.press("Delete")
    files.answer("Delete")
    expect(files.row("cities.csv")).to_have_count(0)
    nb.run("%session undo")
    expect(files.row("cities.csv")).to_have_count(1)


def test_headings_sort_and_what_is_dropped_onto_the_list_is_uploaded(files: Files, tmp_path: Path) -> None:
    nb = files.nb
    heading = files.root.locator(".wk-by")
    heading.filter(has_text="Size").click()
    expect(files.list.locator("option").nth(1)).to_contain_text("picture.png")
    heading.filter(has_text="Size ↓").click()
    expect(files.list.locator("option").nth(1)).to_contain_text("notes.md")
    heading.filter(has_text="Name").press("Enter")
    expect(files.root.locator(".wk-order select")).to_have_value("Name A–Z")

    files.row("data").dblclick()
    expect(files.row("raw")).to_have_count(1)
    (tmp_path / "dropped.txt").write_text("dropped")
    box = files.list.bounding_box()
    assert box is not None
    chrome = nb.page.context.new_cdp_session(nb.page)
    data = {"items": [], "files": [str(tmp_path / "dropped.txt")], "dragOperationsMask": 1}
    for kind in ("dragEnter", "dragOver", "drop"):
        at = {"x": box["x"] + 60, "y": box["y"] + 60}
        chrome.send("Input.dispatchDragEvent", {"type": kind, **at, "data": data})
    chrome.detach()
    expect(files.row("dropped.txt")).to_have_count(1)
    assert (nb.folder / "data/dropped.txt").read_text() == "dropped"


def test_it_works_while_a_cell_runs(files: Files) -> None:
    nb = files.nb
    number = nb.start(
        "import time\nfor i in range(60):\n    open(f'live{i}.txt', 'w').write('x' * i)\n    time.sleep(.5)\n"
        "    if os.path.exists('stop'): break\nos.remove('stop')"
    )
    expect(files.row("live3.txt")).to_have_count(1)
    files.choose("model.py")
    expect(files.preview.locator("pre")).to_contain_text("def area")
    assert "[*]" in nb.cell(number).inner_text()
    (nb.folder / "stop").write_text("")
    nb.wait_until_done(number)
    expect(files.row("live3.txt")).to_contain_text("+")
    nb.run("os.remove('live3.txt'); open('cities.csv', 'a').write('Oslo,23\\n')")
    expect(files.root).to_contain_text("deleted: live3.txt")
    expect(files.row("cities.csv")).to_contain_text("~")


def test_it_comes_back_after_a_reload(files: Files) -> None:
    nb = files.nb
    files.choose("cities.csv")
    expect(files.preview.locator("table")).to_contain_text("Lima")
    nb.save()
    nb.reload()
    nb.wait_for_kernel()
    again = Files(nb, 1)
    expect(again.preview.locator("table")).to_contain_text("Lima")
    again.row("data").dblclick()
    expect(again.row("raw")).to_have_count(1)


def test_it_is_alive_again_in_the_next_kernel(files: Files) -> None:
    """The notebook was closed, or the server ended: the browser in its output is the next kernel's."""
    nb = files.nb
    before = nb.kernel_id
    nb.save()
    nb.close()
    nb.open()
    nb.wait_for_kernel()
    assert nb.kernel_id != before
    again = Files(nb, 1)
    again.choose("cities.csv")
    expect(again.preview.locator("table")).to_contain_text("Lima")
    again.row("data").dblclick()
    expect(again.row("raw")).to_have_count(1)


HOSTILE = r"""
import os
evil = '<img src=x onerror=window.hacked=1>'
os.makedirs(evil, exist_ok=True)
for folder in ('.', evil):
    open(f'{folder}/{evil}.txt', 'w').write('<script>window.hacked=2</script>' + evil)
    open(f'{folder}/"onclick="window.hacked=3.svg', 'w').write('<svg xmlns="http://www.w3.org/2000/svg" onload="window.hacked=4"/>')
    open(f"{folder}/');window.hacked=5;('.html", 'w').write(evil)
    open(f'{folder}/{evil}.csv', 'w').write(f'{evil},b\n{evil},2')
    open(f'{folder}/{evil}.json', 'w').write('{"%s": "%s"}' % (evil, evil))
    open(f'{folder}/a\u202egnp.exe', 'w').write('\u202eright to left\x1b[31m\0')
"""


def test_names_and_contents_do_nothing(notebook: Make) -> None:
    nb = notebook(HOSTILE, "%session files")
    nb.run_all()
    files = Files(nb, 1)
    title = files.preview.locator(".wk-title")

    questions = (("Rename", "New name for"), ("Move", "Move "), ("Delete", "Delete 1 item"))

    def try_everything(*questions: tuple[str, str]) -> None:
        before = ""
        for number in range(files.list.locator("option").count()):
            files.list.locator("option").nth(number).click()
            expect(title).to_have_text(re.compile("."))
            expect(title).not_to_have_text(before)
            before = title.inner_text()
            for button, question in questions:
                files.press(button)
                expect(files.panel).to_contain_text(question)

    expect(files.list.locator("option")).to_have_count(7)
    try_everything(*questions)
    nb.screenshot("files_hostile")
    files.list.locator("option").first.dblclick()
    expect(files.list.locator("option")).to_have_count(6)
    expect(files.preview).to_contain_text("Select a file")
    try_everything(questions[-1])
    files.press("Upload")
    expect(files.upload_page.locator("#drop")).to_contain_text("<img src=x")
    nb.page.wait_for_timeout(300)  # what would happen needs a moment
    assert nb.page.evaluate("() => window.hacked") is None
    nb.run('%session download "<img src=x onerror=window.hacked=1>.txt"')
    assert nb.page.evaluate("() => window.hacked") is None


def test_ten_thousand_files(notebook: Make) -> None:
    nb = notebook("open('00000.txt', 'w').close()", "%session files")
    nb.run("1")
    for i in range(10_000):
        (nb.folder / f"{i:05}.txt").touch()
    nb.run_all()
    files = Files(nb, 1)
    expect(files.list.locator("option")).to_have_count(200)
    expect(files.root).to_contain_text("1–200 of 10,000 items")
    files.press("Next page")
    expect(files.row("00200.txt")).to_have_count(1)
    files.root.get_by_placeholder("Filter").fill("*99.txt")
    expect(files.list.locator("option")).to_have_count(100)
    files.root.locator("select").first.select_option(label="Name Z–A")
    expect(files.list.locator("option").first).to_contain_text("09999.txt")


def test_magic_gives_links(files: Files) -> None:
    nb = files.nb
    number = nb.run("%session download cities.csv model.py")
    with nb.page.expect_download() as waiting:
        nb.output(number).get_by_role("link", name="cities.csv").click()
    assert waiting.value.path().read_text().startswith("city,m")
    number = nb.run("%session download data --zip")
    with nb.page.expect_download() as waiting:
        nb.output(number).get_by_role("link", name="data.zip").click()
    with zipfile.ZipFile(waiting.value.path()) as archive:
        assert "data/raw/x.bin" in archive.namelist()
    assert "--zip" in nb.text(nb.run("%session download data"))


def _width(shown: Locator) -> float:
    box = shown.bounding_box()
    assert box is not None
    return box["width"]


def test_looks_in_the_dark_and_on_a_narrow_page(files: Files) -> None:
    nb = files.nb
    size = nb.page.viewport_size
    assert size is not None
    nb.theme(DARK)
    files.choose("model.py")
    expect(files.preview.locator("pre .k").first).to_have_text("def")
    nb.screenshot("files_dark")
    files.press("Upload")
    expect(files.upload_page.locator("#drop")).to_be_visible()
    nb.page.set_viewport_size({"width": 600, "height": 1100})
    try:
        assert eventually(lambda: _width(files.root) <= _width(nb.output(1)))  # once Lab has laid it out anew
        nb.screenshot("files_narrow")
    finally:
        nb.page.set_viewport_size(size)


def test_without_the_server_extension(
    page: Page, shots: Path, tmp_path_factory: pytest.TempPathFactory, tmp_path: Path
) -> None:
    browser = page.context.browser
    assert browser is not None
    (tmp_path / "cities.csv").write_text("mine")
    off = "{'wasm_kernel': False}"
    with running_lab(tmp_path_factory.mktemp("bare"), shots / "bare.log", jpserver_extensions=off) as lab:
        context = browser.new_context(viewport={"width": 1280, "height": 900})
        try:
            nb = Notebook.make(lab, open_lab(context, lab), shots, "bare.ipynb", (FILES, "%session files"))
            nb.run_all()
            files = Files(nb, 1)
            files.choose("data", "cities.csv")
            files.press("Download zip")
            with nb.page.expect_download() as waiting:
                files.panel.get_by_role("link", name="files.zip").click()
            with zipfile.ZipFile(waiting.value.path()) as archive:
                assert archive.read("data/raw/x.bin") == bytes(range(256)) * 40
            files.press("Upload")
            expect(files.root.locator(".wk-upload")).to_contain_text("server extension")
            with nb.page.expect_file_chooser() as asked:
                files.answer(r"Choose files.*")
            asked.value.set_files(tmp_path / "cities.csv")
            expect(files.panel).to_contain_text("Already exists: cities.csv")
            nb.screenshot("files_bare")
            files.answer("Keep both")
            expect(files.row("cities (2).csv")).to_have_count(1)
            nb.close()
        finally:
            context.close()
