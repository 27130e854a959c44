"""Checkpoints on their way to the disk, without a guest or a store: order, haste, thinning out, failures. Milliseconds."""

from __future__ import annotations

import asyncio
import logging
import threading
import uuid
from collections.abc import Awaitable, Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from wasm_kernel.errors import SandboxClosed, StoreBusy
from wasm_kernel.model.snapshot_retention import CheckpointRules
from wasm_kernel.model.snapshots import Snapshot
from wasm_kernel.sessions import checkpoints
from wasm_kernel.sessions.checkpoints import Checkpoints, Collector, Pending

_LOG = logging.getLogger("test")


class Recorder:
    """Instead of a `Recorder`: remembers what was written."""

    def __init__(self) -> None:
        self.root, self.files, self.written = Path("nowhere"), [], list[Snapshot]()
        self.removed: list[str] = []
        self.syncs = 0  # of the log
        self.log = SimpleNamespace(size=0, rotate=lambda: None, sync=self._sync)
        self.store = SimpleNamespace(remove_manifest=lambda session, name: self.removed.append(name))
        self.may_write = threading.Event()
        self.may_write.set()
        self.fails: Exception | None = None
        self.size = 10

    def _sync(self) -> None:
        self.syncs += 1

    def expect_files(self) -> None:
        pass

    def write(
        self, guest: Any, trigger: str, *, execution_count: int, metadata: dict[str, Any], **rest: Any
    ) -> Snapshot:
        assert self.may_write.wait(60)
        if self.fails is not None:
            raise self.fails
        snapshot = Snapshot(
            snapshot_id=str(uuid.uuid4()),
            session_id="s",
            trigger=trigger,
            created_at=datetime.now(UTC),
            label="",
            parent="",
            execution_count=execution_count,
            image_key="",
            memory_bytes=0,
            file_count=0,
            file_bytes=0,
            stored_bytes=self.size,
            metadata=metadata,
        )
        self.written.append(snapshot)
        return snapshot

    @property
    def counts(self) -> list[int]:
        return [s.execution_count for s in self.written]


class Memory:
    """A captured memory that others may take over."""

    def __init__(self) -> None:
        self.taken: list[Memory] = []

    def take_over(self, other: Memory) -> None:
        self.taken.append(other)


class Collected:
    """Instead of a `Collector`."""

    def __init__(self) -> None:
        self.heard: list[tuple[int, int]] = []

    def went(self, count: int, size: int) -> None:
        self.heard.append((count, size))


@pytest.fixture
def recorder(monkeypatch: pytest.MonkeyPatch) -> Iterator[Recorder]:
    made = Recorder()
    monkeypatch.setattr(checkpoints, "list_snapshots", lambda root, session: list(reversed(made.written)))
    yield made
    made.may_write.set()


def play(scene: Callable[[Checkpoints, Collected], Awaitable[None]], **rules: Any) -> None:
    async def run() -> None:
        collected: Any = Collected()
        made = Checkpoints(CheckpointRules(**rules), collected, asyncio.get_running_loop(), _LOG)
        try:
            await scene(made, collected)
        finally:
            made.close()

    asyncio.run(run())


def pending(recorder: Recorder, count: int, trigger: str = "checkpoint", *, same_files: bool = True) -> Pending:
    guest: Any = SimpleNamespace(memory=Memory())
    return Pending(recorder, guest, trigger, count, {}, {}, same_files=same_files)  # type: ignore[arg-type]


def test_those_that_wait_become_one_when_too_much_is_held_for_them(recorder: Recorder) -> None:
    async def scene(made: Checkpoints, collected: Collected) -> None:
        recorder.may_write.clear()
        first = made.enqueue(pending(recorder, 1))
        await until(lambda: made._being_written == (first,))
        cells = [made.enqueue(pending(recorder, number), soon=True) for number in range(2, 5)]
        made.enqueue(pending(recorder, 5, same_files=False), soon=True)
        made.merge_waiting()
        recorder.may_write.set()
        await made.settled()
        assert recorder.counts == [1, 5], "what changed files is written, and all before it is in it"
        assert all(isinstance(cell.written.exception(), SandboxClosed) for cell in cells)

    play(scene)


def test_one_that_changed_files_is_not_merged_into_the_next(recorder: Recorder) -> None:
    async def scene(made: Checkpoints, collected: Collected) -> None:
        recorder.may_write.clear()
        first = made.enqueue(pending(recorder, 1))
        await until(lambda: made._being_written == (first,))
        made.enqueue(pending(recorder, 2, same_files=False), soon=True)
        made.enqueue(pending(recorder, 3), soon=True)
        made.merge_waiting()
        recorder.may_write.set()
        await made.settled()
        assert recorder.counts == [1, 2, 3]

    play(scene)


def test_they_are_written_in_order(recorder: Recorder) -> None:
    async def scene(made: Checkpoints, collected: Collected) -> None:
        for number in range(1, 6):
            made.enqueue(pending(recorder, number), soon=True)
        assert not made.idle
        await made.settled()
        assert recorder.counts == [1, 2, 3, 4, 5] and made.idle

    play(scene)


