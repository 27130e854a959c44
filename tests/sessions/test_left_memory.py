"""A session that was closed comes back by mapping the memory it was left with; whatever is wrong with that, it comes back."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.sessions.conftest import Opened
from wasm_kernel import create_snapshot, delete_session_workspace, export_session, list_snapshots
from wasm_kernel.host.image import image
from wasm_kernel.host.store.chunks import ChunkStore
from wasm_kernel.sessions.recorder import Recorder

MAKE = "import numpy as np; a = np.random.default_rng(0).random(500_000); n = 7"
LOOK = "print(n, a.sum())"


def folder_of(root: Path, session_id: str) -> Path:
    return root / ".wasm-kernel" / "snapshots" / "memory" / session_id


def left_file(root: Path, session_id: str) -> Path:
    (found,) = folder_of(root, session_id).glob("*.mem")
    return found


@pytest.fixture
def reads(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many chunks of memory were read from the store, each time."""
    found: list[int] = []
    real = ChunkStore.read_into

    def read_into(store: ChunkStore, wanted: list[tuple[bytes, memoryview]]) -> None:
        found.append(len(wanted))
        real(store, wanted)

    monkeypatch.setattr(ChunkStore, "read_into", read_into)
    return found


@pytest.fixture
def closed(sessions: Opened, root: Path) -> tuple[str, str]:
    """A session that was closed right after a snapshot, and what it prints."""
    session_id, sandbox = sessions.create()
    assert sandbox.execute(MAKE).success
    create_snapshot(session_id, root)
    text = sandbox.execute(LOOK).stdout
    create_snapshot(session_id, root)
    sandbox.close()
    return session_id, text


def shown(sessions: Opened, session_id: str) -> str:
    with sessions.get(session_id, resume=True) as sandbox:
        result = sandbox.execute(LOOK)
        assert result.success, result.error
        return result.stdout


def test_it_comes_back_without_reading_the_store(
    sessions: Opened, root: Path, closed: tuple[str, str], reads: list[int]
) -> None:
    session_id, text = closed
    assert shown(sessions, session_id) == text
    assert shown(sessions, session_id) == text, "and again: nobody took a snapshot, so it is as it was left"
    assert not reads


def test_cells_go_on_over_it_and_can_be_saved_and_undone(
    sessions: Opened, root: Path, closed: tuple[str, str], reads: list[int]
) -> None:
    session_id, text = closed
    with sessions.get(session_id, resume=True) as sandbox:
        assert sandbox.execute("a[100] = 5; b = a.copy(); n = 8").success
        other = sandbox.execute(LOOK).stdout
        newer = create_snapshot(session_id, root)
    assert other != text
    assert left_file(root, session_id).stem == newer.snapshot_id, "the one before it is gone"
    assert shown(sessions, session_id) == other
    assert not reads
    left_file(root, session_id).unlink()
    assert shown(sessions, session_id) == other, "the store has the same"
    assert reads


def test_where_the_store_has_lost_it_the_next_snapshot_is_whole_again(
    sessions: Opened, root: Path, closed: tuple[str, str]
) -> None:
    """The file is no reason to believe that the chunks are there."""
    session_id, _ = closed
    for pack in (root / ".wasm-kernel" / "snapshots" / "packs").iterdir():
        pack.unlink()
    with sessions.get(session_id, resume=True) as sandbox:
        assert sandbox.execute("n = 8").success
        create_snapshot(session_id, root)
        text = sandbox.execute(LOOK).stdout
    for path in folder_of(root, session_id).iterdir():
        path.unlink()
    assert shown(sessions, session_id) == text


def _cut(path: Path) -> None:
    with path.open("r+b") as file:
        file.truncate(path.stat().st_size - 5)


def _cut_short(path: Path) -> None:
    with path.open("r+b") as file:
        file.truncate(1 << 20)


def _empty(path: Path) -> None:
    path.write_bytes(b"")


