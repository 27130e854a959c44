"""Where sessions' folders are, unless the administrator decides that: one answer for kernels, server and commands."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path


def default_root(configured: str | None = None, environ: Mapping[str, str] = os.environ) -> Path:
    """What `WasmKernel.workspace_root` names, or `WASM_KERNEL_WORKSPACE`, or a folder of the user's own.

    Never the current folder: what is in a notebook's folder is the user's.
    """
    named = configured or environ.get("WASM_KERNEL_WORKSPACE")
    if named:
        return Path(str(named)).expanduser()
    import platformdirs  # a kernel whose root is configured starts without it

    return Path(platformdirs.user_data_dir("wasm-kernel")) / "workspace"
