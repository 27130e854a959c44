"""Where a file browser asks: a question, perhaps a field, and buttons. One at a time."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Any

import ipywidgets as w

from wasm_kernel.kernel.files.acts import Act, Acts, Said, all_of, row


class Panel:
    """A place for questions. ``afterwards`` is called once the answer was carried out, even if only in part."""

    def __init__(self, acts: Acts, afterwards: Callable[[], None], kind: str = "") -> None:
        self._acts, self._afterwards = acts, afterwards
        self.widget = w.VBox()
        for name in ("wk-panel", "wk-empty", *([kind] if kind else [])):
            self.widget.add_class(name)

    @property
    def is_open(self) -> bool:
        """Whether it shows anything."""
        return bool(self.widget.children)

    def ask(
        self,
        question: str,
        field: Any,
        label: str,
        act: Callable[[], Awaitable[Said]],
        *,
        danger: bool = False,
        more: Sequence[Any] = (),
    ) -> None:
        """Ask a question, given as HTML; the result of ``act`` is shown afterwards."""
        sure = self._acts.button(label, "", "", self.answering(act), "ok")
        sure.button_style = "danger" if danger else "primary"
        fields = [field] if field is not None else []
        self.open([w.HTML(question), *fields, row(sure, *more, self.closing("Cancel", "cancel"))])

    def answering(self, act: Callable[[], Awaitable[Said]]) -> Act:
        """Run the act; close the question if it succeeds."""

        async def done() -> None:
            try:
                said = await act()
                self.close()
                self._acts.say(said)
            finally:
                self._afterwards()

        return done

    def closing(self, text: str, name: str) -> Any:
        """A button that closes the question."""

        async def close() -> None:
            self.close()

        return self._acts.button(text, "", "(Escape)" if name == "cancel" else "", close, name)

    def open(self, parts: Sequence[Any]) -> None:
        """Show these instead of what is shown."""
        self.widget.remove_class("wk-empty")  # first: hidden widgets cannot get the focus
        self._replace(parts)
        self._acts.hush()

    def close(self) -> None:
        """Show nothing."""
        self._replace(())
        self.widget.add_class("wk-empty")

    def _replace(self, parts: Sequence[Any]) -> None:
        old, self.widget.children = self.widget.children, tuple(parts)
        for widget in old:
            for inner in all_of(widget):
                inner.close()
