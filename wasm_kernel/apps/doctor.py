"""Check everything the kernel needs, and say how to fix what is wrong."""

from __future__ import annotations

import contextlib
import json
import os
import platform
import shutil
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from jupyter_core.paths import jupyter_config_path, jupyter_path

from wasm_kernel.errors import NotAllowed
from wasm_kernel.host import administrator
from wasm_kernel.host.image import cache, image
from wasm_kernel.host.runtime import engine
from wasm_kernel.model.units import format_size

_ROOM_FOR_IMAGE = 2 << 30
_MEMORY_FOR_BUILD = 2_600_000_000
_WIDGETS = "@jupyter-widgets/jupyterlab-manager"
_REINSTALL = "pip install --force-reinstall --no-deps wasm-kernel"


@dataclass(frozen=True)
class Finding:
    """The result of one check."""

    what: str
    ok: bool
    detail: str
    remedy: str = ""


def examine(*, deep: bool = False) -> Iterator[Finding]:
    """Check everything; ``deep`` also reads the whole image and compares it with what was built."""
    yield _python()
    yield _platform()
    yield _wasmtime()
    rules = _rules()
    yield rules
    if rules.ok:
        yield from _about_image(deep)
    yield _kernelspec()
    yield _server_extension()
    yield _lab_extension("Lab extension", _WIDGETS, "widgets and %session files", "pip install jupyterlab_widgets")
    yield _lab_extension("Side panel", "wasm-kernel", "the timeline, files and variables", _REINSTALL)


def _about_image(deep: bool) -> Iterator[Finding]:
    yield _cache()
    built = image.is_built()
    yield _disk(built)
    yield _image(built)
    if deep and built:
        yield _image_bytes()
    if built and "fuel" in administrator.rules().maxima:
        metered = image.is_built(metered=True)
        detail = (
            f"fuel is limited, {'and' if metered else 'but'} the metered module is {'' if metered else 'not '}built"
        )
        yield Finding("Fuel", metered, detail, "run `wasm-kernel image build --metered`")


def _python() -> Finding:
    version = platform.python_version()
    return Finding(
        "Python", sys.version_info >= (3, 11), f"{version} at {sys.executable}", "install Python 3.11 or later"
    )


def _platform() -> Finding:
    bits = sys.maxsize > 2**32
    ok = bits and platform.system() in ("Linux", "Darwin")
    return Finding(
        "Platform", ok, f"{platform.system()} {platform.machine()}", "use 64-bit Linux or macOS (on Windows: WSL)"
    )


def _wasmtime() -> Finding:
    version = engine.version()
    numbers = tuple(int(part) for part in version.split(".")[:3])
    ok = (50, 0, 1) <= numbers < (51,)
    return Finding("wasmtime", ok, version, "pip install 'wasmtime>=50.0.1,<51'")


def _rules() -> Finding:
    what = "Administrator's rules"
    try:
        rules = administrator.rules()
    except NotAllowed as e:
        return Finding(what, False, str(e), "docs/administrators.md says what may be in it")
    files = sorted(set(rules.sources.values()))
    detail = f"{', '.join(rules.given())} in {' and '.join(files)}" if files else "none"
    return Finding(what, True, detail)


def _cache() -> Finding:
    root = cache.cache_root()
    if not root.exists():
        return Finding("Cache folder", True, f"{root} (not created yet)")
    info = root.stat()
    problem = cache.ownership_problem(info)
    if not problem and info.st_uid != os.getuid():
        return Finding("Cache folder", True, f"{root} (the administrator's)")
    if not problem and not os.access(root, os.W_OK | os.X_OK):
        problem = "is not writable"
    return Finding(
        "Cache folder", not problem, f"{root} {problem}".rstrip(), "set WASM_KERNEL_CACHE to a folder of your own"
    )


def _disk(built: bool) -> Finding:
    folder = cache.cache_root()
    while not folder.exists():
        folder = folder.parent
    free = shutil.disk_usage(folder).free
    wanted = 256 << 20 if built else _ROOM_FOR_IMAGE
    return Finding(
        "Free disk",
        free >= wanted,
        f"{format_size(free)} where the cache is",
        f"free {format_size(wanted)}, or move the cache",
    )


def _image(built: bool) -> Finding:
    key = image.parts().base.key
    try:
        administrator.check_image(key)
    except NotAllowed as e:
        return Finding("Image", False, str(e), "pin the image that is installed, or install the one that is pinned")
    if built:
        return Finding("Image", True, f"{key} is built and complete")
    missing = [entry.kind for entry in image.parts().all() if entry.manifest() is None]
    return Finding("Image", False, f"missing or damaged: {', '.join(missing)}", "run `wasm-kernel install`")


def _image_bytes() -> Finding:
    damaged = [f"{entry.kind}/{name}" for entry in image.parts().all() for name in entry.verify()]
    detail = f"{len(damaged)} files differ: {', '.join(damaged[:3])}" if damaged else "every file is as it was built"
    return Finding("Image's bytes", not damaged, detail, "run `wasm-kernel image build --force`")


def _kernelspec() -> Finding:
    from jupyter_client.kernelspec import KernelSpecManager, NoSuchKernel

    remedy = "run `wasm-kernel install`"
    try:
        spec = KernelSpecManager().get_kernel_spec("wasm")
    except NoSuchKernel:
        return Finding("Kernelspec", False, "Jupyter finds no kernel called 'wasm'", remedy)
    except (OSError, ValueError, json.JSONDecodeError) as e:
        return Finding("Kernelspec", False, f"cannot be read: {e}", remedy)
    program = spec.argv[0] if spec.argv else ""
    if Path(program).is_absolute() and not Path(program).exists():
        return Finding("Kernelspec", False, f"{spec.resource_dir} starts {program}, which does not exist", remedy)
    return Finding("Kernelspec", True, spec.resource_dir)


def _server_extension() -> Finding:
    from jupyter_server.extension.config import ExtensionConfigManager

    what, remedy = "Server extension", "run `jupyter server extension enable wasm_kernel`, and start the server again"
    manager: Any = ExtensionConfigManager(read_config_path=jupyter_config_path())
    found = manager.get_jpserver_extensions()
    if found.get("wasm_kernel") is True:
        return Finding(what, True, "enabled: downloads, large uploads and the REST API")
    missing = "is disabled" if "wasm_kernel" in found else "is not enabled"
    return Finding(what, False, f"{missing}: no downloads, no large uploads, no REST API", remedy)


def _lab_extension(what: str, name: str, gives: str, remedy: str) -> Finding:
    """Whether JupyterLab has an extension, and has it enabled; ``gives``: what people would miss."""
    if find_spec("jupyterlab") is None:
        return Finding(what, True, "JupyterLab is not in this environment: not looked at")
    if not any((Path(folder) / name / "package.json").is_file() for folder in jupyter_path("labextensions")):
        return Finding(what, False, f"{name} is missing, and with it {gives}", remedy)
    for folder in jupyter_config_path():
        with contextlib.suppress(OSError, ValueError, AttributeError):
            told = json.loads((Path(folder) / "labconfig" / "page_config.json").read_bytes())
            if told.get("disabledExtensions", {}).get(name):
                remedy = f"run `jupyter labextension enable {name}`"
                return Finding(what, False, f"{name} is disabled, and with it {gives}", remedy)
    return Finding(what, True, f"{name} is there: {gives}")