def _flip(path: Path) -> None:
    """As a bad disk would: a bit of a page."""
    with path.open("r+b") as file:
        at = os.lseek(file.fileno(), 0, os.SEEK_DATA) + 100
        file.seek(at)
        byte = file.read(1)[0]
        file.seek(at)
        file.write(bytes([byte ^ 1]))


def _zeros(path: Path) -> None:
    """As a power cut leaves what was never synced: the length, and nothing."""
    size = path.stat().st_size
    path.write_bytes(b"")
    with path.open("r+b") as file:
        file.truncate(size)


def _folder(path: Path) -> None:
    path.unlink()
    path.mkdir()


@pytest.mark.parametrize("damage", [_cut, _cut_short, _empty, _flip, _zeros, _folder])
def test_a_file_that_is_damaged_is_not_used(
    sessions: Opened, root: Path, closed: tuple[str, str], reads: list[int], damage: Callable[[Path], None]
) -> None:
    session_id, text = closed
    damage(left_file(root, session_id))
    assert shown(sessions, session_id) == text
    assert reads, "it came from the store"


def test_nor_is_one_that_is_older_than_the_newest_snapshot(
    sessions: Opened, root: Path, closed: tuple[str, str], reads: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    session_id, _ = closed
    old = left_file(root, session_id)
    content = old.read_bytes()
    with sessions.get(session_id, resume=True) as sandbox:
        assert sandbox.execute("n = 'newer'").success
        create_snapshot(session_id, root)
        text = sandbox.execute(LOOK).stdout
    for path in folder_of(root, session_id).iterdir():
        path.unlink()
    old.write_bytes(content)
    assert shown(sessions, session_id) == text
    assert reads
    newest = list_snapshots(root, session_id)[0].snapshot_id
    old.parent.mkdir(exist_ok=True)
    (old.parent / f"{newest}.mem").write_bytes(content)  # even under the name of the newest
    assert shown(sessions, session_id) == text


def test_nor_one_of_another_image(
    sessions: Opened, root: Path, closed: tuple[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its other pages would be those of another base memory: the session is refused as without it."""
    session_id, _ = closed
    path = left_file(root, session_id)
    content = path.read_bytes()
    key = image.parts().base.key.encode()
    assert content.count(key) == 1
    path.write_bytes(content.replace(key, key[::-1]))
    assert shown(sessions, session_id)
    assert not path.exists()


def test_one_that_was_tried_and_not_given_back_is_not_tried_again(
    sessions: Opened, root: Path, closed: tuple[str, str], reads: list[int]
) -> None:
    """Such as by a process that a disk's error ended."""
    session_id, text = closed
    path = left_file(root, session_id)
    path.rename(path.with_suffix(".used"))
    assert shown(sessions, session_id) == text
    assert reads


def test_what_was_not_saved_is_not_left(sessions: Opened, root: Path, closed: tuple[str, str]) -> None:
    session_id, text = closed
    left_file(root, session_id).unlink()
    with sessions.get(session_id, resume=True) as sandbox:
        assert sandbox.execute("n = 'lost'").success
    assert list(folder_of(root, session_id).glob("*")) == []
    assert shown(sessions, session_id) == text


def test_a_snapshot_that_could_not_be_written_is_not_left(
    sessions: Opened, root: Path, closed: tuple[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    session_id, text = closed
    with sessions.get(session_id, resume=True) as sandbox:
        assert sandbox.execute("n = 'lost'").success
        with monkeypatch.context() as patched:
            patched.setattr(Recorder, "_stored", lambda *a: (_ for _ in ()).throw(OSError(5, "I/O error")))
            with pytest.raises(OSError, match="I/O"):
                create_snapshot(session_id, root)
    assert shown(sessions, session_id) == text


def test_it_goes_with_its_session_and_is_not_exported(
    sessions: Opened, root: Path, closed: tuple[str, str], tmp_path: Path
) -> None:
    session_id, _ = closed
    size = left_file(root, session_id).stat().st_blocks * 512
    assert export_session(session_id, tmp_path / "session.tar.zst", workspace_root=root).stat().st_size < size // 4
    delete_session_workspace(session_id, root)
    assert not folder_of(root, session_id).exists()
