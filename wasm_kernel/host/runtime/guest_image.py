"""What a sandbox needs of an image; `host.image` has the image itself."""

from __future__ import annotations

from pathlib import Path
from typing import Protocol

from wasm_kernel.host.runtime.base_memory import BaseMemory
from wasm_kernel.host.runtime.engine import Engine, Module, Mount
from wasm_kernel.host.runtime.instance_parts import AtRest


class GuestImage(Protocol):
    """What guests start from.

    Attributes:
        key: Names all that went into it.
        memory: The base memory.
        rest: What else a guest is that has not run yet: open files, a clock.
    """

    key: str
    memory: BaseMemory
    rest: AtRest

    def modules(self, *, metered: bool = False) -> tuple[Engine, dict[str, Module]]:
        """The engine and its modules."""

    def mounts(
        self, workspace: Path, scratch: Path, packages: Path | None = None, data: Path | None = None
    ) -> list[Mount]:
        """Every folder the guest sees."""
