"""Sessions far apart on the disk."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.disks import ext4
from wasm_kernel import create_session_sandbox
from wasm_kernel.host.disk.spreading import spread

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="ext4 is Linux's")


def test_sessions_are_made_where_folders_are_spread(tmp_path: Path) -> None:
    """As `lsattr` shows it; set once, and left alone then."""
    with ext4(tmp_path, 64) as disk:
        root = disk.at / "root"
        for _ in range(2):
            _, sandbox = create_session_sandbox(workspace_root=root)
            sandbox.close()
            shown = subprocess.run(
                ["lsattr", "-d", root / ".wasm-kernel/new"], capture_output=True, text=True, check=True
            )
            assert "T" in shown.stdout.split()[0] and "e" in shown.stdout.split()[0]


def test_elsewhere_nothing_happens(tmp_path: Path) -> None:
    spread(Path("/dev/shm"))  # no flag of that kind
    spread(tmp_path / "missing")
    (tmp_path / "file").touch()
    spread(tmp_path / "file")
