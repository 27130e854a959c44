"""What a guest is told of time, chance and files while its image is built: the same on every machine, in every build.

What a guest is told reaches its memory: the length of a number, the order of a folder and the random bytes of a name
decide where objects lie. So some of WASI's calls are answered here; all else that a build asks for depends on nothing
but its inputs. Whoever changes an answer raises `image._TOLD`.

    clocks      begin at the same moment, and go on by one step with each look, and by what is waited for
    random      the same bytes; a session gets its own when it begins (`driver.reseed`)
    files       their inode is a hash of their path, and their time that of every file of an image (`cache.TIME`)
    folders     have no size, and are listed by the host, by name (`Interposer`'s ``by_name``)
"""

from __future__ import annotations

import ctypes
import hashlib
import random
import struct
from collections.abc import Callable
from pathlib import PurePosixPath

from wasm_kernel.host.image.cache import TIME
from wasm_kernel.host.runtime import polling
from wasm_kernel.host.runtime.engine import Func, Store
from wasm_kernel.host.runtime.interposer import FILTERED

_STEP = 1_000_000  # nanoseconds
_BOOTED = 1_000_000_000  # what the monotonic clock says at first; 0 would mean "never"
_SEED = 2026
_ANSWERED = {"clock_res_get": "ii", "clock_time_get": "ili", "poll_oneoff": "iiii", "random_get": "ii"}
_MENDED = ("fd_filestat_get", "path_filestat_get", "path_open")
_FOLDER = 3
_FILESTAT = struct.Struct("<QQB7xQQQQQ")  # device, inode, kind, links, size, and when it was read, written, changed
_EFAULT = 21


class Reproducible:
    """The calls of one guest that are answered here.

    Attributes:
        memory: Where the guest's memory is, and how large; set before the guest runs.
    """

    def __init__(self) -> None:
        self.memory: Callable[[], tuple[int, int]] = lambda: (0, 0)
        self._passed = 0  # nanoseconds
        self._random = random.Random(_SEED)
        self._paths: dict[int, str] = {}  # of descriptors that the guest opened

    def around(self, store: Store, name: str, function: Func) -> Func:
        """What the guest is linked with in the place of one of WASI's functions."""
        if name in _ANSWERED:
            return store.host_function(_ANSWERED[name], "i", self._safely(getattr(self, f"_{name}")))
        if name in _MENDED:
            letters = FILTERED[name]
            ask, mend = store.caller(function, letters, "i"), self._safely(getattr(self, f"_{name}"))
            return store.host_function(letters, "i", lambda *given: ask(*given) or mend(*given))
        return function

    @staticmethod
    def _safely(answer: Callable[..., None]) -> Callable[..., int]:
        def call(*given: int) -> int:
            try:
                answer(*given)
            except IndexError:
                return _EFAULT
            return 0

        return call

    @property
    def monotonic_ns(self) -> int:
        """The guest's monotonic clock."""
        return _BOOTED + self._passed

    @property
    def _real_ns(self) -> int:
        return TIME * 1_000_000_000 + self._passed

    # ---- the guest's memory

    def _span(self, pointer: int, length: int) -> int:
        start, size = self.memory()
        pointer, length = pointer & 0xFFFFFFFF, length & 0xFFFFFFFF
        if pointer + length > size:
            raise IndexError("outside the guest's memory")
        return start + pointer

    def _read(self, pointer: int, length: int) -> bytes:
        return ctypes.string_at(self._span(pointer, length), length & 0xFFFFFFFF)

    def _write(self, pointer: int, data: bytes) -> None:
        ctypes.memmove(self._span(pointer, len(data)), data, len(data))

    # ---- time and chance

    def _clock_res_get(self, _clock: int, out: int) -> None:
        self._write(out, (1).to_bytes(8, "little"))

    def _clock_time_get(self, clock: int, _precision: int, out: int) -> None:
        self._passed += _STEP
        self._write(out, (self.monotonic_ns if clock else self._real_ns).to_bytes(8, "little"))

    def _poll_oneoff(self, subscriptions: int, events: int, count: int, used: int) -> None:
        """Nothing is waited for: what is asked for has come, and the clocks say so."""
        asked = self._read(subscriptions, count * polling.ASKED_SIZE)
        ready, wait = polling.what_is_asked(asked, self.monotonic_ns, self._real_ns)
        if wait is not None:
            self._passed += max(0, round(wait.seconds * 1e9))
            ready.append(wait.event)
        self._write(events, polling.pack(ready))
        self._write(used, len(ready).to_bytes(4, "little"))

    def _random_get(self, out: int, length: int) -> None:
        self._span(out, length)
        self._write(out, self._random.randbytes(length))

    # ---- files

    def _path_open(
        self, folder: int, _lookup: int, path: int, length: int, _oflags: int, _rights: int, _inherit: int,
        _fdflags: int, out: int,
    ) -> None:  # fmt: skip
        opened = int.from_bytes(self._read(out, 4), "little")
        self._paths[opened] = self._path(folder, path, length)

    def _path(self, folder: int, path: int, length: int) -> str:
        name = self._read(path, length).decode(errors="replace")
        return str(PurePosixPath(self._of(folder), name))  # "." is left out

    def _of(self, descriptor: int) -> str:
        return self._paths.get(descriptor, f"{descriptor}")

    def _fd_filestat_get(self, descriptor: int, out: int) -> None:
        self._tell(out, self._of(descriptor))

    def _path_filestat_get(self, folder: int, _lookup: int, path: int, length: int, out: int) -> None:
        self._tell(out, self._path(folder, path, length))

    def _tell(self, out: int, path: str) -> None:
        """Put what every build is told of a file in the place of what this machine says."""
        _, _, kind, _, size, *_ = _FILESTAT.unpack(self._read(out, _FILESTAT.size))
        inode = int.from_bytes(hashlib.sha256(path.encode()).digest()[:6], "little")
        times = [TIME * 1_000_000_000] * 3
        self._write(out, _FILESTAT.pack(1, inode, kind, 1, 0 if kind == _FOLDER else size, *times))
