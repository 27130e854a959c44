"""Keeps the pages that a guest wrote here and there, in WebAssembly: without the interpreter's lock, and quicker.

What `GuestMemory.keep` does in Python page by page, `page_keeper.wat` does in one pass: it finds the pages that differ,
spells their changes for the log of cells, and what undoes them, and copies them to the overlay. It sees the guest's
memory, the overlay and the base memory as wasm memories (the last two mapped from their files), and a work area, into
which the system writes what it reports (`pagescan`). Long stretches stay Python's: they are mapped, not copied.
"""

from __future__ import annotations

import ctypes
import weakref
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from wasm_kernel.host.runtime import pagescan
from wasm_kernel.host.runtime.base_memory import BaseMemory, EmptyBase
from wasm_kernel.host.runtime.engine import Engine, Module, Store
from wasm_kernel.host.runtime.overlay import Overlay
from wasm_kernel.host.runtime.page_delta import ENTRY
from wasm_kernel.host.runtime.pages import CHUNK, PAGE, PAGES, Span, drop, map_over, map_shared_over

VERY_LONG = 16 * CHUNK  # stretches from this length on are mapped, and those with a chunk's worth of new pages
_MOST_MEMORY = 1 << 32
_REGIONS = 43_000
_MOST_PAGES = 1_000  # of a portion
_LAYOUT = {  # of the work area, after the regions
    "OUT": 1 << 20,
    "LONG": 2 << 20,
    "STATES": 3 << 20,
    "DELTA": (3 << 20) + _MOST_MEMORY // PAGE,
}
_MUCH = 128 << 10  # bytes of changes, after which the work area does not stay in memory
_UNDO_BEHIND = _MOST_PAGES * (PAGE + ENTRY.size)  # DELTA
_WORK = _LAYOUT["DELTA"] + 2 * _UNDO_BEHIND
_MEMORIES = ("guest", "overlay", "base", "work")


# One page, of a kind: compared with what is known of it four lines at a time. What differs is written to the work area,
# as it is and as it was, and to the overlay.
_PAGE = """
(func $keep_page_of_{kind} (param $page i32) (param $to i32) (result i32)
  (local $a i32) (local $head i32) (local $lines i64) (local $line i64)
  (local.set $a (i32.shl (local.get $page) (i32.const 12)))
  (local.set $head (local.get $to))
  (local.set $to (i32.add (local.get $to) (i32.const 12)))
  (local.set $line (i64.const 1))
  (loop $next
    (if (v128.any_true {differs}) (then {lines}))
    (local.set $a (i32.add (local.get $a) (i32.const 256)))
    (br_if $next (i64.ne (local.tee $line (i64.shl (local.get $line) (i64.const 4))) (i64.const 0))))
  (if (i64.eqz (local.get $lines)) (then (return (local.get $head))))
  (i32.store $w (local.get $head) (local.get $page))
  (i64.store $w offset=4 (local.get $head) (local.get $lines))
  (i32.store $w offset=%UNDO_BEHIND% (local.get $head) (local.get $page))
  (i64.store $w offset=%UNDO_BEHIND_MAP% (local.get $head) (local.get $lines))
  {copy}
  (local.get $to))
"""
_LINE = """
    (if (v128.any_true {differs}) (then
      {write}
      (local.set $to (i32.add (local.get $to) (i32.const 64)))
      (local.set $lines (i64.or (local.get $lines) (i64.shl (local.get $line) (i64.const {number}))))))
"""
_WORDS, _LINE_WORDS = 16, 4  # of 16 bytes, in what is compared at a time, and in a line


