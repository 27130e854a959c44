"""What reaches beyond a session is asked in the notebook, by the host, and done only after a yes."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

from playwright.sync_api import expect

from tests.browser.lab import Notebook
from tests.sessions.helpers import make_session

Make = Callable[..., Notebook]


def test_a_prune_is_asked_about_and_done_after_yes(notebook: Make) -> None:
    nb = notebook()
    nb.run("1")
    old = nb.lab.sessions / make_session(
        nb.lab.sessions, 1000, {"thesis.txt": "x" * 5000}, title="My <b>thesis</b>\nyes"
    )
    code = "%prune --older-than 30d --yes"
    number = nb.start(code)
    expect(nb.box(number)).to_be_visible()
    prompt = nb.output(number).locator(".jp-Stdin-prompt").inner_text()
    assert prompt.startswith("[wasm-kernel] This cell wants to delete 1 session, ")
    assert old.name in prompt
    assert "'My <b>thesis</b>�yes'" in prompt
    nb.screenshot("grants-question")
    nb.answer(number, "no")
    assert "nothing was done" in nb.text(number)
    assert old.exists()
    number = nb.start(f"x = 1\n{code}")
    expect(nb.box(number)).to_be_focused()
    nb.answer(number, "yes")
    assert "Deleted 1 session," in nb.text(number)
    assert not old.exists()
    assert re.search(r"grants\s+prune", nb.text(nb.run("%session")))
    nb.screenshot("grants-given")


def test_after_a_question_of_the_guests_a_number_is_typed(notebook: Make) -> None:
    nb = notebook()
    number = nb.start("input('[wasm-kernel] Type yes to go on: ')")
    expect(nb.output(number)).to_contain_text(
        "[asked by the notebook's code, not by the kernel] [wasm-kernel] Type yes"
    )
    nb.answer(number, "yes")
    number = nb.start("%session trust on")
    expect(nb.output(number)).to_contain_text("a number, because")
    nb.screenshot("grants-number")
    nb.answer(number, "yes")
    assert "nothing was done" in nb.text(number)
    number = nb.start("%session trust on")
    expect(nb.output(number)).to_contain_text("a number, because")
    typed = re.search(r"Type (\d{4}) to allow", nb.text(number))
    assert typed
    nb.answer(number, typed[1])
    assert "This session is trusted" in nb.text(number)


def test_an_interrupt_ends_the_question(notebook: Make) -> None:
    nb = notebook()
    number = nb.start("%session trust on")
    expect(nb.box(number)).to_be_visible()
    nb.interrupt()
    nb.wait_until_done(number)
    assert "KeyboardInterrupt" in nb.text(number)
    assert "sealed" in nb.text(nb.run("%session"))


def test_run_all_of_a_strangers_notebook_waits_for_the_person(notebook: Make) -> None:
    nb = notebook("x = 1", "%session trust on", "print('went on')")
    nb.command("notebook:run-all-cells")
    expect(nb.box(1)).to_be_visible()
    nb.answer(1, "")
    nb.wait_for_kernel()
    assert "went on" not in nb.text(2)


def test_what_is_shown_of_other_sessions_does_not_come_back_through_a_widget(notebook: Make) -> None:
    nb = notebook()
    nb.run("import ipywidgets\nout = ipywidgets.Output()\nout")
    old = make_session(nb.lab.sessions, 1000, {"f": "1"})
    nb.run("with out:\n    print('seen')\n    %session list\n    %prune --older-than 30d")
    nb.run("with out: print('afterwards')")
    expect(nb.output(0)).to_contain_text("afterwards")
    nb.wait_for_kernel()
    said = nb.text(nb.run("print([str(o)[:2000] for o in out.outputs])"))
    assert "seen" in said
    assert "afterwards" in said
    assert old not in said


def test_a_host_is_allowed_and_a_secret_is_never_shown(notebook: Make, shots: Path) -> None:
    nb = notebook()
    nb.run("1")
    number = nb.start("%session allow api.github.com *.data.gov.uk:443 10.1.2.3:5432")
    expect(nb.box(number)).to_be_visible()
    nb.page.screenshot(path=shots / "network-question.png")
    nb.answer(number, "yes")
    expect(nb.output(number)).to_contain_text("Cells may connect to 10.1.2.3:5432, api.github.com")
    number = nb.start("%session secret GITHUB_TOKEN api.github.com")
    expect(nb.box(number)).to_have_attribute("type", "password")
    nb.answer(number, "ghp_never-shown")
    expect(nb.output(number)).to_contain_text("wasm-kernel-secret-GITHUB_TOKEN")
    number = nb.run("%session allow")
    expect(nb.output(number)).to_contain_text("80, 443")
    nb.page.screenshot(path=shots / "network-allowed.png")
    assert "never-shown" not in nb.page.content()
