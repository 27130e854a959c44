"""Interrupt, restart, reload: the kernel outlives them, and what should be kept is kept."""

from __future__ import annotations

from collections.abc import Callable

from playwright.sync_api import expect

from tests.browser.lab import Notebook

Make = Callable[..., Notebook]


def test_interrupt_button(notebook: Make) -> None:
    nb = notebook("kept = 41")
    nb.run_all()
    number = nb.start("print('begun')\nwhile True: pass")
    expect(nb.output(number)).to_contain_text("begun")
    nb.interrupt()
    nb.wait_until_done(number)
    assert "KeyboardInterrupt" in nb.text(number)
    assert "driver.py" not in nb.text(number)  # what raised it is no business of the person's
    assert "42" in nb.text(nb.run("kept + 1"))


def test_crash_costs_one_cell(notebook: Make) -> None:
    nb = notebook("kept = 41")
    nb.run_all()
    number = nb.run("import os\nkept = None\nos.abort()")
    assert "variables are back as they were" in nb.text(number)
    assert "42" in nb.text(nb.run("kept + 1"))
    expect(nb.page.locator(".jp-Dialog")).to_have_count(0)  # Lab saw no kernel die


def test_restart_keeps_files_only(notebook: Make) -> None:
    nb = notebook("gone = 1\nopen('kept.txt', 'w').write('still here');")
    nb.run_all()
    session = nb.folder
    nb.restart()
    number = nb.run("print('gone' in globals(), open('kept.txt').read())")
    assert nb.text(number).strip() == "False still here"
    expect(nb.cell(number).locator(".jp-InputPrompt")).to_contain_text("[1]")
    assert nb.folder == session


def test_restart_while_a_cell_runs(notebook: Make) -> None:
    nb = notebook()
    number = nb.start("print('begun')\nwhile True: pass")
    expect(nb.output(number)).to_contain_text("begun")
    nb.restart()
    assert nb.text(nb.run("print('alive')")).strip() == "alive"


def test_reload_while_a_cell_runs(notebook: Make) -> None:
    nb = notebook("import os, time\nkept = 1")
    nb.run_all()
    nb.start("while not os.path.exists('go'): time.sleep(0.05)\nprint('done')\nkept += 1")
    nb.save()
    kernel = nb.kernel_id
    nb.reload()
    (nb.folder / "go").touch()
    nb.wait_for_kernel()
    assert nb.kernel_id == kernel
    assert nb.text(nb.run("print(kept)")).strip() == "2"


def test_shutdown_and_start_again(notebook: Make) -> None:
    nb = notebook("open('kept.txt', 'w').write('x');")
    nb.run_all()
    before = nb.folder
    nb.save()
    nb.close()
    assert nb.name not in [s["path"] for s in nb.lab.api("sessions")]
    nb.open()
    assert "kept.txt" in nb.text(nb.run("import os; print(os.listdir())"))
    assert nb.folder == before
