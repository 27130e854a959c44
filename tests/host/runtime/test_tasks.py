"""Tasks that wait and results that came are bytes, and never more than there is room for."""

from __future__ import annotations

import pytest

from wasm_kernel.guest import wire
from wasm_kernel.host.runtime import tasks
from wasm_kernel.host.runtime.tasks import Results, TaskQueues


def task(number: int, *, pool: int = 1, era: int = 0, size: int = 1) -> wire.SubmitTask:
    return wire.SubmitTask(pool, era, number, (bytes(size),))


def test_a_worker_gets_the_first_task_that_it_can_do() -> None:
    queues = TaskQueues()
    for item in (task(1, era=2), task(2), task(3), task(4, pool=2)):
        queues.add(item)
    assert [found.task for _ in range(3) if (found := queues.take(1, 0))] == [2, 3]
    assert queues.has(1)
    assert queues.take(1, 2) == task(1, era=2)
    assert not queues.has(1)
    assert queues.cancel(2, 4)
    assert not queues.cancel(2, 4)


@pytest.mark.parametrize(("limit", "value"), [("MOST_WAITING_BYTES", 10), ("MOST_WAITING_TASKS", 2), ("MOST_POOLS", 2)])
def test_tasks_that_are_too_many_are_refused_and_taking_makes_room(
    monkeypatch: pytest.MonkeyPatch, limit: str, value: int
) -> None:
    monkeypatch.setattr(tasks, limit, value)
    queues = TaskQueues()
    queues.add(task(1, size=5))
    queues.add(task(2, pool=2, size=5))
    with pytest.raises(wire.TooMuch):
        queues.add(task(3, pool=3))
    assert queues.take(1, 0)
    queues.add(task(3, pool=3))


def test_a_task_has_a_size(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(wire, "MAX_TASK_BYTES", 5)
    with pytest.raises(wire.TooMuch, match="6 bytes; 5 are allowed"):
        TaskQueues().add(task(1, size=6))


def test_results_come_in_order_in_answers_of_a_size(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(wire, "MAX_TASK_BYTES", 10)
    monkeypatch.setattr(tasks, "MOST_WAITING_BYTES", 20)
    woken: list[int] = []
    fetched: list[int] = []
    results = Results(lambda: woken.append(1), lambda: fetched.append(1))
    for number in range(3):
        assert results.has_room(6)
        results.put({"task": number}, bytes([number]) * 6)
    assert len(woken) == 3
    assert not results.has_room(6)
    found = []
    while results:
        header, buffers = wire.decode(results.fetch()[1:])
        found += zip(header["events"], buffers, strict=True)
    assert found == [({"task": number}, bytes([number]) * 6) for number in range(3)]
    assert len(fetched) == 3
    assert results.has_room(10**9), "one result is taken, however large it is"


@pytest.mark.parametrize(
    "event",
    [
        wire.StartWorkers(1, 0, 1, -1),
        wire.SubmitTask(1, 1 << 60, 1, (b"",)),
        wire.SubmitTask(1, 0, 1, ()),
        wire.TaskDone(1, 1, (b"", b"")),
        wire.AwaitTasks(float("nan")),
        wire.CancelTask(True, 1),
    ],
)
def test_malformed_messages_are_no_messages(event: wire.Frame) -> None:
    with pytest.raises(wire.BadFrame):
        wire.decode_event(wire.encode_event(event))
