"""The files beside the notebook, in Lab's own file browser: its menu, its viewers, drags in and out, hostile names."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Locator, expect

from tests.browser.lab import Notebook
from tests.browser.side_panel import drag
from tests.conformance.client import eventually

FILES = """
import json, os, zlib, struct
os.makedirs('data/raw')
open('data/raw/x.bin', 'wb').write(bytes(256))
open('cities.csv', 'w').write('city,n\\nBern,1\\n')
open('note.txt', 'w').write('first')
os.symlink('data', 'linked')
"""


class FilesPanel:
    """The panel's file browser, beside a notebook."""

    def __init__(self, book: Notebook) -> None:
        self.book, self.page = book, book.page
        self.root = self.page.locator(".jp-WasmKernel-files")
        self.list = self.root.locator(".jp-DirListing-content")
        book.command("wasm-kernel:show-timeline", wait=True)

    def row(self, name: str) -> Locator:
        text = self.page.locator(".jp-DirListing-itemText", has_text=re.compile(f"^{re.escape(name)}$"))
        return self.root.locator(".jp-DirListing-item").filter(has=text)

    def names(self) -> list[str]:
        return self.root.locator(".jp-DirListing-itemText").all_inner_texts()

    def menu(self, entry: str, row: Locator | None = None) -> None:
        """Choose from the context menu of a row, or of the space below the rows."""
        if row is not None:
            row.click(button="right")
        else:
            box = self.list.bounding_box()
            assert box is not None
            self.list.click(button="right", position={"x": 120, "y": box["height"] - 6})
        self.page.locator(".lm-Menu-itemLabel", has_text=re.compile(f"^{entry}$")).click()

    @contextmanager
    def notifications(self) -> Iterator[Locator]:
        """Lab's list of them, which lies over the panel until it is closed."""
        self.book.command("apputils:display-notifications")
        shown = self.page.locator(".jp-Notification-List")
        yield shown
        self.page.get_by_role("button", name="Hide notifications").click()
        expect(shown).to_have_count(0)

    def back(self) -> None:
        """The notebook in front again."""
        self.book.command("docmanager:open", wait=True, path=self.book.name, factory="Notebook")

    def close_files(self) -> None:
        """Close what was opened out of the sandbox."""
        self.page.evaluate(
            "() => [...jupyterapp.shell.widgets('main')].filter(w => w.context?.path.startsWith('sandbox:'))"
            ".forEach(w => w.dispose())"
        )

    def drop(self, *paths: Path) -> None:
        """From the desktop onto the list."""
        box = self.list.bounding_box()
        assert box is not None
        chrome = self.page.context.new_cdp_session(self.page)
        data = {"items": [], "files": [str(path) for path in paths], "dragOperationsMask": 1}
        for kind in ("dragEnter", "dragOver", "drop"):
            at = {"x": box["x"] + 60, "y": box["y"] + box["height"] - 4}
            chrome.send("Input.dispatchDragEvent", {"type": kind, **at, "data": data})
        chrome.detach()


@pytest.fixture
def files(notebook: Callable[..., Notebook]) -> Callable[..., FilesPanel]:
    """A notebook whose first cell has run, with the panel beside it."""

    def files(code: str = FILES) -> FilesPanel:
        book = notebook(code)
        panel = FilesPanel(book)
        book.run_all()
        return panel

    return files


Make = Callable[..., FilesPanel]


