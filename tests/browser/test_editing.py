"""While one types: completion, help, and the box that input() opens."""

from __future__ import annotations

from collections.abc import Callable

from playwright.sync_api import expect

from tests.browser.lab import Notebook

Make = Callable[..., Notebook]


def _offered(nb: Notebook, code: str) -> list[str]:
    """What the popup offers after Tab."""
    nb.type(code)
    nb.page.keyboard.press("Tab")
    popup = nb.page.locator(".jp-Completer:visible")
    expect(popup.locator(".jp-Completer-match").first).to_be_visible()
    names = popup.locator(".jp-Completer-match").all_inner_texts()
    nb.screenshot(f"completion of {code.strip()}")
    nb.page.keyboard.press("Escape")
    return names


def test_tab_completes(notebook: Make) -> None:
    nb = notebook("wonderful_name, wonderful_number = 'x', 1\ndef wonderful_work(): pass")
    nb.run_all()
    assert _offered(nb, "wonder") == ["wonderful_name", "wonderful_number", "wonderful_work"]
    assert _offered(nb, "wonderful_name.is")[:2] == [".isalnum", ".isalpha"]
    assert {"list", "limits"} <= set(_offered(nb, "%session l"))
    assert {"%session"} <= set(_offered(nb, "%ses"))


def test_help_of_a_function(notebook: Make) -> None:
    nb = notebook("def greet(name, loud=False):\n    'Says hello to somebody.'")
    nb.run_all()
    nb.type("greet")
    nb.page.keyboard.press("Shift+Tab")
    tip = nb.page.locator(".jp-Tooltip")
    expect(tip).to_contain_text("Says hello to somebody.")
    expect(tip).to_contain_text("greet(name, loud=False)")
    nb.screenshot("help")
    nb.page.keyboard.press("Escape")
    number = nb.run("greet?")
    expect(nb.output(number)).to_contain_text("Says hello to somebody.")
    number = nb.run("%session?")
    expect(nb.output(number)).to_contain_text("attach")


def test_input_box(notebook: Make) -> None:
    nb = notebook()
    number = nb.start(
        "from getpass import getpass\nname = input('Who? ')\nsecret = getpass('Psst: ')\nprint(name, len(secret))"
    )
    box = nb.output(number).locator("input.jp-Stdin-input").last
    expect(nb.output(number)).to_contain_text("Who?")
    box.fill("Zoë")
    box.press("Enter")
    expect(nb.output(number)).to_contain_text("Psst:")
    expect(box).to_have_attribute("type", "password")
    box.fill("sesame")
    box.press("Enter")
    nb.wait_until_done(number)
    assert "Zoë 6" in nb.text(number)
    assert "sesame" not in nb.text(number)
