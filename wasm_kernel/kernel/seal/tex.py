"""TeX as MathJax understands it, without commands that do more than mathematics."""

from __future__ import annotations

import re

# Links (a javascript: address among them), styles and class names of the page, attributes of MathML, extensions.
_REACHING = (
    "href|url|style|class|cssId|data|unicode|require|includegraphics|bbox|mmlToken|special|csname"
    "|htmlClass|htmlId|htmlStyle|htmlData|texttip|mathtip"
)
_COMMAND = re.compile(rf"\\(?=(?:{_REACHING})(?![A-Za-z]))")


def defused(text: str) -> str:
    """The text with those commands shown rather than executed."""
    return _COMMAND.sub("\N{REVERSE SOLIDUS OPERATOR}", text) if "\\" in text else text
