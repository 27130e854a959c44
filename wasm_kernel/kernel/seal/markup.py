"""The guest's HTML and SVG, made harmless by a sanitiser with a real HTML5 parser (nh3).

The parser has inputs on which it takes time, or memory, that grows with the square of their length. So what is long
must be nested properly before it gets there (`_parses_quickly`); anything short may be malformed. And it takes most
of a second for 10 MB, so a long table that consists only of plain tags stays as it is (`_is_plain`).
"""

from __future__ import annotations

import base64
import html
import re
import secrets
from collections.abc import Sequence
from functools import lru_cache

import nh3

from wasm_kernel.kernel.seal import stylesheets, tex

LONGEST = 32 << 20  # characters of HTML that are checked
_SVG_TAGS = frozenset(
    """svg g defs symbol use path rect circle ellipse line polyline polygon text tspan textPath title desc
    linearGradient radialGradient stop clipPath mask pattern marker filter image view switch
    feBlend feColorMatrix feComponentTransfer feComposite feConvolveMatrix feDiffuseLighting feDisplacementMap
    feDropShadow feFlood feFuncA feFuncB feFuncG feFuncR feGaussianBlur feMerge feMergeNode feMorphology feOffset
    fePointLight feSpecularLighting feSpotLight feTile feTurbulence""".split()
)
_TAGS = (
    frozenset(nh3.ALLOWED_TAGS)
    | frozenset("main section tfoot picture audio video source progress meter label button input font big".split())
    | _SVG_TAGS
) - {"title"}
_ANY = frozenset(
    """id class style title lang dir align valign width height border cellpadding cellspacing bgcolor color face size
    colspan rowspan headers scope abbr span summary char charoff hidden role tabindex nowrap""".split()
)
_SVG_ATTRIBUTES = frozenset(
    """xmlns xmlns:xlink version viewBox preserveAspectRatio x y x1 y1 x2 y2 cx cy r rx ry fx fy dx dy d points
    pathLength transform fill fill-opacity fill-rule stroke stroke-width stroke-opacity stroke-linecap stroke-linejoin
    stroke-dasharray stroke-dashoffset stroke-miterlimit opacity offset stop-color stop-opacity clip-path clip-rule
    clipPathUnits mask maskUnits maskContentUnits gradientUnits gradientTransform spreadMethod patternUnits
    patternContentUnits patternTransform marker-start marker-mid marker-end markerWidth markerHeight markerUnits refX
    refY orient filter filterUnits primitiveUnits in in2 result stdDeviation flood-color flood-opacity operator k1 k2 k3
    k4 type values mode tableValues slope intercept amplitude exponent font-family font-size font-style font-weight
    font-variant font-stretch text-anchor text-decoration dominant-baseline alignment-baseline baseline-shift
    letter-spacing word-spacing writing-mode textLength lengthAdjust rotate startOffset vector-effect shape-rendering
    text-rendering image-rendering color-interpolation-filters display visibility overflow xml:space enable-background
    paint-order href xlink:href""".split()
)
_ATTRIBUTES: dict[str, set[str]] = {
    "*": set(_ANY),
    "a": {"href", "target", "download", "hreflang"},
    "img": {"src", "alt"},
    "audio": {"src", "controls", "loop", "muted"},
    "video": {"src", "controls", "loop", "muted", "poster"},
    "source": {"src", "type"},
    "progress": {"value", "max"},
    "meter": {"value", "min", "max", "low", "high", "optimum"},
    "label": {"for"},
    "input": {"type", "checked", "disabled", "value"},
    "button": {"type", "disabled"},
    "details": {"open"},
    "ol": {"start", "type", "reversed"},
    "li": {"value"},
    "time": {"datetime"},
    "data": {"value"},
    **{tag: set(_SVG_ATTRIBUTES) for tag in _SVG_TAGS},
}
_REFERENCES = frozenset({"clip-path", "mask", "filter", "marker-start", "marker-mid", "marker-end", "fill", "stroke"})
_PICTURE = re.compile(r"data:image/(?:png|jpeg|gif|webp|bmp|svg\+xml|x-icon)[;,]", re.IGNORECASE)
_FILM = re.compile(
    r"data:(?:audio|video)/[\w.+-]{1,60}(?:;codecs=[\w.\"', -]{1,60})?;base64,"
    r"([A-Za-z0-9+/]{16,}|[A-Za-z0-9+/]{0,15}={0,2}\Z)",
    re.IGNORECASE,
)
_PLAYLIST = b"#EXTM3U"  # lists videos elsewhere, which browsers fetch whatever type it claims to be
_DOWNLOAD = re.compile(r"data:(?:text/(?:csv|plain)|application/(?!xhtml|xml|javascript)[\w.+-]+)[;,]", re.IGNORECASE)
_STYLE_BEGINS = re.compile(r"<style\b[^<>]{0,1000}>", re.IGNORECASE)
_STYLE_ENDS = re.compile(r"</style\s{0,100}>", re.IGNORECASE)
_STRICT_TAG = re.compile(
    r"<(/?[A-Za-z][A-Za-z0-9:-]*)"
    r"(?:\s+[A-Za-z_:@][\w:.-]*(?:\s*=\s*(?:\"[^\"<>]*\"|'[^'<>]*'|[^\s\"'<>=`]+))?){0,40}\s*/?>"
)
_OTHER_TAG = re.compile(r"<(/?[A-Za-z][^<]*)")
_BETWEEN_ATTRIBUTES = re.compile(r"[\s/\"']")
_VOID = frozenset("area base br col embed hr img input link meta source track wbr".split())
_UNUSUAL = frozenset(
    "textarea title xmp plaintext noscript template select frameset svg math noframes noembed iframe".split()
)
_FORMATTING = re.compile(r"<(?:a|b|big|code|em|font|i|nobr|s|small|strike|strong|tt|u)\b", re.IGNORECASE)
_DEEPEST = 256
_LONG = 1 << 20  # characters
_PLAIN_BRACKETS = re.compile(r"<([^<>]*)>")
_PLAIN_TAG = re.compile(
    r"(/?(?:table|thead|tbody|tfoot|tr|th|td|caption|div|span|p|b|i|strong|em|h[1-6]|ul|ol|li|br|hr))"
    r"(?: (?:class|id|style|border|colspan|rowspan|align|valign|halign|scope)=\"[^\"<>&]*\")*"
)
_PLAIN_ENTITIES = re.compile(r"&(?!(?:amp|lt|gt|quot|nbsp);)")  # any other may hide what other checks look for
_PLAIN_ATTRIBUTE = re.compile(r" ([a-z]+)=\"([^\"]*)\"")
_RESERVED_CLASS = re.compile(r"(?:jp|lm|p|cm|jupyter|bp\d?|mod|mathjax|tex2jax)[-_]", re.IGNORECASE)


