"""The layer between the guest and WASI: hides the host's files, enforces quotas, streams output, remembers open files.

Three small modules. The *shim* is what the guest is linked with: one trampoline per call through a table whose
slots trap until they are filled, so it fails closed. The *scratch* has a memory of its own on which wasmtime's calls
can act. The *filter* (`interposer.wat`) imports the guest's memory, checks every call, and calls wasmtime. The guest
is linked from an allowlist: an import nobody thought of does not link.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from wasm_kernel.errors import ConfigurationError
from wasm_kernel.host.runtime.engine import WASI, Engine, Module, Store, Trapped
from wasm_kernel.host.runtime.instance_parts import Around, as_it_is
from wasm_kernel.host.runtime.journal import OpenFile, entries
from wasm_kernel.model import names

HIDDEN = tuple(name.encode() for name in names.HIDDEN)

# Every call the filter takes, with the letters of its parameters (i: i32, l: i64). All return an errno.
FILTERED = {
    "clock_time_get": "ili",
    "fd_close": "i",
    "fd_fdstat_set_flags": "ii",
    "fd_filestat_get": "ii",
    "fd_filestat_set_size": "il",
    "fd_filestat_set_times": "illi",
    "fd_pread": "iiili",
    "fd_pwrite": "iiili",
    "fd_read": "iiii",
    "fd_readdir": "iiili",
    "fd_write": "iiii",
    "path_create_directory": "iii",
    "path_filestat_get": "iiiii",
    "path_filestat_set_times": "iiiilli",
    "path_link": "iiiiiii",
    "path_open": "iiiiillii",
    "path_readlink": "iiiiii",
    "path_remove_directory": "iii",
    "path_rename": "iiiiii",
    "path_symlink": "iiiii",
    "path_unlink_file": "iii",
    "poll_oneoff": "iiii",
}
SERVED_BY_HOST = {"poll_oneoff"}  # wasmtime's own is never called
# These take no path, list nothing and write nothing: the guest is linked with wasmtime's own.
PASSED = {
    "args_get", "args_sizes_get", "clock_res_get", "environ_get", "environ_sizes_get", "fd_advise", "fd_datasync",
    "fd_fdstat_get", "fd_prestat_dir_name", "fd_prestat_get", "fd_seek", "fd_sync",
    "fd_tell", "proc_exit", "random_get", "sched_yield", "sock_accept", "sock_recv", "sock_send",
    "sock_shutdown",
}  # fmt: skip
# wasmtime's calls on the scratch memory, for the filter and for the host.
ON_SCRATCH = {
    "clock_time_get": "ili",
    "fd_close": "i",
    "fd_filestat_get": "ii",
    "fd_readdir": "iiili",
    "fd_renumber": "ii",
    "fd_seek": "ilii",
    "fd_tell": "ii",
    "path_filestat_get": "iiiii",
    "path_open": "iiiiillii",
}
_CALLED = ("fd_close", "fd_renumber", "fd_seek", "fd_tell", "path_filestat_get", "path_open", "clock_time_get")
HOST_FUNCTIONS = {"out": "iii", "journal": "i", "list": "ii", "poll": "iiiil", "door": "iiii"}  # all return i32
_DOOR = "host_call"

CLAMP = 64 << 20
FLUSH_NS = 4_000_000
_LAYOUT = {
    "HIDDEN": 0x0,
    "STAT": 0x80,
    "STAT_SIZE": 0x80 + 32,
    "OUT32": 0xC0,
    "OUT64": 0xC8,
    "OUT_LEN": 0x100,
    "OUT_FD": 0x104,
    "OUT_LAST": 0x108,
    "JOURNAL_LEN": 0x110,
    "FLAGS": 0x400,
    "FLAGS_SIZE": 0x800,
    "FLAGS_LAST": 0x7FF,
    "PATH": 0x1000,
    "FOLDED": 0x2000,
    "JOURNAL": 0x3000,
    "JOURNAL_SIZE": 0xD000,
    "OUT_BUFFER": 0x10000,
    "OUT_SIZE": 0x10000,
    "KNOWN": 0x20000,
    "SESSIONS": 0x24000,
    "LIST": 0x30000,
}
_MOST_NAMES = _LAYOUT["LIST"] - _LAYOUT["SESSIONS"]
_LIST_MAX = 64 << 20
_MAX_PATH = 4096
_OPENED = (3, 4)  # WASI's kinds of what may be open: folders and files
_NOT_LISTED = 25  # EILSEQ: wasmtime's answer to a name that is not UTF-8
_LINK, _MAX_DEPTH = 7, 100  # a link's kind; names in a path that is opened again in /data


def _signature(letters: str) -> str:
    words = " ".join({"i": "i32", "l": "i64"}[c] for c in letters)
    return f"(param {words}) (result i32)"


def _arguments(letters: str) -> str:
    return " ".join(f"(local.get {i})" for i in range(len(letters)))


def shim_text() -> str:
    """The trampolines the guest is linked with."""
    calls = {**FILTERED, _DOOR: "iiii"}
    lines = ["(module", f'(table (export "table") {len(calls)} {len(calls)} funcref)']
    for i, (name, letters) in enumerate(calls.items()):
        lines.append(f"(type $t{i} (func {_signature(letters)}))")
        body = f"{_arguments(letters)} (call_indirect (type $t{i}) (i32.const {i}))"
        lines.append(f'(func (export "{name}") (type $t{i}) {body})')
    return "\n".join([*lines, ")"])


def scratch_text() -> str:
    """A memory of our own, and wasmtime's calls on it."""
    lines = ["(module"]
    lines += [f'(import "{WASI}" "{n}" (func ${n} {_signature(p)}))' for n, p in ON_SCRATCH.items()]
    first = _LAYOUT["LIST"]
    lines.append(f'(memory (export "memory") {(first >> 16) + 1} {(first + _LIST_MAX) >> 16})')
    for name, letters in ON_SCRATCH.items():
        lines.append(f'(func (export "{name}") {_signature(letters)} (call ${name} {_arguments(letters)}))')
    return "\n".join([*lines, ")"])


