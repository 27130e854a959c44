"""Outputs that need scripts, each in a frame with its own origin, without network.

Two frames, one inside the other. A document cannot be kept by its own policy from navigating elsewhere, which would be
a way out; the frame around it can prevent that (``frame-src``). Neither is ever ``allow-same-origin``: with it the
scripts would be the page's own.

No policy forbids connections between browsers (WebRTC), which reach any address. So the first script of a document
removes them. A frame inside it would have them again if it had its own document; so none gets one, neither from the
text here nor from scripts, by a trusted-types policy, which also rules out document.write.

A frame tells the page how high its document is. A page with our side panel makes it that high
(`labextension/src/frames.ts`), within bounds, because the document may say what it likes; others keep our guess.
"""

from __future__ import annotations

import html
import json
import re
from functools import lru_cache
from pathlib import Path
from typing import Any

_POLICY = (
    "default-src 'none'; script-src 'unsafe-inline' 'unsafe-eval' data: blob:; style-src 'unsafe-inline' data:; "
    "img-src data: blob:; font-src data:; media-src data: blob:; worker-src blob:; connect-src data: blob:; "
    "frame-src 'none'; form-action 'none'; base-uri 'none'; require-trusted-types-for 'script'; trusted-types default"
)
_HEAD = f'<!doctype html><meta charset="utf-8"><meta http-equiv="Content-Security-Policy" content="{_POLICY}">'
_BOTH = '<meta http-equiv="x-dns-prefetch-control" content="off"><meta name="referrer" content="no-referrer">'
_NO_CALLS = """<script>(() => {
for (const name of ["RTCPeerConnection", "webkitRTCPeerConnection", "XSLTProcessor"]) delete self[name];
const call = Function.prototype.call, same = text => text;
const has = call.bind(String.prototype.includes), lower = call.bind(String.prototype.toLowerCase);
const html = (text, _, sink) => has(sink, "Document write") || has(lower(sink + text), "srcdoc") ? "" : text;
self.trustedTypes?.createPolicy("default", {createHTML: html, createScript: same, createScriptURL: same});
})()</script>"""
# A document as high as its frame and a little more wants more whenever it gets what it wanted: not for ever. Timers, as
# a frame out of sight is never drawn.
_TELL_HEIGHT = """<script>(() => {
const root = document.documentElement, page = parent.parent;
let told = 0, refused = 0, chases = 0, width = innerWidth, pushed = false, due = false;
const height = body => Math.ceil(innerHeight - root.clientHeight + Math.max(
  root.getBoundingClientRect().height, scrollY + body.getBoundingClientRect().top + body.scrollHeight));
const tell = () => {
  const follows = pushed;
  due = pushed = false;
  if (!document.body || !innerWidth) return;
  const now = height(document.body);
  if (now === told || now === refused) return;
  chases = follows && now > told ? chases + 1 : 0;
  if (chases > 2) refused = now;
  else page.postMessage({wasmKernelHeight: told = now}, "*");
};
const soon = () => {
  if (!due) setTimeout(tell, 20);
  due = true;
};
addEventListener("resize", () => {
  pushed = width === innerWidth;
  width = innerWidth;
  soon();
});
addEventListener("load", soon, true);
addEventListener("DOMContentLoaded", () => {
  const sizes = new ResizeObserver(soon);
  for (const part of [root, document.body]) sizes.observe(part);
  new MutationObserver(soon).observe(root, {subtree: true, childList: true, attributes: true, characterData: true});
  soon();
});
})()</script>"""
_DOCUMENT_WITHIN = re.compile(r"srcdoc(?=\s*=)", re.IGNORECASE)
_FRAME = re.compile(r"<iframe\b[^<>]{0,4000}?\bsrcdoc\s{0,20}=\s{0,20}(?:\"([^\"]*)\"|'([^']*)')", re.IGNORECASE)
_OUTER_STYLE = "<style>html,body,iframe{margin:0;border:0;width:100%;height:100%;overflow:hidden}</style>"
_INNER_STYLE = (
    "<style>html{background:#fff;color:#000;font:14px system-ui,sans-serif}body{margin:4px;position:relative}</style>"
)
_HEIGHT = re.compile(r"""[hH]eight["']?\s{0,5}[:=]\s{0,5}["']?(\d{2,4})(?:px|["',;}\s])""")
_ALTAIR = re.compile(r'maybeLoadScript\("([a-z-]{1,20})", "([0-9.]{1,20})"\)')
_FETCHES = re.compile(r"\b(?:src|href)=(?:[\"']|&quot;|&#39;|&#x27;)?https?://", re.IGNORECASE)
_SHORT = 200_000  # a longer document contains what it needs
_NOTE = (
    "This output contains scripts: they run in a separate frame, without network. "
    "<code>%session trust on</code> shows outputs unsealed."
)
_NOTE_OF_NETWORK = (
    "This output loads parts from the network, which sealed outputs cannot use, so it may stay empty. "
    "<code>%session trust on</code> shows outputs unsealed."
)
_NOTE_STYLE = "font-size:var(--jp-ui-font-size0,.75em);color:var(--jp-ui-font-color2,#767676);margin-top:2px"


