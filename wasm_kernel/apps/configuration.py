"""The kernel's configuration, read by commands."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from wasm_kernel.errors import ConfigurationError
from wasm_kernel.host import administrator
from wasm_kernel.host.workspace_root import default_root

if TYPE_CHECKING:
    from wasm_kernel.apps.kernel_app import WasmKernelApp
    from wasm_kernel.host.remote.objects import Objects

REMOTE = "WASM_KERNEL_REMOTE"


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


def configured_objects(address: str | None = None) -> Objects | None:
    """The object store at this address, else that of the kernel's sessions, by its configuration; None: none is set."""
    address = address or os.environ.get(REMOTE, "") or loaded_app().config.get("WasmKernel", {}).get("remote")
    if not address:
        return None
    from wasm_kernel.host.remote.objects import open_objects  # few machines have one

    return open_objects(str(address))
