"""Use cases, without Jupyter or HTTP. Every public name of `wasm_kernel` can be imported from here, too."""

from typing import TYPE_CHECKING, Any

import wasm_kernel

if TYPE_CHECKING:
    from wasm_kernel import *  # noqa: F403


def __getattr__(name: str) -> Any:
    # Nothing is imported before it is asked for: a kernel's start passes through here.
    if name in wasm_kernel.__all__ and name != "__version__":
        return getattr(wasm_kernel, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
