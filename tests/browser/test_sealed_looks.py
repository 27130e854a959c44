"""Sealed outputs look as they would if they were not sealed: compared picture by picture.

The same cells run by two kernels, one of which lets outputs pass as they are. What changes from run to run (ids, sizes,
times) is written over with zeros first.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from tests.browser.lab import UNSEALED, Lab, Notebook

pytestmark = pytest.mark.timeout(300)
PRELUDE = """
import warnings; warnings.simplefilter('ignore')
import numpy as np, pandas as pd
from IPython.display import HTML, Audio, FileLink, FileLinks, Image, Latex, Markdown, SVG, display
numbers = pd.DataFrame(np.arange(24).reshape(6, 4) % 7 - 2.5, columns=list('abcd'))
open('notes.txt', 'w').write('x'); open('more.txt', 'w').write('y')
import matplotlib.pyplot as plt, io
figure, axes = plt.subplots(figsize=(3, 2)); axes.plot([1, 3, 2]); picture = io.BytesIO(); figure.savefig(picture, format='png'); plt.close(figure)
"""
CELLS = {
    "table": "numbers",
    "table-of-mixed": "pd.DataFrame({'when': pd.date_range('2026-01-01', periods=3), 'who': ['a <b>', 'b & c', None], 'n': [1.5, np.nan, 3]})",
    "table-with-levels": "numbers.assign(g=list('xxyyzz'), h=[1, 2] * 3).set_index(['g', 'h']).rename_axis(columns='letters')",
    "table-too-long": "pd.DataFrame(np.zeros((200, 30)))",
    "series-as-frame": "numbers.describe()",
    "styler-gradient": "numbers.style.background_gradient(cmap='viridis').format('{:.1f}')",
    "styler-bars": "numbers.style.bar(align='mid', color=['#d65f5f', '#5fba7d']).set_caption('Bars, left and right')",
    "styler-highlights": "numbers.style.highlight_max(color='gold').highlight_null().set_properties(**{'text-align': 'left', 'font-family': 'monospace'}).hide(axis='index')",
    "styler-table-styles": "numbers.style.set_caption('A caption').set_table_styles([{'selector': 'caption', 'props': 'caption-side: bottom; font-weight: bold'}, {'selector': 'tbody tr:nth-child(even)', 'props': 'background-color: #cde'}, {'selector': 'tbody tr:hover', 'props': 'background-color: rgb(255, 200, 100)'}, {'selector': 'th.col_heading', 'props': 'color: white; background: navy'}]).set_table_attributes('class=\"mine\" style=\"border-collapse: separate\"')",
    "styler-tooltips": "numbers.style.set_tooltips(pd.DataFrame('a tip', index=numbers.index, columns=numbers.columns))",
    "statsmodels": "import statsmodels.api as sm\nx = np.linspace(0, 1, 30)\nsm.OLS(2 * x + np.sin(40 * x), sm.add_constant(x)).fit().summary()",
    "scikit-learn": "from sklearn.pipeline import make_pipeline\nfrom sklearn.compose import make_column_transformer\nfrom sklearn.preprocessing import StandardScaler, OneHotEncoder\nfrom sklearn.linear_model import LogisticRegression\nmake_pipeline(make_column_transformer((StandardScaler(), ['a']), (OneHotEncoder(), ['b'])), LogisticRegression(C=3))",
    "sympy": "import sympy\nx = sympy.symbols('x')\nsympy.Integral(sympy.exp(-x ** 2) / sympy.sqrt(sympy.pi), (x, 0, sympy.oo))",
    "sympy-matrix": "sympy.Matrix([[1, x], [x ** 2, sympy.Rational(1, 3)]])",
    "latex": r"Latex(r'$$\sum_{k=1}^n k = \frac{n(n+1)}{2} \quad\text{for } \mathbb{N}$$')",
    "markdown": "Markdown('# A title\\n\\nSome *words* with **weight**, `code` and $x^2$.\\n\\n* one\\n* two\\n\\n> quoted')",
    "markdown-with-links": "Markdown('A [link](https://example.org), a table:\\n\\n| a | b |\\n|---|---|\\n| 1 | 2 |\\n\\nand <b>tags</b>.')",
    "tqdm": "from tqdm.notebook import tqdm\nfor _ in tqdm(range(5), desc='walk', bar_format='{desc} {bar} {n}/{total}'): pass",
    "audio": "Audio(np.sin(np.linspace(0, 3000, 4000)), rate=8000)",
    "image": "Image(picture.getvalue())",
    "image-sized": "Image(picture.getvalue(), width=120, height=80, alt='small')",
    "image-embedded": "import base64\nHTML('<img src=\"data:image/png;base64,' + base64.b64encode(picture.getvalue()).decode() + '\" style=\"border: 2px solid red\">')",
    "figure": "fig, ax = plt.subplots(figsize=(3, 2)); ax.bar([1, 2, 3], [3, 1, 2]);",
    "svg": 'SVG(\'<svg xmlns="http://www.w3.org/2000/svg" width="120" height="60"><defs><linearGradient id="g"><stop offset="0" stop-color="gold"/><stop offset="1" stop-color="teal"/></linearGradient></defs><rect width="120" height="60" rx="9" fill="url(#g)"/><text x="20" y="35">drawn</text></svg>\')',
    "svg-in-html": 'HTML(\'<svg width="120" height="60" viewBox="0 0 120 60"><circle cx="30" cy="30" r="25" fill="none" stroke="crimson" stroke-width="4"/><path d="M60 10 L110 50" stroke="black"/></svg>\')',
    "file-link": "FileLink('notes.txt')",
    "file-links": "FileLinks('.')",
    "html": "HTML('<h3>A heading</h3><p style=\"color: teal; padding: 4px\">A <mark>marked</mark> word, <kbd>Ctrl</kbd></p><details open><summary>More</summary>inside</details><progress value=3 max=5></progress><hr><dl><dt>a<dd>b</dl>')",
    "html-with-style": "HTML('<style>.card { border: 1px solid #999; border-radius: 6px; padding: 8px; display: grid; grid-template-columns: 1fr 2fr; gap: 6px } .card b { color: rgb(180, 0, 90) } @media (min-width: 10px) { .card { background: linear-gradient(#fff, #eef) } }</style><div class=card><b>left</b><span>right</span></div>')",
    "widgets": "import ipywidgets as w\nw.VBox([w.IntSlider(3, description='slider'), w.HTML('<b>bold</b> and <i style=\"color: teal\">teal</i>'), w.Button(description='press', button_style='info', icon='check'), w.Dropdown(options=['a', 'b'], description='one of'), w.HTMLMath(r'$x^2$ in words'), w.Checkbox(True, description='<u>this</u>', description_allow_html=True)])",
    "widgets-in-tabs": "t = w.Tab([w.Label('first'), w.Label('second')], titles=['One', 'Two']); t",
    "widget-styles": "w.Button(description='styled', style={'button_color': 'gold', 'text_color': 'navy', 'font_weight': 'bold'}, layout=w.Layout(width='200px', height='40px', border='2px dotted teal', margin='6px'))",
    "output-widget": "o = w.Output(layout={'border': '1px solid black'})\nwith o:\n    print('printed'); display(numbers.head(2))\no",
    "error": "def divide(a, b): return a / b\ntry: divide(1, 0)\nexcept ZeroDivisionError: get_ipython().showtraceback()",
    "printed-colours": "print('\\x1b[31mred\\x1b[0m \\x1b[1;44mbold on blue\\x1b[0m \\x1b[38;5;208morange\\x1b[0m <b>no tag</b>')",
    "session": "%session",
    "session-limits": "%session limits",
    "pip": "%pip list",
}

# One cell at a time, so that all are at the same place: half a pixel makes other letters.
_ALONE = ".jp-Notebook.looked-at .jp-Cell:not(.looked-at) { display: none }"
_SHOW_ALONE = """cell => {
    for (const other of document.querySelectorAll('.jp-Cell.looked-at')) other.classList.remove('looked-at');
    cell.classList.add('looked-at');
    cell.closest('.jp-Notebook').classList.add('looked-at');
}"""
# Without what is another's in another session: numbers, ids, paths, and whether it is sealed.
_SAME_TEXT = """output => {
    const changing = /[0-9a-f]{6,}|\\d+( s)?|\\/\\S+|sealed|unsealed/g;
    const walker = document.createTreeWalker(output, NodeFilter.SHOW_TEXT);
    while (walker.nextNode()) walker.currentNode.data = walker.currentNode.data.replace(changing, '0');
}"""
# Two pictures: by how many pixels their sizes differ, and which part of their pixels does so visibly.
_DIFFERENCE = """async ([a, b]) => {
    const pixels = async data => {
        const image = await createImageBitmap(await (await fetch('data:image/png;base64,' + data)).blob());
        const pen = new OffscreenCanvas(image.width, image.height).getContext('2d');
        pen.drawImage(image, 0, 0);
        return pen.getImageData(0, 0, image.width, image.height);
    };
    const [one, two] = [await pixels(a), await pixels(b)];
    const width = Math.min(one.width, two.width), height = Math.min(one.height, two.height);
    let different = 0;
    for (let y = 0; y < height; y++)
        for (let x = 0; x < width; x++) {
            const i = 4 * (y * one.width + x), j = 4 * (y * two.width + x);
            if ([0, 1, 2].some(c => Math.abs(one.data[i + c] - two.data[j + c]) > 48)) different++;
        }
    const size = Math.max(Math.abs(one.width - two.width), Math.abs(one.height - two.height));
    return [size, different / (width * height), width * height];
}"""


@dataclass
class Looks:
    """What one kernel's outputs look like."""

    pictures: dict[str, bytes]
    notebook: Notebook


