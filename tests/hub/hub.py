"""A real JupyterHub for the tests, as ``examples/jupyterhub_config.py`` sets it up: proxy, users' servers, services.

What must differ (ports, homes, how long things take) is in a small file that loads the example.
"""

from __future__ import annotations

import contextlib
import json
import os
import secrets
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from playwright.sync_api import Browser, BrowserContext, Page

from tests.browser.lab import PATIENCE, Lab, show_lab, write_settings
from tests.ports import free_port
from wasm_kernel.host.image.cache import cache_root

EXAMPLE = Path(__file__).parents[2] / "examples" / "jupyterhub_config.py"
HOST_USER = "sam"  # no other test starts a server of theirs
USERS = ("ann", "bob", "sam", "olga", "eve", "admin")  # sam is a student, olga an operator, eve nosy
_CONFIG = """
load_subconfig({example!r})
c.JupyterHub.bind_url = "http://127.0.0.1:{ports[0]}"
c.JupyterHub.hub_bind_url = "http://127.0.0.1:{ports[1]}"
c.ConfigurableHTTPProxy.api_url = "http://127.0.0.1:{ports[2]}"
c.JupyterHub.last_activity_interval = 2
c.Spawner.args += ["--LabApp.expose_app_in_browser=True"]
# These tests do not write the administrator's file.
c.Spawner.environment = {{"JUPYTERHUB_ACTIVITY_INTERVAL": "2", "WASM_KERNEL_CACHE": {cache!r}}}
c.JupyterHub.load_groups["operators"]["users"] = ["olga"]
c.JupyterHub.load_groups["students"]["users"] = ["sam"]
c.Authenticator.allowed_users |= {{"sam", "olga", "eve"}}
for service in c.JupyterHub.services:
    if service["name"] == "idle-culler":  # a test starts another, with the same rights, when it is time
        service["api_token"] = {culler_token!r}
    if service["name"] == "wasm-kernel-hub":
        service["url"] = "http://127.0.0.1:{ports[3]}"
        service["environment"] |= {settings!r}
# Kernel hosts would outlive the hub. One user has one, which a test ends.
c.Spawner.environment["WASM_KERNEL_HOST"] = lambda spawner: "" if spawner.user.name == {host_user!r} else "0"
c.Spawner.environment["XDG_RUNTIME_DIR"] = lambda spawner: f"{homes}/{{spawner.user.name}}/run"
c.JupyterHub.services.append({{"name": "tests", "api_token": {token!r}}})
c.JupyterHub.load_roles.append({{
    "name": "tests",
    "services": ["tests"],
    "scopes": ["admin:users", "admin:servers", "tokens", "admin:groups", "access:servers"],
}})
c.JupyterHub.load_roles.append({{  # as where every user may use every service
    "name": "nosy",
    "users": ["eve"],
    "scopes": ["access:services"],
}})
"""