class TooComplicated(ValueError):
    """HTML that is too long, or too long for how malformed it is."""


def sealed_html(text: str) -> str:
    """HTML without scripts and addresses, its styles kept to itself. `TooComplicated` where that cannot be ensured."""
    if len(text) > LONGEST:
        raise TooComplicated(f"it has {len(text):,} characters; the maximum is {LONGEST:,}")
    text, styles = _without_styles(text)
    scope = f"wk-{secrets.token_hex(4)}"
    with stylesheets.bounded():
        clean = _defused(_cleaned(text))
        sheet = "".join(stylesheets.scoped(style, scope) for style in styles)
    if not styles and " style=" not in clean and " class=" not in clean and "<svg" not in clean:
        return clean
    # JupyterLab sets the margin of an output's last element. That must be the one inside, because the box below
    # isolates margins. Its rule comes last, so that the first element is still the first.
    last = f"<style>.jp-RenderedHTMLCommon>#{scope}>:nth-last-child(2){{margin-bottom:.5em}}</style>"
    sheet = f"<style>{sheet}</style>" if sheet else ""
    # Whatever the styles say, nothing inside is placed or painted outside this box.
    return f'<div id="{scope}" style="contain:layout paint;overflow:auto;margin-bottom:0">{sheet}{clean}{last}</div>'


