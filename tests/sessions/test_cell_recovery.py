"""What a kill leaves is copied aside at some moment and opened there: cells that were answered are back, once each.

A kill -9 takes nothing away that was written, so a copy of the workspace root is what it leaves.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import itertools
import logging
import os
import shutil
import threading
from collections.abc import Awaitable, Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from wasm_kernel import create_snapshot, fork_session, get_session_sandbox, list_snapshots
from wasm_kernel.host.disk.locks import lock_session
from wasm_kernel.host.files.folder import Folder
from wasm_kernel.host.files.new_file import NewFiles
from wasm_kernel.host.image import image
from wasm_kernel.host.runtime import live_guest
from wasm_kernel.host.store import cell_log, found_log, manifests
from wasm_kernel.host.store.cell_log import CellLog
from wasm_kernel.host.store.found_log import find
from wasm_kernel.model.cell_records import CellRecord
from wasm_kernel.model.names import STATE_FOLDER
from wasm_kernel.model.policy import ExecutionPolicy
from wasm_kernel.model.snapshot_retention import CheckpointRules
from wasm_kernel.model.snapshots import MAX_PATH, SavedDescriptor, Snapshot
from wasm_kernel.sessions import checkpoints, runtime
from wasm_kernel.sessions.catalog import create_session_folder
from wasm_kernel.sessions.guest_access import Execution
from wasm_kernel.sessions.log import SandboxLogger
from wasm_kernel.sessions.opening import OpenedSession, resume
from wasm_kernel.sessions.recorder import Recorder
from wasm_kernel.sessions.runtime import SessionRuntime
from wasm_kernel.sessions.session import LiveSession
from wasm_kernel.sessions.timeline import Timeline

QUIET = SandboxLogger(level="error")
LOG = logging.getLogger("test")
ID = "the-session"


class Running:
    """A session that runs, as in a kernel."""

    def __init__(self, root: Path, runtime: SessionRuntime, opened: OpenedSession) -> None:
        self.root, self.runtime, self.opened = root, runtime, opened
        self.timeline = Timeline(runtime, LOG)

    async def run(self, code: str) -> str:
        runtime, said = self.runtime, []
        number = runtime.count
        async with runtime.guest:
            cell = Execution(code, number, lambda event: said.append(getattr(event, "text", "")))
            result = await runtime.execute(cell)
        runtime.count_cell(number)
        assert result.success, result.stderr or result.error
        await runtime.save_cell()
        return "".join(said)

    @property
    def snapshots(self) -> list[Snapshot]:
        return list_snapshots(self.root, ID)

    def cells(self) -> list[int]:
        return [s.metadata["number"] for s in reversed(self.snapshots) if s.metadata.get("number")]


def open_live(root: Path, **policy: Any) -> LiveSession:
    lock = lock_session(root, ID)
    return LiveSession(ID, root / ID, image.load(), ExecutionPolicy(**policy), lock)


def play(root: Path, scene: Callable[[Running], Awaitable[None]], *, fresh: bool = False, count: int = 30) -> None:
    """Open the session, run a scene in it, and leave it without a last snapshot."""
    root.mkdir(exist_ok=True)
    if not (root / ID).is_dir():
        create_session_folder(root, QUIET, session_id=ID)[2].release()

    async def run() -> None:
        live = open_live(root)
        try:
            opened = resume(live, fresh=fresh)
            runtime = SessionRuntime(opened, CheckpointRules(count=count), startup_code="", logger=QUIET, log=LOG)
            try:
                await scene(Running(root, runtime, opened))
            finally:
                runtime.close(take=False)
        finally:
            live.close()

    asyncio.run(run())


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / "root"


@pytest.fixture
def copies(tmp_path: Path, root: Path) -> Callable[[], Path]:
    """Copies of the root as it is on the disk now."""
    made: list[Path] = []

    def copy() -> Path:
        made.append(tmp_path / f"copy{len(made)}")
        copied(root, made[-1])
        return made[-1]

    return copy


def copied(root: Path, target: Path) -> None:
    """Copy a root in which somebody may be writing: each part before what it refers to, as the whole was at a moment."""
    done: set[str] = set()
    for part in ("snapshots/logs", "snapshots/manifests", "snapshots", ".", ".."):
        here = os.path.normpath(root / STATE_FOLDER / part)
        with contextlib.suppress(shutil.Error, FileNotFoundError):  # a temporary file that went meanwhile
            shutil.copytree(
                here,
                os.path.normpath(target / STATE_FOLDER / part),
                dirs_exist_ok=True,
                ignore=lambda folder, names: {n for n in names if f"{folder}/{n}" in done or n == "locks"},
            )
        done.add(here)


def answer(root: Path, code: str, **how: Any) -> str:
    """What a cell says in the session as it is opened again."""
    heard: list[str] = []

    async def scene(running: Running) -> None:
        assert not running.opened.problem, running.opened.problem
        heard.append(await running.run(code))

    play(root, scene, **how)
    return heard[0].strip()


def logs(root: Path) -> list[Path]:
    return sorted((root / STATE_FOLDER / "snapshots" / "logs" / ID).glob("*.log"))


def test_a_burst_is_in_the_log_and_comes_back(root: Path, copies: Callable[[], Path]) -> None:
    killed: list[Path] = []

    async def scene(running: Running) -> None:
        await running.run("x = []")
        await running.runtime.settled()  # of the first one the files are stored
        for n in range(5):
            await running.run(f"x.append({n}); name{n} = {n}")
        assert running.cells() == [1], "nothing is stored while cells follow each other"
        assert running.runtime.live.cell_log.position == 6
        killed.append(copies())

    play(root, scene)
    assert not logs(root), "at the end everything is stored"

    async def again(running: Running) -> None:
        assert running.opened.manifest is not None and running.runtime.count == 7
        assert set(running.runtime.variables) == {"x", *(f"name{n}" for n in range(5))}
        assert running.cells() == [1, 2, 3, 4, 5, 6], "checkpoints like any"
        assert not logs(killed[0]), "and not in the log any more"
        assert (await running.run("print(x)")).strip() == "[0, 1, 2, 3, 4]"
        await running.timeline.undo(3)
        assert (await running.run("print(x, 'name3' in globals())")).strip() == "[0, 1, 2] False"

    play(killed[0], again)


def test_undo_redo_and_diff_in_a_burst(root: Path) -> None:
    async def scene(running: Running) -> None:
        await running.run("x = 0")
        for n in range(1, 8):
            await running.run(f"x = {n}")
        await running.timeline.undo(3)
        assert (await running.run("print(x)")).strip() == "4"
        await running.timeline.undo(2)
        await running.timeline.redo()
        assert (await running.run("print(x)")).strip() == "4"
        assert len(running.cells()) >= 7

    play(root, scene)


def test_a_kill_after_an_undo_stays_undone(root: Path, copies: Callable[[], Path]) -> None:
    killed: list[Path] = []

    async def scene(running: Running) -> None:
        for n in range(4):
            await running.run(f"x = {n}")
        await running.timeline.undo(2)
        killed.append(copies())
        await running.run("y = x + 10")
        killed.append(copies())

    play(root, scene)
    assert answer(killed[0], "print(x)") == "1"
    assert answer(killed[1], "print(x, y)") == "1 11"


def test_a_fresh_start_is_fresh_after_a_kill_too(root: Path, copies: Callable[[], Path]) -> None:
    killed: list[Path] = []

    async def scene(running: Running) -> None:
        await running.run("x = 1")
        await running.runtime.reset()
        await running.run("y = 2")
        killed.append(copies())

    play(root, scene)
    assert answer(killed[0], "print(y, 'x' in globals())") == "2 False"


def test_snapshots_and_forks_taken_in_a_burst(root: Path, copies: Callable[[], Path]) -> None:
    killed: list[Path] = []
    forks: list[str] = []

    async def scene(running: Running) -> None:
        for n in range(3):
            await running.run(f"x = {n}")
        snapshot = await running.runtime.take("here")
        await running.run("x = 'after'")
        killed.append(copies())
        assert snapshot.label == "here"
        forks.append(await asyncio.to_thread(fork_session, ID, root, snapshot_id=snapshot.snapshot_id))

    play(root, scene)
    assert answer(killed[0], "print(x)") == "after"
    with get_session_sandbox(forks[0], workspace_root=root, resume=True) as fork:
        assert fork.execute("print(x)").stdout == "2\n"


def test_the_library_opens_what_a_kill_left(root: Path, copies: Callable[[], Path]) -> None:
    killed: list[Path] = []

    async def scene(running: Running) -> None:
        await running.run("x = 5")
        await running.run("x += 1")
        killed.extend([copies(), copies(), copies()])

    play(root, scene)
    with get_session_sandbox(ID, workspace_root=killed[0], resume=True) as sandbox:
        assert sandbox.execute("print(x)").stdout == "6\n"
    create_snapshot(ID, killed[1])
    assert answer(killed[1], "print(x)") == "6"
    fork = fork_session(ID, killed[2])
    with get_session_sandbox(fork, workspace_root=killed[2], resume=True) as sandbox:
        assert sandbox.execute("print(x)").stdout == "6\n"


_STEPS: list[tuple[Any, str]] = [
    (CellLog, "rotate"),
    (CellLog, "folded"),
    (manifests.NewManifest, "publish"),
    (manifests, "remove"),
    (os, "fsync"),
    (os, "unlink"),
]


@pytest.mark.parametrize(("place", "name"), _STEPS, ids=[name for _, name in _STEPS])
def test_a_kill_at_each_step_of_folding_loses_nothing_and_does_nothing_twice(
    root: Path, copies: Callable[[], Path], monkeypatch: pytest.MonkeyPatch, place: Any, name: str
) -> None:
    """A copy before each call, and after it."""
    killed: list[Path] = []
    real = getattr(place, name)

    def watched(*arguments: Any, **more: Any) -> Any:
        killed.append(copies())
        return real(*arguments, **more)

    async def scene(running: Running) -> None:
        await running.run("pass")
        await running.runtime.settled()
        for n in range(3):
            await running.run(f"x = {n}; seen = [*globals().get('seen', []), {n}]")
        monkeypatch.setattr(place, name, watched)
        await running.runtime.settled()
        monkeypatch.setattr(place, name, real)
        killed.append(copies())

    play(root, scene, count=2)
    assert len(killed) > 1, "the step was seen"
    for copy in {0: killed[0], 1: killed[len(killed) // 2], 2: killed[-2], 3: killed[-1]}.values():

        async def again(running: Running) -> None:
            assert not running.opened.problem
            assert (await running.run("print(x, seen)")).strip() == "2 [0, 1, 2]"
            cells = [n for n in running.cells() if n <= 4]
            assert len(cells) == len(set(cells)), cells

        if copy.exists():
            play(copy, again)
            shutil.rmtree(copy)  # it may be there twice


def changed_log(root: Path, change: Callable[[bytes], bytes]) -> None:
    (path,) = logs(root)
    path.write_bytes(change(path.read_bytes()))


@pytest.fixture
def burst(root: Path, copies: Callable[[], Path]) -> Iterator[Path]:
    """What a kill after four quick cells leaves."""
    killed: list[Path] = []

    async def scene(running: Running) -> None:
        for n in range(4):
            await running.run(f"x = {n}")
            if not n:
                await running.runtime.settled()
        killed.append(copies())

    play(root, scene)
    yield killed[0]


def test_a_last_record_that_is_cut_is_dropped_without_a_word(burst: Path) -> None:
    changed_log(burst, lambda data: data[:-1000])
    assert answer(burst, "print(x)") == "2"


def test_damage_in_the_middle_is_said_and_what_is_before_it_is_used(burst: Path) -> None:
    (path,) = logs(burst)
    found = find(path.parent)
    assert found is not None
    second = list(found.cells())[1].body
    changed_log(burst, lambda data: data.replace(second, b"damage" + second[6:]))

    async def scene(running: Running) -> None:
        assert "could not be brought back: a record of the log is damaged" in running.opened.problem
        assert (await running.run("print(x)")).strip() == "1"
        assert len(logs(burst)) == 1, "another log has begun"

    play(burst, scene)


def test_a_log_of_another_image_is_said_and_not_used(burst: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    changed_log(burst, lambda data: data.replace(image.parts().base.key.encode(), b"another".ljust(32, b"x")[:32]))

    async def scene(running: Running) -> None:
        assert running.opened.problem.count("could not be brought back") == 1
        assert (await running.run("print(x)")).strip() == "0", "what is stored is used"

    play(burst, scene)


def test_a_cell_that_changed_too_much_is_stored_at_once(
    root: Path, copies: Callable[[], Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(live_guest, "MOST_LOGGED", 4 << 20)
    killed: list[Path] = []

    async def scene(running: Running) -> None:
        await running.run("x = 1")
        await running.run("import os; large = os.urandom(6 << 20); x = 2")
        killed.append(copies())  # maybe before it is written
        await running.run("x = 3")
        await running.runtime.settled()
        killed.append(copies())
        await running.run("x = 4; large = b''")
        killed.append(copies())

    play(root, scene)

    async def early(running: Running) -> None:
        x = (await running.run("print(x)")).strip()
        assert x == "2" or (x == "1" and "changed too much memory" in running.opened.problem)

    play(killed[0], early)
    assert answer(killed[1], "print(x, len(large))") == f"3 {6 << 20}"
    assert answer(killed[2], "print(x, len(large))") == "4 0"


def test_cells_that_rewrite_much_keep_the_log_within_its_bound(root: Path, copies: Callable[[], Path]) -> None:
    killed: list[Path] = []
    largest: list[int] = []

    async def scene(running: Running) -> None:
        await running.run("import os; data = bytearray(6 << 20); marks = []")
        for n in range(14):  # 84 MB in all
            await running.run(f"data[:] = os.urandom(6 << 20); marks.append(bytes(data[-9:])); n = {n}")
            largest.append(running.runtime.live.cell_log.size)
            await asyncio.sleep(0.1)  # another cell has to come within a second
            if n == 9:
                killed.append(copies())
        await running.run("data = bytearray(os.urandom(1 << 20)) * 40; n = 'much'")
        largest.append(running.runtime.live.cell_log.size)

    play(root, scene)
    assert max(largest) <= checkpoints._MOST_WAITING + 3 * (40 << 20), "what waits is written meanwhile"
    code = "print(n, data[-9:] == marks[-1], len(marks))"
    assert answer(killed[0], code) == "9 True 10"
    assert answer(root, "print(n, len(data))") == f"much {40 << 20}"


def test_cells_that_change_more_than_can_be_written_meanwhile_are_all_back(
    root: Path, copies: Callable[[], Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Their checkpoints become one, so that not everything is held as often as it was changed."""
    monkeypatch.setattr(runtime, "_MUCH_HELD", 1 << 20)
    write, may_write = checkpoints.Checkpoints._write, threading.Event()
    monkeypatch.setattr(checkpoints.Checkpoints, "_write", lambda *given: (may_write.wait(60), write(*given)))
    killed: list[Path] = []
    left: list[int] = []

    async def scene(running: Running) -> None:
        may_write.set()
        await running.run("import os; data = bytearray(40 << 20); marks = []")
        await running.runtime.settled()  # from here on it is known which files there are
        may_write.clear()
        for n in range(6):
            await running.run(f"data[:] = os.urandom(1 << 20) * 40; marks.append(bytes(data[-9:])); n = {n}")
        killed.append(copies())
        may_write.set()
        await running.runtime.settled()
        left.append(len(list_snapshots(root, running.runtime.live.session_id)))

    play(root, scene)
    code = "print(n, data[-9:] == marks[-1], len(marks))"
    assert answer(killed[0], code) == "5 True 6"
    assert answer(root, code) == "5 True 6"
    assert left[0] <= 4, "those that waited became one"


