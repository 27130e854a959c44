"""A JupyterLab of the tests' own, and a notebook in it as a person sees it: typed, clicked and read in a browser.

What Lab offers as a button or a key is pressed; what is only a way to get there (opening a file, reading the kernel's
state) goes through Lab's own application object, which `LabApp.expose_app_in_browser` puts on the page.
"""

from __future__ import annotations

import contextlib
import json
import os
import secrets
import shutil
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any

import nbformat
from playwright.sync_api import BrowserContext, Locator, Page, expect, sync_playwright

TREE = Path(__file__).parents[2]
PATIENCE = 60.0  # seconds; the machine may be busy with something else
UNSEALED = "unsealed"  # the name of a kernel
LIGHT, DARK, HIGH_CONTRAST = "JupyterLab Light", "JupyterLab Dark", "JupyterLab Dark High Contrast"
_FLAGS = (
    "--no-sandbox",  # Chromium's own does not work as root; only our own pages are shown
    "--no-proxy-server",
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--no-first-run",
)
_SETTINGS: dict[str, dict[str, Any]] = {
    # Every cell is in the page, also those one would have to scroll to.
    "notebook-extension/tracker": {"windowingMode": "none", "scrollPastEnd": False},
    "apputils-extension/notification": {"fetchNews": "false", "checkForUpdates": False, "doNotDisturbMode": True},
    "docmanager-extension/plugin": {"autosave": False, "renameUntitledFileOnSave": False},
}


@dataclass(frozen=True)
class Lab:
    """A server that runs: where it listens, its notebooks, and the folder of the kernels' sessions."""

    url: str
    token: str
    notebooks: Path
    sessions: Path

    def api(self, what: str) -> Any:
        """What the server answers to a GET."""
        headers = {"Authorization": f"token {self.token}"}
        direct = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        with direct.open(urllib.request.Request(f"{self.url}api/{what}", headers=headers), timeout=30) as answer:
            return json.load(answer)


@contextlib.contextmanager
def running_lab(
    folder: Path,
    log: Path,
    app: str = "jupyterlab",
    environment: Mapping[str, str] = MappingProxyType({}),
    *,
    disturb: bool = False,
    **extra: Any,
) -> Iterator[Lab]:
    """Start JupyterLab with nothing of the user's own: settings, data and sessions live below ``folder``.

    ``app``: the module to start, ``notebook`` for Jupyter Notebook. A folder can be used again, by one after the other.
    ``disturb``: whether it shows notifications.
    """
    notebooks, sessions, settings = (folder / name for name in ("notebooks", "sessions", "settings"))
    for path in (notebooks, sessions):
        path.mkdir(parents=True, exist_ok=True)
    write_settings(settings, disturb=disturb)
    # As an installation enables it; in a clone that was installed before it existed, nothing does.
    shutil.copytree(TREE / "jupyter-config", folder / "config" / "jupyter_server_config.d", dirs_exist_ok=True)
    # The extension of this tree, whichever the installation has.
    extensions = folder / "extensions"
    extensions.mkdir(exist_ok=True)
    ours = extensions / "wasm-kernel"
    ours.unlink(missing_ok=True)
    ours.symlink_to(TREE / "wasm_kernel" / "labextension")
    env = {name: value for name, value in os.environ.items() if not name.startswith(("JPY_", "JUPYTER"))}
    env |= {
        "JUPYTER_CONFIG_DIR": str(folder / "config"),
        "JUPYTER_DATA_DIR": str(folder / "data"),
        "JUPYTER_RUNTIME_DIR": str(folder / "runtime"),
        "JUPYTERLAB_SETTINGS_DIR": str(settings),
        "JUPYTERLAB_WORKSPACES_DIR": str(folder / "workspaces"),
        "IPYTHONDIR": str(folder / "ipython"),
        "WASM_KERNEL_WORKSPACE": str(sessions),
        **environment,
    }
    token = secrets.token_hex(16)
    options = {
        "ServerApp.root_dir": notebooks,
        "ServerApp.ip": "127.0.0.1",
        "ServerApp.port_retries": 500,  # a port that is taken leads to another; the server writes down which
        "ServerApp.log_level": "INFO",
        "IdentityProvider.token": token,
        "LabServerApp.extra_labextensions_path": extensions,
        f"{'JupyterNotebookApp' if app == 'notebook' else 'LabApp'}.expose_app_in_browser": True,
        **{f"ServerApp.{name}": value for name, value in extra.items()},
    }
    command = [sys.executable, "-m", app, "--no-browser", "--allow-root"]
    with log.open("wb") as out:
        server = subprocess.Popen(
            [*command, *(f"--{name}={value}" for name, value in options.items())],
            env=env,
            cwd=folder,
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    try:
        info = folder / "runtime" / f"jpserver-{server.pid}.json"
        yield Lab(_address(server, info, log), token, notebooks, sessions)
    finally:
        server.terminate()
        try:
            server.wait(30)
        except subprocess.TimeoutExpired:
            server.kill()
            server.wait()


def install_unsealed_kernel(data: Path) -> None:
    """A second kernel for this Lab, which lets outputs pass as they are."""
    folder = data / "kernels" / UNSEALED
    folder.mkdir(parents=True)
    command = ["python", "-m", "wasm_kernel", "-f", "{connection_file}", "--WasmKernel.seal_outputs=False"]
    spec = {"argv": command, "display_name": UNSEALED, "language": "python", "interrupt_mode": "message"}
    (folder / "kernel.json").write_text(json.dumps(spec))


def write_settings(folder: Path, *, disturb: bool = False) -> None:
    """What Lab is set to for tests, as the user's own settings."""
    for name, values in _SETTINGS.items():
        if "doNotDisturbMode" in values:
            values = {**values, "doNotDisturbMode": not disturb}
        file = folder / "@jupyterlab" / f"{name}.jupyterlab-settings"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(json.dumps(values))


def _address(server: subprocess.Popen[bytes], info: Path, log: Path) -> str:
    end = time.monotonic() + 2 * PATIENCE
    while time.monotonic() < end:
        if server.poll() is not None:
            raise RuntimeError(f"JupyterLab ended with {server.returncode}:\n{log.read_text()[-3000:]}")
        with contextlib.suppress(OSError, ValueError):
            return str(json.loads(info.read_text())["url"])
        time.sleep(0.1)
    raise TimeoutError(f"JupyterLab does not listen:\n{log.read_text()[-3000:]}")


@contextlib.contextmanager
def running_browser(executable: str) -> Iterator[BrowserContext]:
    """A Chromium without a window and without a past."""
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=executable, headless=True, args=list(_FLAGS))
        context = browser.new_context(viewport={"width": 1280, "height": 900})
        context.set_default_timeout(PATIENCE * 1000)
        expect.set_options(timeout=PATIENCE * 1000)
        try:
            yield context
        finally:
            context.close()
            browser.close()


