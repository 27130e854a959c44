"""What every kernel needs, imported and mapped once, before any is forked."""

from __future__ import annotations

import gc
import importlib
from pathlib import Path

from wasm_kernel.apps.kernel_host import fixed_counts
from wasm_kernel.host.image import image

# Imported late by kernels that start alone (tests/test_late_imports.py says why); what they import comes along.
_MODULES = (
    "IPython.core.inputtransformer2",
    "concurrent.futures.thread",
    "http.client",
    "platformdirs.unix",
    "psutil",
    "sqlite3",
    "structlog",
    "tomllib",
    "urllib.request",
    "wasm_kernel.kernel.kernel",
    "wasm_kernel.kernel.magics.magics",
    "wasm_kernel.kernel.counting_session",
    "wasm_kernel.kernel.messages",
    "wasm_kernel.kernel.notebook_session",
    "wasm_kernel.kernel.seal.sealed_messages",
    "wasm_kernel.sessions.checkpoints",
    "wasm_kernel.sessions.log",
    "wasm_kernel.sessions.recorder",
    "wasm_kernel.sessions.snapshots",
    "wasm_kernel.sessions.timeline",
)


def preload() -> str:
    """Import and map everything; the image's key. `ImageMissing`: there is nothing to map."""
    for name in _MODULES:
        importlib.import_module(name)
    found = image.load()
    found.modules()
    if threads := len(list(Path("/proc/self/task").iterdir())) - 1:
        raise RuntimeError(f"{threads} threads would be lost in every fork")
    gc.collect()
    fixed_counts.fix_all()
    gc.freeze()  # or the first collection in each kernel writes to all objects
    return found.key
