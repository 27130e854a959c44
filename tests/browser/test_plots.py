"""Libraries that draw by scripts, installed by `%pip` and drawn in sealed frames: without network, each plot by itself."""

from __future__ import annotations

import base64
from collections.abc import Callable

import pytest
from playwright.sync_api import Frame, expect

from tests.browser.lab import Notebook

Make = Callable[..., Notebook]
pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]

# How many pixels of a picture have a colour, more or less.
_COLOURED = """async ([data, red, green, blue]) => {
    const image = await createImageBitmap(await (await fetch('data:image/png;base64,' + data)).blob());
    const pen = new OffscreenCanvas(image.width, image.height).getContext('2d');
    pen.drawImage(image, 0, 0);
    const pixels = pen.getImageData(0, 0, image.width, image.height).data;
    let found = 0;
    for (let i = 0; i < pixels.length; i += 4)
        if (Math.abs(pixels[i] - red) + Math.abs(pixels[i + 1] - green) + Math.abs(pixels[i + 2] - blue) < 40) found++;
    return found;
}"""


def _installed(notebook: Make, package: str, *cells: str) -> Notebook:
    """A notebook in which a package was installed, or no test."""
    nb = notebook(f"%pip install {package}", *cells)
    nb.command("notebook:run-all-cells")
    nb.wait_until_done(0)
    said = nb.text(0)
    if "Installed" not in said and "Already installed" not in said:
        pytest.skip(f"{package} cannot be installed here: {said[:300]}")
    nb.wait_until_done()
    return nb


def _wait_until_drawn(nb: Notebook, number: int, colour: tuple[int, int, int]) -> None:
    """Wait until an output shows a line of this colour."""
    output = nb.output(number)
    expect(output.locator("iframe")).to_have_attribute("sandbox", "allow-scripts")
    output.scroll_into_view_if_needed()
    for _ in range(60):
        picture = base64.b64encode(output.screenshot()).decode()
        if nb.page.evaluate(_COLOURED, [picture, *colour]) > 100:
            return
        nb.page.wait_for_timeout(500)
    raise AssertionError(f"nothing is drawn; the page says: {_text(nb, number)}")


def _document(nb: Notebook, number: int) -> Frame:
    """The document of an output's frame: the inner one of two."""
    handle = nb.output(number).locator("iframe").element_handle()
    outer = handle.content_frame() if handle is not None else None
    assert outer is not None
    return outer.child_frames[0]


def _text(nb: Notebook, number: int) -> str:
    return _document(nb, number).locator("body").inner_text()


def test_plotly(notebook: Make) -> None:
    nb = _installed(
        notebook,
        "plotly",
        "import plotly.graph_objects as go, plotly.express as px\nfig = go.Figure(go.Scatter(y=[1, 3, 2], line_width=6))\nfig",
        "fig.show()",
        "px.line(y=[2, 1, 3]).update_traces(line_width=6)",
    )
    for number in (1, 2, 3):
        _wait_until_drawn(nb, number, (99, 110, 250))
    document = _document(nb, 1)
    document.locator(".modebar-btn[data-title^='Zoom in']").first.dispatch_event("click")
    expect(nb.output(1)).to_contain_text("%session trust on")


def test_bokeh(notebook: Make) -> None:
    nb = _installed(
        notebook,
        "bokeh",
        "from bokeh.plotting import figure, output_notebook, show\noutput_notebook()",
        "p = figure(width=400, height=250); p.line([1, 2, 3], [1, 3, 2], line_width=6); show(p)",
        "q = figure(width=300, height=200); q.scatter([1, 2, 3], [1, 3, 2], size=20); show(q)",
    )
    for number in (2, 3):
        _wait_until_drawn(nb, number, (31, 119, 180))


def test_altair(notebook: Make) -> None:
    nb = _installed(
        notebook,
        "altair",
        "import altair as alt, pandas as pd\ndata = pd.DataFrame({'a': [1, 2, 3], 'b': [1, 3, 2]})\n"
        "alt.Chart(data).mark_bar().encode(x='a:O', y='b')",
        "alt.renderers.enable('mimetype')\nalt.Chart(data).mark_bar(size=40).encode(x='a', y='b')",
        "alt.renderers.enable('html')\nalt.Chart(data).mark_bar(size=30).encode(x='a', y='b').interactive()",
    )
    for number in (1, 2, 3):
        _wait_until_drawn(nb, number, (76, 120, 168))


def test_folium_says_that_it_needs_the_network(notebook: Make) -> None:
    nb = _installed(notebook, "folium", "import folium\nfolium.Map(location=[47, 8])")
    expect(nb.output(1)).to_contain_text("from the network")
    expect(nb.output(1).locator("iframe")).to_have_attribute("sandbox", "allow-scripts")


def test_a_widget_with_scripts_of_its_own_is_not_opened(notebook: Make) -> None:
    nb = _installed(
        notebook,
        "anywidget",
        "import anywidget\nclass Hello(anywidget.AnyWidget):\n    _esm = 'export default { render({el}) { el.textContent = `hello` } }'\nHello()",
    )
    expect(nb.output(1)).to_contain_text("anywidget")
    expect(nb.output(1)).to_contain_text("%session trust on")
