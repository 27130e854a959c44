"""The extension as Jupyter Server loads it: its settings, its routes, and the threads that touch the disk."""

from __future__ import annotations

import asyncio
import functools
import importlib
import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar

from jupyter_server.extension.application import ExtensionApp
from traitlets import Int, Unicode, default

from wasm_kernel.errors import ConfigurationError
from wasm_kernel.host import administrator
from wasm_kernel.model import limits
from wasm_kernel.model.policy import ExecutionPolicy
from wasm_kernel.server import api, openapi
from wasm_kernel.server.api_values import operations
from wasm_kernel.server.handlers import ArchiveHandler, FileHandler, ListHandler
from wasm_kernel.server.room import Reservations
from wasm_kernel.server.upload import UploadHandler
from wasm_kernel.sessions.zipping import Bounds

if TYPE_CHECKING:
    from wasm_kernel.server.api_sandboxes import Sandboxes

_P = ParamSpec("_P")
_T = TypeVar("_T")
_THREADS = 4
_SESSION = r"/wasm-kernel/sessions/([^/]+)"
_API_MAXIMA = {"output": 8 << 20, "display": 8 << 20}  # of what a task says the server keeps no more in memory


class WasmKernelExtension(ExtensionApp):
    """Sessions over HTTP: their files, and the API. Reads jupyter_wasm_kernel_config.py, as the kernel does."""

    name = "wasm_kernel"
    description = "Sessions over HTTP: their files (listing, download, upload), and an API to run code and to prune."

    workspace_root = Unicode(
        help="Where sessions' folders are. Default: as the kernel's, which is WasmKernel.workspace_root, else "
        "WASM_KERNEL_WORKSPACE, else a folder of the user's own."
    ).tag(config=True)
    archive_max_bytes = Int(16 << 30, min=0, help="How many bytes of files one zip may hold.").tag(config=True)
    archive_max_files = Int(100_000, min=1, help="How many files and folders one zip may hold.").tag(config=True)

    max_live_sandboxes = Int(
        16, min=1, help="How many sandboxes of the API this server has in memory at most; idle ones make room."
    ).tag(config=True)
    idle_timeout_seconds = Int(
        900, min=0, max=openapi.MAX_IDLE, help="After so long an idle sandbox of the API is released. 0: never."
    ).tag(config=True)
    archive_folder = Unicode(
        help="Where a prune over the API may archive sessions before it deletes them. Empty: nowhere. Clients cannot "
        "choose: they only say that they want it."
    ).tag(config=True)

    @default("workspace_root")
    def _workspace_root_default(self) -> str:
        return str(self.config.get("WasmKernel", {}).get("workspace_root") or default_root())

    def initialize_settings(self) -> None:
        """Values from settings, once. Where the administrator's file cannot be used, the extension is not loaded."""
        self.root = administrator.workspace_root() or Path(self.workspace_root).expanduser().absolute()
        self.maxima, self.policy = self._limits()
        self.bounds = Bounds(self.archive_max_bytes, self.archive_max_files)
        self.reservations = Reservations()
        self._threads = ThreadPoolExecutor(_THREADS, thread_name_prefix="wasm-kernel-files")
        self.archives = Path(self.archive_folder).expanduser().absolute() if self.archive_folder else None
        self._api_maxima, self._api_refused = self._maxima_of_api()
        base = self.settings["base_url"].rstrip("/") + api.BASE
        self.openapi = openapi.document(base, self._api_maxima, self.idle_timeout_seconds)
        self.operations = operations(self.openapi)
        self._sandboxes: Sandboxes | None = None
        self._loading = asyncio.Lock()

    def _limits(self) -> tuple[dict[str, Any], ExecutionPolicy]:
        """The maxima, and what a kernel starts with here; what a running one has is said by its lock's file."""
        ours = self.config.get("WasmKernel", {})
        maxima = dict(administrator.rules().maxima)
        policy = limits.bounded(ExecutionPolicy(), maxima)
        try:
            maxima = limits.strictest(maxima, dict(ours.get("maxima") or {}))
            policy = limits.bounded(policy, maxima)
            policy = limits.changed(policy, dict(ours.get("limits") or {}), maxima)
        except (ConfigurationError, TypeError, ValueError) as e:
            self.log.warning("wasm_kernel: limits of the configuration are not used: %s", e)
        return maxima, policy

    def _maxima_of_api(self) -> tuple[dict[str, Any], str]:
        """What the API's sandboxes may have at most; why none may run, where the configuration does not tell."""
        ruled = administrator.rules().maxima
        try:
            configured = dict(self.config.get("WasmKernel", {}).get("maxima") or {})
            maxima = limits.strictest(ruled, configured, _API_MAXIMA)
            limits.bounded(ExecutionPolicy(), maxima)
        except (ConfigurationError, TypeError, ValueError) as e:
            problem = f"WasmKernel.maxima cannot be used: {e}; the administrator has to mend the configuration"
            return limits.strictest(ruled, _API_MAXIMA), problem
        return maxima, ""

    def initialize_handlers(self) -> None:
        """The routes, below the server's base URL."""
        self.handlers.extend(
            [
                (rf"{_SESSION}/files/(.+)", FileHandler),
                (rf"{_SESSION}/archive", ArchiveHandler),
                (rf"{_SESSION}/list", ListHandler),
                (rf"{_SESSION}/upload", UploadHandler),
                *api.ROUTES,
            ]
        )

    async def sandboxes(self) -> Sandboxes:
        """The API's sandboxes; what runs them is imported now, so that servers which need none start fast."""
        async with self._loading:
            if self._sandboxes is None:
                await self.in_thread(importlib.import_module, "wasm_kernel.server.api_sandboxes")
                from wasm_kernel.server.api_sandboxes import Sandboxes
                from wasm_kernel.server.api_views import Terms
                from wasm_kernel.server.pool import Pool

                policy = limits.bounded(self.policy, self._api_maxima)
                terms = Terms(policy, self._api_maxima, self.idle_timeout_seconds)
                pool = Pool(self.root, terms, self.max_live_sandboxes, self.log, self._api_refused)
                pool.on_activity = self._note_activity
                self._sandboxes = Sandboxes(pool)
        return self._sandboxes

    def _note_activity(self) -> None:
        """Tell whoever culls idle servers that this one is not."""
        if self.serverapp is not None:
            self.serverapp.web_app.settings["last_activity_times"]["wasm_kernel"] = datetime.now(UTC)

    async def in_thread(self, work: Callable[_P, _T], *args: _P.args, **kwargs: _P.kwargs) -> _T:
        """Do what touches the disk without holding up the server."""
        return await asyncio.get_running_loop().run_in_executor(self._threads, functools.partial(work, *args, **kwargs))

    async def stop_extension(self) -> None:
        """The server ends."""
        if not hasattr(self, "_sandboxes"):  # it could not be loaded
            return
        if self._sandboxes is not None:
            await self._sandboxes.pool.close()
        self._threads.shutdown(wait=False, cancel_futures=True)


def default_root() -> Path:
    """As `kernel.home.default_root`, which would import what runs guests."""
    given = os.environ.get("WASM_KERNEL_WORKSPACE")
    if given:
        return Path(given).expanduser()
    import platformdirs

    return Path(platformdirs.user_data_dir("wasm-kernel")) / "workspace"
