"""The guest's styles, confined to the output they belong to.

Whatever fetches something is dropped, and so is what would place an element outside its output. Selectors get the
output's own id in front; by ``:where``, which does not make them count for more than they did.

The parser takes two seconds for a megabyte. So there is a bound on what it reads of one output (`bounded`); what lies
beyond it is left out, as is what it cannot read.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable, Iterable, Iterator
from contextvars import ContextVar
from functools import lru_cache
from typing import Any

SCOPE = "\0scope\0"  # stands for the output's id, so that the same style sheet need not be read twice
_FUNCTIONS = frozenset(
    """rgb rgba hsl hsla hwb lab lch oklab oklch color color-mix light-dark calc min max clamp var env attr abs sign
    round linear-gradient radial-gradient conic-gradient repeating-linear-gradient repeating-radial-gradient
    repeating-conic-gradient translate translatex translatey translatez translate3d scale scalex scaley scalez scale3d
    rotate rotatex rotatey rotatez rotate3d skew skewx skewy matrix matrix3d perspective cubic-bezier steps linear
    repeat minmax fit-content counter counters blur brightness contrast drop-shadow grayscale hue-rotate invert opacity
    saturate sepia polygon circle ellipse inset path rect xywh not is where has nth-child nth-last-child nth-of-type
    nth-last-of-type only-of-type lang dir""".split()
)
_PICTURE = re.compile(r"data:image/(?:png|jpeg|gif|webp|svg\+xml)[;,]", re.IGNORECASE)
_PROPERTY = re.compile(r"[\w-]+")  # names arrive unescaped: one may contain characters that end a rule
_FETCHING = frozenset({"behavior", "-moz-binding", "src"})
_GROUPS = frozenset({"media", "supports", "layer", "container"})
_KEYFRAMES = frozenset({"keyframes", "-webkit-keyframes"})
_PAGE = frozenset({"html", "body"})
# Most rules are as simple as pandas writes them. They are read without a parser: a selector, its declarations.
_SIMPLE_BODY = r"[\w#.,\s:;%!+-]*(?:\([\w#.,\s%+-]*\)[\w#.,\s:;%!+-]*)*"
_SIMPLE_RULE = re.compile(rf"([\w#.,\s:>*-]+)\{{({_SIMPLE_BODY})\}}")
_SIMPLE_DECLARATIONS = re.compile(_SIMPLE_BODY)
_SIMPLE_FUNCTION = re.compile(r"([\w-]+)\(")
_LONGEST = 8 << 20  # characters
_LONGEST_PARSED = 1 << 20
_REMEMBERED = 20_000  # characters of a text whose result is cached
_DEEPEST = 8
_left: ContextVar[int | None] = ContextVar("characters that the parser may still read", default=None)


class _Unreadable(ValueError):
    """Styles that the parser must not read, or cannot."""


@contextlib.contextmanager
def bounded() -> Iterator[None]:
    """Bounds how much the parser reads for one output."""
    before = _left.set(_LONGEST_PARSED)
    try:
        yield
    finally:
        _left.reset(before)


def scoped(css: str, scope: str) -> str:
    """A style sheet that applies only below the element with the id ``scope``."""
    return _read(_scoped, css).replace(SCOPE, f":where(#{scope})")


def _read(read: Callable[[str], str], css: str) -> str:
    """The result of a cached function for a text; empty if it cannot be read. Long texts are not cached."""
    try:
        return read(css) if len(css) <= _REMEMBERED else read.__wrapped__(css)  # type: ignore[attr-defined]
    except (_Unreadable, RecursionError):
        return ""


def _tokens(css: str) -> list[Any]:
    """Parse, checking nesting and size. Raises `_Unreadable`, which is not cached, if it is too much."""
    import tinycss2

    left = _left.get()
    if left is not None:
        _left.set(left - len(css))
    if len(css) > (_LONGEST_PARSED if left is None else left):
        raise _Unreadable("too long")
    try:
        found: list[Any] = tinycss2.parse_component_value_list(css)
    except ValueError as e:  # a number of thousands of digits
        raise _Unreadable(str(e)) from None
    return found


@lru_cache(maxsize=64)
def _scoped(css: str) -> str:
    if len(css) > _LONGEST or "\0" in css:
        return ""
    kept, position = [], 0
    css = _without_comments(css)
    while position < len(css):  # simple rules first; from the first other one on, the parser
        rule = _SIMPLE_RULE.match(css, position)
        if rule is None or not _are_simple(rule[2]):
            break
        kept.append(_simple(rule[1], rule[2]))
        position = rule.end()
    rest = css[position:]
    if rest.strip():
        import tinycss2

        kept.append(_rules(tinycss2.parse_stylesheet(_tokens(rest), skip_comments=True, skip_whitespace=True)))
    return "".join(kept).replace("<", "\\3c ")  # no end of the <style> element


def _without_comments(css: str) -> str:
    if not css.lstrip().startswith("/*"):
        return css
    kept, position = [], 0
    while (begin := css.find("/*", position)) >= 0:
        kept.append(css[position:begin])
        end = css.find("*/", begin + 2)
        position = end + 2 if end >= 0 else len(css)
    return "".join([*kept, css[position:]])


def _simple(selectors: str, body: str) -> str:
    prefixed = [_simple_selector(selector) for selector in selectors.split(",")]
    kept = ",".join(selector for selector in prefixed if selector)
    return f"{kept}{{{body.strip()}}}\n" if kept else ""


def _simple_selector(selector: str) -> str:
    selector = " ".join(selector.split())
    if not selector or selector[0] in ">+~|":
        return ""
    first = re.split(r"[.:#\s>]", selector, maxsplit=1)[0].lower()
    if first in _PAGE or selector.lower().startswith(":root"):
        return _below_page(*selector.partition(" ")[::2])
    return f"{SCOPE} {selector}"


def _below_page(page: str, rest: str) -> str:
    """``body.dark .x`` only asks about the page, and may stay; ``body`` alone would change it."""
    rest = rest.lstrip("> ")
    return f"{page} {SCOPE} {rest}" if rest and rest[0] not in "+~|" else ""


def declarations(body: str) -> str:
    """The allowed declarations of a rule or a ``style`` attribute."""
    return _read(_declarations, body)


@lru_cache(maxsize=4096)
def _declarations(body: str) -> str:
    if _SIMPLE_DECLARATIONS.fullmatch(body) and _are_simple(body):
        return body.strip()
    return _kept(_tokens(body))


def _are_simple(declared: str) -> bool:
    """Whether declarations without strings, escapes and nested brackets can stay without being parsed."""
    lowered = declared.lower()
    if "position" in lowered or any(name in lowered for name in _FETCHING):
        return False
    return {*_SIMPLE_FUNCTION.findall(lowered)} <= _FUNCTIONS


def _kept(tokens: list[Any]) -> str:
    import tinycss2

    kept = []
    for item in tinycss2.parse_blocks_contents(tokens, skip_comments=True, skip_whitespace=True):
        if item.type == "declaration" and _stays(item):
            important = " !important" if item.important else ""
            kept.append(f"{item.name}:{tinycss2.serialize(item.value).strip()}{important}")
    return ";".join(kept)


def _stays(item: Any) -> bool:
    if item.lower_name in _FETCHING or not _PROPERTY.fullmatch(item.name):
        return False
    if item.lower_name == "position":
        words = [token.lower_value for token in item.value if token.type == "ident"]
        return len(words) == 1 and words[0] in ("static", "relative", "absolute") and _only(item.value, "ident")
    return _harmless(item.value)


def _only(tokens: Iterable[Any], kind: str) -> bool:
    return all(token.type in (kind, "whitespace", "comment") for token in tokens)


def _harmless(tokens: Iterable[Any], depth: int = 0) -> bool:
    """Whether a value fetches nothing."""
    for token in tokens:
        if token.type == "url":
            if not _may_be_shown(token.value):
                return False
        elif token.type == "function":
            if token.lower_name == "url":
                if not all(t.type in ("string", "whitespace") for t in token.arguments) or not all(
                    _may_be_shown(t.value) for t in token.arguments if t.type == "string"
                ):
                    return False
            elif token.lower_name not in _FUNCTIONS or depth > _DEEPEST or not _harmless(token.arguments, depth + 1):
                return False
        elif token.type in ("() block", "[] block", "{} block"):
            if depth > _DEEPEST or not _harmless(token.content, depth + 1):
                return False
        elif token.type == "error":
            return False
    return True


def _may_be_shown(address: str) -> bool:
    """Whether an address is an embedded picture, or a part of the same document."""
    return address.startswith("#") or _PICTURE.match(address) is not None


def _rules(rules: Iterable[Any], depth: int = 0) -> str:
    import tinycss2

    kept = []
    for rule in rules:
        if rule.type == "qualified-rule":
            selectors = _selectors(rule.prelude)
            if selectors:
                kept.append(f"{selectors}{{{_kept(rule.content)}}}\n")
        elif rule.type == "at-rule" and rule.content is not None and depth < _DEEPEST and _harmless(rule.prelude):
            prelude = tinycss2.serialize(rule.prelude)
            inner = tinycss2.parse_blocks_contents(rule.content, skip_comments=True, skip_whitespace=True)
            if rule.lower_at_keyword in _GROUPS:
                kept.append(f"@{rule.lower_at_keyword}{prelude}{{{_rules(inner, depth + 1)}}}\n")
            elif rule.lower_at_keyword in _KEYFRAMES:
                # Their names are global to the page; in a layer they do not replace the page's own.
                kept.append(f"@layer wk{{@{rule.lower_at_keyword}{prelude}{{{_frames(inner)}}}}}\n")
    return "".join(kept)


def _frames(rules: Iterable[Any]) -> str:
    import tinycss2

    return "".join(
        f"{tinycss2.serialize(rule.prelude)}{{{_kept(rule.content)}}}"
        for rule in rules
        if rule.type == "qualified-rule" and _harmless(rule.prelude)
    )


def _selectors(prelude: list[Any]) -> str:
    """A list of selectors, each below the scope. A relative one (``~ p``) would reach siblings of the output."""
    import tinycss2

    parts: list[list[Any]] = [[]]
    for token in prelude:
        if token.type == "literal" and token.value == ",":
            parts.append([])
        else:
            parts[-1].append(token)
    kept = []
    for part in parts:
        while part and part[0].type in ("whitespace", "comment"):
            part = part[1:]
        if not part or any(t.type == "error" or (t.type == "literal" and t.value == "&") for t in part):
            continue
        if part[0].type == "literal" and part[0].value in (">", "+", "~", "|", "||"):
            continue
        text = tinycss2.serialize(part).strip()
        root = part[0].type == "literal" and part[0].value == ":" and text.lower().startswith(":root")
        if root or (part[0].type == "ident" and part[0].lower_value in _PAGE):
            end = next((n for n, token in enumerate(part) if token.type == "whitespace"), len(part))
            text = _below_page(tinycss2.serialize(part[:end]), tinycss2.serialize(part[end:]).strip())
        else:
            text = f"{SCOPE} {text}"
        if text:
            kept.append(text)
    return ",".join(kept)
