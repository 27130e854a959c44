"""Outputs with scripts are in frames as high as what is in them, whatever happens; and what a frame says is only data."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable

from playwright.sync_api import Frame, Locator, Page, expect

from tests.browser.lab import DARK, LIGHT, PATIENCE, Notebook

_BOX = ".wasm-kernel-frame"
# 96 px high and 64 px wide, in one colour.
_PICTURE = (
    "data:image/svg+xml,%3Csvg xmlns='http://www.w3.org/2000/svg' width='64' height='96'%3E%3Crect width='64' "
    "height='96' fill='teal'/%3E%3C/svg%3E"
)
_HAS_ROOM = """() => {
    const root = document.documentElement, body = document.body, style = getComputedStyle(body);
    const end = body.getBoundingClientRect().bottom + scrollY + parseFloat(style.marginBottom);
    return root.scrollHeight <= innerHeight && Math.abs(innerHeight - Math.ceil(end)) <= 1;
}"""
Make = Callable[..., Notebook]


def shown(document: str, *more: str) -> str:
    """A cell that shows documents with scripts."""
    return "from IPython.display import HTML, display\n" + "\n".join(
        f"display(HTML({text!r}))" for text in (document, *more)
    )


def within(page: Page, mark: str) -> Frame:
    """The inner frame whose document has something with an id."""
    end = time.monotonic() + PATIENCE
    while time.monotonic() < end:
        for frame in page.frames:
            outer = frame.parent_frame
            if outer is not None and outer.parent_frame is not None and frame.locator(f"#{mark}").count():
                return frame
        page.wait_for_timeout(50)
    raise AssertionError(f"no frame has {mark}")


def box(book: Notebook, number: int = 0) -> Locator:
    return book.output(0).locator(_BOX).nth(number)


def height(found: Locator) -> float:
    place = found.bounding_box()
    assert place is not None
    return place["height"]


def becomes_exact(frame: Frame) -> None:
    """The document fits its frame: it does not scroll, and nothing is left over."""
    frame.wait_for_function(_HAS_ROOM, timeout=PATIENCE * 1000)


def test_a_frame_is_as_high_as_its_document(notebook: Make, page: Page) -> None:
    book = notebook(
        shown(
            "<script>1</script><div id='tall' style='height:731px'>tall</div>",
            "<script>1</script><div id='low' style='height:23px'>low</div>",
            "<script>1</script><div id='away' style='position:absolute;top:10px;height:300px;width:9px'>away</div>",
        )
    )
    book.run_all()
    for number, (mark, pixels) in enumerate((("tall", 739), ("low", 31), ("away", 314))):
        frame = within(page, mark)
        frame.wait_for_function(f"() => innerHeight === {pixels}", timeout=PATIENCE * 1000)
        assert height(box(book, number)) == pixels
        assert frame.evaluate("() => document.documentElement.scrollHeight <= innerHeight"), "no scroll bar"


def test_it_follows_what_loads_the_window_and_the_theme(notebook: Make, page: Page) -> None:
    words = "These words wrap where the window is narrow. " * 60
    later = f"setTimeout(() => {{ document.getElementById('picture').src = \"{_PICTURE}\" }}, 300)"
    book = notebook(shown(f"<p id='words'>{words}</p><img id='picture'><script>{later}</script>"))
    book.run_all()
    frame = within(page, "words")
    frame.wait_for_function("() => document.getElementById('picture').naturalHeight === 96", timeout=PATIENCE * 1000)
    becomes_exact(frame)
    wide = height(box(book))
    size = page.viewport_size
    assert size is not None
    page.set_viewport_size({"width": 620, "height": size["height"]})
    frame.wait_for_function(f"() => innerHeight > {wide}", timeout=PATIENCE * 1000)
    becomes_exact(frame)
    page.set_viewport_size(size)
    frame.wait_for_function(f"() => innerHeight <= {wide}", timeout=PATIENCE * 1000)
    becomes_exact(frame)
    assert height(box(book)) == wide
    for theme in (DARK, LIGHT):
        book.theme(theme)
        becomes_exact(frame)
        book.screenshot(f"frame-heights-{theme.split()[-1].lower()}")
    frame.evaluate("() => { document.body.style.font = '30px monospace' }")
    frame.wait_for_function(f"() => innerHeight > {2 * wide}", timeout=PATIENCE * 1000)
    becomes_exact(frame)
    frame.evaluate("() => { document.getElementById('words').remove() }")
    frame.wait_for_function(f"() => innerHeight < {wide}", timeout=PATIENCE * 1000)
    becomes_exact(frame)


def test_a_document_as_high_as_its_frame_and_more_does_not_grow_for_ever(notebook: Make, page: Page) -> None:
    book = notebook(
        shown("<style>body{margin:8px;height:100vh}</style><script>1</script><b id='vh'>as high as you</b>")
    )
    book.run_all()
    frame = within(page, "vh")
    before = -1.0
    while before != (before := height(box(book))):
        frame.page.wait_for_timeout(1000)
    assert before < 600


_HOSTILE = """<b id='MARK'>hostile</b><script>
const page = parent.parent, say = data => page.postMessage(data, "*");
for (const target of [parent, page, top]) for (const data of [
  "rubbish", 9, null, [], {wasmKernelHeight: "9000"}, {wasmKernelHeight: NaN}, {wasmKernelHeight: -1},
  {wasmKernelHeight: {}}, {wasmKernelHeight: [5000]}, {request: 1, do: "trust", on: true},
  {state: {trusted: true}}, {comm_id: "x", target_name: "wasm-kernel", data: {do: "trust", on: true}},
]) target.postMessage(data, "*");
CODE
</script>"""
_ATTEMPTS = {
    "flood": "setInterval(() => { for (let n = 0; n < 100; n++) say({wasmKernelHeight: 100 + n}) }, 50);",
    "grow": "let h = 100; setInterval(() => say({wasmKernelHeight: h *= 1.5}), 50);",
    "jump": "let n = 0; setInterval(() => say({wasmKernelHeight: n++ % 2 ? 1e12 : 20}), 50);",
    "large": "let n = 0; setInterval(() => say({wasmKernelHeight: 300 + n++, more: 'x'.repeat(1e5)}), 50);",
    "rubbish": "setInterval(() => { for (let n = 0; n < 100; n++) say({wasmKernelHeight: 'rubbish'}) }, 50);",
    "fill": "setInterval(() => { document.body.append(document.createElement('p'), 'more') }, 20);",
}
_WATCH = """() => {
    window.heights = [];
    window.watched = new MutationObserver(found => {
        const boxes = [...document.querySelectorAll('.wasm-kernel-frame')];
        for (const { target } of found) {
            if (boxes.includes(target)) window.heights.push([boxes.indexOf(target), target.offsetHeight, performance.now()]);
        }
    });
    window.watched.observe(document.body, { subtree: true, attributes: true, attributeFilter: ['style'] });
}"""


def test_hostile_frames(notebook: Make, page: Page) -> None:
    """They get a height within bounds, seldom; another output, the seal and the page stay as they are."""
    hostile = [_HOSTILE.replace("CODE", code).replace("MARK", mark) for mark, code in _ATTEMPTS.items()]
    harmless = "<script>1</script><div id='beside' style='height:100px'>beside</div>"
    book = notebook(shown(harmless, *hostile))
    page.evaluate(_WATCH)
    book.run_all()
    becomes_exact(within(page, "beside"))
    page.wait_for_timeout(4000)
    heights = page.evaluate("() => { window.watched.disconnect(); return window.heights }")
    for number, mark in enumerate(("beside", *_ATTEMPTS)):
        mine = [(pixels, at) for which, pixels, at in heights if which == number]
        mine = [now for before, now in itertools.pairwise([(0, 0), *mine]) if before[0] != now[0]]
        seconds = (mine[-1][1] - mine[0][1]) / 1000 if mine else 0
        assert len(mine) <= 20 + seconds + 2, f"{mark}: 20 at once, then one a second"
        assert max((pixels for pixels, _ in mine), default=0) <= 10_000, mark
    assert {pixels for which, pixels, _ in heights if which == 0} == {108}, "nobody else sets its height"
    assert height(box(book, 0)) == 108
    expect(page.locator(".jp-WasmKernel-usageButton")).to_contain_text("Sealed")
    assert page.evaluate("() => 6 * 7") == 42
    book.command("notebook:clear-all-cell-outputs", wait=True)
    assert book.text(book.run("print(6 * 7)")).strip() == "42"