def _looks(lab: Lab, page: Page, shots: Path, kernel: str) -> Looks:
    notebook = Notebook.make(lab, page, shots, f"looks-{kernel}.ipynb", (PRELUDE, *CELLS.values()), kernel)
    notebook.run_all()
    expect(notebook.output(list(CELLS).index("sympy") + 1).locator("mjx-container").first).to_be_visible()
    page.wait_for_timeout(1500)  # widgets, formulas and pictures
    pictures = {}
    page.add_style_tag(content=_ALONE)
    for number, name in enumerate(CELLS, 1):
        notebook.cell(number).evaluate(_SHOW_ALONE)
        output = notebook.output(number).locator(".jp-Cell-outputArea")
        if name in ("statsmodels", "session", "session-limits", "pip"):
            output.evaluate(_SAME_TEXT)
        pictures[name] = output.screenshot(path=shots / f"looks-{name}-{kernel}.png", animations="disabled")
    notebook.panel.evaluate("p => p.querySelector('.jp-Notebook').classList.remove('looked-at')")
    return Looks(pictures, notebook)


@pytest.fixture(scope="module")
def unsealed(lab: Lab, page: Page, shots: Path) -> Iterator[Looks]:
    looks = _looks(lab, page, shots, UNSEALED)
    looks.notebook.close()
    yield looks