def test_cells_that_follow_fast_wait_for_a_pause_but_not_for_ever(recorder: Recorder, monkeypatch: Any) -> None:
    monkeypatch.setattr(checkpoints, "_PAUSE", 0.05)
    monkeypatch.setattr(checkpoints, "_MOST_WAIT", 0.2)

    async def scene(made: Checkpoints, collected: Collected) -> None:
        made.enqueue(pending(recorder, 1), soon=True)
        assert recorder.counts == []
        number = 1
        while not recorder.counts:  # each within the pause of the one before
            number += 1
            made.enqueue(pending(recorder, number), soon=True)
            await asyncio.sleep(0.01)
        assert number > 3

    play(scene, count=1000)


def test_cells_that_are_logged_wait_until_nothing_happens(recorder: Recorder, monkeypatch: Any) -> None:
    monkeypatch.setattr(checkpoints, "_PAUSE", 0.0)
    monkeypatch.setattr(checkpoints, "_MOST_WAIT", 0.0)
    monkeypatch.setattr(checkpoints, "_LOGGED_PAUSE", 1.5)

    async def scene(made: Checkpoints, collected: Collected) -> None:
        for number in range(1, 6):
            made.enqueue(pending(recorder, number), soon=True, logged=True)
            await asyncio.sleep(0.02)
        assert recorder.counts == []
        await until(lambda: len(recorder.counts) == 5)
        assert recorder.counts == [1, 2, 3, 4, 5]

    play(scene)


async def until(condition: Callable[[], bool]) -> None:
    for _ in range(6000):
        if condition():
            return
        await asyncio.sleep(0.01)
    raise AssertionError("it never came true")


def test_a_cell_that_comes_while_they_are_written_goes_first(recorder: Recorder, monkeypatch: Any) -> None:
    monkeypatch.setattr(checkpoints, "_LOGGED_PAUSE", 0.2)

    async def scene(made: Checkpoints, collected: Collected) -> None:
        recorder.may_write.clear()
        for number in range(1, 6):
            made.enqueue(pending(recorder, number), soon=True, logged=True)
        await until(lambda: len(made._queue) == 4)  # the first is begun
        made.hold()  # a cell begins
        recorder.may_write.set()
        await until(lambda: not made._writing)
        assert recorder.counts == [1], "the others wait for the next pause"
        await until(lambda: recorder.counts == [1, 2, 3, 4, 5])

    play(scene)


def test_who_waits_for_them_does_not_wait_for_a_pause(recorder: Recorder, monkeypatch: Any) -> None:
    monkeypatch.setattr(checkpoints, "_LOGGED_PAUSE", 1000.0)

    async def scene(made: Checkpoints, collected: Collected) -> None:
        for number in range(1, 4):
            made.enqueue(pending(recorder, number), soon=True, logged=True)
        made.hold()
        await asyncio.wait_for(made.settled(), 10)
        assert recorder.counts == [1, 2, 3]

    play(scene)


def test_while_cells_follow_each_other_their_log_is_synced_from_time_to_time(
    recorder: Recorder, monkeypatch: Any
) -> None:
    async def scene(made: Checkpoints, collected: Collected) -> None:
        for number in range(1, 6):
            made.enqueue(pending(recorder, number), soon=True, logged=True)
        assert recorder.syncs == 0
        monkeypatch.setattr(checkpoints, "_SYNC_EVERY", 0.0)
        made.enqueue(pending(recorder, 6), soon=True, logged=True)
        await made.settled()
        assert recorder.syncs == 1

    play(scene)


def test_who_has_to_wait_until_it_has_caught_up_waits_a_while(recorder: Recorder, monkeypatch: Any) -> None:
    """A guest that changes much in every cell, and a disk that is slower."""

    async def scene(made: Checkpoints, collected: Collected) -> None:
        recorder.may_write.clear()
        made.enqueue(pending(recorder, 1))
        await asyncio.wait_for(made.caught_up(), 60)  # for the last one nobody waits
        made.enqueue(pending(recorder, 2), soon=True, logged=True)
        waiting = asyncio.ensure_future(made.caught_up())
        await asyncio.sleep(0.1)
        assert not waiting.done() and not recorder.counts
        recorder.may_write.set()
        await asyncio.wait_for(waiting, 10)
        assert recorder.counts[0] == 1
        monkeypatch.setattr(checkpoints, "_PATIENCE", 0.05)
        recorder.may_write.clear()
        for number in (3, 4):
            made.enqueue(pending(recorder, number))
        await asyncio.wait_for(made.caught_up(), 10)  # a disk that hangs does not end the notebook
        recorder.may_write.set()

    play(scene)