def test_the_context_menu(files: Make) -> None:
    panel = files()
    folder, page = panel.book.folder, panel.page
    panel.menu("Duplicate", panel.row("cities.csv"))
    expect(panel.row("cities-Copy1.csv")).to_be_visible()
    with page.expect_download() as waiting:
        panel.menu("Download", panel.row("cities.csv"))
    assert waiting.value.path().read_text() == "city,n\nBern,1\n"
    with page.expect_download() as waiting:
        panel.menu("Download as a Zip", panel.row("data"))
    assert waiting.value.suggested_filename == "data.zip"

    panel.menu("Copy", panel.row("data"))
    panel.menu("Paste")
    expect(panel.row("data-Copy1")).to_be_visible()
    assert (folder / "data-Copy1/raw/x.bin").read_bytes() == bytes(256)
    panel.menu("Cut", panel.row("cities.csv"))
    panel.row("linked").dblclick()  # a link to a folder is one
    expect(panel.row("raw")).to_be_visible()
    panel.menu("Paste")
    expect(panel.row("cities.csv")).to_be_visible()
    assert (folder / "data/cities.csv").exists() and not (folder / "cities.csv").exists()

    crumbs = panel.root.locator(".jp-BreadCrumbs")
    crumbs.click(position={"x": crumbs.evaluate("crumbs => crumbs.clientWidth") - 10, "y": 8})
    expect(panel.root.locator(".jp-PathNavigator input")).to_be_hidden()  # a path would begin with the session's id
    for entry, name in (("New File", "made.txt"), ("New Folder", "results")):
        panel.menu(entry)
        page.locator(".jp-DirListing-editor").fill(name)
        page.keyboard.press("Enter")
        expect(panel.row(name)).to_be_visible()
    assert (folder / "data/results").is_dir() and (folder / "data/made.txt").read_text() == ""
    panel.row("made.txt").click()
    page.keyboard.press("Backspace")
    expect(panel.row("note.txt")).to_be_visible()
    panel.row("note.txt").click()
    page.keyboard.press("Backspace")  # nothing is above
    expect(panel.row("note.txt")).to_be_visible()


PICTURES = """
chunk = lambda k, d: struct.pack('>I', len(d)) + k + d + struct.pack('>I', zlib.crc32(k + d))
open('dot.png', 'wb').write(b'\\x89PNG\\r\\n\\x1a\\n' + chunk(b'IHDR', struct.pack('>IIBBBBB', 3, 2, 8, 0, 0, 0, 0))
    + chunk(b'IDAT', zlib.compress(bytes(8))) + chunk(b'IEND', b''))
open('dot.svg', 'w').write('<svg xmlns="http://www.w3.org/2000/svg" width="60" height="60" onload="top.hacked=1"/>')
open('dot.pdf', 'wb').write(b'%PDF-1.4\\n%%EOF')
json.dump({'a': [1]}, open('a.json', 'w'))
"""


def test_viewers(files: Make) -> None:
    panel = files(FILES + PICTURES)
    page = panel.page
    for name, shown in (("dot.png", 3), ("dot.svg", 60)):
        panel.row(name).dblclick()
        picture = page.locator(".jp-ImageViewer:visible img")
        expect(picture).to_be_visible()
        expect(picture).to_have_js_property("naturalWidth", shown)
        panel.close_files()
    for name, viewer in (
        ("dot.pdf", ".jp-PDFContainer"),
        ("a.json", ".jp-RenderedJSON"),
        ("cities.csv", ".jp-CSVViewer"),
    ):
        panel.row(name).dblclick()
        expect(page.locator(f"{viewer}:visible")).to_be_visible()
        panel.close_files()
    assert page.evaluate("() => window.hacked") is None


def test_what_the_guest_writes_meanwhile_is_not_overwritten_unasked(files: Make) -> None:
    panel = files()
    page, note = panel.page, panel.book.folder / "note.txt"
    panel.row("note.txt").dblclick()
    editor = page.locator(".jp-FileEditor .cm-content")
    expect(editor).to_have_text("first")

    def save(text: str, code: str = "") -> None:
        page.wait_for_function(
            "() => [...jupyterapp.shell.widgets('main')].every(w => !w.context?.path.endsWith('note.txt') || !w.context.model.dirty)"
        )  # what is typed while Lab still saves counts as saved
        if code:
            panel.back()
            panel.book.run(code)
            page.locator(".lm-TabBar-tabLabel", has_text="note.txt").click()
        editor.fill(text)
        page.keyboard.press("Control+s")

    save("mine", "open('note.txt', 'w').write('guest'); os.utime('note.txt', (5, 5))")  # as unpacking does
    expect(page.locator(".jp-Dialog")).to_contain_text("has changed on disk")
    assert note.read_text() == "guest"
    page.locator(".jp-Dialog button", has_text="Overwrite").click()
    assert eventually(lambda: note.read_text() == "mine")
    save("mine again")
    assert eventually(lambda: note.read_text() == "mine again")
    expect(page.locator(".jp-Dialog")).to_have_count(0)
    save("back again", "os.remove('note.txt')")
    assert eventually(lambda: note.exists() and note.read_text() == "back again")


