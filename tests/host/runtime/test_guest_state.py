"""What a guest's phases mean, and every move between them; no guest is needed."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from wasm_kernel.host.runtime.guest_state import GuestState, Phase
from wasm_kernel.host.runtime.instance_parts import AtRest

BASE = AtRest(clock_ns=1, entry=7)
LATER = AtRest(clock_ns=2, entry=7)

_MOVES: dict[str, tuple[Callable[[GuestState], None], dict[Phase, Phase]]] = {
    "begin_turn": (GuestState.begin_turn, {Phase.KEPT: Phase.AHEAD}),
    "replied": (GuestState.replied, {Phase.FRESH: Phase.AHEAD}),
    "trapped": (lambda state: state.trapped(9), {Phase.AHEAD: Phase.KEPT}),
    "kept": (lambda state: state.kept(LATER), dict.fromkeys(Phase, Phase.KEPT)),
    "could_not_keep": (GuestState.could_not_keep, dict.fromkeys(Phase, Phase.UNKEPT)),
    "restored": (lambda state: state.restored(LATER, reseed=True), dict.fromkeys(Phase, Phase.KEPT)),
    "started_afresh": (lambda state: state.started_afresh(BASE), dict.fromkeys(Phase, Phase.FRESH)),
}


@pytest.mark.parametrize("phase", Phase)
@pytest.mark.parametrize("move", list(_MOVES))
def test_every_move_from_every_phase(move: str, phase: Phase) -> None:
    """Those that a move does not name stay as they are."""
    act, leads_to = _MOVES[move]
    state = GuestState(BASE, phase)
    act(state)
    assert state.phase is leads_to.get(phase, phase)


def test_a_cell_after_the_other() -> None:
    state = GuestState(BASE)
    assert state.fresh and state.saved and not state.needs_keeping
    for clock in (10, 20):
        state.begin_turn()
        state.replied()
        assert state.needs_keeping and not state.fresh
        state.kept(AtRest(clock_ns=clock))
        assert state.saved and not state.needs_keeping
        assert state.rest.clock_ns == clock


def test_a_trap_costs_the_turn_it_happens_in_and_the_clock_goes_on() -> None:
    state = GuestState(BASE, Phase.KEPT)
    state.begin_turn()
    state.trapped(99)
    assert state.phase is Phase.KEPT
    assert state.rest == AtRest(clock_ns=99, entry=7)


def test_a_trap_of_what_could_not_be_kept_costs_everything() -> None:
    state = GuestState(BASE, Phase.AHEAD)
    state.could_not_keep()
    state.begin_turn()
    state.trapped(99)
    assert not state.saved, "the files hold neither what was nor what is: it has to start afresh"


def test_a_first_turn_without_a_reply_leaves_it_fresh() -> None:
    """Its seed and environment may not have arrived."""
    state = GuestState(BASE)
    state.begin_turn()
    assert state.fresh
    state.trapped(5)
    assert state.fresh


def test_a_guest_is_reseeded_until_it_replies_or_starts_afresh() -> None:
    state = GuestState(BASE)
    state.restored(LATER, reseed=True)
    state.begin_turn()
    state.trapped(9)
    assert state.reseed, "the request that brought the seed came to nothing"
    state.begin_turn()
    state.replied()
    assert not state.reseed
    state.restored(LATER, reseed=True)
    state.started_afresh(BASE)
    assert not state.reseed and state.rest is BASE
