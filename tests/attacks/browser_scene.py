"""Where attempts on the browser are made: a Lab, a person who does what the output asks for, and a judge on the host."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator
from pathlib import Path

from playwright.sync_api import Error as PlaywrightError
from playwright.sync_api import Frame, Locator, Page

from tests.attacks.browser_payloads import PRELUDE, Payload
from tests.attacks.listener import Listener
from tests.browser.lab import Lab, Notebook

_SETTLED = 2.0  # seconds in which nothing more was reached
_LONG = 300.0  # seconds for hundreds of cells, each with something to draw
_AT_ONCE = 1500.0  # milliseconds for what a person does


class Scene:
    """One page, in which attempts are made one after the other.

    Attributes:
        reached: The names of attempts that got what they wanted, at the end.
        traits: The traits of widgets that made the page call somebody: ``Class.trait``.
        seen: The texts of outputs that were looked at.
    """

    def __init__(self, lab: Lab, page: Page, listener: Listener, shots: Path, kernel: str) -> None:
        self.lab, self.page, self.listener, self.shots, self.kernel = lab, page, listener, shots, kernel
        self._proven: set[str] = set()
        page.on("dialog", lambda dialog: dialog.accept())  # a person who wants to go on
        page.context.on("page", lambda opened: self._popups.append(opened))
        self._popups: list[Page] = []
        self._notebooks = 0
        self.reached: set[str] = set()
        self.traits: set[str] = set()
        self.seen: list[str] = []

    def _reached(self) -> set[str]:
        files = {path.name.removeprefix("untitled.") for path in self.lab.notebooks.iterdir()}
        calls = {part for path in self.listener.paths for part in path.strip("/").split("/")[:2]}
        return files | calls | self._proven

    def look_at(self, cells: list[str]) -> None:
        """Run cells and read what they show, frames and all."""
        notebook = self._open(cells)
        notebook.run_all(within=_LONG)
        self._settle()
        for number in range(1, len(cells) + 1):
            texts = [
                p.locator("body").inner_text() if isinstance(p, Frame) else p.inner_text()
                for p in places(notebook.output(number))
            ]
            self.seen.append("\n".join(texts))
        notebook.close()

    def end(self) -> None:
        """Close the page, and count."""
        self.page.close()
        self.listener.close()
        self.reached = self._reached()
        self.traits = {path.rpartition("/")[2] for path in self.listener.paths if path.startswith("/every-trait/")}

    def attempt(self, payloads: list[Payload], *more: str) -> None:
        """Run every cell, then do what each asks a person to do."""
        notebook = self._open([p.cell(self.listener) for p in payloads] + list(more))
        notebook.run_all(within=_LONG)
        self._settle()
        for number, payload in enumerate(payloads, 1):
            if payload.act:
                self._act(notebook, number, payload.act)
        self._settle()
        for number, payload in enumerate(payloads, 1):
            if payload.proof and notebook.output(number).evaluate(payload.proof):
                self._proven.add(payload.name)
        for popup in self._popups:
            popup.close()
        notebook.close()

    def attempt_one_by_one(self, payloads: list[Payload]) -> None:
        """Run a cell, judge it, take its output away, and so on: what spoils the page for others."""
        notebook = self._open([p.cell(self.listener) for p in payloads])
        run_cell(notebook, 0)
        for number, payload in enumerate(payloads, 1):
            run_cell(notebook, number)
            output = notebook.output(number)
            if payload.act:
                self._act(notebook, number, payload.act)
            if self._proves(output, payload):
                self._proven.add(payload.name)
            output.evaluate("o => o.querySelectorAll('.jp-OutputArea-child').forEach(c => c.remove())")

    def attempt_by_reload(self, payloads: list[Payload]) -> None:
        """Run cells, save, forget what was reached, and load the page anew."""
        notebook = self._open([p.cell(self.listener) for p in payloads])
        notebook.run_all(within=_LONG)
        self._settle()
        notebook.save()
        for payload in payloads:
            (self.lab.notebooks / payload.name).unlink(missing_ok=True)
        notebook.reload()
        notebook.wait_for_kernel()
        self._settle()
        notebook.close()

    def _open(self, cells: list[str]) -> Notebook:
        self._notebooks += 1
        name = f"{self.kernel}{self._notebooks}.ipynb"
        notebook = Notebook.write(self.lab, self.page, self.shots, name, (PRELUDE, *cells), self.kernel)
        if self.page.url.startswith(f"{self.lab.url}lab"):
            notebook.open()
        else:
            notebook.open_alone()
        return notebook

    def _settle(self) -> None:
        """Wait until nothing more happens."""
        before: set[str] = set()
        since = time.monotonic()
        while time.monotonic() < since + _SETTLED:
            self.page.wait_for_timeout(100)
            self.page.evaluate("() => new Promise(done => requestIdleCallback(done, {timeout: 3000}))")
            if (now := self._reached()) != before:
                before, since = now, time.monotonic()

    def _proves(self, output: Locator, payload: Payload) -> bool:
        """Look a few times: widgets and pictures take a moment."""
        for _ in range(4):
            if (payload.proof and output.evaluate(payload.proof)) or payload.name in self._reached():
                return True
            self.page.wait_for_timeout(100)
        return False

    def _act(self, notebook: Notebook, number: int, act: str) -> None:
        verb, _, target = act.partition(" ")
        if verb in ("inspect", "complete"):
            notebook.type(target)
            self.page.keyboard.press("Shift+Tab" if verb == "inspect" else "Tab")
            self.page.wait_for_timeout(_AT_ONCE)
            self.page.keyboard.press("Escape")
            return
        for place in places(notebook.output(number)):
            with contextlib.suppress(PlaywrightError):
                perform(self.page, place, verb, target)


def run_cell(notebook: Notebook, number: int) -> None:
    """Run one cell, and wait until it has run."""
    notebook.page.evaluate(
        """([name, number]) => {
            const widget = [...jupyterapp.shell.widgets('main')].find(w => w.context?.path === name);
            widget.content.activeCellIndex = number;
        }""",
        [notebook.name, number],
    )
    notebook.command("notebook:run-cell", wait=True)


def places(output: Locator) -> Iterator[Locator | Frame]:
    """An output, and all frames in it, however deep."""
    yield output
    frames = [handle.content_frame() for handle in output.locator("iframe").element_handles()]
    while frames:
        frame = frames.pop()
        if frame is not None:
            yield frame
            frames += frame.child_frames


# What a person does, as events: a hundred real movements of a mouse would take minutes.
_DEEDS = """(element, [verb, onto]) => {
    const fire = (kind, at = element, type = MouseEvent, more = {}) =>
        at.dispatchEvent(new type(kind, {bubbles: true, cancelable: true, composed: true, view: window, ...more}));
    const data = {dataTransfer: new DataTransfer()};
    ({
        click: () => { element.focus?.(); ['pointerdown', 'mousedown', 'mouseup', 'click'].forEach(k => fire(k)) },
        dblclick: () => { element.select?.(); fire('dblclick') },
        rightclick: () => fire('contextmenu', element, MouseEvent, {bubbles: false}),  // without Lab's own menu
        middleclick: () => fire('auxclick', element, MouseEvent, {button: 1}),
        wheel: () => { fire('wheel', element, WheelEvent, {deltaY: 30}); element.scrollTop = 30 },
        key: () => {
            element.focus();
            fire('keydown', element, KeyboardEvent, {key: 'a'});
            fire('beforeinput', element, InputEvent, {data: 'a'});
            fire('input', element, InputEvent, {data: 'a'});
            element.blur();
        },
        copy: () => fire('copy', element, ClipboardEvent),
        drag: () => {
            fire('dragstart', element, DragEvent, data);
            ['dragenter', 'dragover', 'drop'].forEach(k => fire(k, onto ?? element, DragEvent, data));
        },
    })[verb]();
}"""


def perform(page: Page, place: Locator | Frame, verb: str, target: str) -> None:
    """Do what a person does with something in an output, if it is there."""
    target, _, onto = target.partition(" to ")
    if isinstance(place, Frame):  # one that never answers: what looks below has no time limit of its own
        place.locator("html").wait_for(state="attached", timeout=_AT_ONCE)
    found = place.locator(target).first
    if not found.count():
        return
    if verb != "hover":
        destination = place.locator(onto).first.element_handle() if onto else None
        found.evaluate(_DEEDS, [verb, destination], timeout=_AT_ONCE)
        return
    found.evaluate("e => e.scrollIntoView({block: 'center'})", timeout=_AT_ONCE)
    box = found.bounding_box(timeout=_AT_ONCE)
    if box is not None:
        page.mouse.move(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
