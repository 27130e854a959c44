"""What cells show: text while they run, tables, pictures, errors."""

from __future__ import annotations

from collections.abc import Callable

from playwright.sync_api import expect

from tests.browser.lab import Notebook

Make = Callable[..., Notebook]

# A picture's size, its number of colours, and how many of its pixels are red.
_PIXELS = """img => {
    const canvas = new OffscreenCanvas(img.naturalWidth, img.naturalHeight), pen = canvas.getContext('2d');
    pen.drawImage(img, 0, 0);
    const pixels = new Uint32Array(pen.getImageData(0, 0, canvas.width, canvas.height).data.buffer);
    const red = pixels.filter(p => (p & 255) > 200 && (p >> 8 & 255) < 40 && (p >> 16 & 255) < 40).length;
    return [img.naturalWidth, img.naturalHeight, new Set(pixels).size, red];
}"""


def test_text_appears_while_the_cell_runs(notebook: Make) -> None:
    nb = notebook()
    waiting = "import os, sys, time\nprint('before')\nprint('oh', file=sys.stderr)\nwhile not os.path.exists('go'): time.sleep(0.05)\nprint('after')"
    number = nb.start(waiting)
    expect(nb.output(number)).to_contain_text("before")
    expect(nb.output(number)).to_contain_text("oh")
    expect(nb.cell(number).locator(".jp-InputPrompt")).to_contain_text("*")
    assert "after" not in nb.text(number)
    (nb.folder / "go").touch()
    nb.wait_until_done(number)
    assert nb.text(number).split() == ["before", "oh", "after"]
    stderr = nb.output(number).locator('[data-mime-type="application/vnd.jupyter.stderr"]')
    expect(stderr).to_have_text("oh\n", use_inner_text=False)


def test_dataframe_is_a_table(notebook: Make) -> None:
    nb = notebook("import pandas as pd\npd.DataFrame({'city': ['Bern', 'Lima <b>'], 'height': [542, 154]})")
    nb.run_all()
    table = nb.output(0).locator("table.dataframe")
    assert table.locator("thead th").all_inner_texts() == ["", "city", "height"]
    assert table.locator("tbody tr").all_inner_texts() == ["0\tBern\t542", "1\tLima <b>\t154"]


def test_figure_is_a_picture(notebook: Make) -> None:
    nb = notebook("import matplotlib.pyplot as plt\nplt.plot([1, 3, 2], 'o-r')\nplt.title('Three points');")
    nb.run_all()
    picture = nb.output(0).locator("img")
    expect(picture).to_have_count(1)
    picture.scroll_into_view_if_needed()
    width, height, colours, red = picture.evaluate(_PIXELS)
    assert min(width, height) > 200
    assert colours > 20
    assert red > 100, "the line is not there"


def test_error_has_a_coloured_traceback(notebook: Make) -> None:
    nb = notebook("def divide(a, b):\n    return a / b\n\ndivide(1, 0)", "print('not run')")
    nb.command("notebook:run-all-cells")
    error = nb.output(0).locator('[data-mime-type="application/vnd.jupyter.error"], [data-mime-type$="stderr"]')
    expect(error).to_contain_text("ZeroDivisionError: division by zero")
    expect(error.locator(".ansi-red-fg", has_text="ZeroDivisionError").first).to_be_visible()
    assert error.locator("[class*=ansi-]").count() > 5
    assert "return a / b" in error.inner_text()
    expect(nb.cell(1).locator(".jp-InputPrompt")).not_to_contain_text("*")
    assert nb.text(1).strip() == ""


def test_rich_and_updated_displays(notebook: Make) -> None:
    nb = notebook(
        "from IPython.display import Latex, Markdown, HTML, display\n"
        "display(Markdown('**bold**'), Latex('$x^2$'), HTML('<i>slanted</i>'))\n"
        "handle = display('first', display_id=True)",
        "handle.update('second')",
    )
    nb.run_all()
    expect(nb.output(0).locator("strong", has_text="bold")).to_be_visible()
    expect(nb.output(0).locator("i", has_text="slanted")).to_be_visible()
    expect(nb.output(0).locator("mjx-container")).to_be_visible()
    expect(nb.output(0)).to_contain_text("second")
    assert "first" not in nb.text(0)