def _list_of(hidden: Iterable[bytes]) -> bytes:
    """Names as the filter reads them."""
    return b"".join(bytes([len(name)]) + name.lower() for name in hidden) + b"\0"


def filter_text(hidden: tuple[bytes, ...] = HIDDEN) -> str:
    """The checks themselves."""
    calls = [*FILTERED, _DOOR]
    lines = ["(module"]
    lines += [
        f'(import "{WASI}" "{n}" (func $real_{n} {_signature(p)}))'
        for n, p in FILTERED.items()
        if n not in SERVED_BY_HOST
    ]
    lines.append('(import "guest" "memory" (memory $g 0))')
    lines.append('(import "scratch" "memory" (memory $s 1))')
    lines += [f'(import "scratch" "{n}" (func $s_{n} {_signature(p)}))' for n, p in ON_SCRATCH.items()]
    lines.append(f'(import "shim" "table" (table {len(calls)} funcref))')
    lines += [f'(import "host" "{n}" (func $py_{n} {_signature(p)}))' for n, p in HOST_FUNCTIONS.items()]
    lines.append('(import "host" "refill" (func $py_refill (param i32 i64) (result i64)))')
    lines.append('(export "memory" (memory $g))')
    lines.append("(elem (i32.const 0) func " + " ".join(f"${n}" for n in calls) + ")")
    escaped = "".join(f"\\{byte:02x}" for byte in _list_of(hidden))
    lines.append(f'(data (memory $s) (i32.const {_LAYOUT["HIDDEN"]}) "{escaped}")')
    body = (Path(__file__).parent / "interposer.wat").read_text()
    for name, value in {**_LAYOUT, "CLAMP": CLAMP, "FLUSH_NS": FLUSH_NS}.items():
        body = body.replace(f"%{name}%", str(value))
    return "\n".join([*lines, body, ")"])


TEXTS: dict[str, Callable[[], str]] = {"shim": shim_text, "scratch": scratch_text, "filter": filter_text}


def compile_all(engine: Engine) -> dict[str, bytes]:
    """Machine code of the three modules."""
    return {name: engine.compile(text()) for name, text in TEXTS.items()}


@dataclass(frozen=True)
class Callbacks:
    """What the host does for a guest; each gets plain integers and returns one."""

    out: Callable[[int, bytes], None]
    poll: Callable[[int, int, int, int, int], int]
    door: Callable[[int, int, int, int], int]
    refill: Callable[[int, int], int]
    listing: Callable[[int, bytes], bytes] = lambda mount, path: b""


