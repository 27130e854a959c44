"""The log of cells: what was appended is found again, to the last whole record, whatever happened to the file."""

from __future__ import annotations

import os
import struct
from pathlib import Path

import pytest

from wasm_kernel.host.store import found_log
from wasm_kernel.host.store.cell_log import CellLog
from wasm_kernel.host.store.found_log import FoundLog

IMAGE = "image-key"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "logs" / "session"


def logged(folder: Path, *cells: tuple[bytes, bytes], base: str = "") -> CellLog:
    log = CellLog(folder, IMAGE)
    log.begin(base, IMAGE)
    for head, body in cells:
        log.append(head, body)
    return log


def contents(found: FoundLog | None, after: int = 0) -> list[tuple[int, bytes, bytes]]:
    assert found is not None
    return [(cell.position, cell.head, cell.body) for cell in found.cells(after)]


CELLS = [(b'{"a": 1}', b""), (b'{"b": 2}', b"x" * 5000), (b"{}", bytes(range(256)) * 9)]
ALL = [(n, *cell) for n, cell in enumerate(CELLS, 1)]


def test_what_was_appended_is_found(folder: Path) -> None:
    log = logged(folder, *CELLS, base="snapshot")
    found = log.find()
    assert found is not None
    assert contents(found) == ALL
    assert contents(found, 2) == ALL[2:]
    assert (found.id, found.base, found.image, found.first, found.last, found.problem) == (
        log.id, "snapshot", IMAGE, 1, 3, "",
    )  # fmt: skip
    assert log.size == sum(path.stat().st_size for path in folder.iterdir())