def test_memory_that_was_freed_comes_back_free(root: Path, copies: Callable[[], Path]) -> None:
    killed: list[Path] = []

    async def scene(running: Running) -> None:
        await running.run("import os; a = [os.urandom(1 << 20) for _ in range(5)]")
        await running.run("b = sum(map(len, a)); del a")
        async with running.runtime.guest:  # makes holes of what was freed
            await running.runtime._capture(scrub=True)
        await running.run("c = bytearray(3 << 20); c[-1] = 7")
        killed.append(copies())

    play(root, scene)
    code = "print(b, len(c), c[-1], any(c[:-1]), 'a' in globals())"
    assert answer(killed[0], code) == f"{5 << 20} {3 << 20} 7 False False"


def test_files_are_back_and_those_of_before_are_known(root: Path, copies: Callable[[], Path]) -> None:
    killed: list[Path] = []

    async def scene(running: Running) -> None:
        await running.run("x = 1; open('one', 'w').write('1')")
        await running.runtime.settled()
        await running.run("x = 2")
        await running.run("x = 3; open('one', 'w').write('3'); open('three', 'w').write('3')")
        killed.append(copies())  # maybe before it is written

    play(root, scene)

    async def again(running: Running) -> None:
        code = "import os; print(x, sorted(os.listdir()), open('one').read())"
        assert (await running.run(code)).strip() == "3 ['one', 'three'] 3"
        await running.timeline.undo(2)
        assert (await running.run(code)).strip() == "2 ['one'] 1"

    play(killed[0], again)


