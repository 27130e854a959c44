"""An upload as an object: what is left of it when its client goes away, at whatever moment."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.sessions.helpers import make_session
from wasm_kernel.host.files.folder import NewFile
from wasm_kernel.model.settings import session_limits
from wasm_kernel.server.files.file_service import FileService
from wasm_kernel.server.files.upload import Upload
from wasm_kernel.server.problems import Problem
from wasm_kernel.sessions.zip_stream import Bounds


@pytest.fixture
def files(tmp_path: Path) -> Iterator[FileService]:
    service = FileService(tmp_path, session_limits({}, {"limits": {"disk": 1000}}), Bounds(1, 1))
    yield service
    service.close()


def _names(folder: Path) -> list[str]:
    return sorted(p.name for p in folder.iterdir() if p.name != ".metadata.json")


def test_all_of_it_or_nothing(files: FileService) -> None:
    session_id = make_session(files.root)

    async def scene() -> None:
        upload = Upload(files, session_id, "a", overwrite=False, length=900)
        await upload.begin()
        assert files.reservations.of(session_id) == 900
        with pytest.raises(Problem, match="room for 100"):  # what is on its way counts
            await Upload(files, session_id, "b", overwrite=False, length=101).begin()
        await upload.receive(bytes(900))
        assert not [name for name in _names(files.root / session_id) if not name.startswith(".")]
        info = await upload.finish()
        assert info is not None
        assert (info.st_size, upload.replaces) == (900, False)
        assert files.reservations.of(session_id) == 0
        await upload.discard()  # comes too late

    asyncio.run(scene())
    assert _names(files.root / session_id) == ["a"]


def test_one_that_says_no_length_is_stopped_when_there_is_no_room(files: FileService) -> None:
    session_id = make_session(files.root)

    async def scene() -> None:
        upload = Upload(files, session_id, "a", overwrite=False, length=None)
        await upload.begin()
        await upload.receive(bytes(1000))
        with pytest.raises(Problem, match="larger than a file may be"):
            await upload.receive(b"x")
        await upload.discard()
        assert await upload.finish() is None
        assert files.reservations.of(session_id) == 0

    asyncio.run(scene())
    assert not _names(files.root / session_id)


def test_a_client_that_goes_away_while_the_file_is_made(files: FileService, monkeypatch: pytest.MonkeyPatch) -> None:
    session_id = make_session(files.root)
    begun, gone = threading.Event(), threading.Event()
    create = Upload._create

    def slow(self: Upload) -> NewFile:
        begun.set()
        assert gone.wait(30)
        return create(self)

    monkeypatch.setattr(Upload, "_create", slow)

    async def scene() -> None:
        upload = Upload(files, session_id, "a", overwrite=False, length=10)
        beginning = asyncio.create_task(upload.begin())
        assert await asyncio.to_thread(begun.wait, 30)
        await upload.discard()
        gone.set()
        await beginning
        assert files.reservations.of(session_id) == 0

    asyncio.run(scene())
    assert not _names(files.root / session_id)
