"""The frames of outputs with scripts, as text. What they hold back is tried in a browser (attacks, browser)."""

from __future__ import annotations

import hashlib
import html
import re
from importlib import resources

import pytest

from wasm_kernel.kernel.seal import frames


def _inner(shown: str) -> tuple[str, str]:
    """The documents of the outer frame and of the inner one."""
    outer = html.unescape(shown.partition('srcdoc="')[2].partition('"')[0])
    return outer, html.unescape(outer.partition("srcdoc='")[2].partition("'")[0])


@pytest.mark.parametrize(
    "document",
    [
        "<b>\"a\" & 'b' &amp; &quot;</b>",
        "'></iframe><script>parent</script>",
        '"></iframe><img src=x onerror=1>',
        "&#39;&#34;",
    ],
)
def test_a_document_arrives_as_it_is_and_stays_inside(document: str) -> None:
    shown = frames.framed(document)
    outer, inner = _inner(shown)
    assert inner.endswith(document)
    assert shown.count("<iframe") == shown.count("</iframe>") == 1
    assert outer.partition("srcdoc='")[2].count("'") == 1  # where the attribute ends, and nowhere before


def test_both_frames_have_no_network_and_no_rights() -> None:
    shown = frames.framed("<p>x</p>")
    outer, inner = _inner(shown)
    for document in (outer, inner):
        head = document.partition("<style>")[0]
        assert (
            "default-src 'none'" in head and "frame-src 'none'" in head and "http" not in head.replace("http-equiv", "")
        )
    assert 'sandbox="allow-scripts"' in shown and "sandbox='allow-scripts'" in outer
    assert "allow-same-origin" not in shown


@pytest.mark.parametrize(
    "document",
    [
        "<p>x</p><iframe srcdoc='a'></iframe><iframe srcdoc='b'></iframe>",
        "<script>f.srcdoc = 'a'</script>",
        "<iframe SRCDOC\n= a>",
    ],
)
def test_no_frame_within_has_a_document(document: str) -> None:
    text = _inner(frames.framed(document))[1].rpartition(frames._NO_CALLS)[2]
    assert "srcdoc_" in text.lower() and not re.search(r"srcdoc\s*=", text, re.IGNORECASE)


@pytest.mark.parametrize(
    "frame", ['<iframe srcdoc="&lt;b&gt;x&lt;/b&gt;" style="x"></iframe>', "<iframe srcdoc='<b>x</b>'>"]
)
def test_what_is_nothing_but_a_frame_is_framed_once(frame: str) -> None:
    assert _inner(frames.framed(f"<div><span>Trust me</span>{frame}</div>"))[1].endswith("</script><b>x</b>")


@pytest.mark.parametrize(
    ("document", "height"),
    [
        ("<p>x</p>", 450),
        ('<div style="height:300px">', 360),
        ('{"continuousHeight": 300}', 360),
        ('<svg height="99999">', 450),
    ],
)
def test_the_height_is_what_the_document_asks_for(document: str, height: int) -> None:
    assert f'style="height:{height}px' in frames.framed(document)


def test_who_needs_the_network_is_told_so() -> None:
    assert "from the network" in frames.framed('<script src="https://example.org/x.js"></script>')
    assert "from the network" not in frames.framed("<script>1</script>")


def test_vega_is_what_was_published() -> None:
    known = {
        "vega.min.js": "8f6a3587cf8d4f42c7e08120e3eb05d067e746d554e39d2dcf52acc0bd5ba28f",
        "vega-lite.min.js": "35a9821df838825b05a6a73e9414b58747a1b18321583858ed903c66393a5c7e",
        "vega-embed.min.js": "b1455caba2fb1a72fb46025ba0ba1316e2dbc7f0dd40a3f6040172bf9c08ba91",
    }
    folder = resources.files("wasm_kernel.kernel.seal") / "vega"
    for name, digest in known.items():
        assert hashlib.sha256((folder / name).read_bytes()).hexdigest() == digest
        assert "</script" not in (folder / name).read_text("utf-8")
