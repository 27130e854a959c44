"""Images that earlier versions of wasm-kernel built: what was saved with one goes on with it, as long as it is there.

A snapshot holds the pages in which a guest differs from its image's base memory, so it needs that very image: the base
memory, the library and the packages that are imported in it, and machine code of the module that it was made with. The
rest is this version's own: the interposer, and everything on the host. The numeric kernels in the code may be any.

* An image can be used if all of it is in the cache, its machine code fits this machine and this wasmtime, and its guest
  speaks a protocol that this host understands (`wire.OLDEST_PROTOCOL`).
* A key names all that went into an image and, after a hyphen, the build. All builds of the same are equal (`boot.py`);
  one that is not counts as another image. Keys saved before 18 November 2026 name no build, and are taken for the build
  that is there.
* Code that no longer fits, such as after an update of wasmtime, is made again by `wasm-kernel image build --image KEY`.
* `wasm-kernel image clean` leaves alone what sessions need (`sessions/image_use.py`).
"""

from __future__ import annotations

import re
import threading
from typing import Any

from wasm_kernel.errors import NotAllowed, OlderImage
from wasm_kernel.guest import wire
from wasm_kernel.host import administrator
from wasm_kernel.host.image import cache, image
from wasm_kernel.host.image.cache import Entry
from wasm_kernel.host.image.image import Image, Parts

# What images were made of before they said so themselves, in November 2026.
_FIRST_MODULE = "9c0dcf338761ddca6be7"
_FIRST = {"runtime": "b2368b22f45566622b7a", "library": "f129392d2380409290ef", "site": "d42317f10ac976d5cc19"}

_BUILT_APART = (
    "builds should be the same everywhere, so one is damaged (`wasm-kernel doctor --deep`), or a machine builds "
    "differently, which please report. Until then let all use one build: `wasm-kernel image pack FILE` on one machine, "
    "`wasm-kernel image clean --all` and `wasm-kernel install --image FILE` on the others"
)
_KEY = re.compile("[0-9a-f]{20}(-[0-9a-f]{12})?")
_loaded: dict[Entry, Image] = {}
_lock = threading.Lock()


def load(key: str, *, metered: bool = False) -> Image:
    """The image with this key, this version's or an earlier one's. `OlderImage` says why it cannot be used."""
    current = image.load()
    if key in (current.key, current.parts.base.key):
        return current
    try:
        administrator.check_image(inputs_of(key))
    except NotAllowed:
        raise OlderImage(f"{_saved_with(key)}, which the administrator's rules do not allow here") from None
    which = find(key)
    _check(which, metered=metered)
    with _lock:
        if which.base not in _loaded:
            _loaded[which.base] = Image(which)
        return _loaded[which.base]


def inputs_of(key: str) -> str:
    """What an image's key says of all that went into it: what its entry in the cache is called."""
    return key.partition("-")[0]


def find(key: str) -> Parts:
    """The parts of an image by its key, whether all of them are there or not. `OlderImage` if its base is not."""
    if not _KEY.fullmatch(key):  # it may come from a file of somebody else's, and becomes a path
        raise OlderImage(f"the variables were saved with something that is no image: {key[:80]!r}")
    found = _find(inputs_of(key))
    build, here = key.partition("-")[2], image.build_of(found.base)
    if build and here and build != here:
        raise OlderImage(
            f"the variables were saved with another build of the same image ({key}; the one here is {here}): "
            f"{_BUILT_APART}"
        )
    return found


def why_another(one: str, other: str) -> str:
    """What to do about two machines that have these images, which should be the same."""
    if inputs_of(one) == inputs_of(other):
        return f"they are builds of the same image, and {_BUILT_APART}"
    return "install the same version of wasm-kernel there and here, and run `wasm-kernel install`"


def _find(key: str) -> Parts:
    current = image.parts()
    if key == current.base.key:
        return current
    base = Entry("base", key)
    manifest = base.manifest()
    if manifest is None:
        raise OlderImage(
            f"{_saved_with(key)}, which is not on this machine. Install the wasm-kernel that saved them in an "
            "environment of its own, and run `wasm-kernel image build` there: then they open here, too"
        )
    made_of, module = manifest.get("made_of"), manifest.get("module", "")
    if made_of is None:
        guest = image.guest_sources(base.path / "kernel" / image.GUEST_PACKAGE)
        if image.base_entry(_FIRST["library"], _FIRST["site"], guest) != base:
            raise OlderImage(f"{_saved_with(key)}, which does not say what it is made of")
        made_of, module = _FIRST, _FIRST_MODULE
    return Parts(
        Entry("runtime", made_of["runtime"]),
        Entry("library", made_of["library"]),
        Entry("site", made_of["site"]),
        _code(module, metered=False),
        current.filter,
        _code(module, metered=True),
        current.metered_filter,
        base,
        module,
    )


def protocol(which: Parts) -> int:
    """What the guest of an image speaks."""
    return int((which.base.manifest() or {}).get("protocol", 1))


def problem_with(which: Parts, *, metered: bool = False) -> str:
    """Why an image cannot be used here; empty if it can."""
    key, spoken = which.base.key, protocol(which)
    if not wire.OLDEST_PROTOCOL <= spoken <= wire.PROTOCOL:
        return (
            f"{_saved_with(key)}, whose guest this version of wasm-kernel does not understand (protocol {spoken}, not "
            f"{wire.OLDEST_PROTOCOL} to {wire.PROTOCOL}). The wasm-kernel that saved them opens them"
        )
    missing = [entry.kind for entry in (which.library, which.site, which.base) if entry.manifest() is None]
    if missing:
        return f"{_saved_with(key)}, of which these parts are gone: {', '.join(missing)}"
    if (which.metered_code if metered else which.code).manifest() is None:
        more = " --metered" if metered else ""
        return (
            f"{_saved_with(key)}, which has to be compiled for this CPU and wasmtime: run `wasm-kernel image build "
            f"--image {key}{more}`, and open the session again"
        )
    return ""


def _saved_with(key: str) -> str:
    return f"the variables were saved with another version of the sandbox (image {key})"


def _check(which: Parts, *, metered: bool) -> None:
    problem = problem_with(which, metered=metered)
    if problem:
        raise OlderImage(problem)


def _code(module: str, *, metered: bool) -> Entry:
    """Machine code of a module for this machine: the newest that is there; else what would have to be made."""
    own = image.code_entry(module, image.code_settings(), metered=metered)
    first = image.code_entry(module, image.machine_settings(), metered=metered)  # its manifest does not say what it is
    fits = {"module": module, "settings": image.machine_settings(), "metered": metered}
    found: list[tuple[float, Entry]] = []
    for entry in cache.entries("code"):
        manifest: dict[str, Any] = entry.manifest() or {}
        if all(manifest.get(name) == value for name, value in fits.items()) or (manifest and entry == first):
            found.append((manifest["built_at"], entry))
    return max(found, default=(0.0, own), key=lambda one: one[0])[1]
