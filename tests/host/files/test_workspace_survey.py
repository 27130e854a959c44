"""Surveys of a workspace: what they find, what they take from an earlier one, and how much work that is."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from wasm_kernel import ExecutionPolicy, create_sandbox
from wasm_kernel.host.files import workspace_survey
from wasm_kernel.host.files.saved_tree import SavedTree
from wasm_kernel.host.files.workspace_survey import Changes, changes, survey
from wasm_kernel.host.runtime.guest_files import FIRST_CHANGE, GuestFiles

FILES = 2000


class Looks:
    """Counts how often a file is looked at: the system call that a survey of many files spends its time in."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.count = 0
        real = os.scandir

        class Entry:
            def __init__(self, entry: Any) -> None:
                self._entry, self.name, self.path = entry, entry.name, entry.path
                self.inode, self.is_dir, self.is_symlink = entry.inode, entry.is_dir, entry.is_symlink

            def stat(entry, *, follow_symlinks: bool = True) -> os.stat_result:
                self.count += 1
                return entry._entry.stat(follow_symlinks=follow_symlinks)

        class Entries:
            def __init__(self, *path: Any) -> None:
                self._entries = real(*path)

            def __enter__(self) -> Iterator[Entry]:
                return map(Entry, self._entries)

            def __exit__(self, *exc: object) -> None:
                self._entries.close()

        monkeypatch.setattr(workspace_survey.os, "scandir", Entries)

    def since(self) -> int:
        count, self.count = self.count, 0
        return count


@pytest.fixture
def full(tmp_path: Path) -> Path:
    """A workspace with many files, in two folders."""
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        for n in range(FILES // 2):
            (tmp_path / name / f"f{n}").write_bytes(b"x")
    return tmp_path


def test_what_is_known_is_taken_from_the_earlier_survey(full: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    looks = Looks(monkeypatch)
    known = survey(full)
    assert looks.since() == FILES + 2
    assert survey(full, known=known) == known
    assert looks.since() == 2, "the folders"


def test_what_is_new_replaced_or_gone_is_found(full: Path) -> None:
    known = survey(full)
    (full / "new").write_bytes(b"12345")
    (full / "b" / "other").write_bytes(b"123")
    os.replace(full / "b" / "other", full / "b" / "f7")
    (full / "a" / "f1").unlink()
    (full / "a" / "f2").unlink()
    (full / "a" / "f2").mkdir()
    (full / "a" / "f2" / "inside").write_bytes(b"1")
    (full / "a" / "f3").rename(full / "a" / "moved")
    assert survey(full, known=known) == survey(full)
    found = changes(known, survey(full, known=known))
    assert found.created == ["a/f2/inside", "a/moved", "new"]
    assert found.modified == ["a/f2/inside", "a/moved", "b/f7", "new"]
    assert found.deleted == ["a/f1", "a/f2", "a/f3"]


def test_a_cell_that_writes_looks_at_every_file_once(full: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    looks = Looks(monkeypatch)
    with create_sandbox(workspace=full) as sandbox:
        sandbox.execute("open('a/f1', 'w').write('1')")
        looks.since()
        for n in range(3):
            result = sandbox.execute(f"open('a/f{n}', 'w').write('{n}'); open('n{n}', 'w').write('{n}')")
            assert result.files_modified == [f"a/f{n}", f"n{n}"]
            assert result.files_created == [f"n{n}"]
            assert looks.since() < FILES + 100
        sandbox.execute("1")
        assert looks.since() < 100, "a cell that writes nothing looks at nothing"


def test_what_was_put_there_between_cells_is_not_the_cells(full: Path) -> None:
    with create_sandbox(workspace=full) as sandbox:
        sandbox.execute("open('first', 'w').write('1')")
        (full / "uploaded").write_text("by somebody")
        (full / "a" / "new").write_text("the same")
        os.replace(full / "a" / "new", full / "a" / "f1")
        (full / "b" / "f1").unlink()
        result = sandbox.execute("open('second', 'w').write('1')")
        assert (result.files_created, result.files_modified, result.files_deleted) == (["second"], ["second"], [])


def test_what_runs_between_cells_cannot_hide_how_much_it_wrote(full: Path, tmp_path: Path) -> None:
    """A background task's changes are not reported, so nothing looks when it rests; they are counted all the same."""
    (tmp_path / "scratch").mkdir()
    files = GuestFiles(full / "a", tmp_path / "scratch", in_session=True)
    policy = ExecutionPolicy()

    def begin() -> int:
        files.begin_turn(())
        files.first_change()
        return files.left(policy, FIRST_CHANGE)[0]

    at_first = begin()
    assert files.changes() == Changes()
    assert begin() == at_first
    (full / "a" / "f1").write_bytes(bytes(1 << 20))  # in place
    assert begin() <= at_first - (1 << 20) + 4096


def test_saving_a_tree_looks_at_every_file_once(full: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tree = SavedTree("app", full)
    stored: list[bytes] = []

    def put(piece: bytes) -> bytes:
        stored.append(piece)
        return b"n" * 32

    later = 3600 * 10**9  # files changed just now are read again: their times may not show the next change
    monkeypatch.setattr("wasm_kernel.host.files.saved_tree.time.time_ns", lambda: os.stat(full).st_mtime_ns + later)
    (full / "link").symlink_to("a/f1")
    os.mkfifo(full / "pipe")
    first = tree.save(put)
    assert len(first) == FILES + 3
    assert len(stored) == FILES
    looks = Looks(monkeypatch)
    stored.clear()
    (full / "a" / "f5").write_bytes(b"changed")
    second = {f.path: f for f in tree.save(put)}
    assert stored == [b"changed"]
    assert looks.since() < FILES + 100
    assert second[b"a/f5"].size == 7
    assert second[b"a/f5"].modified_ns == (full / "a" / "f5").stat().st_mtime_ns
    assert (second[b"link"].kind, second[b"link"].target) == ("link", b"a/f1")
    assert second[b"a"].kind == "folder"
    assert {path: f for path, f in second.items() if path != b"a/f5"} == {f.path: f for f in first if f.path != b"a/f5"}


def test_a_file_counts_with_its_size_or_its_blocks_whichever_is_more(tmp_path: Path) -> None:
    """Small files take a block each; of one with holes only its size shows what it may become."""
    with (tmp_path / "small").open("wb", buffering=0) as file:
        file.write(b"x" * 100)
        os.fsync(file.fileno())  # some file systems give blocks only then
    with (tmp_path / "holes").open("wb") as file:
        file.truncate(10 << 20)
    sizes = survey(tmp_path).sizes
    assert sizes["small"] == max(100, (tmp_path / "small").stat().st_blocks * 512)
    assert sizes["holes"] == 10 << 20