def test_drags_in_and_out(files: Make) -> None:
    panel = files(
        "import os; os.makedirs('data/raw'); open('data/raw/x.bin', 'w').write('x'); open('mine.txt', 'w').write('m')"
    )
    page, inside, outside = panel.page, panel.book.folder, panel.book.lab.notebooks
    (outside / "inner/deep").mkdir(parents=True)
    (outside / "inner/deep/f.txt").write_text("f")
    (outside / "aside.txt").write_text("aside")
    for command in ("filebrowser:activate", "filebrowser:refresh"):
        panel.book.command(command, wait=True)
    theirs = page.locator("#filebrowser .jp-DirListing-item")
    beside, inner = theirs.filter(has_text="aside.txt"), theirs.filter(has_text="inner")
    drag(panel.row("mine.txt"), beside)
    expect(theirs.filter(has_text="mine.txt")).to_be_visible()
    assert (outside / "mine.txt").read_text() == "m" and (inside / "mine.txt").exists()
    drag(panel.row("data"), inner)
    assert eventually(lambda: (outside / "inner/data/raw/x.bin").exists())
    drag(inner, panel.row("mine.txt"))
    expect(panel.row("inner")).to_be_visible()
    assert eventually(lambda: (inside / "inner/data/raw/x.bin").exists())
    drag(beside, panel.row("data"))
    assert eventually(lambda: (inside / "data/aside.txt").exists())
    (inside / "data/aside.txt").write_text("guest's")
    drag(beside, panel.row("data"))
    page.locator(".jp-Dialog button", has_text="Skip").click()
    expect(page.locator(".jp-Dialog")).to_have_count(0)
    assert (inside / "data/aside.txt").read_text() == "guest's"
    drag(panel.row("mine.txt"), panel.row("data"))  # within the sandbox it is moved
    expect(panel.row("mine.txt")).to_have_count(0)
    assert (inside / "data/mine.txt").exists()


def test_what_comes_from_the_desktop(files: Make, tmp_path: Path) -> None:
    panel = files()
    page, folder = panel.page, panel.book.folder
    (tmp_path / "tree/deep").mkdir(parents=True)
    for number in range(12):
        (tmp_path / f"tree/{number}.txt").write_text(str(number))
    (tmp_path / "tree/deep/z.txt").write_text("z")
    (tmp_path / "note.txt").write_text("the desktop's")
    panel.drop(tmp_path / "tree")
    assert eventually(lambda: (folder / "tree/deep/z.txt").exists() and len(list((folder / "tree").iterdir())) == 13)
    panel.drop(tmp_path / "note.txt")
    expect(page.locator(".jp-Dialog")).to_contain_text("already there")
    assert (folder / "note.txt").read_text() == "first"
    page.locator(".jp-Dialog button", has_text="Replace").click()
    assert eventually(lambda: (folder / "note.txt").read_text() == "the desktop's")
    with panel.notifications() as shown:
        expect(shown).to_contain_text(re.compile("Uploaded 1[34] files"))  # told of together


def test_a_large_upload_can_be_cancelled_while_a_cell_runs(files: Make, tmp_path: Path) -> None:
    panel = files("import os, time")
    page, folder = panel.page, panel.book.folder
    with (tmp_path / "large.bin").open("wb") as file:
        file.truncate(200 << 20)
    number = panel.book.start("open('live.txt', 'w').close()\nwhile not os.path.exists('stop'): time.sleep(.1)")
    expect(panel.row("live.txt")).to_be_visible()  # though the cell has not ended
    chrome = page.context.new_cdp_session(page)
    chrome.send("Network.enable")
    slow: dict[str, Any] = {"offline": False, "latency": 0, "downloadThroughput": -1, "uploadThroughput": 4 << 20}
    chrome.send("Network.emulateNetworkConditions", slow)
    try:
        panel.drop(tmp_path / "large.bin")
        with panel.notifications() as shown:
            expect(shown).to_contain_text(re.compile("large.bin: [1-9]"))
            shown.get_by_role("button", name="Cancel").click()
            expect(shown).to_contain_text("cancelled")
    finally:
        chrome.send("Network.emulateNetworkConditions", {**slow, "uploadThroughput": -1})
        chrome.detach()
    assert eventually(lambda: not [name for name in os.listdir(folder) if "upload-" in name])
    (folder / "stop").touch()
    panel.book.wait_until_done(number)
    assert not (folder / "large.bin").exists()


