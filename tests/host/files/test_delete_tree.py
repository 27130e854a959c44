"""Deleting a folder: the file that goes last is there again if only the folder cannot be deleted."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from wasm_kernel.host.files import delete_tree


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    folder = tmp_path / "session"
    (folder / "a" / "b").mkdir(parents=True)
    for name in ("last", "f", "a/b/g"):
        (folder / name).write_text("x" * 100_000)
    (folder / "last").chmod(0o640)
    return folder


def cannot_be_deleted(monkeypatch: pytest.MonkeyPatch, error: int) -> None:
    rmdir = os.rmdir

    def refuse(path: object, *, dir_fd: int | None = None) -> None:
        if path == "session":
            raise OSError(error, os.strerror(error))
        rmdir(path, dir_fd=dir_fd)  # type: ignore[arg-type]

    monkeypatch.setattr(os, "rmdir", refuse)


@pytest.mark.parametrize("error", [errno.ENOTEMPTY, errno.EBUSY])
def test_the_last_file_is_put_back(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: int) -> None:
    cannot_be_deleted(monkeypatch, error)
    handle = os.open(tmp_path, os.O_RDONLY)
    with pytest.raises(OSError):
        delete_tree.remove("session", "last", handle)
    os.close(handle)
    assert os.listdir(folder) == ["last"]
    assert (folder / "last").read_text() == "x" * 100_000
    assert (folder / "last").stat().st_mode & 0o777 == 0o640


def test_whatever_the_last_one_is(folder: Path, tmp_path: Path) -> None:
    (folder / "last").unlink()
    for make in (
        lambda path: path.mkdir(),
        lambda path: (path / "inner").mkdir(parents=True),
        lambda path: path.symlink_to("/"),
        lambda path: path.symlink_to("nowhere"),
        lambda path: os.mkfifo(path),
    ):
        folder.mkdir(exist_ok=True)
        make(folder / "last")
        delete_tree.remove(folder, "last")
        assert os.listdir(tmp_path) == []


def test_a_last_file_that_is_not_there(folder: Path, tmp_path: Path) -> None:
    delete_tree.remove(folder, "no such file")
    assert os.listdir(tmp_path) == []
