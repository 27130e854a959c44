"""What is remembered of pruned sessions: a line for each, whatever became of the line before; and metadata goes last."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from wasm_kernel.host.disk import removal, tombstones
from wasm_kernel.host.files.workspace_survey import METADATA_NAME

ID, OTHER = (f"3f2a9c01-0000-4000-8000-00000000000{n}" for n in (1, 2))


@pytest.fixture
def session(tmp_path: Path) -> Path:
    folder = tmp_path / ID
    folder.mkdir()
    (folder / METADATA_NAME).write_text(json.dumps({"long": "x" * 1000}))
    return folder


@pytest.mark.parametrize("torn", [b'{"session_id": "', b"\xff\xfe\n", b"[1]\n", b"{" * 100_000, b'{"session_id": 7}'])
def test_a_torn_line_takes_no_other_with_it(tmp_path: Path, torn: bytes) -> None:
    tombstones.note(tmp_path, {ID: {"title": "one"}})
    with (tmp_path / ".wasm-kernel" / "pruned").open("ab") as file:
        file.write(torn)
    assert tombstones.note(tmp_path, {OTHER: {"title": "two\nlines"}})
    assert tombstones.read(tmp_path, ID) == {"title": "one"}
    assert tombstones.read(tmp_path, OTHER) == {"title": "two\nlines"}
    assert list(tombstones.every_one(tmp_path)) == [ID, OTHER]


def test_the_last_line_of_a_session_counts_unless_it_is_there_again(tmp_path: Path) -> None:
    for title in ("first", "second"):
        tombstones.note(tmp_path, {ID: {"title": title}})
    assert tombstones.every_one(tmp_path) == {ID: {"title": "second"}}
    (tmp_path / ID).mkdir()
    assert tombstones.read(tmp_path, ID) is None and tombstones.every_one(tmp_path) == {}


def test_the_oldest_are_forgotten(tmp_path: Path) -> None:
    names = [f"a-{n}" for n in range(5)]
    tombstones.note(tmp_path, {name: {} for name in names})
    tombstones.trim(tmp_path, 2)
    assert list(tombstones.every_one(tmp_path)) == names[3:]


def test_nothing_is_noted_in_a_file_that_was_replaced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Who waited for its lock while another trimmed it begins anew."""
    real = tombstones.fcntl.flock
    path = tmp_path / ".wasm-kernel" / "pruned"

    def flock(handle: int, how: int) -> None:
        if path.exists() and not (tmp_path / "replaced").exists():
            path.replace(tmp_path / "replaced")
            (tmp_path / "replaced").unlink()
            (tmp_path / "replaced").mkdir()
        real(handle, how)

    monkeypatch.setattr(tombstones.fcntl, "flock", flock)
    assert tombstones.note(tmp_path, {ID: {}})
    assert tombstones.read(tmp_path, ID) == {}


def test_a_backup_that_shares_the_metadata_keeps_it(tmp_path: Path, session: Path) -> None:
    backup = tmp_path / "backup.json"
    os.link(session / METADATA_NAME, backup)
    before = backup.read_bytes()
    with removal.Bin(tmp_path) as place:
        place.take(ID)
        place.destroy(ID)
    assert backup.read_bytes() == before and not session.exists()


@pytest.mark.parametrize("has_metadata", [True, False])
def test_what_cannot_be_deleted_gets_its_own_metadata_back(
    tmp_path: Path, session: Path, monkeypatch: pytest.MonkeyPatch, has_metadata: bool
) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise PermissionError(13, "refused")

    before = (session / METADATA_NAME).read_bytes()
    if not has_metadata:
        (session / METADATA_NAME).unlink()
    (tmp_path / OTHER).mkdir()
    (tmp_path / OTHER / METADATA_NAME).write_text("{}")
    with removal.Bin(tmp_path) as place:
        for name in (OTHER, ID):
            place.take(name)
        place.destroy(OTHER)
        monkeypatch.setattr(os, "rmdir", refuse)
        with pytest.raises(PermissionError):
            place.destroy(ID)
        monkeypatch.undo()
    assert session.is_dir()
    assert [path.read_bytes() for path in session.iterdir()] == ([before] if has_metadata else [])
