"""Start a kernel: `python -m wasm_kernel -f CONNECTION_FILE`. Nothing waits for what it does not need.

First the sockets, because a client whose first attempt to connect fails retries only after 100 ms. Then the sandbox, on
a thread of its own. Then the modules that answer messages, while the sandbox starts.
"""

from __future__ import annotations

import json
import logging
import os
import sys
import threading
from collections.abc import Callable
from concurrent.futures import Future
from pathlib import Path
from typing import TYPE_CHECKING, Any

from jupyter_core.application import JupyterApp
from jupyter_core.paths import ENV_CONFIG_PATH, SYSTEM_CONFIG_PATH, jupyter_runtime_dir, secure_write
from traitlets import TraitError, Unicode
from traitlets.config import Config

from wasm_kernel.apps import ipykernel_options
from wasm_kernel.errors import NotAllowed
from wasm_kernel.host import administrator
from wasm_kernel.host.workspace_root import default_root
from wasm_kernel.kernel import heap
from wasm_kernel.kernel.channels import PORTS, BadConnectionFile, Channels, read_connection_file
from wasm_kernel.kernel.lazy_packages import defer
from wasm_kernel.kernel.starter import Starter
from wasm_kernel.model.policy import ExecutionPolicy
from wasm_kernel.model.settings import session_limits

if TYPE_CHECKING:
    from wasm_kernel.kernel.notebook_session import NotebookSession
    from wasm_kernel.sessions.opening import OpenedSession

_SETTLED = 1.0  # seconds after its start a kernel has answered, most likely


class WasmKernelApp(JupyterApp):
    """The kernel as an application, configured by jupyter_wasm_kernel_config.py and the command line."""

    name = "jupyter-wasm-kernel"
    description = "A Jupyter kernel whose cells run in Python in a WebAssembly sandbox."
    aliases = {**ipykernel_options.ALIASES, **JupyterApp.aliases, "f": "WasmKernelApp.connection_file"}
    flags = {**ipykernel_options.FLAGS, **JupyterApp.flags}
    connection_file = Unicode("", help="The file that says which ports and which key to use.").tag(config=True)

    @property
    def config_file_paths(self) -> list[str]:
        """Where settings are read: never beside a notebook, nor in the user's folder if that is forbidden."""
        found = [path for path in super().config_file_paths if Path(path) != Path.cwd()]
        if _users_configuration_counts():
            return found
        return [path for path in found if path in (*ENV_CONFIG_PATH, *SYSTEM_CONFIG_PATH)]

    def migrate_config(self) -> None:
        """Do nothing: there is no older configuration to migrate."""

    def _log_default(self) -> logging.Logger:
        log = logging.getLogger("wasm_kernel")
        if not log.handlers:
            handler = logging.StreamHandler(sys.stderr)
            handler.setFormatter(logging.Formatter("[wasm-kernel %(levelname)s %(asctime)s] %(message)s"))
            log.addHandler(handler)
            log.propagate = False
        return log


def _users_configuration_counts() -> bool:
    try:
        return administrator.rules().user_configuration
    except NotAllowed:  # nothing will run
        return False


def main(
    arguments: list[str] | None = None, starter: Starter | None = None, aside: Callable[[], None] | None = None
) -> int:
    """Run a kernel until it is shut down.

    ``starter``: whoever started it, if that is not its parent. ``aside``: what to do once the kernel has settled.
    """
    arguments = sys.argv[1:] if arguments is None else arguments
    starter = starter or Starter()
    heap.keep_little()
    defer("ipykernel", "jupyter_client", "IPython")
    try:
        connection_file, channels, connection = _connect(arguments, starter)
        if channels is not None:
            starter.bound(channels.ports)
        app = WasmKernelApp()
        if len(arguments) == 2 and channels is not None:  # -f FILE, as Jupyter starts it: nothing to parse
            app.load_config_file()
        else:
            from wasm_kernel.kernel.kernel import WasmKernel

            app.classes.append(WasmKernel)
            app.initialize(arguments)
            if ignored := ipykernel_options.without_effect(app.config):
                app.log.warning("%s: no effect; these options are ipykernel's", " ".join(ignored))
        if app.generate_config:
            app.write_default_config()
            return 0
        if channels is None:  # no -f: clients find the kernel by its connection file
            connection_file, channels, connection = _connect_anew(app.connection_file)
            starter.bound(channels.ports)
        if aside is not None:
            later = threading.Timer(_SETTLED, aside)
            later.daemon = True
            later.start()
        return _run(app.config, connection_file, channels, connection, starter)
    except BadConnectionFile as e:
        print(f"wasm-kernel: {e}", file=sys.stderr)
        return 2


