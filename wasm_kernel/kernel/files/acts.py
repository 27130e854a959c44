"""What a file browser's widgets do when they are pressed, and the line that shows the result.

Acts run on the kernel's loop and leave disk access to a thread. A failure is shown in the widget, because nobody reads
a kernel's log.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Any

import ipywidgets as w

from wasm_kernel.errors import WasmKernelError
from wasm_kernel.kernel.files.listing import shorten
from wasm_kernel.kernel.render import escape, sentence, visible

Act = Callable[[], Awaitable[None]]
_LOG = logging.getLogger("wasm_kernel.kernel")
_NAMES = 5  # names listed in a sentence


@dataclass(frozen=True)
class Said:
    """The result of an act, and perhaps a button for a next step."""

    text: str
    offer: str = ""
    act: Act | None = None


class Acts:
    """Starts acts, makes buttons for them, and holds the message line."""

    def __init__(self) -> None:
        self._tasks: set[asyncio.Task[None]] = set()
        self._text = w.HTML()
        self.line = row(self._text)

    def start(self, act: Act) -> None:
        """Start an act."""
        task = asyncio.get_running_loop().create_task(self._guarded(act))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _guarded(self, act: Act) -> None:
        try:
            await act()
        except (WasmKernelError, OSError, ValueError) as e:
            self.complain(reason(e))
        except Exception as e:  # noqa: BLE001 - shown in the widget, and logged
            _LOG.exception("the file browser failed")
            self.complain(f"The file browser itself failed: {type(e).__name__}: {e}")

    async def settled(self) -> None:
        """Wait until all acts have ended."""
        while self._tasks:
            await asyncio.gather(*self._tasks)

    def button(self, text: str, icon: str, tooltip: str, act: Act, name: str = "") -> Any:
        """A button; keys and styles find it by its name."""
        made = w.Button(description=text, icon=icon, tooltip=tooltip)
        made.on_click(lambda _: self.start(act))
        if name:
            made.add_class(f"wk-{name}")
        return made

    # ---- the message line

    def say(self, said: Said) -> None:
        """Show the result of an act, and the button it offers."""
        self._text.value = sentence(said.text)
        old = self.line.children[1:]
        offered = [self.button(said.offer, "", "", said.act, "offer")] if said.act is not None else []
        self.line.children = (self._text, *offered)
        for widget in old:
            widget.close()

    def complain(self, text: str) -> None:
        """Show what went wrong; an offered button stays."""
        self._text.value = f'<div class="wk-error" role="alert">{escape(text)}</div>'

    def hush(self) -> None:
        """Clear the line, unless a button is offered."""
        if len(self.line.children) == 1:
            self._text.value = ""


def row(*children: Any, kind: str = "") -> Any:
    """Widgets side by side, wrapped if there is no room."""
    made = w.HBox(list(children))
    made.add_class("wk-bar")
    if kind:
        made.add_class(kind)
    return made


def all_of(widget: Any) -> list[Any]:
    """A widget and all its descendants."""
    found = [widget]
    for child in getattr(widget, "children", ()):
        found += all_of(child)
    return found


def names(several: Sequence[str], most: int = _NAMES) -> str:
    """Names for a sentence."""
    shown = ", ".join(shorten(n, 40) for n in several[:most])
    return shown + (f" and {len(several) - most:,} more" if len(several) > most else "")


def reason(error: Exception) -> str:
    """Why something failed, for a person."""
    if isinstance(error, OSError) and error.strerror:
        name = f": {visible(error.filename)}" if isinstance(error.filename, str) else ""
        return f"{error.strerror}{name}"
    return str(error)
