"""Killing or breaking the process that hosts the guest. Each attempt runs in a process of its own."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.attacks import victim

# Recursion in C, deeper than any stack. On a thread with less stack than wasmtime allows, it kills the process.
COUNTED = {
    "iterators": "import itertools\nx = ()\nfor i in range(200_000): x = itertools.chain(x)\nlist(x)",
    "filters": "x = []\nfor i in range(200_000): x = filter(None, x)\nlist(x)",
    "maps": "x = []\nfor i in range(200_000): x = map(None.__eq__, x)\nnext(x, 0)",
    "lists given back": "x = []\nfor i in range(1_000_000): x = [x]\ndel x",
}
_TOO_LITTLE = 1 << 20


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    """A folder, removed by a tool that no tree is too deep for."""
    yield tmp_path
    subprocess.run(["rm", "-rf", *tmp_path.iterdir()], check=True)


@pytest.fixture(scope="module")
def all_survived(tmp_path_factory: pytest.TempPathFactory) -> victim.Death:
    """All of them in one process."""
    return victim.run(tmp_path_factory.mktemp("kill"), list(COUNTED.values()))


@pytest.mark.parametrize("name", COUNTED)
def test_stack_overflow_is_held_back(name: str, all_survived: victim.Death) -> None:
    at = list(COUNTED).index(name)
    assert f"cell {at}\ncrashed" in all_survived.said
    assert all_survived.status == 0 and all_survived.last_words["works"], all_survived.said


@pytest.mark.parametrize("name", COUNTED)
def test_stack_overflow_kills_without_the_guard(name: str, folder: Path) -> None:
    assert victim.run(folder, [COUNTED[name]], thread_stack=_TOO_LITTLE).status < 0


_LONG_PATH = """
import os
name = 'n' * 250; hop = '/'.join([name] * 16)
keep = [os.open('/app', os.O_RDONLY)]
for h in range(60):
    for k in range(1, 17): os.mkdir('/'.join([name] * k), dir_fd=keep[-1])
    keep.append(os.open(hop, os.O_RDONLY, dir_fd=keep[-1]))
"""
_DEEP_SCRATCH = """
import os
path = '/tmp'
for i in range(1500): path += '/d'; os.mkdir(path)
"""
_LARGE_FRAME = """
import _host
try: _host.call(bytes(1 << 28))
except OSError: pass
"""


def test_descriptors_with_long_paths_are_opened_again(folder: Path) -> None:
    """Folders opened below folders: the path of the last is longer than any buffer. A crash makes the host open it."""
    assert victim.run(folder, [_LONG_PATH, "pass", "import os; os.abort()", "pass"]).status == 0


def test_deep_folders_in_scratch_are_removed(folder: Path) -> None:
    end = victim.run(folder, [_DEEP_SCRATCH, "RESET"])
    assert end.status == 0, end.said
    assert end.last_words["works"] and not end.last_words["problems"] and not end.last_words["left"], end.said


def test_deep_folders_of_a_dead_process_are_removed(folder: Path) -> None:
    assert victim.run(folder, [_DEEP_SCRATCH, "DIE"]).status == 9
    end = victim.run(folder, ["pass"])
    assert end.status == 0 and end.last_words["works"], end.said


def test_a_large_frame_takes_no_memory_of_the_host(folder: Path) -> None:
    end = victim.run(folder, [_LARGE_FRAME])
    assert end.status == 0, end.said
    # The guest's own copies are the guest's; the host needs none of its own.
    plain = victim.run(folder, ["x = bytes(1 << 28)"])
    assert end.last_words["grown_kib"] < plain.last_words["grown_kib"] + (100 << 10)
