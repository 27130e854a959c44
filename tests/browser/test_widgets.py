"""ipywidgets that user code makes in the guest."""

from __future__ import annotations

from collections.abc import Callable

from playwright.sync_api import expect

from tests.browser.lab import Notebook

Make = Callable[..., Notebook]


def test_slider_calls_the_function(notebook: Make) -> None:
    nb = notebook(
        "from ipywidgets import interact\n@interact(x=(0, 10))\ndef square(x=3):\n    print(x, 'squared is', x * x)"
    )
    nb.run_all()
    output = nb.output(0)
    expect(output).to_contain_text("3 squared is 9")
    handle = output.locator(".noUi-handle")
    handle.focus()
    nb.page.keyboard.press("ArrowRight")
    expect(output).to_contain_text("4 squared is 16")
    expect(output.locator(".widget-readout")).to_have_text("4")
    assert "squared is 9" not in nb.text(0)


def test_button_runs_code_in_the_guest(notebook: Make) -> None:
    nb = notebook(
        "import ipywidgets as w\nbutton, out, bar = w.Button(description='Press me'), w.Output(), w.IntProgress(max=3)\n"
        "presses = []\n@button.on_click\ndef _(b):\n    presses.append(1)\n    bar.value = len(presses)\n"
        "    with out: print('pressed', len(presses))\nw.VBox([button, bar, out])"
    )
    nb.run_all()
    press = nb.output(0).get_by_role("button", name="Press me")
    for n in (1, 2):
        press.click()
        expect(nb.output(0)).to_contain_text(f"pressed {n}")
    assert "2" in nb.text(nb.run("len(presses)"))


def test_widgets_come_back_after_a_reload(notebook: Make) -> None:
    nb = notebook("import ipywidgets as w\nslider = w.IntSlider(7, description='seven')\nslider")
    nb.run_all()
    expect(nb.output(0).locator(".widget-readout")).to_have_text("7")
    nb.save()
    nb.reload()
    nb.wait_for_kernel()
    expect(nb.output(0).locator(".widget-readout")).to_have_text("7")
    nb.run("slider.value = 9")
    expect(nb.output(0).locator(".widget-readout")).to_have_text("9")
