"""Metadata files are replaced whole, and what is no such file is not read."""

from __future__ import annotations

import os
import threading
import time
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from tests.sessions.helpers import run_python
from wasm_kernel.host.disk import records
from wasm_kernel.host.disk.records import RecordKeeper, read_record, write_record
from wasm_kernel.model.records import BadRecord, ForeignRecord, LaterRecord, new_record

NOW = datetime(2026, 11, 22, 10, 15, 30, 123456, UTC)


@pytest.fixture
def tmp_path(tmp_path: Path) -> Path:
    """The folder of session ``a``."""
    (tmp_path / "a").mkdir()
    return tmp_path / "a"


def test_what_is_written_is_read(tmp_path: Path) -> None:
    record = new_record("a", NOW, notebook="ü.ipynb")
    for sync in (True, False):
        write_record(tmp_path, record, sync=sync)
        assert read_record(tmp_path) == record
        assert os.listdir(tmp_path) == [".metadata.json"], "no temporary file stays"
    assert (tmp_path / ".metadata.json").stat().st_mode & 0o077 == 0, "for the host only"


def test_no_file_is_no_record(tmp_path: Path) -> None:
    assert read_record(tmp_path) is None
    assert read_record(tmp_path / "missing") is None


def test_a_record_of_another_session_or_a_later_version_is_not_taken_for_its_own(tmp_path: Path) -> None:
    write_record(tmp_path, new_record("b", NOW), sync=False)
    with pytest.raises(ForeignRecord, match="names session 'b'.*sessions repair a"):
        read_record(tmp_path)
    write_record(tmp_path, replace(new_record("a", NOW), version=2), sync=False)
    with pytest.raises(LaterRecord, match="update wasm-kernel"):
        read_record(tmp_path)
    staged = tmp_path.parent / "a.0123abcd"
    staged.mkdir()
    write_record(staged, new_record("a", NOW), sync=False)
    assert read_record(staged) is not None, "one that is being made"


@pytest.mark.parametrize("damage", [b"", b"{", b"[]", b'{"session_id": "a"}', b" " * (1 << 20) + b"{}"])
def test_a_damaged_file_is_said_to_be(tmp_path: Path, damage: bytes) -> None:
    (tmp_path / ".metadata.json").write_bytes(damage)
    with pytest.raises(BadRecord):
        read_record(tmp_path)
    assert (tmp_path / ".metadata.json").read_bytes() == damage


def test_what_is_no_ordinary_file_is_not_read(tmp_path: Path) -> None:
    whole = new_record("session", NOW).to_json()
    (tmp_path / "outside").write_bytes(whole)
    path = tmp_path / "session" / ".metadata.json"
    path.parent.mkdir()
    path.symlink_to(tmp_path / "outside")
    with pytest.raises(BadRecord):
        read_record(path.parent)
    path.unlink()
    path.mkdir()
    with pytest.raises(BadRecord):
        read_record(path.parent)
    path.rmdir()
    os.mkfifo(path)
    started = time.monotonic()
    with pytest.raises(BadRecord):
        read_record(path.parent)
    assert time.monotonic() - started < 30, "a FIFO held us up"


def test_a_link_in_its_place_is_replaced_not_followed(tmp_path: Path) -> None:
    (tmp_path / "outside").write_bytes(b"precious")
    folder = tmp_path / "session"
    folder.mkdir()
    (folder / ".metadata.json").symlink_to(tmp_path / "outside")
    write_record(folder, new_record("a", NOW), sync=False)
    assert (tmp_path / "outside").read_bytes() == b"precious"
    assert not (folder / ".metadata.json").is_symlink()


def test_a_reader_never_sees_half_a_record(tmp_path: Path) -> None:
    write_record(tmp_path, new_record("a", NOW, filler=""), sync=False)
    stop = threading.Event()

    def write() -> None:
        n = 0
        while not stop.is_set():
            n += 1
            write_record(tmp_path, new_record("a", NOW, n=n, filler="x" * (n % 7 * 10_000)), sync=False)

    writer = threading.Thread(target=write)
    writer.start()
    try:
        end = time.monotonic() + 1
        seen = set()
        while time.monotonic() < end:
            record = read_record(tmp_path)
            assert record is not None
            seen.add(record.extra.get("n"))
    finally:
        stop.set()
        writer.join()
    assert len(seen) > 10


SHORT_OF_SPACE = """
import resource, signal, sys
from datetime import UTC, datetime
from pathlib import Path
from wasm_kernel.host.disk.records import write_record
from wasm_kernel.model.records import new_record
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (200, 200))  # a write comes out short, as on a full disk
try:
    write_record(Path(sys.argv[1]), new_record("a", datetime.now(UTC), filler="x" * 5000), sync=False)
except OSError as e:
    print("refused", e.errno)
else:
    print("written")
"""


def test_a_disk_that_is_full_leaves_the_old_record(tmp_path: Path) -> None:
    before = new_record("a", NOW)
    write_record(tmp_path, before, sync=False)
    said = run_python(SHORT_OF_SPACE, tmp_path)
    assert read_record(tmp_path) == before
    assert said.startswith("refused")
    assert os.listdir(tmp_path) == [".metadata.json"], "no temporary file stays"


def test_a_folder_that_is_gone_fails_cleanly(tmp_path: Path) -> None:
    with pytest.raises(OSError):
        write_record(tmp_path / "gone", new_record("a", NOW), sync=True)
    assert os.listdir(tmp_path) == []


def test_refreshing_often_syncs_rarely(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    synced: list[int] = []
    monkeypatch.setattr(os, "fsync", synced.append)
    record = new_record("a", NOW)
    keeper = RecordKeeper(tmp_path)
    for n in range(100):
        record = record.touched(NOW + timedelta(seconds=n))
        keeper.replace(record)
    assert synced == []
    keeper.close()
    assert len(synced) == 2, "the last record is made to last, and its name"
    keeper.close()
    assert len(synced) == 2
    monkeypatch.setattr(records, "_SYNC_EVERY", 0.0)
    keeper = RecordKeeper(tmp_path)
    time.sleep(0.001)
    keeper.replace(record)
    assert len(synced) > 1
    assert read_record(tmp_path) == record
