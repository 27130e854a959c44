"""Whether a host still is what a new process would be: the same code, the same image."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from wasm_kernel.errors import WasmKernelError
from wasm_kernel.host.image import image

_PACKAGE = Path(__file__).parents[2]
Stamp = tuple[int, int, int] | None


class Freshness:
    """What a host was made of: its modules, its Python, its image.

    Of other packages the folders are looked at, which an upgrade changes; of ours, which may be a clone that somebody
    edits, every file.
    """

    def __init__(self) -> None:
        found = (getattr(module, "__file__", None) for module in list(sys.modules.values()))
        files = {Path(file) for file in found if file}
        folders = {file if _ours(file) else file.parent for file in files}
        self._files = sorted({str(path) for path in (*folders, Path(sys.executable), Path(sys.prefix, "pyvenv.cfg"))})
        self._made_of = self._look()

    @property
    def lost(self) -> bool:
        """Whether a file was replaced since, or the image is another or elsewhere."""
        return self._look() != self._made_of

    def _look(self) -> list[tuple[str, Stamp]]:
        try:
            entries = [entry.path for entry in image.parts().all()]  # where the administrator says, now
        except WasmKernelError:
            return []
        return [(name, _stamp(name)) for name in (*self._files, *map(str, entries))]


def _ours(file: Path) -> bool:
    return _PACKAGE in file.parents


def _stamp(name: str) -> Stamp:
    try:
        found = os.stat(name)  # noqa: PTH116 - hundreds of times per request
    except OSError:
        return None
    return found.st_mtime_ns, found.st_size, found.st_ino
