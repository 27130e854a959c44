"""Fixtures of the tests of the command line."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.apps.terminal import Main


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty workspace root, which the commands use unless told otherwise."""
    folder = tmp_path / "workspace"
    folder.mkdir()
    monkeypatch.setenv("WASM_KERNEL_WORKSPACE", str(folder))
    monkeypatch.setenv("JUPYTER_CONFIG_DIR", str(tmp_path / "jupyter"))
    return folder


@pytest.fixture
def main(capsys: pytest.CaptureFixture[str]) -> Main:
    """Calls the command in this process."""
    return Main(capsys)
