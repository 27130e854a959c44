"""A folder saved and put back, however quickly its files change."""

from __future__ import annotations

import os
import shutil
import tempfile
import time
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.disks import ext4
from wasm_kernel.host.files import workspace_survey
from wasm_kernel.host.files.saved_tree import SavedTree
from wasm_kernel.model.snapshots import SavedFile

Content = dict[str, bytes | None]  # None: a folder
NAMES = ("a", "b", "folder", "folder/a", "folder/b", "folder/inner", "folder/inner/a")
name = st.sampled_from(NAMES)
step = st.one_of(
    st.tuples(st.just("write"), name, st.binary(max_size=2)),
    st.tuples(st.just("touch up"), name, st.binary(min_size=1, max_size=1)),
    st.tuples(st.just("make"), name, st.just(b"")),
    st.tuples(st.just("remove"), name, st.just(b"")),
    st.tuples(st.just("save"), st.just(""), st.just(b"")),
    st.tuples(st.just("restore"), st.just(""), st.binary(min_size=1, max_size=1)),
)


def content(folder: Path) -> Content:
    found = sorted(p for p in folder.rglob("*"))
    return {str(p.relative_to(folder)): p.read_bytes() if p.is_file() else None for p in found}


class Store:
    """Pieces by their hash."""

    def __init__(self) -> None:
        self._pieces: dict[bytes, bytes] = {}

    def put(self, piece: bytes) -> bytes:
        key = sha256(piece).digest()
        self._pieces[key] = piece
        return key

    def get(self, key: bytes, length: int) -> bytes:
        return self._pieces[key][:length]

    def content(self, saved: list[SavedFile]) -> Content:
        return {
            os.fsdecode(f.path): b"".join(self._pieces[c] for c in f.chunks) if f.kind == "file" else None
            for f in saved
        }


def change(path: Path, what: str, data: bytes) -> None:
    """Do it if it can be done."""
    if what == "remove":
        if path.is_dir():
            shutil.rmtree(path)
        elif path.exists():
            path.unlink()
    elif what == "make":
        if path.parent.is_dir() and not path.exists():
            path.mkdir()
    elif what == "write":
        if path.parent.is_dir() and not path.is_dir():
            path.write_bytes(data)
    elif path.is_file() and path.stat().st_size:  # in place, and its size stays
        with path.open("r+b") as file:
            file.write(data)


@settings(max_examples=300, deadline=None)
@given(st.lists(step, max_size=20))
def test_what_is_saved_is_what_is_there(steps: list[tuple[str, str, bytes]]) -> None:
    with tempfile.TemporaryDirectory() as place:
        folder, store = Path(place), Store()
        tree = SavedTree("app", folder)
        moments: list[tuple[list[SavedFile], Content]] = []
        for what, path, data in [*steps, ("save", "", b"")]:
            if what == "save":
                moments.append((tree.save(store.put), content(folder)))
                assert store.content(moments[-1][0]) == moments[-1][1]
            elif what == "restore":
                if moments:
                    saved, then = moments[data[0] % len(moments)]
                    tree.restore(saved, store.get)
                    assert content(folder) == then
            else:
                change(folder / path, what, data)


def test_a_file_that_was_saved_while_it_was_new_and_is_deleted(tmp_path: Path) -> None:
    """It is in no later save. New files are read again each time, since their times may not show a change."""
    store, tree = Store(), SavedTree("app", tmp_path)
    assert tree.save(store.put) == []
    (tmp_path / "new").write_text("x")
    assert [f.path for f in tree.save(store.put)] == [b"new"]
    (tmp_path / "new").unlink()
    assert tree.differs()
    assert tree.save(store.put) == []


def test_a_disk_without_room(tmp_path: Path) -> None:
    """Nothing is deleted for a restore that cannot be done; one that makes its own room is."""
    with ext4(tmp_path, 8) as disk:
        folder, store = disk.at / "app", Store()
        folder.mkdir()
        tree = SavedTree("app", folder)
        (folder / "gone").write_bytes(b"a" * 500_000)
        saved = tree.save(store.put)
        (folder / "gone").unlink()
        (folder / "new").write_bytes(b"b")
        disk.fill()
        with pytest.raises(OSError, match="No space left"):
            tree.restore(saved, store.get)
        assert content(folder) == {"new": b"b"}
        os.truncate(disk.at / "everything-else", (disk.at / "everything-else").stat().st_size - 1_000_000)
        os.sync()
        (folder / "new").write_bytes(b"b" * 900_000)
        disk.fill()
        tree.restore(saved, store.get)
        assert content(folder) == {"gone": b"a" * 500_000}


CHANGES: dict[str, Callable[[Path], object]] = {
    "a new file": lambda folder: (folder / "new").write_bytes(b""),
    "a new file inside": lambda folder: (folder / "folder/new").write_bytes(b""),
    "written over": lambda folder: (folder / "folder/a").write_bytes(b"B"),
    "the same bytes": lambda folder: (folder / "a").write_bytes(b"A"),
    "longer": lambda folder: (folder / "a").write_bytes(b"AA"),
    "removed": lambda folder: (folder / "folder/a").unlink(),
    "replaced": lambda folder: os.replace(folder / "folder/a", folder / "a"),
    "a folder removed": lambda folder: (folder / "empty").rmdir(),
    "a new folder": lambda folder: (folder / "empty/inner").mkdir(),
    "a folder instead of a file": lambda folder: ((folder / "a").unlink(), (folder / "a").mkdir()),
    "old times": lambda folder: ((folder / "a").write_bytes(b"C"), os.utime(folder / "a", ns=(0, 0))),
}


@pytest.mark.parametrize("how", CHANGES)
def test_a_change_is_seen_without_reading_folders(how: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What few files and folders say of themselves is enough, once their times are old."""
    store, tree = Store(), SavedTree("app", tmp_path)
    (tmp_path / "folder").mkdir()
    (tmp_path / "empty").mkdir()
    for name in ("a", "folder/a"):
        (tmp_path / name).write_bytes(b"A")
    end = time.monotonic() + 60
    tree.save(store.put)
    while tree.differs() or not tree._looks_the_same():
        assert time.monotonic() < end, "its times never count as old"
        time.sleep(0.02)
        tree.save(store.put)
    surveyed: list[Path] = []
    survey = workspace_survey.survey
    monkeypatch.setattr(workspace_survey, "survey", lambda folder: surveyed.append(folder) or survey(folder))
    assert not tree.differs() and not surveyed
    CHANGES[how](tmp_path)
    assert tree.differs()
    tree.save(store.put)
    assert store.content(tree.save(store.put)) == content(tmp_path)
