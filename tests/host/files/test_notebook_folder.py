"""Files beside the notebook: which a session can have, and how they are copied."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from wasm_kernel.errors import PathRefused
from wasm_kernel.host.files import notebook_folder


@pytest.fixture
def source(tmp_path: Path) -> Path:
    folder = tmp_path / "source"
    (folder / "deep" / "er").mkdir(parents=True)
    for name in ("a.txt", "deep/b.txt", "deep/er/c.txt", ".env"):
        (folder / name).write_text(name)
    return folder


@pytest.fixture
def target(tmp_path: Path) -> Path:
    folder = tmp_path / "target"
    folder.mkdir()
    return folder


def paths(folder: Path) -> set[str]:
    return {str(path.relative_to(folder)) for path in folder.rglob("*")}


def nothing(size: int) -> None:
    pass


def test_everything_but_what_is_kept_back(source: Path, target: Path) -> None:
    (source / "deep" / "link").symlink_to("b.txt")
    os.mkfifo(source / "deep" / "fifo")
    (source / ".metadata.json").touch()
    found = notebook_folder.survey(source, ["."], 100)
    assert {item.path for item in found} == {"a.txt", "deep", "deep/b.txt", "deep/er", "deep/er/c.txt"}
    notebook_folder.copy(source, ["."], target, 1000, nothing)
    assert paths(target) == {item.path for item in found}
    assert (target / "deep/er/c.txt").stat().st_mtime_ns == (source / "deep/er/c.txt").stat().st_mtime_ns


def test_a_file_that_has_grown_meanwhile_does_not_exceed_the_room(source: Path, target: Path) -> None:
    with pytest.raises(PathRefused, match="larger than it was"):
        notebook_folder.copy(source, ["deep/b.txt"], target, 3, nothing)
    assert paths(target) == {"deep"}


def test_what_ends_a_copy_leaves_whole_files_only(source: Path, target: Path) -> None:
    (source / "z.bin").write_bytes(b"x" * 5_000_000)
    seen = []

    def stop(size: int) -> None:
        seen.append(size)
        if sum(seen) > 1_000_000:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        notebook_folder.copy(source, ["a.txt", "z.bin"], target, 10_000_000, stop)
    assert paths(target) == {"a.txt"}


def test_a_session_that_links_elsewhere_is_not_followed(source: Path, target: Path, tmp_path: Path) -> None:
    (target / "deep").symlink_to(tmp_path)
    with pytest.raises((PathRefused, OSError)):
        notebook_folder.copy(source, ["deep/b.txt"], target, 1000, nothing)
    assert not (tmp_path / "b.txt").exists()


@pytest.mark.parametrize("path", ["", ".", "./", "deep", "a.txt", "deep/er/c.txt", "deep//b.txt"])
def test_what_is_there(source: Path, path: str) -> None:
    assert notebook_folder.look(source, path) is not None


@pytest.mark.parametrize("path", ["x", ".env", "../source/a.txt", "/etc", "a.txt/b", "deep/../.env", "\0", "x" * 5000])
def test_what_is_not_there_for_a_session(source: Path, path: str) -> None:
    assert notebook_folder.look(source, path) is None