def open_lab(context: BrowserContext, lab: Lab) -> Page:
    """A page with an empty Lab."""
    page = context.new_page()
    show_lab(page, f"{lab.url}lab?reset&token={lab.token}")
    return page


def show_lab(page: Page, url: str) -> None:
    """Go to an empty Lab."""
    page.goto(url, wait_until="domcontentloaded")
    _wait_for_lab(page)
    page.evaluate("() => jupyterapp.commands.execute('application:toggle-left-area').then(() => null)")


def _wait_for_lab(page: Page) -> None:
    page.wait_for_function("() => window.jupyterapp?.shell")
    page.evaluate("() => window.jupyterapp.restored.then(() => null)")


def tidy(page: Page) -> None:
    """Close what a test, perhaps one that failed, left open over and beside its notebook."""
    for _ in range(5):  # a menu may lie over a dialog, and a dialog over another
        page.keyboard.press("Escape")
        if not page.locator(".jp-Dialog, .lm-Menu").count():
            break
    listed = page.get_by_role("button", name="Hide notifications")
    if listed.count():
        listed.click()
    page.evaluate(
        """() => {
            const { shell } = jupyterapp;
            for (const widget of [...shell.widgets('main')]) {
                if (widget.context?.path.startsWith('sandbox:')) widget.dispose();
            }
            shell.collapseLeft();
            shell.collapseRight();
        }"""
    )


