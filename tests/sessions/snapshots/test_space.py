"""The space that snapshots take, with snapshots written by hand: what goes, and whose stay."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.sessions.helpers import HOLD, make_session, other_process, plant_snapshot
from wasm_kernel import SessionLocked, collect_snapshots, create_snapshot, delete_snapshot, list_snapshots
from wasm_kernel.host import administrator
from wasm_kernel.host.disk import locks
from wasm_kernel.model.administrator import Rules
from wasm_kernel.model.snapshots import Snapshot
from wasm_kernel.sessions.recorder import snapshot_store
from wasm_kernel.sessions.snapshots import added_bytes, give_space_back, has_store, make_room, remove_snapshots

KILO = b"x" * 1024


@pytest.fixture
def bound(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Let the administrator bound snapshots."""
    return lambda **bounds: monkeypatch.setattr(administrator, "rules", lambda: Rules(**bounds))


@pytest.fixture
def in_use(root: Path) -> Iterator[Callable[[str], None]]:
    held: list[locks.SessionLock] = []
    yield lambda session_id: held.append(locks.lock_session(root, session_id))
    for lock in held:
        lock.release()


def checkpoints(root: Path, session_id: str, count: int) -> list[str]:
    """So many, the oldest first; their ids."""
    return [plant_snapshot(root, session_id, count - n).snapshot_id for n in range(count)]


def ids(found: list[Snapshot]) -> set[str]:
    return {s.snapshot_id for s in found}


def test_the_oldest_checkpoints_go_until_half_is_free(root: Path, bound: Callable[..., None]) -> None:
    made = checkpoints(root, make_session(root), 7)
    bound(snapshots=8)
    assert make_room(root)
    assert ids(list_snapshots(root)) == set(made[-4:])
    assert make_room(root)
    assert len(list_snapshots(root)) == 4, "there was room already"


def test_without_bounds_nothing_goes(root: Path) -> None:
    checkpoints(root, make_session(root), 7)
    assert make_room(root)
    assert len(list_snapshots(root)) == 7


def test_what_a_person_took_the_newest_and_the_one_needed_stay(root: Path, bound: Callable[..., None]) -> None:
    session_id = make_session(root)
    mine = plant_snapshot(root, session_id, 100, trigger="user").snapshot_id
    needed, *_, newest = checkpoints(root, session_id, 5)
    bound(snapshots=3)
    assert not make_room(root, but=needed), "what stays is more than three quarters"
    assert ids(list_snapshots(root)) == {mine, needed, newest}


@pytest.mark.parametrize("bounds", [{"snapshots": 8}, {"snapshot_bytes": 1}])
def test_sessions_in_use_keep_theirs_but_for_the_callers_own(
    root: Path, bound: Callable[..., None], in_use: Callable[[str], None], bounds: dict[str, int]
) -> None:
    rests, own, other = (make_session(root) for _ in range(3))
    made = {name: checkpoints(root, name, 4) for name in (other, own, rests)}
    in_use(own)
    with other_process(HOLD, root, other):
        bound(**bounds)
        make_room(root, own=own)
    assert ids(list_snapshots(root, other)) == set(made[other]), "undo of another process goes back to these"
    assert ids(list_snapshots(root, own)) == {made[own][-1]}
    assert ids(list_snapshots(root, rests)) == {made[rests][-1]}


def test_whoever_has_no_session_open_thins_out_none_in_use(
    root: Path, bound: Callable[..., None], in_use: Callable[[str], None]
) -> None:
    live = make_session(root)
    made = checkpoints(root, live, 4)
    in_use(live)
    bound(snapshots=2)
    assert not make_room(root)
    assert ids(list_snapshots(root)) == set(made)


def test_a_session_that_cannot_be_opened_loses_nothing(root: Path, bound: Callable[..., None]) -> None:
    """Whoever wants a snapshot of a session in use elsewhere is refused before anything of it goes."""
    session_id = make_session(root)
    made = checkpoints(root, session_id, 4)
    bound(snapshots=2)
    with other_process(HOLD, root, session_id), pytest.raises(SessionLocked):
        create_snapshot(session_id, root)
    assert ids(list_snapshots(root)) == set(made)


def test_removing_says_what_went_and_who_is_in_the_way(root: Path, in_use: Callable[[str], None]) -> None:
    rests, own, other = (make_session(root) for _ in range(3))
    found = {name: plant_snapshot(root, name) for name in (rests, own, other)}
    in_use(own)
    in_use(other)
    store = snapshot_store(root)
    gone, stays = remove_snapshots(root, found.values(), store, own=own)
    assert ids(gone) == {found[rests].snapshot_id, found[own].snapshot_id}
    assert stays == [other]
    assert remove_snapshots(root, gone, store, own=own) == ([], []), "they are gone already"
    store.close()


def test_one_of_a_session_in_use_is_not_deleted(root: Path, in_use: Callable[[str], None]) -> None:
    session_id = make_session(root)
    snapshot = plant_snapshot(root, session_id)
    in_use(session_id)
    with pytest.raises(SessionLocked, match="undo"):
        delete_snapshot(snapshot.snapshot_id, root)
    assert list_snapshots(root) == [snapshot]


def test_what_was_added_is_counted_by_session(root: Path) -> None:
    one, two = make_session(root), make_session(root)
    assert added_bytes(root, {one}) == {}
    assert not has_store(root), "who only looks makes no store"
    for session_id, data in ((one, KILO), (one, KILO + b"y"), (two, KILO + b"z")):
        plant_snapshot(root, session_id, data=data)
    assert added_bytes(root, {one, "none"}) == {one: 2 * 1024 + 1}


def test_space_comes_back_when_no_snapshot_needs_it(root: Path) -> None:
    assert give_space_back(root) == 0
    session_id = make_session(root)
    kept, gone = plant_snapshot(root, session_id, data=KILO), plant_snapshot(root, session_id, 1)
    delete_snapshot(gone.snapshot_id, root)
    assert give_space_back(root) > 0
    assert collect_snapshots(root).freed == 0
    assert list_snapshots(root) == [kept]
