"""One rule of what a workspace uses: /app, /tmp, and what was deleted but is still open."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.sessions.helpers import other_process
from wasm_kernel import ExecutionPolicy
from wasm_kernel.host.files.quota import Quota, measure

KiB = 1 << 10
POLICY = ExecutionPolicy(workspace_bytes=1000 * KiB, max_files=5, max_file_bytes=100 * KiB)


@pytest.fixture
def places(tmp_path: Path) -> tuple[Path, Path]:
    """/app and /tmp."""
    for name in ("app", "tmp"):
        (tmp_path / name).mkdir()
    return tmp_path / "app", tmp_path / "tmp"


def test_both_folders_count(places: tuple[Path, Path]) -> None:
    app, tmp = places
    (app / "a").write_bytes(bytes(100 * KiB))
    assert measure(POLICY, app) == Quota(100 * KiB, 1000 * KiB, 1, 5, 100 * KiB)
    (tmp / "b").write_bytes(bytes(200 * KiB))
    both = measure(POLICY, app, tmp)
    assert (both.used, both.free, both.entries, both.free_entries) == (300 * KiB, 700 * KiB, 2, 3)


@pytest.mark.parametrize("where", [0, 1])
def test_what_was_deleted_but_is_open_counts(places: tuple[Path, Path], where: int) -> None:
    path = places[where] / "gone"
    with path.open("wb") as file:
        file.write(bytes(300 * KiB))
        file.flush()
        path.unlink()
        assert measure(POLICY, *places).used == 300 * KiB
        assert measure(POLICY, *places, pid=os.getpid()).used == 300 * KiB
        file.truncate(10 * KiB)
        assert (measure(POLICY, *places).used or 0) < 300 * KiB
    assert measure(POLICY, *places).used == 0


def test_what_another_process_has_open(places: tuple[Path, Path]) -> None:
    code = """
import os, sys
file = open(sys.argv[1], "wb")
file.write(bytes(300 << 10)); file.flush(); os.unlink(sys.argv[1])
print("ready", flush=True)
sys.stdin.readline()
"""
    with other_process(code, places[0] / "gone") as holder:
        assert measure(POLICY, *places, pid=holder.pid).used == 300 * KiB
        assert measure(POLICY, *places).used == 0, "not in this process"
    assert measure(POLICY, *places, pid=holder.pid).used == 0, "nor in one that is gone"


def test_deleted_files_elsewhere_do_not_count(places: tuple[Path, Path], tmp_path: Path) -> None:
    beside = tmp_path / "app-not"
    with beside.open("wb") as file:
        file.write(bytes(300 * KiB))
        file.flush()
        beside.unlink()
        assert measure(POLICY, *places).used == 0


def test_links_lead_nowhere(places: tuple[Path, Path], tmp_path: Path) -> None:
    (tmp_path / "large").write_bytes(bytes(300 * KiB))
    (places[1] / "link").symlink_to(tmp_path / "large")
    (places[1] / "folder").symlink_to(tmp_path)
    assert (measure(POLICY, *places).used or 0) < 10 * KiB


@pytest.mark.parametrize("where", [0, 1])
def test_what_cannot_be_counted_leaves_no_room(places: tuple[Path, Path], where: int) -> None:
    here = os.open(places[where], os.O_RDONLY)
    for _ in range(300):
        os.mkdir("d", dir_fd=here)
        deeper = os.open("d", os.O_RDONLY, dir_fd=here)
        os.close(here)
        here = deeper
    os.close(here)
    found = measure(POLICY, *places)
    assert (found.used, found.free, found.free_entries) == (None, 0, 0)


def test_more_than_is_allowed_is_no_room(places: tuple[Path, Path]) -> None:
    for n in range(7):
        (places[0] / str(n)).write_bytes(bytes(200 * KiB))
    found = measure(POLICY, *places)
    assert (found.free, found.free_entries) == (0, 0)
