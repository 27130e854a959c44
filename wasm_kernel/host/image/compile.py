"""Compile the runtime to machine code, with our numeric kernels in it and its stack pointer in the open.

In a process of its own: it peaks at 2.4 GB, which no kernel should keep.

    python -m wasm_kernel.host.image.compile SOURCE TARGET [--metered]

Standard input is held open by the parent; when it ends, the parent is gone and so is this process.
"""

from __future__ import annotations

import os
import sys
import threading
from pathlib import Path

from wasm_kernel.host.image.numeric_kernels import UnfitKernels, accelerate
from wasm_kernel.host.image.section_reader import BadModule
from wasm_kernel.host.image.wasm_module import WasmModule
from wasm_kernel.host.runtime.engine import engine
from wasm_kernel.host.runtime.instance import STACK_POINTER


def main(arguments: list[str]) -> None:
    """Compile SOURCE to TARGET."""

    def end_with_parent() -> None:
        sys.stdin.buffer.read()
        os._exit(3)

    threading.Thread(target=end_with_parent, daemon=True).start()
    source, target = Path(arguments[0]), Path(arguments[1])
    try:
        module = WasmModule(accelerate(source.read_bytes()))
        module.export_mutable_global(STACK_POINTER)
        code = module.to_bytes()
    except (UnfitKernels, BadModule) as e:
        print(e)
        sys.stdout.flush()
        os._exit(1)
    target.write_bytes(engine("--metered" in arguments).compile(code))
    sys.stdout.flush()
    os._exit(0)  # skips freeing 2 GB, and the thread that waits for the parent


if __name__ == "__main__":
    main(sys.argv[1:])