def framed(document: str, height: int | None = None) -> str:
    """HTML with a frame that shows a document, scripts and all, and one line that says so."""
    document = _unwrapped(document)
    inner = f"{_HEAD}{_BOTH}{_INNER_STYLE}{_NO_CALLS}{_TELL_HEIGHT}{_DOCUMENT_WITHIN.sub('srcdoc_', document)}"
    outer = f"{_HEAD}{_BOTH}{_OUTER_STYLE}<iframe sandbox='allow-scripts' srcdoc='{_quoted(inner, chr(39))}'></iframe>"
    pixels = height or _height_of(document)
    note = _NOTE_OF_NETWORK if len(document) < _SHORT and _FETCHES.search(document) else _NOTE
    # Where the height stays a guess, the person resizes the box by its corner, so the frame leaves the corner free.
    return (
        f'<div class="wasm-kernel-frame" style="height:{pixels}px;min-height:40px;resize:vertical;overflow:hidden;'
        'padding-bottom:8px;box-sizing:border-box">'
        '<iframe sandbox="allow-scripts" referrerpolicy="no-referrer" title="Output with scripts, sealed" '
        'style="display:block;width:100%;height:100%;border:0;background:#fff" '
        f'srcdoc="{_quoted(outer, chr(34))}"></iframe></div>'
        f'<div style="{_NOTE_STYLE}">{note}</div>'
    )


def _unwrapped(document: str) -> str:
    """The inner document of an output that is itself just a frame, as folium writes it."""
    found = _FRAME.search(document) if "srcdoc" in document else None
    if found is None or "<script" in document[: found.start()] or "<iframe" in document[found.end() :]:
        return document
    return html.unescape(found[1] or found[2] or "")


def script(code: str) -> str:
    """A document that runs JavaScript as `IPython.display.Javascript` has it: with an ``element`` to write to."""
    return f'<div id="element"></div><script>const element = document.getElementById("element");\n{code}\n</script>'


def chart(specification: Any) -> str:
    """A document that draws a Vega or Vega-Lite chart."""
    text = json.dumps(specification).replace("<", "\\u003c")
    draw = f'vegaEmbed("#chart", {text}, {{actions: false}}).catch(e => document.body.append(String(e)))'
    return f'{vega()}<div id="chart"></div><script>{draw}</script>'


def with_vega(document: str) -> str:
    """A document as altair writes it, with Vega included so that it is not fetched from the network."""
    versions = {f"{name.replace('-', '')}_version": number for name, number in _ALTAIR.findall(document)}
    return f"{vega()}<script>var VEGA_DEBUG = {json.dumps(versions)};</script>{document}"


@lru_cache(maxsize=1)
def vega() -> str:
    """Vega, Vega-Lite and vega-embed as script elements, because nothing can be fetched in a frame."""
    folder = Path(__file__).parent / "vega"
    names = ("vega.min.js", "vega-lite.min.js", "vega-embed.min.js")
    return "".join(f"<script>{(folder / name).read_text('utf-8')}</script>" for name in names)


def _quoted(text: str, quote: str) -> str:
    """Text for an attribute between quotes of one kind."""
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(quote, html.escape(quote))


def _height_of(document: str) -> int:
    """The height that a document asks for, or a sensible default."""
    found = [int(n) for n in _HEIGHT.findall(document[-20_000:])[:20] + _HEIGHT.findall(document[:20_000])[:20]]
    asked = [n for n in found if 60 <= n <= 1200]
    return max(asked) + 60 if asked else 450  # axes and titles are extra
