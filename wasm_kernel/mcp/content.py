"""What an execution gave, as an agent can use it: text, tables and images, cut where it is long.

What the guest printed is in blocks of its own, after the first one, which is the host's: how it ended and what files
changed. The same is in the structured part of the result. Nothing that a guest prints can appear in either.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Iterable
from typing import Any

from mcp.types import CallToolResult, ContentBlock, ImageContent, TextContent

from wasm_kernel.guest import wire
from wasm_kernel.mcp.long_texts import LongTexts
from wasm_kernel.model.outcome import OutcomeKind, SandboxResult

_MOST_TEXT = 20_000  # characters of one block
_MOST_IMAGES, _MOST_IMAGE = 6, 3 << 20
_MOST_FILES = 100
_IMAGES = {  # and how their bytes begin; some clients cannot go on after an image that is none
    "image/png": re.compile(rb"\x89PNG\r\n\x1a\n"),
    "image/jpeg": re.compile(rb"\xff\xd8\xff"),
    "image/gif": re.compile(rb"GIF8[79]a"),
    "image/webp": re.compile(rb"RIFF....WEBP", re.DOTALL),
}
_TEXTS = ("text/markdown", "text/latex", "text/plain")
_PLAIN = re.compile(r"[\w./+-]+")  # one word
_COLOURS = re.compile(r"\x1b\[[0-9;]*m")


def result_content(events: Iterable[wire.Event], result: SandboxResult, long_texts: LongTexts) -> CallToolResult:
    """The answer to a call that ran code."""
    shown = _Blocks(long_texts)
    for event in events:
        if isinstance(event, wire.Stream):
            shown.text(event.text)
        elif isinstance(event, wire.DisplayData | wire.ExecuteResult):
            shown.bundle(event.data)
        elif isinstance(event, wire.ErrorRaised):
            shown.text("\n" + _COLOURS.sub("", "\n".join(event.traceback)) + "\n")
    how = _how(result)
    blocks: list[ContentBlock] = [TextContent(text=_sentence(how)), *shown.finished()]
    return CallToolResult(content=blocks, structured_content=how, is_error=not result.success)


def _how(result: SandboxResult) -> dict[str, Any]:
    """How it ended; all of it the host's own words, but for the names of files and of the exception."""
    said: dict[str, Any] = {
        "ok": result.success,
        "outcome": result.outcome.kind.value,
        "execution_count": result.execution_count,
        "seconds": round(result.duration_seconds, 3),
        "memory_bytes": result.memory_bytes,
    }
    if not result.success:
        outcome = result.outcome
        message = outcome.message
        if outcome.kind is OutcomeKind.ERROR and not outcome.cause.isidentifier():  # a class may be called anything
            message = f"the code raised {outcome.cause!r}"
        said["message"] = ". ".join(part for part in (message, outcome.next_step) if part)
    for kind, names in (
        ("created", result.files_created),
        ("modified", [name for name in result.files_modified if name not in set(result.files_created)]),
        ("deleted", result.files_deleted),
    ):
        if names:
            said[f"files_{kind}"] = [
                ascii(name)[1:-1] if not name.isprintable() else name for name in names[:_MOST_FILES]
            ]
    return said


def quoted(name: str) -> str:
    """A file's name, so that it cannot be taken for anything else in a line."""
    return name if _PLAIN.fullmatch(name) else repr(name)


def _sentence(how: dict[str, Any]) -> str:
    parts = ["ok" if how["ok"] else f"{how['outcome']}: {how['message']}", f"{how['seconds']:g} s"]
    for kind in ("created", "modified", "deleted"):
        if names := how.get(f"files_{kind}"):
            parts.append(f"files {kind}: {', '.join(map(quoted, names))}")
    return "; ".join(parts)


class _Blocks:
    """Collects blocks; text that follows text is one block, so there are few: each image ends one."""

    def __init__(self, long_texts: LongTexts) -> None:
        self._long_texts = long_texts
        self._blocks: list[ContentBlock] = []
        self._pieces: list[str] = []
        self._images = 0

    def text(self, text: str) -> None:
        self._pieces.append(text)

    def bundle(self, data: dict[str, Any]) -> None:
        """The form of a value that says most to an agent: an image, else text."""
        for kind in _IMAGES:
            if kind in data and self._image(kind, data[kind]):
                return
        text = next((data[kind] for kind in _TEXTS if isinstance(data.get(kind), str)), None)
        if text is not None:
            self._pieces.append(text + "\n")

    def _image(self, kind: str, data: Any) -> bool:
        """Add an image, if it is one that can be shown."""
        if not isinstance(data, str) or len(data) > _MOST_IMAGE * 4 // 3 or self._images >= _MOST_IMAGES:
            return False
        try:
            image = base64.b64decode(data, validate=False)
        except ValueError:
            return False
        if not _IMAGES[kind].match(image):
            return False
        self._end_text()
        self._images += 1
        self._blocks.append(ImageContent(data=base64.b64encode(image).decode(), mime_type=kind))  # no line breaks
        return True

    def _end_text(self) -> None:
        text, self._pieces = "".join(self._pieces), []
        if text.strip():
            self._blocks.append(TextContent(text=self._long_texts.cut(text, _MOST_TEXT)))

    def finished(self) -> list[ContentBlock]:
        self._end_text()
        return self._blocks
