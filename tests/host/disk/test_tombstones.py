"""What is remembered of a pruned session: written over its metadata, and over nothing else."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from wasm_kernel.host.disk import removal, tombstones
from wasm_kernel.host.files.workspace_survey import METADATA_NAME

ID = "3f2a9c01-0000-4000-8000-000000000001"


@pytest.fixture
def session(tmp_path: Path) -> Path:
    folder = tmp_path / ID
    folder.mkdir()
    (folder / METADATA_NAME).write_text(json.dumps({"long": "x" * 1000}))
    return folder


def destroy(root: Path) -> None:
    with removal.Bin(root) as place:
        place.take(ID)
        place.destroy(ID, tombstones.place_for(root, ID))


def test_the_metadata_becomes_the_tombstone(tmp_path: Path, session: Path) -> None:
    inode = (session / METADATA_NAME).stat().st_ino
    destroy(tmp_path)
    tombstones.note(tmp_path, ID, {"title": "gone"})
    assert tombstones.read(tmp_path, ID) == {"title": "gone"}
    assert Path(tombstones.place_for(tmp_path, ID)).stat().st_ino == inode
    assert not session.exists()


def test_a_backup_that_shares_the_metadata_keeps_it(tmp_path: Path, session: Path) -> None:
    backup = tmp_path / "backup.json"
    os.link(session / METADATA_NAME, backup)
    before = backup.read_bytes()
    destroy(tmp_path)
    tombstones.note(tmp_path, ID, {"title": "gone"})
    assert backup.read_bytes() == before
    assert tombstones.read(tmp_path, ID) == {"title": "gone"}


def test_what_cannot_be_deleted_gets_its_metadata_back(
    tmp_path: Path, session: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise PermissionError(13, "refused")

    with removal.Bin(tmp_path) as place:
        place.take(ID)
        monkeypatch.setattr(os, "rmdir", refuse)
        with pytest.raises(PermissionError):
            place.destroy(ID, tombstones.place_for(tmp_path, ID))
        monkeypatch.undo()
    assert (session / METADATA_NAME).exists()
    assert tombstones.read(tmp_path, ID) is None
