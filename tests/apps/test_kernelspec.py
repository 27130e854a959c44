"""What Jupyter finds of the kernel, whichever way it was installed."""

from __future__ import annotations

import json
import struct
import sys
import tomllib
from pathlib import Path

import pytest

from wasm_kernel.apps import kernelspec

_ROOT = Path(__file__).parents[2]
_LOGOS = {"logo-32x32.png", "logo-64x64.png", "logo-svg.svg"}


def test_install_writes_the_spec_with_its_logos(tmp_path: Path) -> None:
    folder = Path(kernelspec.install(name="sealed", prefix=str(tmp_path)))
    assert folder == tmp_path / "share/jupyter/kernels/sealed"
    assert {file.name for file in folder.iterdir()} == {"kernel.json", *_LOGOS}
    assert json.loads((folder / "kernel.json").read_text()) == kernelspec.spec(sys.executable, provisioner=False)
    assert (folder / "logo-svg.svg").read_text().startswith("<svg")


@pytest.mark.parametrize("size", [32, 64])
def test_a_logo_has_the_size_of_its_name(size: int) -> None:
    header = (kernelspec.LOGOS / f"logo-{size}x{size}.png").read_bytes()[:26]
    assert header.startswith(b"\x89PNG")
    assert struct.unpack(">II", header[16:24]) == (size, size)
    assert header[25] == 6, "no transparency"


def test_the_wheel_brings_the_same_spec_and_logos() -> None:
    settings = tomllib.loads((_ROOT / "pyproject.toml").read_text())
    shared = settings["tool"]["hatch"]["build"]["targets"]["wheel"]["shared-data"]
    ours = [source for source, target in shared.items() if target == "share/jupyter/kernels/wasm"]
    files = [file for source in ours for file in (_ROOT / source).iterdir()]
    assert {file.name for file in files} == {"kernel.json", *_LOGOS}
    in_wheel = json.loads(next(file for file in files if file.name == "kernel.json").read_text())
    assert in_wheel == kernelspec.spec("python")