def sealed_inline(text: str) -> str:
    """HTML for a label: without a box around it, hence without style sheets."""
    if len(text) > LONGEST:
        raise TooComplicated(f"it has {len(text):,} characters; the maximum is {LONGEST:,}")
    with stylesheets.bounded():
        return _defused(_cleaned(_without_styles(text)[0]))


def sealed_svg(text: str) -> str:
    """An SVG picture as XML, without scripts and addresses."""
    start, stop = text.find("<svg"), text.rfind(">") + 1
    if start < 0 or stop < start or len(text) > LONGEST:
        raise TooComplicated("it is not an <svg> element, or a very long one")
    text, styles = _without_styles(text[start:stop])
    with stylesheets.bounded():
        clean = _defused(_cleaned(text)).replace("&nbsp;", "&#160;")
        sheet = "".join(stylesheets.scoped(_character_data(style), "wk-svg") for style in styles)
    if not clean.startswith("<svg") or not clean.endswith("</svg>"):
        raise TooComplicated("it is more than one <svg> element, or none")
    for prefix, name in (("xmlns", "2000/svg"), ("xmlns:xlink", "1999/xlink")):  # XML wants them, HTML does without
        if f' {prefix}="' not in clean.partition(">")[0]:
            clean = clean.replace("<svg", f'<svg {prefix}="http://www.w3.org/{name}"', 1)
    if sheet:  # scoped by its own id, as in HTML: this may be put into a page
        scope = f"wk-{secrets.token_hex(4)}"
        head, end, rest = clean.partition(">")
        style = html.escape(sheet.replace("wk-svg", scope), quote=False)
        clean = f'{_without_id(head)} id="{scope}"{end}<style>{style}</style>{rest}'
    return clean


def _without_styles(text: str) -> tuple[str, list[str]]:
    """The text without its <style> elements, and their contents. Anything mistaken for one is merely not shown."""
    kept, styles, position = [], [], 0
    while (begin := _STYLE_BEGINS.search(text, position)) and (end := _STYLE_ENDS.search(text, begin.end())):
        kept.append(text[position : begin.start()])
        styles.append(text[begin.end() : end.start()])
        position = end.end()
    return ("".join([*kept, text[position:]]), styles) if styles else (text, styles)


def _without_id(head: str) -> str:
    return re.sub(r' id="[^"]*"', "", head)


def _character_data(text: str) -> str:
    text = text.strip()
    return text.removeprefix("<![CDATA[").removesuffix("]]>") if text.startswith("<![CDATA[") else html.unescape(text)


