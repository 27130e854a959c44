"""The extension as Jupyter Server loads it: its settings, and its routes."""

from __future__ import annotations

import os
from datetime import UTC, datetime
from pathlib import Path

from jupyter_server.extension.application import ExtensionApp
from traitlets import Int, Unicode, default

from wasm_kernel.host import administrator
from wasm_kernel.host.workspace_root import default_root
from wasm_kernel.model.settings import session_limits
from wasm_kernel.server.api import handlers as api
from wasm_kernel.server.api import openapi
from wasm_kernel.server.api.api_service import ApiService, ApiSettings
from wasm_kernel.server.files import handlers as files
from wasm_kernel.server.files.file_service import FileService
from wasm_kernel.sessions.zip_stream import Bounds


class WasmKernelExtension(ExtensionApp):
    """Sessions over HTTP: their files, and the API. Reads jupyter_wasm_kernel_config.py, as the kernel does."""

    name = "wasm_kernel"
    description = "Sessions over HTTP: their files (listing, download, upload), and an API to run code and to prune."

    workspace_root = Unicode(
        help="Where sessions' folders are. Default: the kernel's, that is WasmKernel.workspace_root, else "
        "WASM_KERNEL_WORKSPACE, else a folder of the user's."
    ).tag(config=True)
    archive_max_bytes = Int(16 << 30, min=0, help="How many bytes of files one zip may hold.").tag(config=True)
    archive_max_files = Int(100_000, min=1, help="How many files and folders one zip may hold.").tag(config=True)

    max_live_sandboxes = Int(
        16, min=1, help="The most sandboxes of the API this server keeps in memory; idle ones make room."
    ).tag(config=True)
    idle_timeout_seconds = Int(
        900, min=0, max=openapi.MAX_IDLE, help="Seconds after which an idle sandbox of the API is released. 0: never."
    ).tag(config=True)
    archive_folder = Unicode(
        help="Where a prune over the API may archive sessions before it deletes them. Empty: nowhere. Clients can "
        "ask for archives, but not choose the folder."
    ).tag(config=True)

    @default("workspace_root")
    def _workspace_root_default(self) -> str:
        return str(default_root(self.config.get("WasmKernel", {}).get("workspace_root")))

    def initialize_settings(self) -> None:
        """Read the settings, once. If the administrator's file cannot be used, the extension is not loaded."""
        root = administrator.workspace_root() or Path(self.workspace_root).expanduser().absolute()
        limits = session_limits(administrator.rules().maxima, self.config.get("WasmKernel", {}))
        for said in filter(None, (limits.problem, *limits.notes)):
            self.log.warning("wasm_kernel: %s", said)
        archives = Path(self.archive_folder).expanduser().absolute() if self.archive_folder else None
        startup = str(self.config.get("WasmKernel", {}).get("startup_code") or "")
        remote = str(self.config.get("WasmKernel", {}).get("remote") or os.environ.get("WASM_KERNEL_REMOTE", ""))
        bounds = self.idle_timeout_seconds, self.max_live_sandboxes
        settings = ApiSettings(root, limits, *bounds, archives, startup, remote)
        self._api = ApiService(settings, self.settings["base_url"], self.log)
        self._api.on_activity = self._note_activity
        self._files = FileService(root, limits, Bounds(self.archive_max_bytes, self.archive_max_files))

    def initialize_handlers(self) -> None:
        """Add the routes, below the server's base URL."""
        self.handlers.extend((path, handler, {"files": self._files}) for path, handler in files.ROUTES)
        self.handlers.extend((path, handler, {"api": self._api}) for path, handler in api.ROUTES)

    def _note_activity(self) -> None:
        """Tell the culler of idle servers that this one is in use."""
        if self.serverapp is not None:
            self.serverapp.web_app.settings["last_activity_times"]["wasm_kernel"] = datetime.now(UTC)

    async def stop_extension(self) -> None:
        """Called when the server stops."""
        if not hasattr(self, "_files"):  # it could not be loaded
            return
        await self._api.close()
        self._files.close()