def _connect(arguments: list[str], starter: Starter) -> tuple[Path, Channels | None, dict[str, Any]]:
    """The sockets that ``-f FILE`` names, before anything else is imported."""
    for option in ("-f", "--f"):
        if option in arguments[:-1]:
            path = Path(arguments[arguments.index(option) + 1])
            if path.exists():
                connection = read_connection_file(path)
                return path, Channels(connection, others=starter.learns_ports), connection
    return Path(), None, {}


def _connect_anew(wanted: str) -> tuple[Path, Channels, dict[str, Any]]:
    """Choose ports, and write a connection file for clients to find."""
    path = Path(wanted) if wanted else Path(jupyter_runtime_dir()) / f"kernel-{os.getpid()}.json"
    if not path.is_absolute() and path.parent == Path():
        path = Path(jupyter_runtime_dir()) / path
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    connection: dict[str, Any] = {"ip": "127.0.0.1", "transport": "tcp", "signature_scheme": "hmac-sha256"}
    channels = Channels({**connection, **dict.fromkeys(PORTS, 0)})
    connection.update(channels.ports, key=os.urandom(16).hex(), kernel_name="wasm")
    with secure_write(str(path)) as file:
        json.dump(connection, file, indent=2)
    print(f"To connect: jupyter console --existing {path.name}", file=sys.stderr)
    return path, channels, connection


def _run(
    config: Config, connection_file: Path, channels: Channels, connection: dict[str, Any], starter: Starter
) -> int:
    opening: Future[OpenedSession] = Future()
    home = home_for(config, connection_file)

    def open_session() -> None:
        try:
            opening.set_result(home.open())
        except BaseException as e:  # noqa: BLE001 - the first cell shows it
            opening.set_exception(e)

    threading.Thread(target=open_session, name="wasm-kernel-opening", daemon=True).start()
    from wasm_kernel.kernel.counting_session import CountingSession
    from wasm_kernel.kernel.kernel import WasmKernel

    session = CountingSession(
        key=str(connection.get("key", "")).encode(),
        signature_scheme=connection.get("signature_scheme") or "hmac-sha256",
        username="kernel",
    )
    try:
        kernel = WasmKernel(channels, home, opening, session=session, starter=starter, config=config)
    except TraitError as e:  # a wrong value: a kernel that did not start could not report it
        home.announcements.warn(f"the configuration is not used: {e}")
        kernel = WasmKernel(channels, home, opening, session=session, starter=starter)
    kernel.serve()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(0)  # every file is closed and all our threads have ended; others must not keep the process alive


def home_for(config: Config, connection_file: Path) -> NotebookSession:
    """The kernel's session and its limits, by its configuration and the administrator's rules."""
    from wasm_kernel.kernel.notebook_session import NotebookSession
    from wasm_kernel.sessions.log import SandboxLogger

    ours = config.get("WasmKernel", {})
    root = default_root(ours.get("workspace_root"))
    home = NotebookSession(root, ExecutionPolicy(), SandboxLogger(level="warning"), connection_file)
    try:
        home.rules = administrator.rules()
        home.root = administrator.workspace_root() or root
    except NotAllowed as e:
        home.refused = str(e)
        return home
    if home.root != root and ours.get("workspace_root"):
        home.announcements.warn(
            f"WasmKernel.workspace_root is not used: the administrator keeps sessions in {home.root}"
        )
    if address := ours.get("remote") or os.environ.get("WASM_KERNEL_REMOTE", ""):
        every, at_close = ours.get("remote_interval_seconds", 60.0), ours.get("remote_close_seconds", 2.0)
        home.remote_settings = str(address), float(every), float(at_close)
    found = session_limits(home.rules.maxima, ours)
    home.policy, home.maxima, home.refused = found.policy, dict(found.maxima), found.problem
    for note in found.notes:
        home.announcements.warn(note)
    return home