def is_media(address: str) -> bool:
    """Whether a URL itself contains a picture, audio or video."""
    if _PICTURE.match(address):
        return True
    film = _FILM.match(address[:2000])
    return film is not None and not is_playlist(base64.b64decode(film[1][: len(film[1]) // 4 * 4]))


def is_playlist(film: bytes) -> bool:
    """Whether the bytes of audio or video only refer to other files elsewhere."""
    return _PLAYLIST in film[:1000]


def is_reserved(name: str) -> bool:
    """Whether a class name or an id is reserved by front ends for their own parts."""
    return _RESERVED_CLASS.match(name) is not None


def _cleaned(text: str) -> str:
    if len(text) > _LONG and _is_plain(text):
        return text
    if not _parses_quickly(text):
        raise TooComplicated("it is long, and its tags are not nested properly")
    try:
        return _cleaner().clean(text)
    except UnicodeEncodeError:
        raise TooComplicated("it contains invalid characters (surrogates)") from None


def _defused(clean: str) -> str:
    """Without dangerous TeX commands. MathJax reads across <wbr>, which could hide a command from us."""
    return tex.defused(clean.replace("<wbr>", "") if "\\" in clean else clean)


@lru_cache(maxsize=1)
def _cleaner() -> nh3.Cleaner:
    return nh3.Cleaner(
        tags=set(_TAGS),
        attributes=_ATTRIBUTES,
        attribute_filter=_attribute,
        generic_attribute_prefixes={"aria-"},  # not data-: in JupyterLab a click on some of those runs a command
        url_schemes={"http", "https", "mailto", "data", "ftp"},
        link_rel="noopener noreferrer",
    )


def _attribute(tag: str, name: str, value: str) -> str | None:
    """Check the value of an allowed attribute."""
    check = _CHECKS.get(name)
    try:
        return value if check is None else check(tag, value)
    except Exception:  # noqa: BLE001 - nh3 would keep the value unchanged
        return None


def _style(tag: str, value: str) -> str | None:
    return stylesheets.declarations(value) or None


def _classes(tag: str, value: str) -> str | None:
    """Class names without those that front ends use for their own menus and dialogs."""
    if _RESERVED_CLASS.search(value) is None:
        return value
    return " ".join(name for name in value.split() if not _RESERVED_CLASS.match(name)) or None


def _identity(tag: str, value: str) -> str | None:
    return None if _RESERVED_CLASS.match(value) else value


def _source(tag: str, value: str) -> str | None:
    return value if is_media(value) else None


def _link(tag: str, value: str) -> str | None:
    if tag == "a":
        data = value.lstrip().lower().startswith("data:")
        return None if data and not _DOWNLOAD.match(value) and not is_media(value) else value
    if tag == "image":
        return _source(tag, value)
    return value if value.startswith("#") else None


def _reference(tag: str, value: str) -> str | None:
    return value if stylesheets.declarations(f"fill:{value}") else None


def _target(tag: str, value: str) -> str | None:
    return "_blank"


def _input_type(tag: str, value: str) -> str | None:
    return value if tag != "input" or value.lower() in ("checkbox", "radio", "range") else "checkbox"


_CHECKS = {
    "style": _style,
    "class": _classes,
    "id": _identity,
    "for": _identity,
    "src": _source,
    "poster": _source,
    "href": _link,
    "xlink:href": _link,
    "target": _target,
    "type": _input_type,
    **dict.fromkeys(_REFERENCES, _reference),
}


def _parses_quickly(text: str) -> bool:
    """Whether parsing takes linear time: everything is nested properly, or there are few enough tags."""
    tags = text.count("<")
    if tags * tags <= 10_000_000 and tags * len(_FORMATTING.findall(text)) <= 1_000_000:
        # The parser compares each attribute with all others of its tag.
        others = _OTHER_TAG.findall(_STRICT_TAG.sub("", text))
        return sum(len(_BETWEEN_ATTRIBUTES.findall(tag)) ** 2 for tag in others) <= 100_000_000
    names = _STRICT_TAG.findall(text)
    return len(names) == tags and _UNUSUAL.isdisjoint(names) and _nested_properly(names)


def _nested_properly(names: Sequence[str]) -> bool:
    """Whether each end tag closes the element opened last, and nothing is nested deeply."""
    open_now: list[str] = []
    for name in names:
        if name[0] == "/":
            if not open_now or open_now.pop() != name[1:]:
                return False
        elif name not in _VOID:
            open_now.append(name)
            if len(open_now) > _DEEPEST:
                return False
    return True


def _is_plain(text: str) -> bool:
    """Whether HTML consists only of tables and paragraphs that every parser reads the same way."""
    tags = _PLAIN_BRACKETS.findall(text)
    if len(tags) != text.count("<") or ("&" in text and _PLAIN_ENTITIES.search(text)):
        return False
    names: dict[str, str] = {}
    for tag in set(tags):
        found = _PLAIN_TAG.fullmatch(tag)
        if found is None or any(not _unchanged(*attribute) for attribute in _PLAIN_ATTRIBUTE.findall(tag)):
            return False
        names[tag] = found[1]
    return _nested_properly([names[tag] for tag in tags])


def _unchanged(name: str, value: str) -> bool:
    return _attribute("td", name, value) == value
