"""Mime types: which reach a front end, and as what."""

from __future__ import annotations

from typing import Any

import pytest

from wasm_kernel.kernel.seal.bundles import needs_scripts, sealed_bundle, sealed_metadata

SPECIFICATION = {"mark": "bar", "data": {"url": "http://evil/x"}, "title": "</script><script>alert(1)</script>"}


@pytest.mark.parametrize(
    "harmless",
    [
        {"text/plain": "x < y"},
        {"image/png": "iVBORw0KGgo=\n", "text/plain": "<Figure>"},
        {"application/json": {"a": ["<b>", 1]}},
        {"text/latex": r"$\frac{1}{2}$"},
        {"text/markdown": "# Title\n\n*some* `code`\n\n* a\n* b\n\n$a_1$"},
        {"text/html": "<b>bold</b>"},
        {"application/vnd.jupyter.widget-view+json": {"model_id": "abc", "version_major": 2, "version_minor": 0}},
        {"application/papermill.record+json": {"x": 1}},
    ],
)
def test_harmless_things_pass_unchanged(harmless: dict[str, Any]) -> None:
    assert sealed_bundle(harmless) == harmless


@pytest.mark.parametrize(
    "mime",
    [
        "application/pdf",
        "application/geo+json",
        "application/vnd.plotly.v1+json",
        "application/vnd.bokehjs_exec.v0+json",
        "application/vnd.jupyter.widget-state+json",
        "application/vnd.jupyter.stderr",
        "text/x-unheard-of",
        "image/tiff",
        "TEXT/HTML",
        "text/html;charset=utf-8",
    ],
)
def test_what_is_not_known_is_left_out(mime: str) -> None:
    assert sealed_bundle({mime: "<script>alert(1)</script>", "text/plain": "x"}) == {"text/plain": "x"}
    (alone,) = sealed_bundle({mime: "<script>alert(1)</script>"}).items()
    assert alone[0] == "text/plain" and mime in alone[1] and "alert" not in alone[1]


@pytest.mark.parametrize("picture", ['"><script>alert(1)</script>', "aé", ["AA", "=="], 7, {"a": "b"}])
def test_a_picture_is_base64(picture: Any) -> None:
    """nbconvert writes it into a page as it is."""
    assert "image/png" not in sealed_bundle({"image/png": picture, "text/plain": "x"})


def test_sizes_of_pictures_are_sizes() -> None:
    about = {"width": 3, "height": "5px", "needs_background": "light", "onclick": "x", "alt": "a"}
    kept = sealed_metadata({"image/png": about, "text/html": {"isolated": True}, "isolated": True, "width": '"><b'})
    assert kept == {"image/png": {"width": 3, "height": "5px", "needs_background": "light", "alt": "a"}}
    assert sealed_metadata({"image/png": {"alt": '"><script>', "width": '1"><script>'}}) == {"image/png": {}}


@pytest.mark.parametrize(
    "text",
    [
        "<script>alert(1)</script>",
        "<SCRIPT>alert(1)</SCRIPT>",
        '<button onclick="go()">x</button>',
        '<iframe srcdoc="&lt;script&gt;"></iframe>',
        "<img src=x\nonerror=alert(1)>",
    ],
)
def test_scripts_run_in_a_frame(text: str) -> None:
    (shown,) = sealed_bundle({"text/html": text}).values()
    assert shown.count("<iframe") == 1 and 'sandbox="allow-scripts"' in shown and "allow-same-origin" not in shown
    assert "%session trust on" in shown
    outside = shown.partition('srcdoc="')[0] + shown.rpartition('"></iframe>')[2]
    assert "alert" not in outside and "onclick" not in outside


@pytest.mark.parametrize("frame", [True, False])
@pytest.mark.parametrize(
    "text", ["x onclick= y", "<td>a onclick=b</td>", '<script type="application/json">1</script>', "a < b on=c"]
)
def test_text_about_scripts_is_text(text: str, frame: bool) -> None:
    assert not needs_scripts(text)
    assert "<iframe" not in sealed_bundle({"text/html": text}, frame=frame)["text/html"]