class Interposer:
    """The layer around one guest."""

    def __init__(
        self, store: Store, modules: dict[str, Module], callbacks: Callbacks, mounts: int, *, by_name: bool = False
    ) -> None:
        """``by_name``: every folder is listed by ``callbacks``, sorted, not as the system has it."""
        self._store, self._callbacks = store, callbacks
        self._first_free = 3 + mounts  # descriptors below are stdio and the preopened folders
        self._shim = store.instantiate(modules["shim"], [])
        self._filter_module = modules["filter"]
        real = {n: store.wasi_function(n) for n in {*FILTERED, *ON_SCRATCH} - SERVED_BY_HOST}
        self._real = real
        if by_name:
            real["fd_readdir"] = store.host_function(ON_SCRATCH["fd_readdir"], "i", lambda *_: _NOT_LISTED)
        self._scratch = store.instantiate(modules["scratch"], [real[n] for n in ON_SCRATCH])
        self._scratch_calls = {n: store.caller(self._scratch[n], p, "i") for n, p in ON_SCRATCH.items() if n in _CALLED}
        self._base = store.memory_address(self._scratch["memory"])
        self._out_len = ctypes.c_uint32.from_address(self._base + _LAYOUT["OUT_LEN"])
        self._out_fd = ctypes.c_uint32.from_address(self._base + _LAYOUT["OUT_FD"])
        self._journal_len = ctypes.c_uint32.from_address(self._base + _LAYOUT["JOURNAL_LEN"])
        self.open_files: dict[int, OpenFile] = {}

    def imports_for(self, module: Module, around: Around = as_it_is) -> list[Any]:
        """What the guest's module is linked with, in the order of its imports."""
        found = []
        for place, name in module.imports:
            if (place, name) == ("host", "call"):
                found.append(self._shim[_DOOR])
            elif place == WASI and name in FILTERED:
                found.append(around(self._store, name, self._shim[name]))
            elif place == WASI and name in PASSED:
                found.append(around(self._store, name, self._store.wasi_function(name)))
            else:
                raise ValueError(f"the guest imports {place}.{name}, which is not on the allowlist")
        return found

    def attach(self, guest_memory: Any) -> None:
        """Fill the shim's table: from here on the guest can call out."""
        store, calls = self._store, self._callbacks
        hosts: dict[str, Callable[..., int]] = {
            "out": lambda fd, p, n: self._take_output(fd, p, n),
            "journal": lambda _: self.read_journal(),
            "list": self._list,
            "poll": calls.poll,
            "door": calls.door,
        }
        imports = [self._real[n] for n in FILTERED if n not in SERVED_BY_HOST]
        imports += [guest_memory, self._scratch["memory"]]
        imports += [self._scratch[n] for n in ON_SCRATCH]
        imports.append(self._shim["table"])
        imports += [store.host_function(p, "i", hosts[n]) for n, p in HOST_FUNCTIONS.items()]
        imports.append(store.host_function("il", "l", calls.refill))
        self._filter = store.instantiate(self._filter_module, imports)

    def begin_turn(self) -> None:
        """A turn begins: nothing has changed yet, and the room left is counted before the first change."""
        for name in ("dirty", "bytes", "files"):
            self.set(name, 0)

    def hide_sessions(self, named: Iterable[str]) -> None:
        """Hide the folders of sessions in the workspace: those named by a UUID, and these."""
        found = _list_of(name.encode() for name in named)
        if len(found) > _MOST_NAMES:
            raise ConfigurationError(
                f"the workspace holds sessions whose names have {len(found):,} bytes in all, "
                f"and {_MOST_NAMES:,} can be hidden from a sandbox; give it a workspace of its own"
            )
        ctypes.memmove(self._base + _LAYOUT["SESSIONS"], found, len(found))
        self.set("sessions", 1)

    def set(self, name: str, value: int) -> None:
        """Set one of the filter's globals, by the name it is exported under."""
        self._store.set_global(self._filter[name], value)

    def get(self, name: str) -> int:
        """Read one of the filter's globals."""
        return self._store.get_global(self._filter[name])

    # ---- output

    @property
    def has_output(self) -> bool:
        """Whether output waits in the buffer. A racy read, from any thread, while the store lives."""
        return bool(self._out_len.value)

    def _take_output(self, fd: int, pointer: int, length: int) -> int:
        self._callbacks.out(fd, ctypes.string_at(self._base + pointer, length))
        return 0

    def drain_output(self) -> None:
        """Take what waits in the buffer. On the guest's thread only: in an epoch callback, or at rest."""
        length = self._out_len.value
        if length:
            self._out_len.value = 0
            self._take_output(self._out_fd.value, _LAYOUT["OUT_BUFFER"], length)

    # ---- clocks

    def monotonic_ns(self) -> int:
        """The guest's monotonic clock, without its offset."""
        self._scratch_calls["clock_time_get"](1, 1000, _LAYOUT["OUT64"])
        return ctypes.c_uint64.from_address(self._base + _LAYOUT["OUT64"]).value

    # ---- open descriptors

    def read_journal(self) -> int:
        """Bring `open_files` up to date with what was opened and closed."""
        data = ctypes.string_at(self._base + _LAYOUT["JOURNAL"], self._journal_len.value)
        self._journal_len.value = 0
        for fd, opened in entries(data):
            if opened is None:
                self.open_files.pop(fd, None)
                continue
            if opened.mount >= self._first_free:
                folder = self.open_files.get(opened.mount)
                if folder is None:
                    continue
                opened = replace(opened, mount=folder.mount, path=folder.path + b"/" + opened.path)
            if len(opened.path) > _MAX_PATH:  # a folder opened in a folder, and so on: not opened again after a trap
                continue
            self.open_files[fd] = opened
        return 0

    def _list(self, fd: int, room: int) -> int:
        """Put a folder's entries where the filter has room for them; how many bytes they have, 0 if it has none."""
        self.read_journal()
        folder = self.open_files.get(fd)
        mount, path = (folder.mount, folder.path) if folder is not None else (fd, b".")
        found = self._callbacks.listing(mount, path) if 3 <= mount < self._first_free else b""
        if len(found) <= room:
            ctypes.memmove(self._base + _LAYOUT["LIST"], found, len(found))
        return len(found)

    def descriptors(self) -> list[OpenFile]:
        """Every descriptor the guest holds, with its present offset."""
        self.read_journal()
        found = []
        for item in self.open_files.values():
            offset = 0
            if self._scratch_calls["fd_tell"](item.fd, _LAYOUT["OUT64"]) == 0:
                offset = ctypes.c_uint64.from_address(self._base + _LAYOUT["OUT64"]).value
            found.append(replace(item, offset=offset))
        return found

    def reopen(self, files: list[OpenFile]) -> list[OpenFile]:
        """Open descriptors again under their numbers; what is gone stays closed. Returns what could not be opened.

        The paths were checked by the filter when the guest opened them; wasmtime keeps them below their mount.
        """
        lost, placeholders = [], []
        for item in sorted(files, key=lambda f: f.fd):
            # A fresh store hands out numbers in order: those below are opened too, and closed at the end.
            while (fd := self._open_again(item)) is not None and fd < item.fd:
                placeholders.append(fd)
            if fd != item.fd:
                lost.append(item)
                continue
            self._scratch_calls["fd_seek"](fd, item.offset, 0, _LAYOUT["OUT64"])
            self.open_files[fd] = item
            flags = 4 | (item.fdflags & 1) << 1 | (item.mount == self.get("dev"))
            flags |= (item.mount == self.get("app")) << 3 | (item.mount == self.get("data")) << 4
            ctypes.c_uint8.from_address(self._base + _LAYOUT["FLAGS"] + fd).value = flags
        for fd in placeholders:
            self._scratch_calls["fd_close"](fd)
        self.set("open", len(self.open_files))
        return lost

    def _open_again(self, item: OpenFile) -> int | None:
        if len(item.path) > _MAX_PATH:  # of a snapshot that was made elsewhere
            return None
        ctypes.memmove(self._base + _LAYOUT["PATH"], item.path, len(item.path))
        if item.mount == self.get("data") and not self._shown(item):
            return None
        directory = item.oflags & 2
        try:
            if (
                self._scratch_calls["path_filestat_get"](
                    item.mount, item.lookup & 1, _LAYOUT["PATH"], len(item.path), _LAYOUT["STAT"]
                )
                or ctypes.c_uint8.from_address(self._base + _LAYOUT["STAT"] + 16).value not in _OPENED
            ):
                return None  # gone, or become a FIFO, which would be waited for
            status = self._scratch_calls["path_open"](
                item.mount, item.lookup, _LAYOUT["PATH"], len(item.path), directory, item.rights, 0, item.fdflags,
                _LAYOUT["OUT32"],
            )  # fmt: skip
        except Trapped:  # flags or rights that do not exist: no guest of ours had it open
            return None
        return None if status else ctypes.c_uint32.from_address(self._base + _LAYOUT["OUT32"]).value

    def _shown(self, item: OpenFile) -> bool:
        """Whether /data, which may be another folder by now, shows this: no name begins with a dot, none is a link."""
        names = item.path.replace(b"\\", b"/").split(b"/")
        if len(names) > _MAX_DEPTH or any(name[:1] == b"." and name not in (b".", b"..") for name in names):
            return False
        stat, kind = self._scratch_calls["path_filestat_get"], self._base + _LAYOUT["STAT"] + 16
        ends = (len(b"/".join(names[:count])) for count in range(1, len(names) + 1))
        stats = (stat(item.mount, 0, _LAYOUT["PATH"], end, _LAYOUT["STAT"]) for end in ends)
        return not any(status == 0 and ctypes.c_uint8.from_address(kind).value == _LINK for status in stats)
