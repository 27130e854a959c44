"""One job at a time, on one thread; no guest is needed."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from types import SimpleNamespace

import pytest

from wasm_kernel import SandboxBusy, SandboxClosed
from wasm_kernel.guest import wire
from wasm_kernel.host.runtime.job_thread import Job, JobThread


class Scene:
    """A thread, and what it was asked to do between jobs and at the end."""

    def __init__(self) -> None:
        self.settled, self.finished = threading.Semaphore(0), threading.Event()
        self.thread = JobThread()
        self.thread.start(self.settled.release, self.finished.set)


@pytest.fixture
def scene() -> Iterator[Scene]:
    made = Scene()
    yield made
    made.thread.close(5)


def test_results_and_exceptions_come_back_to_who_waits(scene: Scene) -> None:
    assert scene.thread.wait(lambda: threading.current_thread().name) == "wasm-kernel-sandbox"
    with pytest.raises(ZeroDivisionError):
        scene.thread.wait(lambda: 1 // 0)
    assert scene.thread.wait(lambda: 7) == 7, "it goes on"


def test_a_second_job_is_refused_while_one_is_done(scene: Scene) -> None:
    began, end, delivered = threading.Event(), threading.Event(), threading.Event()

    def work() -> None:
        began.set()
        end.wait(60)

    scene.thread.submit(Job(work, lambda kind, value: delivered.set()))
    assert began.wait(60)
    with pytest.raises(SandboxBusy):
        scene.thread.wait(lambda: 1)
    assert scene.thread.interrupt(), "something is under way"
    end.set()
    assert delivered.wait(60)
    assert scene.thread.wait(lambda: 1) == 1
    assert not scene.thread.interrupt()


def test_it_settles_after_every_job_when_the_result_is_delivered(scene: Scene) -> None:
    order: list[str] = []
    scene.thread._settle = lambda: (order.append("settled"), scene.settled.release())[1]
    scene.thread.submit(Job(lambda: order.append("worked"), lambda kind, value: order.append(kind)))
    assert scene.settled.acquire(timeout=60)
    assert order == ["worked", "done", "settled"]


def test_closing(scene: Scene) -> None:
    scene.thread.close(5)
    scene.thread.close(5)
    assert scene.finished.is_set()
    with pytest.raises(SandboxClosed):
        scene.thread.wait(lambda: 1)
    assert not scene.thread.interrupt()


def test_something_quick_is_done_by_whoever_wants_it_unless_there_is_a_job(scene: Scene) -> None:
    assert scene.thread.unless_busy(threading.current_thread) is threading.current_thread()
    end, delivered = threading.Event(), threading.Event()
    scene.thread.submit(Job(lambda: end.wait(60), lambda kind, value: delivered.set()))
    assert scene.thread.unless_busy(lambda: 1) is None
    end.set()
    assert delivered.wait(60)

    def refused() -> bool:
        with pytest.raises(SandboxBusy):
            scene.thread.submit(Job(lambda: None, lambda kind, value: None))
        return True

    assert scene.thread.unless_busy(refused), "meanwhile there are no jobs"
    assert scene.thread.wait(lambda: 2) == 2
    scene.thread.close(5)
    assert scene.thread.unless_busy(lambda: 1) is None


class _Instance:
    """Instead of an instance with a turn: waits until there is an answer, or somebody interrupts."""

    def __init__(self) -> None:
        self.interrupted = threading.Event()

    def pump(self, ready: Callable[[], bool]) -> bool:
        while not ready():
            if self.interrupted.is_set():
                self.interrupted.clear()
                return False
            time.sleep(0.001)
        return True


def test_a_late_answer_does_not_answer_the_next_question(scene: Scene) -> None:
    """A cell catches the interrupt of one question and asks another at once."""
    instance, turn = _Instance(), SimpleNamespace(wake=threading.Event())
    first, second = wire.InputRequest("first"), wire.InputRequest("first")
    answers: list[bytes] = []
    done = threading.Event()

    def work() -> None:
        scene.thread.begin_turn(turn, instance, interruptible=True)  # type: ignore[arg-type]
        answers.extend(scene.thread.ask("input", question) for question in (first, second))
        scene.thread.end_turn()

    def deliver(kind: str, value: object) -> None:
        if value is first:
            instance.interrupted.set()
        elif value is second:
            scene.thread.answer(b"too late", first)
            scene.thread.answer(b"right", second)
        else:
            done.set()

    scene.thread.submit(Job(work, deliver))
    assert done.wait(60)
    assert answers == [wire.ANSWER_INTERRUPTED, b"right"]
    assert scene.thread.question is None
