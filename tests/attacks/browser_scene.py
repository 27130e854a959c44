"""Where attempts on the browser are made: a Lab, a person who does what the output asks for, and a judge on the host."""

from __future__ import annotations

import contextlib
import json
import threading
import time
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from playwright.sync_api import Error as PlaywrightError
from playwright.sync_api import Frame, Locator, Page

from tests.attacks.browser_payloads import PRELUDE, Payload
from tests.browser.lab import Lab, Notebook

UNSEALED = "unsealed"
_SETTLED = 2.0  # seconds in which nothing more was reached
_AT_ONCE = 1500.0  # milliseconds for what a person does


class Listener:
    """An address that is none of the Jupyter server's. Whoever calls it has got something out."""

    def __init__(self) -> None:
        self.paths: set[str] = set()
        heard = self.paths

        class Handler(BaseHTTPRequestHandler):
            def answer(self) -> None:
                path = self.path.partition("?")[0]
                if path.endswith("/opener"):  # a page, which tells whether it holds the one it was opened from
                    self.send_response(200)
                    self.send_header("Content-Type", "text/html")
                    self.end_headers()
                    self.wfile.write(b"<script>if (opener) new Image().src = location.pathname + '-held'</script>")
                    return
                heard.add(path.removesuffix("/opener-held"))
                self.send_response(204)  # a page that was sent here stays where it is
                self.send_header("Access-Control-Allow-Origin", "*")
                self.end_headers()

            do_GET = do_HEAD = do_POST = do_OPTIONS = answer  # noqa: N815 - the names that http.server asks for

            def log_message(self, format: str, *args: Any) -> None:
                """Nobody reads it."""

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._server.server_port}"
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()


def install_unsealed_kernel(data: Path) -> None:
    """A second kernel for this Lab, which lets outputs pass as they are."""
    folder = data / "kernels" / UNSEALED
    folder.mkdir(parents=True)
    command = ["python", "-m", "wasm_kernel", "-f", "{connection_file}", "--WasmKernel.seal_outputs=False"]
    spec = {"argv": command, "display_name": UNSEALED, "language": "python", "interrupt_mode": "message"}
    (folder / "kernel.json").write_text(json.dumps(spec))


class Scene:
    """One page, in which attempts are made one after the other."""

    def __init__(self, lab: Lab, page: Page, listener: Listener, shots: Path, kernel: str) -> None:
        self.lab, self.page, self.listener, self.shots, self.kernel = lab, page, listener, shots, kernel
        self._proven: set[str] = set()
        page.on("dialog", lambda dialog: dialog.accept())  # a person who wants to go on
        page.context.on("page", lambda opened: self._popups.append(opened))
        self._popups: list[Page] = []

    def reached(self) -> set[str]:
        """The names of attempts that got what they wanted."""
        files = {path.name.removeprefix("untitled.") for path in self.lab.notebooks.iterdir()}
        calls = {part for path in self.listener.paths for part in path.strip("/").split("/")[:2]}
        return files | calls | self._proven

    def attempt(self, payloads: list[Payload], *more: str) -> None:
        """Run every cell, then do what each asks a person to do."""
        notebook = self._notebook("together", [p.cell(self.listener.url) for p in payloads] + list(more))
        notebook.run_all()
        self._settle()
        for number, payload in enumerate(payloads, 1):
            if payload.act:
                self._act(notebook, number, payload.act)
        self._settle()
        for popup in self._popups:
            popup.close()

    def attempt_one_by_one(self, payloads: list[Payload]) -> None:
        """Run a cell, judge it, take its output away, and so on: what spoils the page for others."""
        notebook = self._notebook("alone", [p.cell(self.listener.url) for p in payloads])
        run_cell(notebook, 0)
        for number, payload in enumerate(payloads, 1):
            run_cell(notebook, number)
            output = notebook.output(number)
            if payload.act:
                self._act(notebook, number, payload.act)
            if payload.proof and self._proves(output, payload.proof):
                self._proven.add(payload.name)
            if payload.proof:
                output.evaluate("o => o.querySelectorAll('.jp-OutputArea-child').forEach(c => c.remove())")
        self._settle()

    def attempt_by_reload(self, payloads: list[Payload]) -> None:
        """Run cells, save, forget what was reached, and load the page anew."""
        notebook = self._notebook("reloaded", [p.cell(self.listener.url) for p in payloads])
        notebook.run_all()
        self._settle()
        notebook.save()
        for payload in payloads:
            (self.lab.notebooks / payload.name).unlink(missing_ok=True)
        notebook.reload()
        notebook.wait_for_kernel()
        self._settle()

    def _notebook(self, name: str, cells: list[str]) -> Notebook:
        first = PRELUDE + "\nelsewhere = display('another cell', display_id=True)"
        return Notebook.make(
            self.lab, self.page, self.shots, f"{self.kernel}-{name}.ipynb", (first, *cells), kernel=self.kernel
        )

    def _settle(self) -> None:
        """Wait until nothing more happens."""
        before: set[str] = set()
        since = time.monotonic()
        while time.monotonic() < since + _SETTLED:
            self.page.wait_for_timeout(100)
            if (now := self.reached()) != before:
                before, since = now, time.monotonic()

    def _proves(self, output: Locator, proof: str) -> bool:
        for _ in range(4):
            if output.evaluate(proof):
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


def perform(page: Page, place: Locator | Frame, verb: str, target: str) -> None:
    """Do what a person does with something in an output, if it is there."""
    target, _, onto = target.partition(" to ")
    found = place.locator(target).first
    if not found.count():
        return
    found.scroll_into_view_if_needed(timeout=_AT_ONCE)
    quickly: dict[str, Any] = {"timeout": _AT_ONCE, "force": True, "no_wait_after": True}
    deeds: dict[str, Callable[[], object]] = {
        "click": lambda: found.click(**quickly),
        "dblclick": lambda: found.dblclick(**quickly),
        "rightclick": lambda: found.click(button="right", **quickly),
        "middleclick": lambda: found.click(button="middle", **quickly),
        "hover": lambda: found.hover(**quickly),
        "wheel": lambda: (found.hover(**quickly), page.mouse.wheel(0, 30)),
        "key": lambda: (found.click(**quickly), page.keyboard.press("a"), page.keyboard.press("Tab")),
        "enter": lambda: (found.click(**quickly), page.keyboard.press("Enter")),
        "copy": lambda: (found.dblclick(**quickly), page.keyboard.press("Control+c")),
        "drag": lambda: found.drag_to(place.locator(onto or target).first, timeout=_AT_ONCE, force=True),
    }
    deeds[verb]()
    if verb == "rightclick":
        page.keyboard.press("Escape")