def test_where_there_is_no_room_for_a_frame_scripts_are_left_out() -> None:
    assert sealed_bundle({"text/html": "<p>a</p><script>alert(1)</script>"}, frame=False) == {"text/html": "<p>a</p>"}
    assert sealed_bundle({"application/javascript": "alert(1)", "text/plain": "x"}, frame=False) == {"text/plain": "x"}


def test_scikit_learn_s_diagrams_do_without_their_scripts() -> None:
    shown = sealed_bundle({"text/html": '<div class="sk-top-container">x</div><script>1</script>'})["text/html"]
    assert "<iframe" not in shown and "sk-top-container" in shown


@pytest.mark.parametrize("mime", ["application/javascript", "text/javascript"])
def test_javascript_runs_in_a_frame(mime: str) -> None:
    shown = sealed_bundle({mime: "element.append(1)", "text/plain": "<IPython.core.display.Javascript object>"})
    assert set(shown) == {"text/plain", "text/html"} and 'sandbox="allow-scripts"' in shown["text/html"]


@pytest.mark.parametrize(
    "mime", ["application/vnd.vegalite.v5+json", "application/vnd.vega.v6+json", "application/vnd.vegalite.v6.json"]
)
def test_charts_are_drawn_in_a_frame(mime: str) -> None:
    shown = sealed_bundle({mime: SPECIFICATION, "text/plain": "x"})
    assert set(shown) == {"text/plain", "text/html"}
    assert "</script><script>alert" not in shown["text/html"]


@pytest.mark.parametrize(
    "text",
    [
        "<img src=x onerror=alert(1)>",
        "[x](javascript:alert(1))",
        "[x][y]\n\n[y]: javascript:alert(1)",
        "<javascript:alert(1)>",
        "![x](http://evil/x.png)",
        "[x](&#106;avascript:alert(1))",
        "```\n```\n<script>alert(1)</script>",
        "`<script>`<script>alert(1)</script>",
        "```mermaid\ngraph TD; A-->B\n```",
        "``` mermaid\ngraph TD; A-->B\n```",
        "~~~mermaid\ngraph TD; A-->B\n~~~",
    ],
)
def test_markdown_with_more_than_text_becomes_html(text: str) -> None:
    shown = sealed_bundle({"text/markdown": text, "text/plain": "x"})
    assert set(shown) == {"text/html", "text/plain"}
    for trace in ('="javascript:', "<script", "onerror", 'src="http'):
        assert trace not in shown["text/html"]


def test_markdown_keeps_its_formulas_and_tables() -> None:
    shown = sealed_bundle({"text/markdown": "$a_1 < b_2$ [l](http://x.y)\n\n|a|b|\n|-|-|\n|1|2|"})["text/html"]
    assert "$a_1 &lt; b_2$" in shown and "<table>" in shown and 'href="http://x.y"' in shown


def test_a_page_of_another_host_is_a_link() -> None:
    shown = sealed_bundle({"text/html": '<iframe width="4" src="https://example.org/v" allowfullscreen></iframe>'})
    assert shown["text/html"] == '<a href="https://example.org/v" rel="noopener noreferrer">https://example.org/v</a>'


def test_html_that_cannot_be_judged_says_so() -> None:
    crooked = "<div><table><td></div></table></td>" * 20_000
    shown = sealed_bundle({"text/html": crooked, "text/plain": "x"})
    assert "not nested properly" in shown["text/html"] and shown["text/plain"] == "x" and len(shown["text/html"]) < 200


@pytest.mark.parametrize("fence", ["~~~mermaid", "``` mermaid", "````Mermaid"])
def test_drawings_in_markdown_are_not_drawn(fence: str) -> None:
    drawing = f'{fence}\nflowchart TD\n  A@{{ img: "http://evil/x.png" }}\n{fence[:3]}'
    assert set(sealed_bundle({"text/markdown": drawing})) == {"text/html"}


@pytest.mark.timeout(90)
def test_frames_are_looked_at_in_linear_time() -> None:
    sealed_bundle({"text/html": ("<iframe " + "-src=http://" * 600 + " " * 4100) * 300})


@pytest.mark.timeout(90)
@pytest.mark.parametrize("mime", ["text/html", "application/javascript"])
def test_a_very_long_document_gets_no_frame(mime: str) -> None:
    shown = sealed_bundle({mime: "<script>" + "'" * (33 << 20)})
    assert sum(map(len, shown.values())) < 1000