def test_a_record_that_the_system_does_not_read_at_once_is_read_in_pieces(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = logged(folder, *CELLS)
    read = os.pread
    monkeypatch.setattr(os, "pread", lambda handle, size, at: read(handle, min(size, 700), at))  # it stops at 2 GiB
    assert contents(log.find()) == ALL


def test_nothing_is_there_before_anything_is_logged(folder: Path) -> None:
    log = logged(folder)
    assert not log.is_on_disk and log.find() is None and not folder.exists()


def test_a_last_record_that_is_cut_anywhere_is_dropped(folder: Path) -> None:
    log = logged(folder, *CELLS)
    before = log.size
    log.append(b"last", b"y" * 700)
    log.close()
    (path,) = folder.iterdir()
    data = path.read_bytes()
    for end in range(before, len(data)):
        path.write_bytes(data[:end])
        found = log.find()
        assert contents(found) == ALL and found is not None and not found.problem, end
    path.write_bytes(data[:before] + bytes(len(data) - before))  # a power cut: the length is there, the bytes are not
    found = log.find()
    assert contents(found) == ALL and found is not None and not found.problem


def test_a_first_file_that_is_cut_anywhere_is_no_log_or_an_empty_one(folder: Path) -> None:
    log = logged(folder, (b"h", b"b"))
    log.close()
    (path,) = folder.iterdir()
    data = path.read_bytes()
    for end in range(len(data)):
        path.write_bytes(data[:end])
        found = log.find()
        assert found is None or (contents(found) == [] and not found.problem), end


def test_any_bit_that_is_wrong_ends_the_log_there(folder: Path) -> None:
    log = logged(folder, *CELLS)
    log.close()
    (path,) = folder.iterdir()
    data = path.read_bytes()
    for at in [*range(250), *range(250, len(data), 97)]:
        path.write_bytes(data[:at] + bytes([data[at] ^ 0x40]) + data[at + 1 :])
        found = log.find()
        if found is None:  # its length says that it is cut short
            continue
        there = contents(found)
        assert there == ALL[: len(there)] and len(there) < 3, at
        assert found.problem or len(there) == 2 or not there, "damage in the middle is said"


def test_a_hostile_file_is_refused_before_anything_is_allocated(folder: Path) -> None:
    log = logged(folder, CELLS[0])
    log.close()
    (path,) = folder.iterdir()
    whole = path.read_bytes()
    for lengths in ((found_log.MAX_HEAD + 1, 0), (0, found_log.MAX_BODY + 1), (2**32 - 1, 2**32 - 1)):
        path.write_bytes(whole + found_log.front_of(2, *lengths) + bytes(100))
        found = log.find()
        assert contents(found) == ALL[:1] and found is not None and found.problem
    path.write_bytes(whole + found_log.front_of(2, found_log.MAX_HEAD, found_log.MAX_BODY) + bytes(100))
    assert contents(log.find()) == ALL[:1]
    path.write_bytes(struct.pack("<8sHI", b"wkcells\n", 1, 2**31) + bytes(100))
    assert log.find() is None
    path.unlink()
    path.symlink_to("/etc/passwd")
    found = log.find()
    assert found is not None and not found.paths and found.problem
    path.unlink()
    os.mkfifo(path)
    found = log.find()
    assert found is None or not found.paths


def test_what_is_folded_goes_and_the_rest_stays(folder: Path) -> None:
    log = logged(folder, *CELLS[:2])
    log.rotate()
    log.append(*CELLS[2])
    assert len(list(folder.iterdir())) == 2
    log.folded(log.id, 1)
    assert contents(log.find()) == ALL, "a file goes when all of it is folded"
    log.folded("another", 3)
    assert contents(log.find()) == ALL
    log.folded(log.id, 2)
    assert contents(log.find()) == ALL[2:]
    log.append(b"more", b"")
    log.folded(log.id, 4)
    assert not log.is_on_disk and log.size == 0
    log.append(b"again", b"")
    assert contents(log.find()) == [(5, b"again", b"")], "positions go on"


def test_another_log_begins(folder: Path) -> None:
    log = logged(folder, *CELLS)
    before = log.id
    log.begin("elsewhere", "another image")
    assert not log.is_on_disk and log.id != before
    log.append(b"h", b"b")
    found = log.find()
    assert (
        contents(found) == [(1, b"h", b"b")]
        and found is not None
        and (found.base, found.image) == ("elsewhere", "another image")
    )


def test_a_missing_file_in_the_middle_ends_it(folder: Path) -> None:
    log = logged(folder)
    for cell in CELLS:
        log.append(*cell)
        log.rotate()
    sorted(folder.iterdir())[1].unlink()
    found = log.find()
    assert contents(found) == ALL[:1] and found is not None and "missing" in found.problem


def test_another_process_goes_on(folder: Path) -> None:
    logged(folder, *CELLS[:2]).close()
    log = CellLog(folder, IMAGE)
    found = log.find()
    assert found is not None
    log.go_on(found)
    log.append(*CELLS[2])
    assert contents(log.find()) == ALL
    log.folded(log.id, 3)
    assert not log.is_on_disk


def test_a_full_disk_leaves_the_log_as_it_was(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log = logged(folder, *CELLS[:1])
    real = os.writev

    def half(handle: int, parts: list[bytes]) -> int:
        real(handle, [b"".join(parts)[:40]])
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "writev", half)
    with pytest.raises(OSError, match="No space"):
        log.append(*CELLS[1])
    assert contents(log.find()) == ALL[:1]
    log.rotate()
    with pytest.raises(OSError, match="No space"):
        log.append(*CELLS[1])
    monkeypatch.undo()
    log.append(*CELLS[1])
    log.append(*CELLS[2])
    assert contents(log.find()) == ALL


def test_a_write_that_takes_only_a_part_goes_on(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log = logged(folder, *CELLS[:1])
    real = os.writev
    monkeypatch.setattr(os, "writev", lambda handle, parts: real(handle, [b"".join(parts)[:40]]))
    log.append(*CELLS[1])
    assert contents(log.find()) == ALL[:2]


def test_it_is_synced_when_asked(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    synced: list[int] = []
    monkeypatch.setattr(os, "fdatasync", synced.append)
    log = logged(folder)
    log.sync()
    log.append(*CELLS[0])
    log.sync()
    log.sync()
    assert len(synced) == 1, "once for what is new"
