"""A guest is told the same in every build, whatever the clock, the disk and the random numbers of the machine.

That whole base memories are the same is seen where one is built: `test_image.py`.
"""

from __future__ import annotations

import ctypes
import hashlib
import os
from pathlib import Path

import pytest

from wasm_kernel.host.image import image
from wasm_kernel.host.image.boot import Boot
from wasm_kernel.host.image.cache import TIME
from wasm_kernel.host.image.reproducible import Reproducible

NAMES = [f"name{n}" for n in range(40)]
_LOOK = """
import os, time, tempfile
begin = time.time(), time.monotonic()
for where in ('/kernel', '/kernel/name3', '/kernel/folder', '/tmp', '/app'):
    print(os.stat(where))
with open('/kernel/name3') as file:
    assert os.path.sameopenfile(file.fileno(), os.open('/kernel/./name3', os.O_RDONLY))
assert not os.path.samefile('/kernel/name3', '/kernel/name4')
with tempfile.NamedTemporaryFile() as file:
    print(file.name, os.fstat(file.fileno()))
print(os.listdir('/kernel'), [(e.name, e.inode(), e.is_dir()) for e in os.scandir('/kernel')])
print(os.urandom(8), id(object()), hash('x'))
time.sleep(5)
assert time.monotonic() - begin[1] > 5 < time.time() - begin[0]
print(begin, time.time() - begin[0], time.monotonic() - begin[1], time.get_clock_info('monotonic').resolution)
"""


def _boot(folder: Path, names: list[str]) -> tuple[str, str, int]:
    """What a guest says, the hash of its memory afterwards, and its clock."""
    for name in ("kernel", "dev", "packages", "data"):
        (folder / name).mkdir(parents=True)
    (folder / "kernel" / "folder").mkdir()
    for name in names:
        (folder / "kernel" / name).write_text(name)
    with Boot(image.parts(), folder) as boot:
        boot.run(f"import sys; sys.path[:] = ['/usr/local/lib/python3.15']\n{_LOOK}".encode())
        said = boot._tail()
        rest = boot.save(folder / "memory")
    return said, hashlib.sha256((folder / "memory").read_bytes()).hexdigest(), rest.clock_ns


def test_two_guests_are_told_the_same_and_become_the_same(tmp_path: Path) -> None:
    one = _boot(tmp_path / "one", NAMES)
    before = os.umask(0o077)
    try:
        other = _boot(tmp_path / "another one, elsewhere", NAMES[::-1])
    finally:
        os.umask(before)
    assert one == other
    assert f"st_mtime={TIME}" in one[0]
    assert f"({TIME}." in one[0], "the clock"


def test_addresses_outside_of_the_memory_are_refused() -> None:
    world = Reproducible()
    world.memory = lambda: (0, 64)
    for name, given in (
        ("random_get", (60, 8)),
        ("random_get", (-8, 16)),
        ("clock_time_get", (0, 0, 57)),
        ("poll_oneoff", (0, 0, 2, 0)),
    ):
        assert world._safely(getattr(world, f"_{name}"))(*given) == 21, name


@pytest.mark.parametrize("clock", [0, 1])
def test_clocks_go_on_by_a_step_with_each_look(clock: int) -> None:
    room = (ctypes.c_uint64 * 1)()
    world = Reproducible()
    world.memory = lambda: (ctypes.addressof(room), 8)
    seen = []
    for _ in range(3):
        world._clock_time_get(clock, 1000, 0)
        seen.append(room[0])
    assert seen[2] - seen[1] == seen[1] - seen[0] > 0
