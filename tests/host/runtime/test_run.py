"""A turn's deadlines and signals, by the clock that it is given; no guest is needed."""

from __future__ import annotations

from wasm_kernel.host.runtime.run import SIGINT, SIGXCPU, Run


def test_a_turn_that_nobody_disturbs() -> None:
    run = Run(None, 1)
    assert not run.due(run.started + 1e9)
    assert not (run.stop or run.signal or run.timed_out or run.interrupted)


def test_a_time_limit_asks_first_and_forces_then() -> None:
    run = Run(5, 1)
    assert not run.due(run.started + 4.9)
    assert run.due(run.started + 5)
    assert (run.timed_out, run.signal, run.stop) == (True, SIGXCPU, False)
    run.signal = 0  # delivered
    assert not run.due(run.started + 5.9)
    assert run.due(run.started + 6)
    assert run.stop


def test_a_time_limit_is_not_put_off_by_a_handler() -> None:
    run = Run(5, 1)
    run.due(run.started + 5)
    run.interrupt_seen()
    run.due(run.started + 6)
    assert run.stop


def test_an_interrupt_that_was_seen_is_not_forced() -> None:
    run = Run(None, 0)
    run.interrupt()
    assert run.interrupted and run.signal == SIGINT and run.wake.is_set()
    run.interrupt_seen()
    run.due(run.started + 1e9)
    assert not run.stop


def test_an_interrupt_that_was_not_seen_is_forced() -> None:
    run = Run(None, 0)
    run.interrupt()
    assert run.due(run.started + 1)
    assert run.stop
