"""Texts that were too long for one answer, kept for a while so that an agent can read on by a handle."""

from __future__ import annotations

from wasm_kernel.errors import ConfigurationError

_MOST_KEPT = 64 << 20  # characters of all
_MOST_PAGE = 50_000


class LongTexts:
    """Keeps the newest texts, up to a size."""

    def __init__(self) -> None:
        self._texts: dict[str, str] = {}
        self._count = 0

    def cut(self, text: str, most: int) -> str:
        """A text, if it is short; else its beginning and its end, and how to read what is between."""
        if len(text) <= most:
            return text
        self._count += 1
        handle = f"output-{self._count}"
        self._texts[handle] = text
        while len(self._texts) > 1 and sum(map(len, self._texts.values())) > _MOST_KEPT:
            del self._texts[next(iter(self._texts))]
        head, tail = most * 3 // 4, most // 4
        note = (
            f'\n[… {len(text) - head - tail:,} characters left out; read_output(handle="{handle}", offset={head}) …]\n'
        )
        return text[:head] + note + text[-tail:]

    def page(self, handle: str, offset: int, length: int) -> str:
        """A part of a kept text, and where it goes on."""
        text = self._texts.get(handle)
        if text is None:
            raise ConfigurationError(f"there is no output {handle[:40]!r}; only the newest long ones are kept")
        if not 0 <= offset <= len(text):
            raise ConfigurationError(f"offset is {offset}; {handle} has {len(text):,} characters")
        end = min(len(text), offset + max(1, min(length, _MOST_PAGE)))
        more = f"\n[… goes on at offset={end} of {len(text):,} …]" if end < len(text) else ""
        return text[offset:end] + more
