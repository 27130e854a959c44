"""What the widgets of a file browser do when they are pressed, and the line that says what came of it.

Acts run on the kernel's loop; what touches the disk they send to a thread. One that fails says so in the widget: nobody
reads a kernel's log.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import ipywidgets as w

from wasm_kernel.errors import WasmKernelError
from wasm_kernel.kernel.files.listing import shorten
from wasm_kernel.kernel.render import escape, sentence, visible

if TYPE_CHECKING:
    from wasm_kernel.kernel.kernel import WasmKernel

Act = Callable[[], Awaitable[None]]
_NAMES = 5  # listed in a sentence


@dataclass(frozen=True)
class Said:
    """What came of an act, and perhaps a button for what a person may want next."""

    text: str
    offer: str = ""
    act: Act | None = None


class Acts:
    """Starts acts, makes buttons for them, and has the line below."""

    def __init__(self, kernel: WasmKernel) -> None:
        self._kernel = kernel
        self._tasks: set[asyncio.Task[None]] = set()
        self._text = w.HTML()
        self.line = row(self._text)

    def start(self, act: Act) -> None:
        """Do something soon."""
        task = self._kernel.loop.create_task(self._guarded(act))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _guarded(self, act: Act) -> None:
        try:
            await act()
        except (WasmKernelError, OSError, ValueError) as e:
            self.complain(reason(e))
        except Exception as e:
            self._kernel.log.exception("the file browser failed")
            self.complain(f"The file browser itself failed: {type(e).__name__}: {e}")

    async def settled(self) -> None:
        """Wait until nothing goes on."""
        while self._tasks:
            await asyncio.gather(*self._tasks)

    def button(self, text: str, icon: str, tooltip: str, act: Act, name: str = "") -> Any:
        """A button; keys and styles find it by its name."""
        made = w.Button(description=text, icon=icon, tooltip=tooltip)
        made.on_click(lambda _: self.start(act))
        if name:
            made.add_class(f"wk-{name}")
        return made

    # ---- the line

    def say(self, said: Said) -> None:
        """Show what came of something, and what is offered now."""
        self._text.value = sentence(said.text)
        old = self.line.children[1:]
        offered = [self.button(said.offer, "", "", said.act, "offer")] if said.act is not None else []
        self.line.children = (self._text, *offered)
        for widget in old:
            widget.close()

    def complain(self, text: str) -> None:
        """Show what went wrong; what was offered still is."""
        self._text.value = f'<div class="wk-error" role="alert">{escape(text)}</div>'

    def hush(self) -> None:
        """Show nothing, unless something is offered."""
        if len(self.line.children) == 1:
            self._text.value = ""


def row(*children: Any, kind: str = "") -> Any:
    """Widgets beside each other, as far as there is room."""
    made = w.HBox(list(children))
    made.add_class("wk-bar")
    if kind:
        made.add_class(kind)
    return made


def all_of(widget: Any) -> list[Any]:
    """A widget and all that is in it."""
    found = [widget]
    for child in getattr(widget, "children", ()):
        found += all_of(child)
    return found


def names(several: Sequence[str], most: int = _NAMES) -> str:
    """Names in a sentence."""
    shown = ", ".join(shorten(n, 40) for n in several[:most])
    return shown + (f" and {len(several) - most:,} more" if len(several) > most else "")


def reason(error: Exception) -> str:
    """Why something failed, for a person."""
    if isinstance(error, OSError) and error.strerror:
        name = f": {visible(error.filename)}" if isinstance(error.filename, str) else ""
        return f"{error.strerror}{name}"
    return str(error)