@pytest.fixture(scope="module")
def sealed(unsealed: Looks, lab: Lab, page: Page, shots: Path) -> Iterator[Looks]:
    looks = _looks(lab, page, shots, "wasm")
    yield looks
    looks.notebook.close()


@pytest.mark.parametrize("name", CELLS)
def test_looks_the_same(name: str, sealed: Looks, unsealed: Looks, page: Page) -> None:
    encoded = [base64.b64encode(looks.pictures[name]).decode() for looks in (sealed, unsealed)]
    size, different, pixels = page.evaluate(_DIFFERENCE, encoded)
    assert pixels > 2000, "there is nothing to see"
    assert size <= 8  # half a line below
    assert different < 0.01


def test_pictures_that_differ_are_told_apart(sealed: Looks, page: Page) -> None:
    encoded = [base64.b64encode(sealed.pictures[name]).decode() for name in ("table", "styler-gradient")]
    size, different, _ = page.evaluate(_DIFFERENCE, encoded)
    assert size > 8 or different > 0.01


def test_a_diagram_of_scikit_learn_opens(sealed: Looks) -> None:
    diagram = sealed.notebook.output(list(CELLS).index("scikit-learn") + 1)
    label = diagram.locator("label", has_text="LogisticRegression").first
    inside = diagram.locator(".sk-toggleable__content", has_text="C").last
    expect(inside).to_be_hidden()
    label.click()
    expect(inside).to_be_visible()


def test_a_row_changes_under_the_mouse(sealed: Looks) -> None:
    table = sealed.notebook.output(list(CELLS).index("styler-table-styles") + 1)
    row = table.locator("tbody tr").nth(2)
    row.hover()
    expect(row).to_have_css("background-color", "rgb(255, 200, 100)")


def test_styles_of_one_table_are_not_those_of_another(sealed: Looks) -> None:
    plain = sealed.notebook.output(list(CELLS).index("table") + 1)
    expect(plain.locator("thead th").first).not_to_have_css("background-color", "rgb(0, 0, 128)")


def test_saved_outputs_are_sealed_ones(sealed: Looks, lab: Lab) -> None:
    sealed.notebook.save()
    saved = json.loads((lab.notebooks / sealed.notebook.name).read_text())
    shown = "".join(
        "".join(output["data"]["text/html"])
        for cell in saved["cells"]
        for output in cell.get("outputs", [])
        if "text/html" in output.get("data", {})
    )
    assert "<table" in shown and "<script" not in shown
