"""The one atomic write: its order, what stays when it fails, and whom it overwrites."""

from __future__ import annotations

import ast
import os
import stat
import sys
from pathlib import Path
from typing import Any

import pytest

import wasm_kernel
from wasm_kernel.host.disk.removal import sweep_temporaries
from wasm_kernel.host.durable import PendingFile, sync_file_system, write_file, writing


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What is asked of the system, in order; a sync says whether it was of the file or of the folder."""
    seen: list[str] = []

    def recorded(name: str) -> None:
        real = getattr(os, name)

        def call(*args: Any, **more: Any) -> Any:
            of_folder = name == "fsync" and stat.S_ISDIR(os.fstat(args[0]).st_mode)
            seen.append("fsync(folder)" if of_folder else name)
            return real(*args, **more)

        monkeypatch.setattr(os, name, call)

    for name in ("write", "fsync", "rename", "link"):
        recorded(name)
    return seen


def test_written_synced_renamed_and_the_folder_synced(tmp_path: Path, calls: list[str]) -> None:
    write_file(tmp_path / "f", b"data")
    assert calls == ["write", "fsync", "rename", "fsync(folder)"]
    assert (tmp_path / "f").read_bytes() == b"data"
    assert stat.S_IMODE((tmp_path / "f").stat().st_mode) == 0o600


def test_the_same_when_it_must_be_new(tmp_path: Path, calls: list[str]) -> None:
    write_file(tmp_path / "f", b"data", exclusive=True)
    assert calls == ["write", "fsync", "link", "fsync(folder)"]
    with pytest.raises(FileExistsError):
        write_file(tmp_path / "f", b"other", exclusive=True)
    assert (tmp_path / "f").read_bytes() == b"data" and os.listdir(tmp_path) == ["f"]


def test_without_a_sync_it_is_still_whole(tmp_path: Path, calls: list[str]) -> None:
    write_file(tmp_path / "f", b"data", sync=False)
    assert calls == ["write", "rename"] and os.listdir(tmp_path) == ["f"]


@pytest.mark.parametrize("call", ["write", "fsync", "rename"])
def test_a_write_that_fails_changes_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, call: str) -> None:
    write_file(tmp_path / "f", b"before")

    def fail(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(os, call, fail)
        with pytest.raises(OSError, match="No space"):
            write_file(tmp_path / "f", b"after")
    assert (tmp_path / "f").read_bytes() == b"before" and os.listdir(tmp_path) == ["f"]


def test_a_disk_that_takes_only_a_part_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = os.write
    monkeypatch.setattr(os, "write", lambda handle, data: real(handle, data[:3]))
    write_file(tmp_path / "f", b"0123456789")
    assert (tmp_path / "f").read_bytes() == b"0123456789"


def test_whoever_is_interrupted_leaves_nothing(tmp_path: Path) -> None:
    def interrupted() -> None:
        with writing(tmp_path / "f") as file:
            file.write(b"half")
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert os.listdir(tmp_path) == []


def test_a_living_writer_is_left_alone_by_who_sweeps(tmp_path: Path) -> None:
    with PendingFile(f"{tmp_path}/new.") as file:
        (temporary,) = tmp_path.iterdir()
        sweep_temporaries([str(temporary)])
        assert temporary.exists()
        file.write(b"x")
        file.publish(tmp_path / "f")
    assert os.listdir(tmp_path) == ["f"]


def test_there_is_no_other_atomic_write() -> None:
    """Whatever syncs and renames files in one module is a second copy of this one.

    `audit` appends to its file and renames full ones; `delete_tree` moves folders up, and a sync frees their blocks.
    """
    folder = Path(wasm_kernel.__file__).parent
    found = set()
    for path in folder.rglob("*.py"):
        calls = (n.func for n in ast.walk(ast.parse(path.read_text())) if isinstance(n, ast.Call))
        called = {f.attr for f in calls if isinstance(f, ast.Attribute)}
        if "fsync" in called and called & {"rename", "replace"}:
            found.add(str(path.relative_to(folder)))
    assert found == {"host/durable.py", "host/files/delete_tree.py", "hub/audit.py"}


def test_a_file_system_is_synced_or_says_that_it_was_not(tmp_path: Path) -> None:
    handle = os.open(tmp_path, os.O_RDONLY)
    sync_file_system(handle)
    os.close(handle)
    if sys.platform == "linux":
        with pytest.raises(OSError, match="durable"):
            sync_file_system(handle)
