"""The extension as Jupyter Server loads it: its settings, its routes, and the threads that touch the disk."""

from __future__ import annotations

import asyncio
import functools
import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, ParamSpec, TypeVar

from jupyter_server.extension.application import ExtensionApp
from traitlets import Int, Unicode, default

from wasm_kernel.errors import ConfigurationError
from wasm_kernel.host import administrator
from wasm_kernel.model import limits
from wasm_kernel.model.policy import ExecutionPolicy
from wasm_kernel.server.handlers import ArchiveHandler, FileHandler, ListHandler
from wasm_kernel.server.room import Reservations
from wasm_kernel.server.upload import UploadHandler
from wasm_kernel.sessions.zipping import Bounds

_P = ParamSpec("_P")
_T = TypeVar("_T")
_THREADS = 4
_SESSION = r"/wasm-kernel/sessions/([^/]+)"


class WasmKernelExtension(ExtensionApp):
    """Sessions' files over HTTP. Reads jupyter_wasm_kernel_config.py, as the kernel does."""

    name = "wasm_kernel"
    description = "Sessions' files over HTTP: listing, download, upload."

    workspace_root = Unicode(
        help="Where sessions' folders are. Default: as the kernel's, which is WasmKernel.workspace_root, else "
        "WASM_KERNEL_WORKSPACE, else a folder of the user's own."
    ).tag(config=True)
    archive_max_bytes = Int(16 << 30, min=0, help="How many bytes of files one zip may hold.").tag(config=True)
    archive_max_files = Int(100_000, min=1, help="How many files and folders one zip may hold.").tag(config=True)

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

    def _limits(self) -> tuple[dict[str, Any], ExecutionPolicy]:
        """The maxima, and what a kernel starts with here; what was changed by `%session limits` is not known to us."""
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

    def initialize_handlers(self) -> None:
        """The routes, below the server's base URL."""
        self.handlers.extend(
            [
                (rf"{_SESSION}/files/(.+)", FileHandler),
                (rf"{_SESSION}/archive", ArchiveHandler),
                (rf"{_SESSION}/list", ListHandler),
                (rf"{_SESSION}/upload", UploadHandler),
            ]
        )

    async def in_thread(self, work: Callable[_P, _T], *args: _P.args, **kwargs: _P.kwargs) -> _T:
        """Do what touches the disk without holding up the server."""
        return await asyncio.get_running_loop().run_in_executor(self._threads, functools.partial(work, *args, **kwargs))

    async def stop_extension(self) -> None:
        """The server ends."""
        self._threads.shutdown(wait=False, cancel_futures=True)


def default_root() -> Path:
    """As `kernel.home.default_root`, which would import what runs guests."""
    given = os.environ.get("WASM_KERNEL_WORKSPACE")
    if given:
        return Path(given).expanduser()
    import platformdirs

    return Path(platformdirs.user_data_dir("wasm-kernel")) / "workspace"
