"""A guest without an interpreter: its memory and every call it may make, in the hands of a test.

Whoever controls the interpreter's memory can make such calls from inside it, with any argument.
"""

from __future__ import annotations

import ctypes
import struct
import tempfile
from functools import cache
from pathlib import Path

from tests.attacks import guards
from wasm_kernel.host.image import image
from wasm_kernel.host.runtime import interposer
from wasm_kernel.host.runtime.engine import WASI, Engine, Module, Mount, Store
from wasm_kernel.host.runtime.interposer import FILTERED, Callbacks, Interposer

APP = 3  # the workspace's descriptor
SIZE = 16 * 65536
ALL_RIGHTS = (1 << 29) - 1
OUT, PATH, PATH2, IOVEC, BUFFER = 64, 1024, 8192, 16384, 65536  # where things are put in the guest's memory
_ROOM = 1 << 40


@cache
def _guest(engine: Engine) -> Module:
    return module(engine, [(WASI, name) for name in FILTERED], '(memory (export "memory") 16)')


def module(engine: Engine, imports: list[tuple[str, str]], more: str = "") -> Module:
    """A module with these imports, each exported again under its name."""
    lines = ["(module"]
    for place, name in imports:
        signature = interposer._signature(FILTERED.get(name, "ii"))
        lines.append(f'(import "{place}" "{name}" (func ${name} {signature}))')
    lines.append(more)
    for _, name in imports:
        letters = FILTERED.get(name, "ii")
        body = f"(call ${name} {interposer._arguments(letters)})"
        lines.append(f'(func (export "{name}") {interposer._signature(letters)} {body})')
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "guest.cwasm"
        path.write_bytes(engine.compile("\n".join([*lines, ")"])))
        return engine.load(path)


class RawGuest:
    """One guest over a workspace. ``hidden`` is what its filter hides."""

    def __init__(self, workspace: Path, hidden: tuple[bytes, ...] = interposer.HIDDEN) -> None:
        engine, modules = image.load().modules()
        replaced = guards.compiled(engine, guards.may_climb(interposer.filter_text(hidden)))
        modules = {**modules, "filter": modules["filter"] if hidden == interposer.HIDDEN else replaced}
        self.store = Store(engine, [Mount(workspace, "/app", True)], ["guest"], {}, 1 << 30)
        callbacks = Callbacks(lambda fd, data: None, lambda *a: 0, lambda *a: 0, lambda kind, wanted: _ROOM)
        self.interposer = Interposer(self.store, modules, callbacks, 1)
        guest = _guest(engine)
        exports = self.store.instantiate(guest, self.interposer.imports_for(guest))
        self.interposer.attach(exports["memory"])
        for name in ("max_file", "bytes", "files"):
            self.interposer.set(name, _ROOM)
        self.interposer.set("max_open", 1000)
        for name, fd in (("app", APP), ("dev", 1001), ("data", 1002)):  # it has no other mount than /app
            self.interposer.set(name, fd)
        self._base = self.store.memory_address(exports["memory"])
        self.call = {name: self.store.caller(exports[name], letters, "i") for name, letters in FILTERED.items()}

    def put(self, at: int, data: bytes) -> int:
        """Write to the guest's memory; the length."""
        ctypes.memmove(self._base + at, data, len(data))
        return len(data)

    def get(self, at: int, length: int) -> bytes:
        """Read from the guest's memory."""
        return ctypes.string_at(self._base + at, length)

    def number(self, at: int) -> int:
        """Read a 32-bit number."""
        return int.from_bytes(self.get(at, 4), "little")

    def open(self, path: bytes, oflags: int = 0, at: int = PATH, out: int = OUT) -> tuple[int, int]:
        """path_open: its errno and the descriptor."""
        length = self.put(at, path)
        status = self.call["path_open"](APP, 0, at, length, oflags, ALL_RIGHTS, ALL_RIGHTS, 0, out)
        return status, self.number(out)

    def read(self, fd: int) -> bytes:
        """fd_read of up to 1000 bytes."""
        self.put(IOVEC, struct.pack("<II", BUFFER, 1000))
        status = self.call["fd_read"](fd, IOVEC, 1, OUT)
        return b"" if status else self.get(BUFFER, self.number(OUT))

    def close(self) -> None:
        """Give everything back."""
        self.store.close()
