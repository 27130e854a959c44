"""Numbers that only grow, whatever the clock does, and whoever asks."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.sessions.helpers import run_python
from wasm_kernel.host.store.sequence import MOST, next_number


def many(folder: Path) -> list[int]:
    return [next_number(folder) for _ in range(200)]


def test_numbers_grow(tmp_path: Path) -> None:
    found = many(tmp_path)
    assert found == list(range(found[0], found[0] + 200))
    assert next_number(tmp_path, after=found[-1] + 1000) == found[-1] + 1001
    assert next_number(tmp_path, after=5) == found[-1] + 1002


OTHER = """
import sys
from pathlib import Path
from wasm_kernel.host.store.sequence import next_number
for _ in range(200): print(next_number(Path(sys.argv[1])))
"""


def test_no_number_is_given_twice(tmp_path: Path) -> None:
    with ThreadPoolExecutor(3) as pool:
        found = [
            number
            for printed in pool.map(lambda _: run_python(OTHER, tmp_path), range(3))
            for number in printed.split()
        ]
    assert len(set(found)) == 600


@pytest.mark.parametrize("back", [0, 3600, -3600])
def test_the_clock_does_not_matter_once_there_is_a_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, back: int
) -> None:
    before = next_number(tmp_path)
    now = time.time_ns()
    monkeypatch.setattr(time, "time_ns", lambda: now - back * 10**9)
    assert next_number(tmp_path) == before + 1


@pytest.mark.parametrize("damage", [b"", b"x" * 20, b"-0000000000000000001", b"9" * 20, b"1", b"0" * 50])
def test_a_file_that_is_lost_or_damaged_puts_nothing_back(tmp_path: Path, damage: bytes) -> None:
    before = many(tmp_path)[-1]
    time.sleep(0.001)
    (tmp_path / "sequence").write_bytes(damage)
    again = next_number(tmp_path)
    assert before < again < MOST
    assert next_number(tmp_path) == again + 1, "it is whole again"
    assert next_number(tmp_path, after=1 << 59) == (1 << 59) + 1


def test_its_file_never_grows(tmp_path: Path) -> None:
    """Overwriting what is there needs no new block: a full disk does not stop it."""
    next_number(tmp_path)
    size = (tmp_path / "sequence").stat().st_size
    next_number(tmp_path, after=1 << 59)
    assert (tmp_path / "sequence").stat().st_size == size
