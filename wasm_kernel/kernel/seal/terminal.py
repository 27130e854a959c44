"""Text for terminals, and for front ends that understand terminal colours."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

# Colours, moving the cursor, erasing: what progress bars and tracebacks use. Not: questions to the terminal (it would
# answer as if the person had typed), titles, the clipboard, hyperlinks whose target nobody sees.
_HARMLESS = r"\x1b\[[0-9;:]{0,40}[mABCDEFGHJKf]"
_CONTROLS = re.compile(rf"({_HARMLESS})|\x1b|[\x80-\x9f]")
_BEGUN = re.compile(r"\x1b(?:\[[0-9;:]{0,40})?\Z")


def defused(text: str) -> str:
    """The text with all but harmless control sequences made visible instead of effective."""
    if "\x1b" not in text and text.isascii():
        return text
    return _CONTROLS.sub(lambda found: found[1] or "", text)


def defused_error(content: Mapping[str, Any]) -> dict[str, Any]:
    """An error message's content, defused: name, text and traceback lines."""
    lines = content.get("traceback")
    traceback = [defused(line) for line in lines if isinstance(line, str)] if isinstance(lines, list) else []
    named = {key: defused(str(content.get(key, ""))) for key in ("ename", "evalue")}
    return {**named, "traceback": traceback}


class StreamFilter:
    """`defused` for a stream that arrives in pieces: a sequence may be cut anywhere."""

    def __init__(self) -> None:
        self._held = ""

    def write(self, text: str) -> str:
        """The next piece, as far as it is complete; a sequence that never ends is never shown."""
        text, self._held = self._held + text, ""
        begun = _BEGUN.search(text, max(0, len(text) - 50)) if "\x1b" in text[-50:] else None
        if begun is not None:
            self._held = begun[0]
            text = text[: begun.start()]
        return defused(text)
