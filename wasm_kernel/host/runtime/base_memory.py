"""What a guest's memory is laid over: the image's base memory."""

from __future__ import annotations

import ctypes
import mmap
import os
from pathlib import Path

from wasm_kernel.host.runtime.pages import PAGE, map_file


class BaseMemory:
    """The image's base memory: a read-only file."""

    def __init__(self, path: Path) -> None:
        self.fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        self.size = os.fstat(self.fd).st_size
        self._view = 0

    @property
    def view(self) -> int:
        """The address of a read-only mapping, made when first asked for: only comparing needs it."""
        if not self._view:
            self._view = map_file(self.fd, self.size, mmap.PROT_READ, mmap.MAP_PRIVATE)
        return self._view

    def page(self, page: int) -> bytes | None:
        """A page's content; None: beyond its end, where a memory begins with zeros."""
        return ctypes.string_at(self.view + page * PAGE, PAGE) if page * PAGE < self.size else None


class EmptyBase:
    """No base: what the image build starts from."""

    fd = -1
    size = 0
    view = 0

    def page(self, page: int) -> bytes | None:
        """A page's content: there is none."""
        return None
