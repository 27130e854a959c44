"""A live memory as a wasm instance has it, without one."""

from __future__ import annotations

import ctypes
import mmap

from wasm_kernel.host.runtime.memory import CHUNK, GuestMemory

PAGE = mmap.PAGESIZE
BASE = 12 * CHUNK
SIZE = 40 * CHUNK


class Live:
    """Stands for a wasm instance's linear memory: zeroed, private, writable."""

    def __init__(self) -> None:
        self._map = mmap.mmap(-1, SIZE, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
        self._anchor = ctypes.c_char.from_buffer(self._map)
        self.address = ctypes.addressof(self._anchor)

    def write(self, at: int, data: bytes) -> None:
        ctypes.memmove(self.address + at, data, len(data))

    def bytes(self) -> bytes:
        return ctypes.string_at(self.address, SIZE)

    def close(self) -> None:
        del self._anchor
        self._map.close()


def attached(state: GuestMemory) -> Live:
    live = Live()
    state.attach(live.address)
    return live
