"""What a magic returns, how that is shown, and how its arguments are parsed."""

from __future__ import annotations

import argparse
import json
import shlex
import uuid
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Any

from wasm_kernel.errors import ConfigurationError
from wasm_kernel.kernel import render
from wasm_kernel.kernel.outputs import PRIVATE

Message = dict[str, Any]
_SHOWN_ROWS = 200


@dataclass(frozen=True)
class Answer:
    """What a magic returns: plain data for `x = %magic`, and text with its HTML twin to show.

    ``afterwards``: instead, something that has to wait until the guest is idle. ``last``: it replaces the guest, so
    nothing may follow it in the cell.
    ``view`` makes what front ends with widgets show instead of the text.
    ``private``: shown to the person only; a widget that captures outputs does not hand it to the guest.
    """

    data: Any = None
    text: str = ""
    html: str = ""
    afterwards: Callable[[], Awaitable[Answer]] | None = None
    last: bool = True
    view: Callable[[], Message] | None = None
    private: bool = False

    @property
    def metadata(self) -> Message:
        """The metadata of its output message."""
        return {PRIVATE: True} if self.private else {}

    def json(self, *, used: bool) -> bytes:
        """What the guest receives."""
        return json.dumps(self.data if used else None).encode()


def table(
    data: Any,
    header: Sequence[str],
    rows: Sequence[render.Row],
    *,
    numbers: Sequence[int] = (),
    caption: str = "",
    most: int = _SHOWN_ROWS,
) -> Answer:
    """Rows under a header; ``numbers``: columns to align on the right."""
    markup = render.table(header, rows[:most], numbers=numbers, caption=caption)
    text = render.plain(header, rows[:most], numbers=numbers, caption=caption)
    if len(rows) > most:
        more = f"… and {len(rows) - most} more"
        markup, text = markup + render.sentence(more), f"{text}\n{more}"
    return Answer(data, text, markup)


def say(text: str, data: Any = None) -> Answer:
    """A message of one or a few lines."""
    return Answer(data, text, "".join(map(render.sentence, text.splitlines())))


class ProgressLine:
    """A line of progress in a cell's output, replaced by the next."""

    def __init__(self, publish: Callable[..., None], parent: Message, *, silent: bool) -> None:
        self._publish, self._parent, self._silent = publish, parent, silent
        self._id = str(uuid.uuid4())
        self._begun = False

    def tell(self, line: str, fraction: float | None = None) -> None:
        """Show a line, and how far the work is if that is known. Called on any thread."""
        if not self._silent:
            self._send({"text/plain": line, "text/html": render.progress(line, fraction)})

    def clear(self) -> None:
        """The work is done."""
        if self._begun:
            self._send({"text/plain": "", "text/html": ""})

    def _send(self, data: dict[str, str]) -> None:
        kind = "update_display_data" if self._begun else "display_data"
        self._begun = True
        content = {"data": data, "metadata": {}, "transient": {"display_id": self._id}}
        self._publish(self._parent, kind, content)


class Usage(argparse.ArgumentParser):
    """Options of a magic; a mistake in them becomes an error in the cell."""

    def error(self, message: str) -> Any:
        """Raise what is wrong."""
        raise ConfigurationError(f"{self.prog}: {message}; see {self.prog}?")

    def exit(self, status: int = 0, message: str | None = None) -> Any:
        """Raise instead: the kernel must not exit."""
        raise ConfigurationError(message or f"see {self.prog}?")


def words_of(line: str) -> list[str]:
    """Split a magic's line into words, as a shell does."""
    try:
        return shlex.split(line, comments=True)
    except ValueError as e:
        raise ConfigurationError(f"{line!r} cannot be read: {e}") from None


def none(words: list[str], usage: str) -> None:
    """Refuse unexpected arguments."""
    if words:
        raise ConfigurationError(f"{usage} does not take {words[0]!r}")


def one(words: list[str], usage: str) -> str:
    """The single argument."""
    if len(words) != 1:
        raise ConfigurationError(f"{usage}: give exactly one argument")
    return words[0]
