"""The object in the repository is what the sources give. Needs the compiler that its table names; CI has it."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from kernels import __main__ as make
from wasm_kernel.host.image.numeric_kernels import OBJECT, TABLE


@pytest.mark.skipif(
    not shutil.which(make._CLANG) or not shutil.which(make._LINKER), reason="no clang or lld for WebAssembly"
)
def test_the_object_is_what_the_sources_give(tmp_path: Path) -> None:
    made_by = json.loads(TABLE.read_text())["compiler"]
    if make.clang_version() != made_by:
        pytest.skip(f"this is {make.clang_version()}, the object was made by {made_by}")
    assert make.compile_kernels(tmp_path) == OBJECT.read_bytes(), "run `make kernels`"
