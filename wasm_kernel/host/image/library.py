"""The guest's library: what the runtime brings as bytecode in a zip, laid out as an installation of Python.

The zip holds no sources, so tracebacks would have no lines and `??` nothing to show. They are in the wheels of the same
releases and, for the standard library, which is in no wheel, in `standard-library.tar.xz`. A .pyc says by which source
it was made: it holds that source's hash (PEP 552). So a source is put beside its bytecode exactly if it is the one; a
module that was changed for WebAssembly stays without.

    lib/python3.15/                 the standard library
    lib/python3.15/site-packages/   the packages that are linked into the runtime
    lib/python315.zip               as it came; the interpreter starts from it
"""

from __future__ import annotations

import _imp
import hashlib
import io
import shutil
import tarfile
import zipfile
from pathlib import Path, PurePosixPath
from typing import Any

from wasm_kernel.errors import ImageError

STANDARD = "python3.15"
SITE_PACKAGES = f"{STANDARD}/site-packages"
# What packages have beside their modules and the runtime left out.
DATA = ("statsmodels/datasets/*/*.csv", "sklearn/datasets/images/*")
STANDARD_SOURCES = Path(__file__).parent / "standard-library.tar.xz"
STANDARD_SHA256 = "9deec9281b2212644015bcda594dd3cabc3b35055ba710ed9b1780d09e646776"
_WITHOUT_WHEEL = {"lxml"}  # little of it is Python: not worth 8 MB
_TAG = "cpython-315"
_HEADER = 16  # bytes of a .pyc before its code: magic, flags, hash of the source


def lay_out(archive: Path, wheels: Path, folder: Path) -> dict[str, Any]:
    """Fill ``folder`` from the runtime's zip and from unpacked wheels; facts about it."""
    third_party = {PurePosixPath(path.name).stem for path in wheels.iterdir()} | _WITHOUT_WHEEL
    library = folder / "lib"
    sources = _standard_sources()
    shown, hidden = 0, []
    with zipfile.ZipFile(archive) as packed:
        for name in packed.namelist():
            path = PurePosixPath(name)
            first = path.parts[0]
            packages = PurePosixPath(first).stem in third_party or first.endswith(".dist-info")
            place = library / (SITE_PACKAGES if packages else STANDARD)
            if name.endswith("/"):
                continue
            if path.suffix != ".pyc":
                packed.extract(name, place)
                continue
            source = _source_in(wheels, path) if packages else sources.get(name.removesuffix("c"))
            if _add_module(place / path, packed.read(name), source):
                shown += 1
            else:
                hidden.append(name.removesuffix("c"))
    shutil.copyfile(archive, library / "python315.zip")
    _unpack_figures(library / SITE_PACKAGES / "matplotlib")
    _add_data(library / SITE_PACKAGES, wheels)
    _keep_licenses(folder / "LICENSES", wheels)
    (folder / "LICENSES" / "cpython.txt").write_bytes(sources.get("LICENSE", b""))
    return {"sources": shown, "without_source": sorted(hidden)}


def _standard_sources() -> dict[str, bytes]:
    data = STANDARD_SOURCES.read_bytes()
    if hashlib.sha256(data).hexdigest() != STANDARD_SHA256:
        raise ImageError(f"{STANDARD_SOURCES} is damaged; install wasm-kernel again")
    with tarfile.open(fileobj=io.BytesIO(data)) as packed:
        files = {member.name: packed.extractfile(member) for member in packed}
        return {name: file.read() for name, file in files.items() if file is not None}


def _source_in(wheels: Path, path: PurePosixPath) -> bytes | None:
    source = (wheels / path).with_suffix(".py")
    return source.read_bytes() if source.is_file() else None


def _add_module(target: Path, bytecode: bytes, source: bytes | None) -> bool:
    """Write a module: as bytecode alone or, if its source is at hand, as Python itself would after compiling it."""
    if source is None or not made_from(bytecode, source):
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(bytecode)
        return False
    cached = target.parent / "__pycache__" / f"{target.stem}.{_TAG}.pyc"
    cached.parent.mkdir(parents=True, exist_ok=True)
    cached.write_bytes(bytecode)
    target.with_suffix(".py").write_bytes(source)
    return True


def made_from(bytecode: bytes, source: bytes) -> bool:
    """Whether a .pyc was compiled from exactly this source, by the hash that it holds."""
    magic, flags, digest = bytecode[:4], bytecode[4:8], bytecode[8:_HEADER]
    return bool(flags[0] & 1) and _imp.source_hash(int.from_bytes(magic, "little"), source) == digest


def _unpack_figures(matplotlib: Path) -> None:
    """matplotlib opens its data by path."""
    data = matplotlib / "mpl-data.zip"
    with zipfile.ZipFile(data) as archive:
        archive.extractall(matplotlib / "mpl-data")
    data.unlink()


def _add_data(packages: Path, wheels: Path) -> None:
    for pattern in DATA:
        for path in wheels.glob(pattern):
            target = packages / path.relative_to(wheels)
            if path.is_file() and not target.exists():
                target.parent.mkdir(parents=True, exist_ok=True)
                shutil.move(path, target)


def _keep_licenses(folder: Path, wheels: Path) -> None:
    """What the wheels say about whose their files are."""
    for info in wheels.glob("*.dist-info"):
        for path in info.rglob("*"):
            name = path.name.upper()
            if path.is_file() and name.startswith(("LICEN", "COPYING", "NOTICE", "AUTHORS")):
                target = folder / info.name / path.relative_to(info)
                target.parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(path, target)