class Notebook:
    """One notebook, open in Lab with its kernel."""

    def __init__(self, lab: Lab, page: Page, shots: Path, name: str) -> None:
        self.lab, self.page, self.shots, self.name = lab, page, shots, name

    @classmethod
    def make(
        cls, lab: Lab, page: Page, shots: Path, name: str, cells: tuple[str, ...], kernel: str = "wasm"
    ) -> Notebook:
        """Write a notebook and open it. An empty cell at its end is there to type into."""
        notebook = cls.write(lab, page, shots, name, cells, kernel)
        notebook.open()
        return notebook

    @classmethod
    def write(
        cls, lab: Lab, page: Page, shots: Path, name: str, cells: tuple[str, ...], kernel: str = "wasm"
    ) -> Notebook:
        """A notebook that is not open yet."""
        content = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(code) for code in (*cells, "")])
        content.metadata["kernelspec"] = {"name": kernel, "display_name": kernel, "language": "python"}
        nbformat.write(content, lab.notebooks / name)
        return cls(lab, page, shots, name)

    def open(self) -> None:
        """Open the notebook's file, and wait for its kernel."""
        self.command("docmanager:open", wait=True, path=self.name, factory="Notebook")
        self.wait_for_kernel()

    def open_alone(self) -> None:
        """Open it in Jupyter Notebook, which has a page for each."""
        self.page.goto(f"{self.lab.url}notebooks/{self.name}?token={self.lab.token}")
        self.page.wait_for_function("() => window.jupyterapp?.shell")
        self.wait_for_kernel()

    # ---- through Lab's application object

    def command(self, name: str, *, wait: bool = False, **arguments: Any) -> None:
        """Let Lab do what a menu entry does, and wait for its end only if asked to."""
        script = "([name, args]) => jupyterapp.commands.execute(name, args).then(() => null)"
        self.page.evaluate(script if wait else f"args => {{ ({script})(args) }}", [name, arguments])

    def _kernel(self, expression: str, *, within: float = PATIENCE) -> None:
        """Wait until something is true of this notebook's kernel, `kernel`, or its `context`."""
        script = f"""name => {{
            const widget = [...jupyterapp.shell.widgets('main')].find(w => w.context?.path === name);
            const context = widget?.sessionContext, kernel = context?.session?.kernel;
            return kernel && ({expression});
        }}"""
        self.page.wait_for_function(script, arg=self.name, timeout=within * 1000)

    def wait_for_kernel(self) -> None:
        """Wait until the kernel is connected and idle. Lab's own indicator says idle before there is one."""
        self._kernel(
            "kernel.connectionStatus === 'connected' && kernel.status === 'idle' && kernel.hasPendingInput === false"
        )
        expect(self.panel.locator(".jp-Cell").first).to_be_visible()

    @property
    def kernel_id(self) -> str:
        return next(s["kernel"]["id"] for s in self.lab.api("sessions") if s["path"] == self.name)

    @property
    def folder(self) -> Path:
        """The session's folder on the host."""
        path = str(self.lab.notebooks / self.name)
        for record in self.lab.sessions.glob("*/.metadata.json"):
            if json.loads(record.read_text()).get("notebook") == path:
                return record.parent
        raise LookupError(f"no session belongs to {self.name}")

    # ---- cells

    @property
    def panel(self) -> Locator:
        return self.page.locator(".jp-NotebookPanel:not(.lm-mod-hidden)")

    def cell(self, number: int) -> Locator:
        """A cell; -1 is the one to type into."""
        return self.panel.locator(".jp-CodeCell").nth(number)

    def output(self, number: int) -> Locator:
        """All that is below a cell."""
        return self.cell(number).locator(".jp-Cell-outputWrapper")

    def text(self, number: int) -> str:
        return self.output(number).inner_text()

    def run_all(self, *, within: float = PATIENCE) -> None:
        """Run every cell, and wait until all have run."""
        self.command("notebook:run-all-cells")
        self.wait_until_done(within=within)

    def type(self, code: str, number: int = -1) -> None:
        """Put code into a cell; the cursor is at its end."""
        editor = self.cell(number).locator(".cm-content")
        editor.click()
        editor.fill(code)
        self.page.keyboard.press("Control+End")

    def start(self, code: str) -> int:
        """Type code into the last cell and press Shift+Enter. The cell's number."""
        number = self.panel.locator(".jp-CodeCell").count() - 1
        self.type(code)
        self.page.keyboard.press("Shift+Enter")
        expect(self.panel.locator(".jp-CodeCell")).to_have_count(number + 2)  # a new one to type into
        return number

    def run(self, code: str) -> int:
        """Type and run code, and wait until it has run. The cell's number."""
        number = self.start(code)
        self.wait_until_done(number)
        return number

    def wait_until_done(self, number: int | None = None, *, within: float = PATIENCE) -> None:
        """Wait until a cell has its number, or all but the last have theirs, and the kernel is idle."""
        self.page.wait_for_function(
            r"""n => {
                const panel = document.querySelector('.jp-NotebookPanel:not(.lm-mod-hidden)');
                const prompts = [...panel.querySelectorAll('.jp-CodeCell .jp-InputPrompt')].map(p => p.textContent);
                const wanted = n === null ? prompts.slice(0, -1) : [prompts[n]];
                return wanted.every(p => /\[\d+\]/.test(p)) && !prompts.some(p => p.includes('*'));
            }""",
            arg=number,
            timeout=1000 * within,
        )
        self._kernel("kernel.status === 'idle'")

    def box(self, number: int) -> Locator:
        """Where the person types what a running cell asks for."""
        return self.output(number).locator("input.jp-Stdin-input").last

    def answer(self, number: int, text: str) -> None:
        """Type what a running cell asks for, and wait until it has run."""
        self.box(number).fill(text)
        self.box(number).press("Enter")
        self.wait_until_done(number)

    # ---- what is on the toolbar and in the menus

    def press(self, button: str) -> None:
        """Press a button of the notebook's toolbar: save, interrupt, restart …"""
        self.panel.locator(
            f'.jp-NotebookPanel-toolbar [data-jp-item-name="{button}"] .jp-ToolbarButtonComponent'
        ).click()

    def confirm(self) -> None:
        """Press the button that a dialog suggests."""
        self.page.locator(".jp-Dialog .jp-mod-accept").click()
        expect(self.page.locator(".jp-Dialog")).to_have_count(0)

    def interrupt(self) -> None:
        self.press("interrupt")

    def restart(self) -> None:
        """Restart the kernel as a person does, and wait for the new one."""
        self.page.evaluate(
            """name => {
                const widget = [...jupyterapp.shell.widgets('main')].find(w => w.context?.path === name);
                window.restarted = false;
                const kernel = widget.sessionContext.session.kernel;
                const seen = (_, status) => {
                    if (status === 'restarting' || status === 'autorestarting') {
                        window.restarted = true; kernel.statusChanged.disconnect(seen);
                    }
                };
                kernel.statusChanged.connect(seen);
            }""",
            self.name,
        )
        self.press("restart")
        self.confirm()
        self.page.wait_for_function("() => window.restarted")
        self.wait_for_kernel()

    def rename(self, name: str) -> None:
        """File → Rename Notebook."""
        self.command("docmanager:rename")
        dialog = self.page.locator(".jp-Dialog")
        dialog.locator("input").first.fill(name)
        self.confirm()
        self.name = name
        self._kernel("true")

    def save(self) -> None:
        self.press("save")
        self._wait_for_widget("!widget.context.model.dirty")

    def _wait_for_widget(self, expression: str) -> None:
        self.page.wait_for_function(
            f"name => [...jupyterapp.shell.widgets('main')].some(w => w.context?.path === name && (widget => {expression})(w))",
            arg=self.name,
        )

    def reload(self) -> None:
        """Reload the page: Lab opens what was open.

        It would also open what the page's address names, some time later, perhaps when a test has closed it again. So the
        address loses that, as soon as Lab has written down what is open. (Jupyter Notebook goes by the address alone.)
        """
        if "/lab/tree/" in self.page.url:
            end = time.monotonic() + PATIENCE
            while f"notebook:{self.name}" not in self._layout():
                assert time.monotonic() < end, "Lab does not write down what is open"
                time.sleep(0.1)
            self.page.evaluate("() => history.replaceState(null, '', location.pathname.split('/tree/')[0])")
        self.page.reload(wait_until="domcontentloaded")
        _wait_for_lab(self.page)
        self.panel.wait_for()

    def _layout(self) -> str:
        """What Lab would open after a reload, as the server knows it."""
        script = "() => jupyterapp.serviceManager.workspaces.fetch('default').then(w => w.data['layout-restorer:data'])"
        return json.dumps(self.page.evaluate(script))

    def theme(self, name: str) -> None:
        """Settings → Theme."""
        self.command("apputils:change-theme", theme=name)
        self.page.wait_for_function("name => document.body.dataset.jpThemeName === name", arg=name)

    def screenshot(self, name: str) -> Path:
        """The whole notebook as a picture."""
        size = self.page.viewport_size
        assert size is not None
        height = self.panel.evaluate(
            "p => { const n = p.querySelector('.jp-WindowedPanel-outer');"
            " return Math.ceil(n.scrollHeight + innerHeight - n.clientHeight) }"
        )
        self.page.set_viewport_size({"width": size["width"], "height": min(max(height, 300), 8000)})
        file = self.shots / f"{name}.png"
        self.page.screenshot(path=file)
        self.page.set_viewport_size(size)
        return file

    def close(self) -> None:
        """Shut the kernel down and close the tab, without a question."""
        self.page.evaluate(
            """async name => {
                for (const widget of [...jupyterapp.shell.widgets('main')].filter(w => w.context?.path === name)) {
                    await widget.sessionContext.shutdown();
                    widget.dispose();
                }
            }""",
            self.name,
        )