def test_cells_that_are_logged_do_not_wait_once_the_log_is_large(recorder: Recorder) -> None:
    async def scene(made: Checkpoints, collected: Collected) -> None:
        recorder.log.size = checkpoints._MOST_WAITING
        one = made.enqueue(pending(recorder, 1), soon=True, logged=True)
        await asyncio.wait_for(asyncio.wrap_future(one.written), 10)

    play(scene)


def test_too_many_that_wait_become_fewer_and_lose_nothing(recorder: Recorder) -> None:
    async def scene(made: Checkpoints, collected: Collected) -> None:
        recorder.may_write.clear()
        all_of_them = [made.enqueue(pending(recorder, number)) for number in range(1, 8)]
        recorder.may_write.set()
        await made.settled()
        dropped = [p for p in all_of_them if p.written.exception() is not None]
        kept = [p for p in all_of_them if p not in dropped]
        assert len(kept) <= 4 and all_of_them[-1] in kept
        taken: list[Any] = [m for p in all_of_them for m in p.guest.memory.taken]  # type: ignore[attr-defined]
        assert taken == [p.guest.memory for p in dropped], "each one's changes are taken over by the next"

    play(scene, count=3)


def test_what_has_files_of_its_own_is_never_dropped(recorder: Recorder) -> None:
    async def scene(made: Checkpoints, collected: Collected) -> None:
        recorder.may_write.clear()
        for number in range(1, 8):
            made.enqueue(pending(recorder, number, same_files=False))
        recorder.may_write.set()
        await made.settled()
        assert recorder.counts == [1, 2, 3, 4, 5, 6, 7]

    play(scene, count=2)


def test_the_oldest_go_by_number(recorder: Recorder) -> None:
    async def scene(made: Checkpoints, collected: Collected) -> None:
        for number in range(1, 6):
            made.enqueue(pending(recorder, number))
            await made.settled()
        assert recorder.removed == [s.snapshot_id for s in recorder.written[:2]]
        assert sum(count for count, _ in collected.heard) == 2
        assert sum(size for _, size in collected.heard) == 50, "what was added is what may be left"

    play(scene, count=3)


def test_the_oldest_go_by_space_but_two_stay(recorder: Recorder) -> None:
    async def scene(made: Checkpoints, collected: Collected) -> None:
        for number in range(1, 6):
            made.enqueue(pending(recorder, number))
            await made.settled()
        assert recorder.removed == [s.snapshot_id for s in recorder.written[:3]]

    play(scene, count=100, max_bytes=5)


def test_those_with_other_marks_stay(recorder: Recorder) -> None:
    async def scene(made: Checkpoints, collected: Collected) -> None:
        recorder.write(None, "checkpoint", execution_count=1, metadata={"number": 1})
        recorder.write(None, "user", execution_count=1, metadata={"api": True})
        ours = recorder.write(None, "checkpoint", execution_count=1, metadata={"api": True})
        made.enqueue(pending(recorder, 2))
        await made.settled()
        assert recorder.removed == [ours.snapshot_id]
        assert recorder.written[-1].metadata == {"api": True}

    play(scene, count=1, marks={"api": True})


def test_the_last_one_counts_as_one_and_stays(recorder: Recorder) -> None:
    async def scene(made: Checkpoints, collected: Collected) -> None:
        made.enqueue(pending(recorder, 1))
        await made.settled()
        made.close(lambda: pending(recorder, 2, "session_close"))
        assert recorder.removed == [recorder.written[0].snapshot_id]
        assert [s.trigger for s in recorder.written] == ["checkpoint", "session_close"]
        with pytest.raises(SandboxClosed):
            made.enqueue(pending(recorder, 3))

    play(scene, count=1)


def test_one_that_fails_is_told_to_who_waits_and_the_next_is_written(recorder: Recorder) -> None:
    async def scene(made: Checkpoints, collected: Collected) -> None:
        recorder.fails = OSError(28, "No space left on device")
        with pytest.raises(OSError, match="No space"):
            await asyncio.wrap_future(made.enqueue(pending(recorder, 1)).written)
        await made.settled()
        assert recorder.syncs == 1, "the log is all that a power cut would leave of it"
        recorder.fails = None
        assert (await asyncio.wrap_future(made.enqueue(pending(recorder, 2)).written)).execution_count == 2

    play(scene)


def test_space_is_given_back_by_number_or_by_bytes_and_again_when_it_failed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    done: list[float] = []
    busy = [True]

    def collect(root: Path, *, wait: float) -> None:
        if busy:
            busy.pop()
            raise StoreBusy("somebody takes one")
        done.append(wait)

    monkeypatch.setattr(checkpoints, "collect_snapshots", collect)
    collector = Collector(tmp_path, 3, 100, _LOG, patience=2.0)
    collector.went(2, 50)
    assert not done
    collector.went(1, 0)  # as many as three, but the store is busy
    assert not done
    collector.went(0, 0)
    assert done == [2.0]
    collector.went(0, 101)
    assert len(done) == 2
    collector.went(1, 1)
    assert len(done) == 2
