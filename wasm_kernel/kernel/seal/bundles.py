"""Which mime types of a bundle may be shown, and as what."""

from __future__ import annotations

import contextlib
import html
import re
from collections.abc import Callable, Mapping
from typing import Any

from wasm_kernel.kernel.seal import frames, markup, terminal, tex
from wasm_kernel.kernel.seal.markup import TooComplicated

Bundle = dict[str, Any]
_IMAGES = ("image/png", "image/jpeg", "image/gif", "image/webp", "image/bmp")
_SCRIPTS = ("application/javascript", "text/javascript", "application/x-javascript", "application/ecmascript")
_CHART = re.compile(r"application/vnd\.vega(?:lite)?\.v\d{1,2}(?:\.json|\+json)")
# Data for programs that read notebooks; no front end draws it.
_INERT = ("application/papermill.record+json", "application/scrapbook.scrap.json+json", "application/json")
WIDGET_VIEW = "application/vnd.jupyter.widget-view+json"
_BASE64 = bytes(frozenset(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/=\n\r "))
_LENGTH = re.compile(r"\d{1,5}(?:\.\d{1,4})?(?:px|%|em)?")
# Without scripts these lose only a convenience (a copy button); in a frame they would look worse.
_GOOD_WITHOUT_SCRIPTS = ("sk-top-container",)
# Its script also checks whether the page is dark. A style can do that, too.
_THEMES = ((".sk-global.light", ".sk-global"), (".sk-global.dark", 'body[data-jp-theme-light="false"] .sk-global'))
_SCRIPT = re.compile(r"<script\b(?![^>]{0,200}\btype\s*=\s*[\"']?(?:application/(?:ld\+)?json|math/|text/plain))", re.I)
_HANDLER = re.compile(r"<[a-z][^<>]{0,4000}?[\s/\"']on[a-z]{3,30}\s{0,20}=", re.I)
_DOCUMENT_IN_FRAME = re.compile(r"<iframe\b[^<>]{0,4000}?\bsrcdoc\s{0,20}=", re.I)
_NEEDING_SCRIPTS = (
    ("<script", _SCRIPT),
    ("<SCRIPT", _SCRIPT),
    ("srcdoc", _DOCUMENT_IN_FRAME),
    (" on", _HANDLER),
    ("\non", _HANDLER),
)
_FRAME = re.compile(r"<iframe\b([^<>]{0,4000})>", re.I)
_PAGE = re.compile(r"\bsrc\s{0,20}=\s{0,20}[\"']?(https?://[^\s\"'<>]{1,2000})", re.I)
_PLAIN_MARKDOWN = re.compile(r"[^<&\[\]]*")
_LONGEST_MARKDOWN = 100_000  # characters; the worst input takes the parser two seconds
_FORMULA = re.compile(r"\$\$[^$]+\$\$|\$[^$\n]+\$|\\\\?\([^()]+\\\\?\)|\\\\?\[[^\[\]]+\\\\?\]")


def sealed_bundle(data: Mapping[str, Any], *, frame: bool = True) -> Bundle:
    """A mime bundle as it may be shown. ``frame``: whether a frame may be used for what needs scripts."""
    kept: Bundle = {}
    for mime, value in data.items():
        if mime in _IMAGES:
            if isinstance(value, str) and _is_base64(value):
                kept[mime] = value
        elif mime in _INERT:
            kept[mime] = value
        elif mime == WIDGET_VIEW:
            if (view := _widget_view(value)) is not None:
                kept[mime] = view
        elif (text := _text(value)) is not None and (seal := _TEXTS.get(mime)) is not None:
            try:
                kept.update(seal(text, frame))
            except TooComplicated as e:
                kept["text/html"] = _left_out(mime, str(e))
    if frame and "text/html" not in kept and not any(image in kept for image in _IMAGES):
        with contextlib.suppress(TooComplicated):
            kept.update(_drawn(data))
    left_out = [mime for mime in data if mime not in kept and not (mime == "text/markdown" and "text/html" in kept)]
    if left_out and not kept:
        kept["text/plain"] = f"[{', '.join(map(_short, left_out))}: not shown here; see %session trust]"
    return kept


def sealed_metadata(metadata: Mapping[str, Any]) -> Bundle:
    """Harmless metadata: sizes of pictures, and whether a JSON tree is open."""
    kept: Bundle = {}
    for mime, about in metadata.items():
        if mime in (*_IMAGES, "image/svg+xml", "application/json") and isinstance(about, dict):
            kept[mime] = {key: value for key, value in about.items() if _harmless_detail(key, value)}
        elif mime in ("scrapbook", "papermill") or _harmless_detail(mime, about):  # of the whole bundle
            kept[mime] = about
    return kept


def _harmless_detail(key: str, value: Any) -> bool:
    if key in ("width", "height"):
        return type(value) in (int, float) or (isinstance(value, str) and _LENGTH.fullmatch(value) is not None)
    if key in ("expanded", "unconfined"):
        return isinstance(value, bool)
    if key in ("needs_background", "root"):
        return isinstance(value, str) and value.replace("-", "").isalnum()
    return key == "alt" and isinstance(value, str) and not frozenset("<>\"'&`") & frozenset(value)


def _text(value: Any) -> str | None:
    if isinstance(value, str):
        return value
    if isinstance(value, list) and all(isinstance(line, str) for line in value):  # as in notebook files
        return "".join(value)
    return None


def _is_base64(text: str) -> bool:
    return text.isascii() and not text.encode("ascii").translate(None, _BASE64)


def _widget_view(value: Any) -> Bundle | None:
    if not isinstance(value, dict) or not isinstance(value.get("model_id"), str):
        return None
    numbers = {key: value[key] for key in ("version_major", "version_minor") if type(value.get(key)) is int}
    return {"model_id": value["model_id"][:100], **numbers}


def _short(mime: str) -> str:
    return terminal.defused(mime)[:100]


def _left_out(mime: str, why: str) -> str:
    return f"<div>{html.escape(_short(mime))} is not shown: {html.escape(why)}.</div>"


# ---- one function per type of text: what it becomes


def _plain(text: str, frame: bool) -> Bundle:
    return {"text/plain": terminal.defused(text)}


def _latex(text: str, frame: bool) -> Bundle:
    return {"text/latex": tex.defused(text)}


def _framed(document: str, height: int | None = None) -> Bundle:
    if len(document) > markup.LONGEST:  # quoted twice it becomes several times as long
        raise TooComplicated(f"it has {len(document):,} characters; a frame gets up to {markup.LONGEST:,}")
    return {"text/html": frames.framed(document, height)}


def _html(text: str, frame: bool) -> Bundle:
    if frame and needs_scripts(text):
        return _framed(frames.with_vega(text) if "vegaEmbed" in text else text)
    if "<iframe" in text:
        text = _FRAME.sub(_link_instead, text)
    if "sk-global" in text:
        for theme, selector in _THEMES:
            text = text.replace(theme, selector)
    return {"text/html": markup.sealed_html(text)}


def _link_instead(frame: re.Match[str]) -> str:
    page = _PAGE.search(frame[1])
    return f'<a href="{html.escape(page[1])}">{html.escape(page[1])}</a>' if page is not None else frame[0]


def needs_scripts(text: str) -> bool:
    """Whether HTML needs its scripts. A wrong guess costs only comfort: no trust depends on it."""
    if any(mark in text[:20_000] for mark in _GOOD_WITHOUT_SCRIPTS):
        return False
    return any(hint in text and pattern.search(text) is not None for hint, pattern in _NEEDING_SCRIPTS)


def _svg(text: str, frame: bool) -> Bundle:
    if frame and needs_scripts(text):
        return _framed(text)
    return {"image/svg+xml": markup.sealed_svg(text)}


def _markdown(text: str, frame: bool) -> Bundle:
    """Front ends pass HTML in Markdown through, each with its own parser; so we convert it to HTML with ours."""
    if _PLAIN_MARKDOWN.fullmatch(text) and "mermaid" not in text.lower():  # of any fence: such drawings load pictures
        return {"text/markdown": tex.defused(text)}
    return {"text/html": markup.sealed_html(_rendered(text))}


def _rendered(text: str) -> str:
    from markdown_it import MarkdownIt

    if len(text) > _LONGEST_MARKDOWN:
        raise TooComplicated(f"it has more than {_LONGEST_MARKDOWN:,} characters")
    formulas: list[str] = []

    def put_aside(found: re.Match[str]) -> str:
        formulas.append(found[0])
        return f"wkformula{len(formulas) - 1}x"

    rendered = (
        MarkdownIt("commonmark", {"html": True})
        .enable(["table", "strikethrough"])
        .render(_FORMULA.sub(put_aside, text))
    )
    return re.sub(
        r"wkformula(\d+)x",
        lambda found: html.escape(formulas[int(found[1])]) if int(found[1]) < len(formulas) else found[0],
        rendered,
    )


_TEXTS: dict[str, Callable[[str, bool], Bundle]] = {
    "text/plain": _plain,
    "text/html": _html,
    "text/markdown": _markdown,
    "text/latex": _latex,
    "image/svg+xml": _svg,
}


def _drawn(data: Mapping[str, Any]) -> Bundle:
    """What only scripts can draw, if there is nothing else to show."""
    for mime, value in data.items():
        if mime in _SCRIPTS and (code := _text(value)) is not None:
            return _framed(frames.script(code), 80)
        if _CHART.fullmatch(mime) and isinstance(value, dict):
            return _framed(frames.chart(value))
    return {}
