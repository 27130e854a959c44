"""Keeps the pages that a guest wrote here and there, in WebAssembly: without the interpreter's lock, and quicker.

What `GuestMemory.keep` does in Python page by page, `page_keeper.wat` does in three calls: find the pages that differ,
spell their changes for the log of cells, copy them to the overlay. It sees the guest's memory, the overlay and the base
memory as wasm memories (the last two mapped from their files), and a work area, into which the system writes what it
reports (`pagescan`). Long stretches stay Python's: they are mapped, not copied.
"""

from __future__ import annotations

import ctypes
import weakref
from collections.abc import Callable
from pathlib import Path
from typing import Any

from wasm_kernel.host.runtime import pagescan
from wasm_kernel.host.runtime.base_memory import BaseMemory, EmptyBase
from wasm_kernel.host.runtime.engine import Engine, Module, Store
from wasm_kernel.host.runtime.overlay import Overlay
from wasm_kernel.host.runtime.page_delta import ENTRY
from wasm_kernel.host.runtime.pages import CHUNK, PAGE, PAGES, Span, buffer, map_over, map_shared_over

LONG, VERY_LONG = CHUNK, 16 * CHUNK  # stretches from this length on are mapped: when they are new, when they are known
_MOST_MEMORY = 1 << 32
_REGIONS = 43_000
_MOST_PAGES = 1_000  # that are kept here; more of them are a matter of milliseconds anyway
_LAYOUT = {  # of the work area, after the regions
    "OUT": 1 << 20,
    "LONG": 2 << 20,
    "STATES": 3 << 20,
    "DELTA": (3 << 20) + _MOST_MEMORY // PAGE,
}
_UNDO_BEHIND = _MOST_PAGES * (PAGE + ENTRY.size)  # DELTA
_WORK = _LAYOUT["DELTA"] + 2 * _UNDO_BEHIND
_MEMORIES = ("guest", "overlay", "base", "work")


def keeper_text() -> str:
    """The module."""
    head = [f'(import "keeper" "{name}" (memory ${name[0]} 0))' for name in _MEMORIES]
    body = (Path(__file__).parent / "page_keeper.wat").read_text()
    values = {**_LAYOUT, "MOST_PAGES": _MOST_PAGES, "LONG_NEW": PAGES, "LONG_KNOWN": VERY_LONG // PAGE}
    values |= {"UNDO_BEHIND": _UNDO_BEHIND, "UNDO_BEHIND_MAP": _UNDO_BEHIND + 4}
    for name, value in values.items():
        body = body.replace(f"%{name}%", str(value))
    return "\n".join(["(module", *head, body, ")"])


TEXTS: dict[str, Callable[[], str]] = {"keeper": keeper_text}


def compile_all(engine: Engine) -> dict[str, bytes]:
    """Its machine code."""
    return {name: engine.compile(text()) for name, text in TEXTS.items()}


class PageKeeper:
    """For one instance, in its store, on its thread. `scan` comes first, and what else is done is about its regions."""

    def __init__(self, store: Store, module: Module, guest: Any, base: BaseMemory | EmptyBase) -> None:
        self._store = store
        self._over, self._under, self._work = (store.new_memory(size) for size in (0, base.size, _WORK))
        exports = store.instantiate(module, [guest, self._over, self._under, self._work])
        self._total = store.caller(exports["total"], "i", "l")
        self._compare = store.caller(exports["compare"], "il", "i")
        self._encode = store.caller(exports["encode"], "i", "i")
        self._copy = store.caller(exports["copy"], "i")
        self._long = exports["long"]
        self._at = store.memory_address(self._work)
        if base.size:
            map_over(store.memory_address(self._under), base.size, base.fd, 0)
        store.set_global(exports["base_pages"], base.size // PAGE)
        self._mapped: tuple[weakref.ref[Overlay], int] | None = None
        self._address = self._regions = self._found = 0

    def scan(self, address: int, size: int) -> int | None:
        """Ask the system which pages were written; how many bytes that is. None: it does not say, or not so many."""
        found = pagescan.scan_into(self._at, _REGIONS, address, size) if pagescan.can_scan else None
        if found is None:
            return None
        self._address, self._regions = address, found
        return self._total(found)

    def compare(self, overlay: Overlay, size: int) -> list[int] | None:
        """The pages that differ from what is kept. None: they are too many for this."""
        if self._mapped is None or self._mapped[0]() is not overlay or self._mapped[1] != size:
            self._store.memory_grow_to(self._over, size)
            map_shared_over(self._store.memory_address(self._over), size, overlay.fd)
            self._mapped = weakref.ref(overlay), size
        ctypes.memmove(self._at + _LAYOUT["STATES"], bytes(overlay.states), len(overlay.states))
        self._found = self._compare(self._regions, self._address)
        if self._found < 0:
            return None
        return (ctypes.c_uint32 * self._found).from_address(self._at + _LAYOUT["OUT"])[:]

    def long(self) -> list[Span]:
        """The long stretches among the regions, as addresses: `compare` has not looked at them."""
        count = self._store.get_global(self._long)
        indexes = (ctypes.c_uint32 * count).from_address(self._at + _LAYOUT["LONG"])[:]
        words = (ctypes.c_uint64 * (3 * self._regions)).from_address(self._at)
        return [(words[3 * i], words[3 * i + 1]) for i in indexes]

    def encode(self) -> tuple[bytes, bytes]:
        """The changes of the pages that `compare` found, and what undoes them. Before `copy`."""
        at, size = self._at + _LAYOUT["DELTA"], self._encode(self._found)
        return ctypes.string_at(at, size), ctypes.string_at(at + _UNDO_BEHIND, size)

    def copy(self, overlay: Overlay) -> None:
        """Copy them to the overlay."""
        self._copy(self._found)
        overlay.states[:] = buffer(self._at + _LAYOUT["STATES"], len(overlay.states)).raw
