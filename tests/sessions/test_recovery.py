"""Deleted files brought back from a checkpoint: what it has, and never over anything."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.kernel.files.test_browser import asked, choose, names, panel_button, play, press, quiet, said
from wasm_kernel import create_session_sandbox
from wasm_kernel.host.store.chunks import ChunkStore
from wasm_kernel.kernel.files.browser import Browser
from wasm_kernel.sessions.recovery import bring_back, kept
from wasm_kernel.sessions.snapshots import create_snapshot

CONTENT = bytes(range(256)) * 10_000  # of several pieces
ODD = os.fsdecode(b"bad\xff\n<b>")


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Path, str]]:
    """A session whose snapshot has these files."""
    root = tmp_path_factory.mktemp("sessions")
    session_id, sandbox = create_session_sandbox(workspace_root=root)
    with sandbox:
        folder = root / session_id
        (folder / "d" / "empty").mkdir(parents=True)
        (folder / "d" / "large.bin").write_bytes(CONTENT)
        (folder / "d" / "link").symlink_to("large.bin")
        (folder / ODD).write_bytes(b"odd")
        (folder / "a.txt").write_bytes(b"a")
        (folder / "ab.txt").write_bytes(b"another")
        os.utime(folder / "a.txt", ns=(0, 10**18))
        create_snapshot(session_id, root)
        yield root, session_id


@pytest.fixture
def session(saved: tuple[Path, str]) -> tuple[Path, str, Path]:
    """As it was saved."""
    root, session_id = saved
    folder = root / session_id
    everything = ["a.txt", "ab.txt", "d", ODD]
    for path in everything:
        if (folder / path).is_file():
            (folder / path).unlink()
    assert not set(bring_back(root, session_id, kept(root, session_id, everything).files)) - {"d/link", "d/large.bin"}
    return root, session_id, folder


def test_files_and_folders_come_back_as_they_were(session: tuple[Path, str, Path]) -> None:
    root, session_id, folder = session
    found = kept(root, session_id, ["d", "a.txt", ODD])
    assert found.lost == ()
    assert sorted(os.fsdecode(f.path) for f in found.files) == sorted(
        ["d", "d/empty", "d/large.bin", "d/link", "a.txt", ODD]
    )
    for name in ("d/link", "d/large.bin", "a.txt", ODD):
        (folder / name).unlink()
    (folder / "d" / "empty").rmdir()
    (folder / "d").rmdir()
    assert bring_back(root, session_id, found.files) == []
    assert (folder / "d" / "large.bin").read_bytes() == CONTENT
    assert (folder / "d" / "empty").is_dir()
    assert (folder / "d" / "link").readlink() == Path("large.bin")
    assert (folder / ODD).read_bytes() == b"odd"
    assert (folder / "a.txt").stat().st_mtime_ns == 10**18


def test_what_changed_since_is_lost(session: tuple[Path, str, Path]) -> None:
    root, session_id, folder = session
    (folder / "a.txt").write_bytes(b"b")
    (folder / "d" / "new").write_bytes(b"new")
    found = kept(root, session_id, ["a.txt", "d"])
    assert found.lost == ("a.txt", "d/new")
    assert {os.fsdecode(f.path) for f in found.files} == {"d", "d/empty", "d/large.bin", "d/link"}
    (folder / "d" / "new").unlink()


def test_nothing_is_replaced(session: tuple[Path, str, Path]) -> None:
    root, session_id, folder = session
    found = kept(root, session_id, ["a.txt", "d/large.bin"])
    (folder / "a.txt").write_bytes(b"mine")
    (folder / "d" / "large.bin").unlink()
    (folder / "d" / "large.bin").mkdir()
    assert bring_back(root, session_id, found.files) == ["a.txt", "d/large.bin"]
    assert (folder / "a.txt").read_bytes() == b"mine"
    (folder / "d" / "large.bin").rmdir()


def test_a_damaged_or_missing_snapshot_has_nothing(
    session: tuple[Path, str, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root, session_id, _ = session
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "a").write_bytes(b"a")
    assert kept(tmp_path, "other", ["a"]).lost == ("a",)
    monkeypatch.setattr(ChunkStore, "read_manifest", lambda *_: b"no manifest")
    assert kept(root, session_id, ["a.txt"]).lost == ("a.txt",)


def test_the_browser_offers_it(session: tuple[Path, str, Path]) -> None:
    _, _, folder = session

    async def scene(b: Browser) -> None:
        await choose(b, "a.txt", "d")
        await press(b, b._delete)
        assert "can be undone" in asked(b)[0].value
        await press(b, panel_button(b, "Delete"))
        assert names(b) == ["ab.txt", ODD]
        await choose(b, "ab.txt")  # it is still offered
        (folder / "a.txt").write_bytes(b"mine")
        await press(b, b.acts.line.children[1])
        await quiet(b)
        assert "4 items; not restored, because the name is taken: a.txt" in said(b)
        assert len(b.acts.line.children) == 1
        assert (folder / "d" / "large.bin").read_bytes() == CONTENT

    play(folder, scene)


def test_the_browser_does_not_bring_back_what_does_not_fit(session: tuple[Path, str, Path]) -> None:
    _, _, folder = session

    async def scene(b: Browser) -> None:
        await choose(b, "d")
        await press(b, b._delete)
        await press(b, panel_button(b, "Delete"))
        await press(b, b.acts.line.children[1])
        assert "does not fit" in said(b)
        assert not (folder / "d").exists()
        assert len(b.acts.line.children) == 2  # one may make room and try again

    play(folder, scene, workspace_bytes=1 << 20)
