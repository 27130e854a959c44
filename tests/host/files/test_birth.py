"""When a file was made."""

from __future__ import annotations

import ctypes
import os
import time
from pathlib import Path

import pytest

from wasm_kernel.host.files import birth


def born(path: Path) -> int:
    handle = os.open(path, os.O_RDONLY)
    try:
        return birth.born(handle)
    finally:
        os.close(handle)


def test_the_structure_is_as_long_as_the_kernels() -> None:
    assert ctypes.sizeof(birth._Statx) == 256
    assert birth._Statx.seconds.offset == 80


def test_a_birth_is_now_and_does_not_change(tmp_path: Path) -> None:
    path = tmp_path / "a"
    path.write_text("1")
    first = born(path)
    if not first:
        pytest.skip("this file system does not say when files were made")
    assert abs(first - time.time_ns()) < 60e9
    path.write_text("another text")
    os.utime(path, (5, 5))
    path = path.rename(tmp_path / "b")
    assert born(path) == first
    time.sleep(0.05)
    path.unlink()
    path.write_text("1")
    assert born(path) != first


def test_where_nobody_knows_it_is_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(birth, "_statx", lambda: None)
    (tmp_path / "a").touch()
    assert born(tmp_path / "a") == 0
