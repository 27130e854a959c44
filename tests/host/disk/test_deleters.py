"""Processes that delete: they answer for what is left, and whoever asks needs none of them."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from wasm_kernel.host.disk import deleters
from wasm_kernel.host.disk.deleters import Deleters
from wasm_kernel.model.names import METADATA_NAME


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[int]:
    for n in range(6):
        (tmp_path / f"s{n}" / "inner").mkdir(parents=True)
        for name in (METADATA_NAME, "f", "inner/g"):
            (tmp_path / f"s{n}" / name).write_text("x")
    handle = os.open(tmp_path, os.O_RDONLY)
    yield handle
    os.close(handle)


def test_what_is_left_is_told_and_the_rest_is_gone(folder: int, tmp_path: Path) -> None:
    (tmp_path / "a-file").write_text("x")
    portions = [["s0", "a-file", "s1"], ["s2"], ["missing", "s3"]]
    with Deleters(folder, 1) as others:
        assert list(others.delete(portions)) == [(portions[0], ["a-file"]), (["s2"], []), (portions[2], ["missing"])]
    assert sorted(os.listdir(tmp_path)) == ["a-file", "s4", "s5"]


def test_what_a_process_does_not_answer_for_is_left(folder: int, tmp_path: Path) -> None:
    with Deleters(folder, 1) as others:
        coming = others.delete([["s0"], ["s1"], ["s2"], ["s3"]])
        assert next(coming) == (["s0"], [])
        os.kill(others.ids[0], signal.SIGKILL)
        assert [names for names, _ in coming] == [["s1"], ["s2"], ["s3"]]
    with Deleters(folder, 1) as others:
        os.kill(others.ids[0], signal.SIGKILL)
        assert list(others.delete([["s3"], ["s4"]])) == [(["s3"], ["s3"]), (["s4"], ["s4"])]
    assert (tmp_path / "s4" / "inner" / "g").exists()


def test_where_none_can_be_started_there_are_none(folder: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "executable", "/no/such/program")
    with Deleters(folder, 2) as others:
        assert others.count == 0


def test_one_that_cannot_do_its_work_leaves_everything(folder: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(deleters, "_PROGRAM", "raise SystemExit")
    with Deleters(folder, 1) as others:
        assert list(others.delete([["s0"], ["s1"]])) == [(["s0"], ["s0"]), (["s1"], ["s1"])]


_KILLED = """
import os, signal, sys
from wasm_kernel.host.disk.deleters import Deleters
others = Deleters(os.open(sys.argv[1], os.O_RDONLY), 1)
print(*others.ids, flush=True)
os.kill(os.getpid(), signal.SIGKILL)
"""


def test_it_ends_when_whoever_asked_is_killed(tmp_path: Path) -> None:
    done = subprocess.run([sys.executable, "-c", _KILLED, str(tmp_path)], stdout=subprocess.PIPE, timeout=60)
    assert done.returncode == -signal.SIGKILL
    end = time.monotonic() + 30
    while _runs(int(done.stdout)) and time.monotonic() < end:
        time.sleep(0.02)
    assert not _runs(int(done.stdout))


def _runs(pid: int) -> bool:
    try:
        return "State:\tZ" not in Path(f"/proc/{pid}/status").read_text()
    except FileNotFoundError:
        return False
