"""A guest started without a base memory, while the image is built. It is told the same in every build."""

from __future__ import annotations

import ctypes
import tempfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

from wasm_kernel.errors import ImageError
from wasm_kernel.guest import wire
from wasm_kernel.host.image import image
from wasm_kernel.host.image.reproducible import Reproducible
from wasm_kernel.host.runtime import engine, scratch
from wasm_kernel.host.runtime.base_memory import BaseMemory, EmptyBase
from wasm_kernel.host.runtime.engine import Trapped
from wasm_kernel.host.runtime.instance import Instance
from wasm_kernel.host.runtime.instance_parts import AtRest, Handlers, Limits
from wasm_kernel.host.runtime.memory import GuestMemory
from wasm_kernel.host.runtime.pages import write_memory
from wasm_kernel.host.runtime.run import Run

T = TypeVar("T")


class Boot:
    """A guest started without a base memory, for building one."""

    def __init__(self, which: image.Parts, folder: Path, site: Path | None = None, base: Path | None = None) -> None:
        self._which, self._folder, self._site, self._base = which, folder, site, base
        self.buffers: tuple[bytes, ...] = ()
        self._request = b""
        self._reply: dict[str, Any] = {}
        self._said = bytearray()

    def __enter__(self) -> Boot:
        self._scratch = tempfile.TemporaryDirectory()
        root = Path(self._scratch.name)
        for name in ("tmp", "app", "kernel", "dev", "packages", "data"):
            (root / name).mkdir()
        scratch.furnish(root / "tmp")
        eng, modules = image.load_modules(self._which, metered=False)
        kernel = root if self._site else self._folder
        mounts = image.mounts(self._which, kernel, root / "app", root / "tmp")
        if self._site:
            mounts[1] = engine.Mount(self._site / "site", "/site", True)
        handlers = Handlers(
            output=lambda fd, data: self._said.extend(data),
            frame=self._frame,
            first_change=lambda: None,
            refill=lambda kind, wanted: (1 << 40, 1 << 20),
        )
        self._memory = GuestMemory(BaseMemory(self._base) if self._base else EmptyBase())
        limits = Limits(memory_bytes=2 << 30, max_file_bytes=1 << 30, max_open_files=1000)

        def make() -> Instance:
            env = {"HOME": "/app", "TMPDIR": "/tmp"}
            guest, around = modules["guest"], self._world.around
            return Instance(eng, guest, modules, mounts, env, limits, handlers, self._memory, AtRest(), around)

        self._world = Reproducible()
        self._instance = _on_wasm_thread(make)
        self._world.memory = lambda: self._instance.memory_span
        return self

    def _frame(self, frame: bytes) -> bytes:
        event = wire.decode_event(frame)
        if isinstance(event, wire.NextRequest):
            return self._request
        if isinstance(event, wire.Reply):
            self._reply, self.buffers = event.content, event.buffers
        return b""

    def run(self, source: bytes) -> None:
        """Run Python source in the guest; its output becomes the error if it fails."""
        self._said.clear()
        try:
            status = _on_wasm_thread(lambda: self._instance.run_source(Run(None, 10), source))
        except Trapped as e:
            raise ImageError(f"the guest stopped while the image was built: {e}\n{self._tail()}") from e
        if status:
            raise ImageError(f"the guest failed while the image was built:\n{self._tail()}")

    def _tail(self) -> str:
        return bytes(self._said[-3000:]).decode(errors="replace")

    def request(self, request: dict[str, Any]) -> dict[str, Any]:
        """Send one request to the driver; its reply."""
        self._request, self._reply = wire.encode(request), {}
        self.run(b"__import__('wasm_guest.driver').driver.turn()")
        return self._reply

    def word(self, address: int) -> int:
        """The 32-bit number at an address of the guest's memory."""
        start, size = self._instance.memory_span
        if not 0 <= address <= size - 4:
            raise ImageError(f"the guest's memory has no address {address}: it has {size} bytes")
        return int.from_bytes(ctypes.string_at(start + address, 4), "little")

    def save(self, path: Path) -> AtRest:
        """Write the memory as it is now, and say what else belongs to it."""

        def work() -> AtRest:
            with path.open("wb") as file:
                address, size = self._instance.memory_span
                write_memory(file.fileno(), address, size, 0)
            return replace(self._instance.rest(), clock_ns=self._world.monotonic_ns)

        return _on_wasm_thread(work)

    def __exit__(self, *exc: object) -> None:
        self._instance.close()
        self._memory.close()
        self._scratch.cleanup()


def _on_wasm_thread(work: Callable[[], T]) -> T:
    box: list[Any] = [None, None]

    def body() -> None:
        try:
            box[0] = work()
        except BaseException as e:  # noqa: BLE001 - handed to the caller
            box[1] = e

    engine.start_thread(body, "wasm-kernel-build").join()
    if box[1] is not None:
        raise box[1]
    result: T = box[0]
    return result