def test_each_notebook_has_its_own_and_a_restart_keeps_the_place(
    files: Make, notebook: Callable[..., Notebook]
) -> None:
    panel = files()
    panel.row("data").dblclick()
    expect(panel.row("raw")).to_be_visible()
    panel.book.restart()
    panel.book.run("1")
    expect(panel.row("raw")).to_be_visible()
    second = notebook("open('second.txt', 'w').close()")
    second.run_all()
    expect(panel.row("second.txt")).to_be_visible()
    assert panel.names() == ["second.txt"]
    panel.back()
    expect(panel.row("raw")).to_be_visible()
    panel.book.run("import shutil; shutil.rmtree('data')")  # the folder that is shown
    expect(panel.row("note.txt")).to_be_visible()
    expect(panel.page.locator(".jp-Dialog")).to_have_count(0)


HOSTILE = r"""
import json, os
evil = '<img src=x onerror=window.hacked=1>'
for name in (evil, 'a\u202egnp.exe', 'line\nbreak.txt', 'same\u200b.txt', 'same\u200e.txt', 'per%2Fcent?#&.txt', 'back\\slash.txt'):
    open(name, 'w').write('content of ' + ascii(name))
os.makedirs('fold\ner')
open('fold\ner/in.txt', 'w').write('in')
os.makedirs('many')
output = {'output_type': 'display_data', 'metadata': {}, 'data': {'text/html': '<i>shown</i><script>window.hacked=2</script>' + evil}}
cell = {'cell_type': 'code', 'id': 'a', 'execution_count': 1, 'metadata': {'trusted': True}, 'source': '', 'outputs': [output]}
kernel = {'name': 'wasm', 'display_name': 'x', 'language': 'python'}
json.dump({'cells': [cell], 'metadata': {'kernelspec': kernel}, 'nbformat': 4, 'nbformat_minor': 5}, open('evil.ipynb', 'w'))
"""


def test_hostile_names_and_notebooks(files: Make) -> None:
    panel = files(HOSTILE)
    page, folder = panel.page, panel.book.folder
    os.mkfifo(folder / "pipe")
    for number in range(2500):
        (folder / f"many/{number:04}").touch()
    expect(page.locator(".jp-WasmKernel-row").first).to_contain_text("a\ufffdgnp.exe")
    page.locator(".jp-WasmKernel").get_by_role("button", name="Refresh the list").click()
    editor = page.locator(".jp-FileEditor:visible .cm-content")
    for name, content in (
        ("<img src=x onerror=window.hacked=1>", "onerror"),
        ("a\ufffdgnp.exe", "u202e"),
        ("line\ufffdbreak.txt", "line"),
        ("same\ufffd.txt (2)", "u200e"),
        ("per%2Fcent?#&.txt", "cent"),
        ("back\\slash.txt", "slash"),
    ):
        panel.row(name).dblclick()
        expect(editor).to_contain_text(content)
        panel.close_files()
    panel.row("pipe").dblclick()
    expect(page.locator(".jp-Dialog")).to_contain_text("not an ordinary file")
    page.locator(".jp-Dialog button").first.click()
    panel.close_files()

    panel.row("evil.ipynb").dblclick()
    expect(page.locator(".jp-OutputArea-output:visible", has_text="shown")).to_be_visible()
    page.wait_for_timeout(300)  # what would happen needs a moment
    assert page.evaluate("() => window.hacked") is None
    panel.close_files()
    panel.back()

    panel.row("fold\ufffder").dblclick()
    expect(panel.row("in.txt")).to_be_visible()
    panel.menu("New File")
    page.locator(".jp-DirListing-editor").fill("made.txt")
    page.keyboard.press("Enter")
    assert eventually(lambda: (folder / "fold\ner/made.txt").exists())
    panel.row("in.txt").click()
    page.keyboard.press("Backspace")
    panel.row("many").dblclick()
    expect(panel.row("0001")).to_be_visible()
    expect(panel.root.locator(".jp-WasmKernel-filesNote")).to_contain_text("The first 2,000 of 2,500 are shown")
    panel.book.screenshot("files-panel-many")
