"""Budgets per window of time: what is left, what is owed, how long to wait."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wasm_kernel.model.budget import OUTPUT_WINDOW, BackgroundBudget, Budget
from wasm_kernel.model.policy import ExecutionPolicy


def test_what_is_spent_is_gone_until_the_window_is_over() -> None:
    budget = Budget(10, 60)
    budget.spend(4, 1000)
    assert budget.left(1059) == 6
    budget.spend(6, 1030)
    assert budget.left(1059.9) == 0
    assert budget.wait(1059) == pytest.approx(1)
    assert budget.left(1060) == 10
    assert budget.wait(1060) == 0


def test_a_window_begins_with_the_first_spending() -> None:
    budget = Budget(10, 60)
    assert budget.left(5) == 10
    budget.spend(10, 59)
    assert budget.left(61) == 0
    assert budget.wait(61) == pytest.approx(58)
    assert budget.left(119) == 10
    budget.spend(10, 500)
    assert budget.wait(501) == pytest.approx(59)


def test_a_debt_is_paid_by_the_windows_that_follow() -> None:
    budget = Budget(2, 60)
    budget.spend(7, 0)
    assert budget.left(0) == -5
    assert budget.wait(0) == pytest.approx(180)
    assert budget.left(179) <= 0
    assert budget.left(180) == 1
    assert budget.wait(180) == 0


def test_asking_changes_nothing() -> None:
    budget = Budget(2, 60)
    budget.spend(5, 0)
    assert budget.wait(10_000) == 0
    assert budget.wait(1) == pytest.approx(119)


def test_no_limit_is_never_used_up() -> None:
    budget = Budget(math.inf, 60)
    budget.spend(1e12, 0)
    assert budget.wait(0) == budget.wait(61) == 0
    assert budget.left(61) == math.inf


def test_a_limit_of_nothing_is_always_used_up() -> None:
    assert Budget(0, 60).wait(5) == math.inf
    assert Budget(0, 60).left(5) == 0


steps = st.lists(st.tuples(st.floats(0, 100), st.floats(0, 5)), max_size=60)


@given(steps)
def test_who_waits_when_told_keeps_to_the_limit_in_the_long_run(wanted: list[tuple[float, float]]) -> None:
    """Turns may begin while something is left: in n windows they use at most n+1 times the limit, and one turn more."""
    budget, now, spent = Budget(3, 60), 0.0, 0.0
    for pause, cost in wanted:
        now += pause + budget.wait(now + pause)
        assert budget.wait(now) <= 1e-6
        now += 1e-6
        budget.spend(cost, now)
        spent += cost
        assert spent <= 3 * (now // 60 + 2) + 5


@given(steps)
def test_waiting_as_long_as_told_is_enough_and_not_too_long(wanted: list[tuple[float, float]]) -> None:
    budget, now = Budget(3, 60), 0.0
    for pause, cost in wanted:
        now += pause
        budget.spend(cost, now)
        wait = budget.wait(now)
        if wait:
            assert budget.left(now + wait - 1e-3) <= 1e-6
        assert budget.left(now + wait + 1e-3) > -1e-6


# ---- what goes with a policy


def test_between_cells_there_is_what_one_cell_may_use() -> None:
    policy = ExecutionPolicy(
        timeout_seconds=2, fuel_budget=10**9, stdout_max_bytes=100, stderr_max_bytes=200, display_max_bytes=300
    )
    budget = BackgroundBudget.of(policy)
    assert budget.room(0) == {"stdout": 100, "stderr": 200, "display": 300}
    assert (budget.seconds.limit, budget.seconds.window) == (2, OUTPUT_WINDOW)
    assert (budget.fuel.limit, budget.fuel.window) == (10**9, OUTPUT_WINDOW)
    budget.spend({"stdout": 60, "stderr": 0, "display": 301}, 1.0, 5, 1.0)
    assert budget.room(2) == {"stdout": 40, "stderr": 200, "display": 0}
    assert budget.wait(2) == 0
    budget.spend({}, 1.0, 0, 2.0)
    assert budget.wait(2) == pytest.approx(59)


def test_a_long_time_limit_gives_the_background_a_quarter_of_the_time() -> None:
    budget = BackgroundBudget.of(ExecutionPolicy(timeout_seconds=600))
    assert budget.seconds.limit / budget.seconds.window == 0.25
    assert budget.output["stdout"].window == OUTPUT_WINDOW


def test_without_a_time_limit_there_is_none_between_cells_either() -> None:
    budget = BackgroundBudget.of(ExecutionPolicy())
    budget.spend({}, 1e9, 2**61, 0)
    assert budget.wait(0) == 0


def test_fuel_that_is_used_up_holds_the_guest_back_as_time_does() -> None:
    budget = BackgroundBudget.of(ExecutionPolicy(fuel_budget=100))
    budget.spend({}, 0.1, 100, 0)
    assert budget.wait(1) == pytest.approx(59)