@dataclass(frozen=True)
class Hub:
    """A hub that runs.

    Attributes:
        url: Where people find it.
        folder: Where it runs; the users' homes are in ``homes``.
        log_file: What it and all it started say.
        token: Of a service that may do what the tests need done.
        culler_token: The idle culler's.
        passwords: User to password.
    """

    url: str
    folder: Path
    log_file: Path
    token: str
    culler_token: str
    passwords: dict[str, str] = field(repr=False)

    @property
    def page(self) -> str:
        """The operators' page."""
        return f"{self.url}services/wasm-kernel-hub/"

    def home(self, user: str) -> Path:
        return self.folder / "homes" / user

    def sessions(self, user: str) -> Path:
        """The workspace root of a user's kernels."""
        return self.home(user) / ".local" / "share" / "wasm-kernel" / "workspace"

    @property
    def archives(self) -> Path:
        return self.folder / "archives"

    @property
    def log(self) -> str:
        return self.log_file.read_text(errors="replace")

    # ---- the hub's API

    def api(self, what: str, method: str = "GET", data: Any = None, token: str = "") -> Any:
        """What the hub's API answers."""
        body = None if data is None else json.dumps(data).encode()
        headers = {"Authorization": f"token {token or self.token}"}
        request = urllib.request.Request(f"{self.url}hub/api/{what}", body, headers, method=method)
        with _direct().open(request, timeout=PATIENCE) as answer:
            return json.loads(answer.read() or b"null")

    def is_running(self, user: str) -> bool:
        """Whether the user's server is up, or on its way."""
        return bool(self.api(f"users/{user}")["servers"])

    def start(self, user: str) -> Lab:
        """Start a user's server, if need be, and wait until it is up."""
        with contextlib.suppress(urllib.error.HTTPError):  # it runs already
            self.api(f"users/{user}/server", "POST")
        self.wait_until(lambda: self.api(f"users/{user}")["servers"].get("", {}).get("ready"), f"{user}'s server is up")
        token = self.api(f"users/{user}/tokens", "POST", {"note": "tests"})["token"]
        return Lab(f"{self.url}user/{user}/", token, self.home(user), self.sessions(user))

    def stop(self, user: str) -> None:
        """Stop a user's server, as the culler would."""
        with contextlib.suppress(urllib.error.HTTPError):
            self.api(f"users/{user}/server", "DELETE")
        self.wait_until_stopped(user)

    def wait_until_stopped(self, user: str) -> None:
        self.wait_until(lambda: not self.is_running(user), f"{user}'s server is down")

    def wait_until(self, happened: Any, what: str) -> None:
        """Ask until it is so."""
        end = time.monotonic() + PATIENCE
        while not happened():
            if time.monotonic() > end:
                raise TimeoutError(f"not so after {PATIENCE} s: {what}\n{self.log[-3000:]}")
            time.sleep(0.2)

    # ---- people

    def log_in(self, browser: Browser, user: str, **options: Any) -> BrowserContext:
        """A browser in which a user has logged in."""
        context = browser.new_context(viewport={"width": 1280, "height": 900}, **options)
        context.set_default_timeout(PATIENCE * 1000)
        page = context.new_page()
        page.goto(f"{self.url}hub/login?next=%2Fhub%2Ftoken")
        page.fill("#username_input", user)
        page.fill("#password_input", self.passwords[user])
        page.click("#login_submit")
        page.wait_for_url("**/hub/token")
        page.close()
        return context

    def open_lab(self, context: BrowserContext, user: str) -> tuple[Lab, Page]:
        """JupyterLab of a user's server, with the cookies of a browser in which somebody logged in."""
        lab = self.start(user)
        page = context.new_page()
        show_lab(page, f"{lab.url}lab?reset")
        return lab, page


@contextlib.contextmanager
def running_hub(folder: Path, proxy: Path, log_file: Path, **settings: str) -> Iterator[Hub]:
    """Start a hub; ``proxy`` is the folder of its proxy's command, ``settings`` those of our service that differ.

    All it writes is below ``folder``.
    """
    ports = [free_port() for _ in range(4)]
    token, culler_token = secrets.token_hex(16), secrets.token_hex(16)
    passwords = dict.fromkeys(USERS, "password of users") | {"admin": "password of administrators, which is longer"}
    hub = Hub(f"http://127.0.0.1:{ports[0]}/", folder, log_file, token, culler_token, passwords)
    config = folder / "tests_config.py"
    ours = {f"WASM_KERNEL_HUB_{name.upper()}": value for name, value in settings.items()}
    values = {"example": str(EXAMPLE), "ports": ports, "token": token, "culler_token": culler_token, "settings": ours}
    values |= {"host_user": HOST_USER, "homes": folder / "homes", "cache": str(cache_root())}
    config.write_text(_CONFIG.format(**values))
    for user in USERS:
        write_settings(hub.home(user) / ".jupyter" / "lab" / "user-settings")
    # A setting of ours would be every user's.
    env = {k: v for k, v in os.environ.items() if not k.startswith(("JPY_", "JUPYTER", "IPYTHON", "WASM_KERNEL"))}
    env |= {
        "PATH": os.pathsep.join([str(Path(sys.executable).parent), str(proxy), os.environ["PATH"]]),
        "HUB_PASSWORD": passwords["ann"],
        "HUB_ADMIN_PASSWORD": passwords["admin"],
        "HUB_HOMES": str(folder / "homes"),
    }
    with log_file.open("wb") as out:
        process = subprocess.Popen(
            [sys.executable, "-m", "jupyterhub", "-f", str(config)],
            env=env,
            cwd=folder,
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    try:
        _wait_for(process, hub)
        yield hub
    finally:
        process.terminate()  # it ends all it started
        try:
            process.wait(PATIENCE)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _wait_for(process: subprocess.Popen[bytes], hub: Hub) -> None:
    end = time.monotonic() + 2 * PATIENCE
    while time.monotonic() < end:
        if process.poll() is not None:
            raise RuntimeError(f"JupyterHub ended with {process.returncode}:\n{hub.log[-5000:]}")
        with contextlib.suppress(OSError):  # 404 until they are up
            _direct().open(f"{hub.url}hub/health", timeout=30).close()
            _direct().open(f"{hub.page}static/hub.css", timeout=30).close()
            return
        time.sleep(0.1)
    raise TimeoutError(f"JupyterHub does not answer:\n{hub.log[-5000:]}")


def _direct() -> urllib.request.OpenerDirector:
    return urllib.request.build_opener(urllib.request.ProxyHandler({}))
