"""The kernel's configuration, read by commands."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from wasm_kernel.errors import ConfigurationError
from wasm_kernel.host import administrator
from wasm_kernel.host.workspace_root import default_root

if TYPE_CHECKING:
    from wasm_kernel.apps.kernel_app import WasmKernelApp


def configured_root() -> Path:
    """Where the kernel keeps its sessions, by its configuration."""
    ruled = administrator.workspace_root()
    if ruled is not None:
        return ruled
    return default_root(loaded_app().config.get("WasmKernel", {}).get("workspace_root"))


def loaded_app() -> WasmKernelApp:
    """The kernel's application with its configuration, but no kernel."""
    from wasm_kernel.apps.kernel_app import WasmKernelApp  # few commands need it, and all should start fast

    app = WasmKernelApp(raise_config_file_errors=True)
    try:
        app.load_config_file()
    except Exception as e:  # noqa: BLE001 - the file is a program, and may raise anything
        raise ConfigurationError(
            f"the configuration cannot be read: {type(e).__name__}: {e}; fix it, or move it away"
        ) from None
    return app
