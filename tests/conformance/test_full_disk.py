"""Kernels whose sessions lie on a disk without a free block: cells run, the person is told once, and can tidy up."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.conformance.client import Kernel, eventually
from tests.disks import Disk, ext4
from tests.sessions.helpers import make_session
from wasm_kernel.model.names import STATE_FOLDER
from wasm_kernel.sessions.snapshots import list_snapshots

MB = 1 << 20
TOLD = "checkpoints are not being kept"


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Disk]:
    with ext4(tmp_path, 64) as disk:
        yield disk


@pytest.fixture
def start(disk: Disk) -> Iterator[Callable[..., Kernel]]:
    running: list[Kernel] = []

    def start(**env: str) -> Kernel:
        running.append(Kernel(disk.at / "root", **env))
        return running[-1]

    yield start
    for kernel in running:
        kernel.stop()


def test_cells_run_and_the_person_is_told_once(disk: Disk, start: Callable[..., Kernel]) -> None:
    first = start(WASM_KERNEL_SESSION="known")
    first.ok("x = 41")
    first.stop()
    disk.fill()
    kernels = start(WASM_KERNEL_SESSION="known"), start(WASM_KERNEL_SESSION="new"), start()
    for kernel in kernels:
        cells = [kernel.ok(f"y = {n}; print(y)") for n in range(4)]
        said = [cell.said for cell in cells]
        assert [TOLD in text for text in said] == [True, False, False, False], said
        assert "%prune --older-than" in "".join(said)
        assert [cell.stdout for cell in cells] == ["0\n", "1\n", "2\n", "3\n"]
    kernels[0].stop()
    disk.make_room()
    found = start(WASM_KERNEL_SESSION="known").ask("history_request", {"hist_access_type": "tail", "n": 50})
    assert "x = 41" in [source for _, _, source in found["history"]], "what could not be opened is not thrown away"


def test_it_gets_full_meanwhile(disk: Disk, start: Callable[..., Kernel]) -> None:
    """Told with the next cell; checkpoints go on by themselves when there is room, without a cell being lost."""
    kernel = start(WASM_KERNEL_SESSION="one")
    assert TOLD not in kernel.ok("x = 1").said
    disk.fill()
    said = [kernel.ok(f"import os; a{n} = os.urandom(3_000_000)").said for n in range(5)]
    for magic in ("snapshot", "rename x", "fork"):
        told = kernel.run(f"%session {magic}").traceback
        assert "because the disk is full. Delete what you no longer need: `%prune" in told
    assert sum(TOLD in text for text in said) <= 1, said
    assert TOLD in "".join(said) + kernel.ok("1").said
    disk.make_room()
    kernel.ok("x = 2")
    kernel.ok("x = 3")
    assert eventually(lambda: [s.metadata["cell"] for s in list_snapshots(disk.at / "root")][:1] == ["x = 3"])
    kernel.client.stop_channels()
    kernel.manager.signal_kernel(9)
    kernel.stop()
    again = start(WASM_KERNEL_SESSION="one")
    assert again.ok("print(x, len(a4))").stdout == "3 3000000\n"
    disk.fill()
    again.ok("x = 4")
    assert eventually(lambda: TOLD in again.ok("5").said), "told again: it had been well in between"


def test_nothing_was_set_aside(disk: Disk, start: Callable[..., Kernel]) -> None:
    """A root of an earlier version: a new notebook is told what to do, which works without a session, and then it runs."""
    root = disk.at / "root"
    doomed = make_session(root, hours=100, files={"a": b"x" * 8 * MB})
    (root / STATE_FOLDER / "locks").mkdir(parents=True)
    (root / STATE_FOLDER / "gate").touch()
    disk.fill()
    kernel = start(WASM_KERNEL_GRANTS="prune")
    cell = kernel.run("print(1)")
    assert "there is no room for this notebook's" in cell.traceback
    assert "`%prune --older-than 30d`" in cell.traceback
    kernel.ok("%prune --older-than 1d --yes")
    assert not (root / doomed).exists()
    cell = kernel.ok("print(2)")
    assert cell.said == "2\n", "it is not full any more"


def test_temporary_files_are_on_the_same_disk(disk: Disk, start: Callable[..., Kernel]) -> None:
    (disk.at / "tmp").mkdir()
    start(WASM_KERNEL_SESSION="known").stop()
    disk.fill()
    kernel = start(TMPDIR=str(disk.at / "tmp"))
    cell = kernel.ok("import tempfile\nwith tempfile.TemporaryFile() as f: print(f.write(bytes(10_000)))")
    assert cell.stdout == "10000\n"


@pytest.mark.parametrize("how", ["%prune --older-than 1d --yes", "%session delete {} --yes"])
def test_tidying_up(disk: Disk, start: Callable[..., Kernel], how: str) -> None:
    kernel = start(WASM_KERNEL_SESSION="known")
    kernel.ok("x = 41")
    kernel.stop()
    doomed = [make_session(disk.at / "root", hours=100, files={"a": b"x" * MB, "b/c/d": b"y"}) for _ in range(3)]
    disk.fill()
    kernel = start(WASM_KERNEL_GRANTS="prune,delete")
    for command in dict.fromkeys(how.format(session_id) for session_id in doomed):
        assert "elete" in kernel.ok(command).said
    assert not any((disk.at / "root" / session_id).exists() for session_id in doomed)
    assert disk.free > 3 * MB
    assert kernel.ok("open('/app/f', 'w').write('x' * 10_000)").result == "10000"
