"""The log of a session's connections: appended, bounded, and its sum carried on."""

from __future__ import annotations

import json
import os
import socket
from pathlib import Path

import pytest

from wasm_kernel.host.network import connection_log
from wasm_kernel.host.network.connection import Connection
from wasm_kernel.host.network.connection_log import ConnectionLog, line_of
from wasm_kernel.host.network.opening import BackgroundStep


def test_lines_and_their_sum(tmp_path: Path) -> None:
    log = ConnectionLog(tmp_path / "history" / "mine")
    assert log.session_bytes() == 0
    assert log.lines() == []
    for n in range(3):
        log.add({"host": f"{n}.example", "session_bytes": 10 * n})
    assert ConnectionLog(tmp_path / "history" / "mine").session_bytes() == 20
    assert [line["host"] for line in log.lines()] == ["0.example", "1.example", "2.example"]


def test_it_is_bounded_and_the_sum_stays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection_log, "_MOST", 2000)
    log = ConnectionLog(tmp_path)
    for n in range(500):
        log.add({"host": "a.example", "session_bytes": n})
        assert log.session_bytes() == n
    assert sum(path.stat().st_size for path in tmp_path.iterdir()) < 5000
    assert len(log.lines()) > 20


def test_a_connection_without_an_end_is_told(tmp_path: Path) -> None:
    """As a kernel leaves it that is killed; of one that ended, the end says all."""
    log = ConnectionLog(tmp_path)
    first, second = ({"time": f"2026-11-18T10:00:0{n}Z", "host": "a.example", "port": 443} for n in range(2))
    ended = {**first, "ended": "2026-11-18T10:00:05Z", "session_bytes": 30}
    for line in (first, second, ended):
        log.add(line)
    assert log.lines() == [second, ended]


def test_what_is_no_line_is_left_out(tmp_path: Path) -> None:
    (tmp_path / connection_log.NAME).write_bytes(b'\xff\n[1]\n{"host": "a"}\n{"session_bytes": "many"}\n')
    log = ConnectionLog(tmp_path)
    assert log.session_bytes() == 0
    assert log.lines() == [{"host": "a"}, {"session_bytes": "many"}]


@pytest.mark.parametrize("torn", [b'{"host": "c", "session_by', bytes(100)], ids=["half", "zeros"])
def test_what_a_power_cut_left_of_a_line_costs_no_other(torn: bytes, tmp_path: Path) -> None:
    log = ConnectionLog(tmp_path)
    log.add({"host": "a", "session_bytes": 5})
    with (tmp_path / connection_log.NAME).open("ab") as file:
        file.write(torn)
    assert log.session_bytes() == 5
    log.add({"host": "b", "session_bytes": 7})
    assert log.session_bytes() == 7
    assert [line["host"] for line in log.lines()] == ["a", "b"]


def test_a_link_is_not_followed(tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.write_text('{"session_bytes": 5}\n')
    (tmp_path / connection_log.NAME).symlink_to(other)
    log = ConnectionLog(tmp_path)
    log.add({"host": "a"})
    assert (log.session_bytes(), log.lines(), other.stat().st_size) == (0, [], 21)


def test_less_than_nothing_was_not_sent(tmp_path: Path) -> None:
    (tmp_path / connection_log.NAME).write_text('{"session_bytes": -5}\n')
    assert ConnectionLog(tmp_path).session_bytes() == 0


def test_a_folder_that_cannot_be_written_ends_nothing(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    ConnectionLog(tmp_path / "file").add({"host": "a"})


def test_only_its_owner_reads_it(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        ConnectionLog(tmp_path / "mine").add({"host": "a"})
    finally:
        os.umask(before)
    modes = [path.stat().st_mode & 0o777 for path in (tmp_path / "mine", tmp_path / "mine" / connection_log.NAME)]
    assert modes == [0o700, 0o600]


def test_a_pipe_in_its_place_is_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / connection_log.NAME)
    log = ConnectionLog(tmp_path)
    assert (log.session_bytes(), log.lines()) == (0, [])


def test_a_line_is_short_whatever_went_wrong() -> None:
    made = Connection(
        "a" * 253, 443, BackgroundStep(lambda: socket.socket(), "", lambda: None, socket.socket.close), str
    )
    made.problem = "\U0001f600" * 1000
    made.close()
    assert len(json.dumps(line_of(made, 1 << 60))) < connection_log._TAIL
