"""What retires a host: other code, another image."""

from __future__ import annotations

import importlib
import os
import sys
from pathlib import Path

import pytest

from wasm_kernel.apps.kernel_host import freshness
from wasm_kernel.apps.kernel_host.freshness import Freshness


def test_nothing_changed() -> None:
    assert not Freshness().lost


def test_an_upgraded_package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    package = tmp_path / "upgraded_for_a_test"
    package.mkdir()
    (package / "__init__.py").write_text("")
    monkeypatch.syspath_prepend(tmp_path)
    importlib.import_module(package.name)
    try:
        made_of = Freshness()
        assert not made_of.lost
        (package / "new.py").write_text("")  # as a newer version has it
        os.utime(package, ns=(1, 1))
        assert made_of.lost
    finally:
        del sys.modules[package.name]


def test_an_edited_module_of_ours(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    module = tmp_path / "edited_for_a_test.py"
    module.write_text("")
    monkeypatch.setattr(freshness, "_PACKAGE", tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    importlib.import_module(module.stem)
    try:
        made_of = Freshness()
        folder = tmp_path.stat()
        module.write_text("edited = True")  # in place: its folder does not change
        assert tmp_path.stat().st_mtime_ns == folder.st_mtime_ns
        assert made_of.lost
    finally:
        del sys.modules[module.stem]


def test_an_image_elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made_of = Freshness()
    monkeypatch.setenv("WASM_KERNEL_CACHE", str(tmp_path))
    assert made_of.lost
