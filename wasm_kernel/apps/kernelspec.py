"""Register the kernel with Jupyter."""

from __future__ import annotations

import json
import shutil
import sys
import tempfile
from pathlib import Path

LOGOS = Path(__file__).parent / "logos"  # the wheel puts them beside its own kernel.json too
DISPLAY_NAME = "Python (WebAssembly sandbox)"


PROVISIONER = {"provisioner_name": "wasm-kernel-host"}


def spec(python: str, *, provisioner: bool = True) -> dict[str, object]:
    """The contents of kernel.json.

    A Jupyter that does not have the ``provisioner`` shows no kernel that names one, so it is for Jupyters of this
    environment only. `python -m wasm_kernel` gets its kernel from the host, too.
    """
    more = {"kernel_provisioner": PROVISIONER} if provisioner else {}
    return {
        "argv": [python, "-P", "-m", "wasm_kernel", "-f", "{connection_file}"],
        "display_name": DISPLAY_NAME,
        "language": "python",
        "interrupt_mode": "message",
        "metadata": {"debugger": False, "supported_encryption": ["curve"], **more},
    }


def install(*, name: str = "wasm", user: bool = False, sys_prefix: bool = False, prefix: str | None = None) -> str:
    """Write the kernelspec where Jupyter finds it, and return the folder."""
    from jupyter_client.kernelspec import KernelSpecManager

    if sys_prefix or (not user and prefix is None and sys.prefix != sys.base_prefix):
        prefix = sys.prefix
    own = prefix == sys.prefix != sys.base_prefix  # no other environment's Jupyter looks there
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place) / name
        folder.mkdir()
        (folder / "kernel.json").write_text(json.dumps(spec(sys.executable, provisioner=own), indent=2) + "\n")
        for logo in LOGOS.glob("logo-*"):
            shutil.copy(logo, folder)
        return str(KernelSpecManager().install_kernel_spec(str(folder), name, user=prefix is None, prefix=prefix))
