"""What Lab's own notifications say: the sandbox is being built, a notebook continues, a cell's work is lost."""

from __future__ import annotations

import contextlib
import json
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import psutil
import pytest
from playwright.sync_api import BrowserContext, Locator, Page, expect

from tests.browser.lab import DARK, LIGHT, PATIENCE, Lab, Notebook, open_lab, running_lab
from tests.browser.side_panel import SidePanel
from tests.conformance.test_first_image import built_elsewhere, empty_cache  # noqa: F401 - fixtures


@pytest.fixture
def context(page: Page) -> Iterator[BrowserContext]:
    """A past of its own for the browser: servers of one machine would share their cookies."""
    browser = page.context.browser
    assert browser is not None
    context = browser.new_context(viewport={"width": 1280, "height": 900})
    context.set_default_timeout(PATIENCE * 1000)
    yield context
    context.close()


@contextlib.contextmanager
def server(folder: Path, shots: Path) -> Iterator[Lab]:
    """A Lab that shows notifications."""
    with running_lab(folder, shots / "notices-lab.log", disturb=True) as lab:
        yield lab


def toast(page: Page, text: str) -> Locator:
    return page.locator(".Toastify__toast").filter(has_text=text)


def lies_beside(part: Locator, other: Locator) -> None:
    """Wait until a part ends where another one begins: it slides in from the edge of the page, over the other one."""
    end = time.monotonic() + PATIENCE
    while not (right := _edge(part, "right")) <= (left := _edge(other, "left")):
        assert time.monotonic() < end, f"{right} is right of {left}"
        time.sleep(0.05)


def _edge(part: Locator, name: str) -> float:
    return float(part.evaluate("(part, name) => part.getBoundingClientRect()[name]", name))


def kernel_process(book: Notebook) -> psutil.Process:
    """The process whose arguments name the kernel's connection file."""
    kernel = book.kernel_id
    for process in psutil.process_iter(["cmdline"]):
        if any(kernel in word for word in process.info["cmdline"] or ()):
            return process
    raise LookupError(f"no process has the kernel {kernel}")


def both_themes(book: Notebook, shots: Path, name: str) -> None:
    for theme in (DARK, LIGHT):
        book.theme(theme)
        book.page.wait_for_timeout(400)
        book.page.screenshot(path=shots / f"{name}-{theme.split()[-1].lower()}.png")


def test_the_sandbox_is_being_built(
    context: BrowserContext,
    tmp_path: Path,
    shots: Path,
    built_elsewhere: ExitStack,  # noqa: F811
) -> None:
    with server(tmp_path / "lab", shots) as lab:
        page = open_lab(context, lab)
        book = Notebook.write(lab, page, shots, "built.ipynb", ("6 * 7",))
        book.command("docmanager:open", path=book.name, factory="Notebook")
        building = toast(page, "Building the sandbox, once on this machine: step 3 of 5")
        expect(building).to_be_visible()
        expect(building.locator(".Toastify__progress-bar")).to_have_count(1)
        book.command("notebook:run-all-cells")
        page.wait_for_timeout(1000)
        both_themes(book, shots, "notice-building")
        assert "sandbox" not in book.text(0), "it is told once"
        built_elsewhere.close()
        expect(toast(page, "The sandbox is built.")).to_be_visible()
        book.wait_until_done(0)
        assert book.text(0).split() == ["[1]:", "42"]
        book.close()


def test_after_a_restart_of_the_server_and_after_a_kill(context: BrowserContext, tmp_path: Path, shots: Path) -> None:
    with server(tmp_path / "lab", shots) as lab:
        page = open_lab(context, lab)
        book = Notebook.make(lab, page, shots, "tomorrow.ipynb", ("x = 41", "open('a.txt', 'w').write('one')"))
        book.run_all()
        book.save()
        panel = SidePanel(book)
        expect(panel.row("a.txt")).to_have_attribute("data-state", "now")
        page.close()
    with server(tmp_path / "lab", shots) as lab:
        page = open_lab(context, lab)
        book = Notebook(lab, page, shots, "tomorrow.ipynb")
        book.command("docmanager:open", path=book.name, factory="Notebook")
        expect(toast(page, "tomorrow.ipynb continues from")).to_be_visible()  # for ten seconds, so nothing comes before
        book.wait_for_kernel()
        panel = SidePanel(book)
        expect(panel.rows("now")).to_contain_text("a.txt")
        expect(panel.rows()).to_have_count(3)
        assert "x" in panel.variables()
        lies_beside(toast(page, "tomorrow.ipynb continues from"), page.locator(".jp-WasmKernel"))
        both_themes(book, shots, "notice-continued")
        assert book.text(book.run("print(x + 1)")).strip() == "42", "the cell does not say it again"

        page.reload(wait_until="domcontentloaded")
        book.panel.wait_for()
        book.wait_for_kernel()
        SidePanel(book)
        expect(panel.rows("now")).to_contain_text("print(x + 1)")
        expect(page.locator(".Toastify__toast")).to_have_count(0)

        running = book.start("import time\nprint('begun')\nfor _ in range(6000): time.sleep(0.1)")
        expect(book.output(running)).to_contain_text("begun")
        kernel_process(book).kill()
        lost = toast(page, f"the kernel was ended while cell [{running + 2}] ran")
        expect(lost).to_be_visible()
        expect(page.locator(".jp-Dialog")).to_contain_text("It will restart automatically")
        book.confirm()
        both_themes(book, shots, "notice-lost")

        lost.get_by_role("button", name="Start Fresh").click()
        dialog = page.locator(".jp-Dialog")
        expect(dialog).to_contain_text("Its variables go, its files stay.")
        page.screenshot(path=shots / "notice-start-fresh.png")
        dialog.locator(".jp-mod-warn").click()
        expect(panel.rows("now")).to_contain_text("Start")
        assert panel.variables() == []
        assert book.text(book.run("import os; print('x' in globals(), os.listdir())")).strip() == "False ['a.txt']"
        book.close()


def test_whoever_has_another_version_is_told_what_to_do(context: BrowserContext, tmp_path: Path, shots: Path) -> None:
    """A kernel that was updated while the page was open: cells run, and the panel says to reload."""
    with server(tmp_path / "lab", shots) as lab:
        page = open_lab(context, lab)
        for name, step in (("older", -1), ("newer", 1)):
            spec = tmp_path / "lab" / "data" / "kernels" / name
            spec.mkdir(parents=True)
            code = (
                "from wasm_kernel.kernel.side_panel import panel_protocol\n"
                f"panel_protocol.VERSION += {step}\n"
                "from wasm_kernel.apps.kernel_app import main; main()"
            )
            command = ["python", "-c", code, "-f", "{connection_file}"]
            content = {"argv": command, "display_name": name, "language": "python", "interrupt_mode": "message"}
            (spec / "kernel.json").write_text(json.dumps(content))
        page.reload()
        page.wait_for_function("() => window.jupyterapp?.shell")
        page.evaluate("() => window.jupyterapp.restored.then(() => null)")
        for name, advice in (("older", "Restart the kernel"), ("newer", "Reload the page")):
            book = Notebook.make(lab, page, shots, f"{name}.ipynb", (), name)
            SidePanel(book)
            expect(page.locator(".jp-WasmKernel-hint").first).to_contain_text(advice)
            assert book.text(book.run("print(6 * 7)")).strip() == "42"
            page.screenshot(path=shots / f"kernel-{name}.png")
            book.close()