def _page_function(kind: str) -> str:
    """How pages are kept that are known to be as in the overlay, as in the base, or zeros."""
    known = {"overlay": "$o", "base": "$b"}.get(kind)

    def new(word: int) -> str:
        return f"(v128.load $g offset={word * 16} (local.get $a))"

    def old(word: int) -> str:
        return f"(v128.load {known} offset={word * 16} (local.get $a))" if known else "(v128.const i64x2 0 0)"

    def differs(words: range) -> str:
        if len(words) == 1:
            return f"(v128.xor {new(words[0])} {old(words[0])})" if known else new(words[0])
        half = len(words) // 2
        return f"(v128.or {differs(words[:half])} {differs(words[half:])})"

    def write(words: range) -> str:
        parts = []
        for at, word in enumerate(words):
            parts.append(f"(v128.store $w offset={at * 16} (local.get $to) {new(word)})")
            parts.append(f"(v128.store $w offset={_UNDO_BEHIND + at * 16} (local.get $to) {old(word)})")
            if kind == "overlay":
                parts.append(f"(v128.store $o offset={word * 16} (local.get $a) {new(word)})")
        return "\n      ".join(parts)

    each = [range(word, word + _LINE_WORDS) for word in range(0, _WORDS, _LINE_WORDS)]
    lines = [_LINE.format(differs=differs(words), write=write(words), number=n) for n, words in enumerate(each)]
    return _PAGE.format(
        kind=kind,
        differs=differs(range(_WORDS)),
        lines="".join(lines),
        copy="" if kind == "overlay" else "(call $copy_page (local.get $page))",
    )


def keeper_text() -> str:
    """The module."""
    head = [f'(import "keeper" "{name}" (memory ${name[0]} 0))' for name in _MEMORIES]
    body = (Path(__file__).parent / "page_keeper.wat").read_text()
    body += "".join(_page_function(kind) for kind in ("overlay", "base", "zeros"))
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
        self._keep = store.caller(exports["keep"], "ili", "l")
        self._at = store.memory_address(self._work)
        if base.size:
            map_over(store.memory_address(self._under), base.size, base.fd, 0)
        store.set_global(exports["base_pages"], base.size // PAGE)
        self._mapped: tuple[weakref.ref[Overlay], int] | None = None
        self._address = self._regions = self._long = 0

    def scan(self, address: int, size: int) -> int | None:
        """Ask the system which pages were written; how many bytes that is. None: it does not say, or not so many."""
        found = pagescan.scan_into(self._at, _REGIONS, address, size) if pagescan.can_scan else None
        if found is None:
            return None
        self._address, self._regions = address, found
        return self._total(found)

    def regions(self) -> list[Span]:
        """What `scan` found, as addresses in ascending order."""
        words = (ctypes.c_uint64 * (3 * self._regions)).from_address(self._at)
        return sorted(zip(words[::3], words[1::3], strict=True))

    def keep(self, overlay: Overlay, size: int) -> Iterator[tuple[list[int], bytes, bytes]]:
        """Bring the overlay up to date, except for long stretches: the pages that differed, their changes, the undoing.

        In portions. All of them have to be taken.
        """
        if self._mapped is None or self._mapped[0]() is not overlay or self._mapped[1] != size:
            self._store.memory_grow_to(self._over, size)
            map_shared_over(self._store.memory_address(self._over), size, overlay.fd)
            self._mapped = weakref.ref(overlay), size
        states, count = self._at + _LAYOUT["STATES"], len(overlay.states)
        ctypes.memmove(states, (ctypes.c_char * count).from_buffer(overlay.states), count)
        first = True
        while True:
            told = self._keep(self._regions, self._address, first)
            found, self._long, length = told & 0xFFFF, told >> 16 & 0xFFFF, told >> 32
            if not found:
                break
            first = False
            pages = (ctypes.c_uint32 * found).from_address(self._at + _LAYOUT["OUT"])[:]
            at = self._at + _LAYOUT["DELTA"]
            yield pages, ctypes.string_at(at, length), ctypes.string_at(at + _UNDO_BEHIND, length)
            if length > _MUCH:
                drop(at, 2 * _UNDO_BEHIND)
            if found < _MOST_PAGES:
                break
        ctypes.memmove((ctypes.c_char * count).from_buffer(overlay.states), states, count)

    def long(self) -> list[Span]:
        """The long stretches among the regions, as addresses: `keep` has not looked at them."""
        if not self._long:
            return []
        indexes = (ctypes.c_uint32 * self._long).from_address(self._at + _LAYOUT["LONG"])[:]
        words = (ctypes.c_uint64 * (3 * self._regions)).from_address(self._at)
        return [(words[3 * i], words[3 * i + 1]) for i in indexes]