def test_a_full_disk_at_recovery_keeps_what_came_back_and_the_log(burst: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = manifests.NewManifest.publish

    def full(self: Any) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    async def scene(running: Running) -> None:
        assert (await running.run("print(x); x = 'more'")).strip() == "3"
        assert logs(burst), "it is still the only place"
        monkeypatch.setattr(manifests.NewManifest, "publish", real)
        await running.run("x += '!'")
        await running.runtime.settled()
        assert not logs(burst)

    monkeypatch.setattr(manifests.NewManifest, "publish", full)
    play(burst, scene)
    assert answer(burst, "print(x)") == "more!"


def test_a_log_that_cannot_be_written_does_not_stop_cells(
    root: Path, copies: Callable[[], Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    real = os.writev
    killed: list[Path] = []

    def full(*arguments: Any) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")

    async def scene(running: Running) -> None:
        await running.run("x = 1")
        monkeypatch.setattr(os, "writev", full)
        await running.run("x = 2; y = 'unlogged'")
        monkeypatch.setattr(os, "writev", real)
        await running.run("x = 3")
        killed.append(copies())

    play(root, scene)
    assert answer(killed[0], "print(x, y)") == "3 unlogged", "the next record has both"


def test_what_runs_between_cells_is_in_the_next_record(root: Path, copies: Callable[[], Path]) -> None:
    killed: list[Path] = []

    async def scene(running: Running) -> None:
        await running.run("x = [0]")
        async with running.runtime.guest:
            await running.runtime.ask({"op": "complete", "code": "x.app", "cursor_pos": 5})
        await running.run("x.append(1)")
        killed.append(copies())

    play(root, scene)
    assert answer(killed[0], "print(x)") == "[0, 1]"


def test_a_kill_during_the_recovery_loses_nothing(burst: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Killed after each checkpoint that it writes."""
    halfway: list[Path] = []
    real = CellLog.folded

    def watched(self: CellLog, *arguments: Any) -> None:
        for when in ("before", "after"):
            halfway.append(tmp_path / f"half{len(halfway)}-{when}")
            if when == "after":
                real(self, *arguments)
            copied(burst, halfway[-1])

    monkeypatch.setattr(CellLog, "folded", watched)
    live = open_live(burst)
    resume(live)
    live.close()
    monkeypatch.undo()
    assert len(halfway) >= 6
    for each in halfway:

        async def again(running: Running) -> None:
            assert (await running.run("print(x)")).strip() == "3"
            assert running.cells()[:4] == [1, 2, 3, 4]

        play(each, again)


def test_a_deleted_session_leaves_no_log(burst: Path) -> None:
    from wasm_kernel import delete_session_workspace

    assert logs(burst)
    delete_session_workspace(ID, burst)
    assert not logs(burst)
    assert answer(burst, "print('x' in globals())") == "False"


FILES = 6
STEP = """
import os
for n in range({files}):
    {what}
v = {v}
"""
FIRST = STEP.format(files=FILES, what="open(f'/app/{n}', 'w').write('one')", v=1)
SECOND = STEP.format(files=FILES, what="open(f'/app/{n}', 'w').write('two') if n % 2 else os.remove(f'/app/{n}')", v=2)
STATE = "print(v, sorted((n, open('/app/' + n).read()) for n in os.listdir('/app')))"


@pytest.mark.parametrize("moment", ["removed", "half written", "not marked"])
def test_a_kill_in_the_middle_of_an_undo(
    root: Path, copies: Callable[[], Path], monkeypatch: pytest.MonkeyPatch, moment: str
) -> None:
    """Variables and files are of one moment: a move that has begun is finished by whoever opens the session next."""
    killed: list[Path] = []

    def at(owner: type, name: str, when: int) -> None:
        stock, calls = getattr(owner, name), itertools.count()

        def watched(*args: Any, **options: Any) -> Any:
            if next(calls) == when:
                killed.append(copies())
            return stock(*args, **options)

        monkeypatch.setattr(owner, name, watched)

    async def scene(running: Running) -> None:
        await running.run(FIRST)
        await running.run(SECOND)
        await running.timeline.settled()
        where = {
            "removed": (Folder, "create", 0),
            "half written": (NewFiles, "write", 3),
            "not marked": (Recorder, "mark", 0),
        }
        at(*where[moment])
        await running.timeline.undo(1)

    play(root, scene)
    one = str([(str(n), "one") for n in range(FILES)])
    assert answer(killed[0], STATE) == f"1 {one}"
    assert answer(killed[0], STATE) == f"1 {one}"  # it is finished once
    assert answer(root, STATE) == f"1 {one}"


def test_an_undo_that_cannot_be_finished(root: Path, copies: Callable[[], Path]) -> None:
    """Nobody is held up by it, and the person is told."""

    async def scene(running: Running) -> None:
        await running.run("v = 1")
        await running.timeline.settled()

    play(root, scene)
    problems: list[str] = []

    async def again(running: Running) -> None:
        problems.append(running.opened.problem)
        assert await running.run("print(v)") == "1\n"

    for named in ("../../x", "no-such-snapshot"):
        folder = root / STATE_FOLDER / "snapshots" / "logs" / ID
        folder.mkdir(exist_ok=True)
        (folder / "moving").write_text(named)
        play(root, again)
        assert not folder.exists()
    assert all("could not be finished" in problem for problem in problems)


def test_all_that_may_be_open_fits_into_a_record() -> None:
    policy = ExecutionPolicy(max_open_files=1000)  # it may not be more
    opened = SavedDescriptor(9, 3, b"\xff" * 2 * MAX_PATH, 1, 1, 1, 1 << 40, 1 << 40)
    record = CellRecord(datetime.now(UTC), 1, {}, 1 << 32, (opened,) * policy.max_open_files)
    assert len(record.to_json()) < found_log.MAX_HEAD * 0.6


def test_a_record_that_is_too_large_fails_no_cell(
    root: Path, copies: Callable[[], Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is stored at once instead."""
    monkeypatch.setattr(cell_log, "MAX_HEAD", 10)
    killed: list[Path] = []

    async def scene(running: Running) -> None:
        await running.run("x = 5")
        while not running.snapshots or running.snapshots[0].metadata.get("number") != 1:
            await asyncio.sleep(0.01)
        killed.append(copies())

    play(root, scene)
    assert answer(killed[0], "print(x)") == "5"


def test_cells_that_could_be_neither_logged_nor_stored_are_in_the_next_record(
    root: Path, copies: Callable[[], Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The disk was full for a while. What they did to files stays, too, when the cell after them is gone back to."""
    killed: list[Path] = []

    def full(*args: Any, **options: Any) -> None:
        raise OSError(errno.ENOSPC, "full")

    async def scene(running: Running) -> None:
        await running.run("a = 1")
        await running.timeline.settled()
        with monkeypatch.context() as patched:
            patched.setattr(CellLog, "append", full)
            patched.setattr(Recorder, "write", full)
            await running.run("b = 2; open('/app/kept', 'w').write('2')")
            await running.runtime.settled()
        await running.run("c = 3")
        killed.append(copies())

    async def after(running: Running) -> None:
        assert running.opened.manifest is not None
        assert set(running.opened.manifest.variables) == {"a", "b", "c"}
        await running.run("d = 4; open('/app/kept', 'w').write('4')")
        await running.timeline.undo(1)
        assert (await running.run("print(a, b, c, open('/app/kept').read())")).strip() == "1 2 3 2"

    play(root, scene)
    play(killed[0], after)
