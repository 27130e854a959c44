"""The name of a base memory's content: images of the same key that were built apart may differ."""

from __future__ import annotations

import mmap

from blake3 import blake3

from wasm_kernel.host.runtime.base_memory import BaseMemory


def name_of(base: BaseMemory) -> str:
    """The hash of a base memory."""
    with mmap.mmap(base.fd, base.size, prot=mmap.PROT_READ) as content:
        return blake3(content, max_threads=blake3.AUTO).hexdigest()
