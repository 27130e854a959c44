"""Many new files in one go: one sync for all, names only after it, nothing half there. Real files, the sync watched."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from wasm_kernel.host.files import new_file
from wasm_kernel.host.files.folder import Folder
from wasm_kernel.host.files.new_file import NewFiles


@pytest.fixture
def syncs(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[set[str]]:
    """For each sync: the names that could be seen in the folder then."""
    seen: list[set[str]] = []
    real = new_file.sync_file_system

    def watched(handle: int) -> None:
        seen.append(names(tmp_path))
        real(handle)

    monkeypatch.setattr(new_file, "sync_file_system", watched)
    return seen


def names(folder: Path) -> set[str]:
    return {name for name in os.listdir(folder) if not name.startswith(new_file.TEMPORARY)}


def test_one_sync_for_all_and_names_only_after_it(tmp_path: Path, syncs: list[set[str]]) -> None:
    with Folder(tmp_path) as folder, NewFiles() as files:
        for n in range(20):
            files.write(folder.create(f"f{n}"), [b"a", str(n).encode()], modified_ns=n * 10**9)
        assert names(tmp_path) == set()
    assert syncs == [set()]
    assert {name: (tmp_path / name).read_bytes() for name in os.listdir(tmp_path)} == {
        f"f{n}": f"a{n}".encode() for n in range(20)
    }
    assert (tmp_path / "f7").stat().st_mtime_ns == 7 * 10**9


def test_more_than_there_are_descriptors_for_go_in_parts(
    tmp_path: Path, syncs: list[set[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(new_file, "_AT_ONCE", 8)
    before = len(os.listdir("/dev/fd"))
    with Folder(tmp_path) as folder, NewFiles() as files:
        for n in range(20):
            files.write(folder.create(f"f{n}"), [b"x"])
            assert len(os.listdir("/dev/fd")) <= before + 1 + 2 * 8
    assert [len(seen) for seen in syncs] == [0, 8, 16]
    assert len(names(tmp_path)) == 20 and len(os.listdir("/dev/fd")) == before


@pytest.mark.parametrize("where", ["content", "sync"])
def test_what_fails_leaves_nothing_behind_and_what_was_there_stays(
    tmp_path: Path, where: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "f0").write_bytes(b"old")
    before = len(os.listdir("/dev/fd"))

    def fail(*args: object) -> None:
        raise OSError("the disk is full")

    if where == "sync":
        monkeypatch.setattr(new_file, "sync_file_system", fail)
    with pytest.raises(OSError, match="full"), Folder(tmp_path) as folder, NewFiles() as files:
        for n in range(3):
            files.write(folder.create(f"f{n}"), [b"new"])
        if where == "content":
            files.write(folder.create("f3"), iter(fail, None))
    assert os.listdir(tmp_path) == ["f0"] and (tmp_path / "f0").read_bytes() == b"old"
    assert len(os.listdir("/dev/fd")) == before
