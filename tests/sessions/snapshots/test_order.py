"""The order of snapshots: by the store's own numbers. Clocks step, and differ between machines that share a root."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.clock import FakedClock
from tests.sessions.helpers import make_session, plant_snapshot, run_python
from wasm_kernel import (
    SnapshotRetention,
    create_snapshot,
    delete_session_workspace,
    export_snapshot,
    fork_session,
    get_session_sandbox,
    import_snapshot,
    list_snapshots,
    prune_snapshots,
    restore_snapshot,
)
from wasm_kernel.sessions.snapshots import newest_snapshot

HOUR = 3600
RUN = """
import sys
from pathlib import Path
from wasm_kernel import create_snapshot, get_session_sandbox
from wasm_kernel.sessions.snapshots import open_from_snapshot
from wasm_kernel.sessions import open_sessions
session_id, root, code = sys.argv[1:]
with get_session_sandbox(session_id, workspace_root=root) as sandbox:
    open_from_snapshot(open_sessions.live_session(session_id, Path(root)))
    result = sandbox.execute(code)
    assert result.success, result.error
    print(result.stdout, end="")
    create_snapshot(session_id, root)
"""
"""Goes on where a session's newest snapshot left off, runs a cell, and takes a snapshot."""


@pytest.fixture
def machine(tmp_path: Path, root: Path) -> Callable[[float], Callable[[str, str], str]]:
    """Another machine on the same root, whose clock is wrong by so many seconds: runs cells in a session."""

    def machine(wrong_by: float) -> Callable[[str, str], str]:
        clock = FakedClock(tmp_path / f"clock{wrong_by}")
        clock.step(wrong_by)
        return lambda session_id, code: run_python(RUN, session_id, root, code, env={**os.environ, **clock.environment})

    return machine


Machine = Callable[[float], Callable[[str, str], str]]


@pytest.mark.parametrize("steps", [(0, -HOUR, -2 * HOUR), (0, HOUR, 2 * HOUR), (HOUR, -HOUR, 0)])
def test_a_clock_that_steps(root: Path, machine: Machine, steps: tuple[int, ...]) -> None:
    session_id = make_session(root)
    days = ("monday", "tuesday", "wednesday")
    before = None
    for day, wrong_by in zip(days, steps, strict=True):
        found = machine(wrong_by)(
            session_id, f"print(globals().get('day')); day = {day!r}; open('day', 'w').write(day)"
        )
        assert found.strip() == str(before), "it goes on from what was there last"
        before = day
    snapshots = list_snapshots(root, session_id)
    assert len({s.sequence for s in snapshots}) == len(snapshots) == 3
    assert [s.parent for s in snapshots] == [*(s.snapshot_id for s in snapshots[1:]), ""]
    fork = fork_session(session_id, root)
    assert machine(0)(fork, "print(day, open('day').read())") == "wednesday wednesday\n"


def test_a_prune_keeps_the_one_taken_last(root: Path, machine: Machine) -> None:
    session_id = make_session(root)
    machine(HOUR)(session_id, "day = 'monday'")
    machine(0)(session_id, "day = 'tuesday'")
    last = newest_snapshot(root, session_id)
    assert last is not None
    prune_snapshots(SnapshotRetention(max_per_session=1), root)
    assert list_snapshots(root) == [last]
    assert machine(-HOUR)(session_id, "print(day)") == "tuesday\n"


def test_two_machines_whose_clocks_differ(root: Path, machine: Machine) -> None:
    """They take turns in one session, and each has one of its own."""
    early, late = machine(-HOUR), machine(HOUR)
    shared, own = make_session(root), make_session(root)
    for n, run in enumerate((late, early, late, early)):
        assert run(shared, f"print(globals().get('n')); n = {n}") == f"{n - 1 if n else None}\n"
    late(own, "n = 0")
    early(own, "n = 1")
    everything = list_snapshots(root)
    assert [s.session_id for s in everything] == [own] * 2 + [shared] * 4
    assert [s.sequence for s in everything] == sorted((s.sequence for s in everything), reverse=True)


def test_snapshots_from_before_there_were_numbers(root: Path, machine: Machine) -> None:
    """Among themselves they go by their times; all others are newer, whatever these say."""
    session_id = make_session(root)
    old = [plant_snapshot(root, session_id, hours).snapshot_id for hours in (3, 2, -5)]
    assert [(s.snapshot_id, s.sequence) for s in list_snapshots(root, session_id)] == [(n, 0) for n in old[::-1]]
    prune_snapshots(SnapshotRetention(max_per_session=2), root)
    assert [s.snapshot_id for s in list_snapshots(root, session_id)] == old[:0:-1]
    other = make_session(root)
    machine(-9 * HOUR)(other, "day = 'monday'")
    plant_snapshot(root, other)
    assert machine(0)(other, "print(day)") == "monday\n"
    assert [s.sequence > 0 for s in list_snapshots(root)] == [True, True, False, False, False]


def test_a_lost_counter_turns_no_session_back(root: Path, machine: Machine) -> None:
    """A power cut can take back the last numbers: within a session the order holds all the same."""
    session_id = make_session(root)
    run = machine(0)
    run(session_id, "n = 1")
    counter = root / ".wasm-kernel" / "snapshots" / "sequence"
    counter.write_bytes(b"%020d" % 7)
    run(session_id, "n = 2")
    assert run(session_id, "print(n)") == "2\n"
    assert int(counter.read_bytes()) == list_snapshots(root)[0].sequence > 7


def test_what_comes_from_elsewhere_gets_a_number_of_its_own(root: Path, machine: Machine, tmp_path: Path) -> None:
    session_id = make_session(root)
    machine(HOUR)(session_id, "day = 'monday'")
    (taken,) = list_snapshots(root)
    export_snapshot(taken.snapshot_id, tmp_path / "exported", root)
    imported, first = import_snapshot(tmp_path / "exported", root)
    assert first.sequence > taken.sequence
    assert machine(-HOUR)(imported, "print(day); day = 'tuesday'") == "monday\n"
    assert machine(-2 * HOUR)(imported, "print(day)") == "tuesday\n"
    elsewhere = tmp_path / "elsewhere"
    other, only = import_snapshot(tmp_path / "exported", elsewhere)
    assert newest_snapshot(elsewhere, other) == only


@pytest.mark.parametrize("how", ["deleted, with a last snapshot", "deleted by hand"])
def test_a_deleted_id_that_is_made_again_begins_afresh(root: Path, how: str) -> None:
    """Its snapshots may have stayed: they can be restored, but nobody goes on from them unasked."""
    session_id = "thesis"
    with get_session_sandbox(session_id, workspace_root=root) as sandbox:
        assert sandbox.execute("x = 'old'").success
        old = create_snapshot(session_id, root)
    if how == "deleted by hand":
        shutil.rmtree(root / session_id)
    else:
        delete_session_workspace(session_id, root, snapshot=True)
    assert old.snapshot_id in {s.snapshot_id for s in list_snapshots(root)}
    look = "print(globals().get('x'))"
    with get_session_sandbox(session_id, workspace_root=root, resume=True) as sandbox:
        assert sandbox.execute(look).stdout == "None\n"
    fork = fork_session(session_id, root)
    with get_session_sandbox(fork, workspace_root=root, resume=True) as sandbox:
        assert sandbox.execute(look).stdout == "None\n"
    with get_session_sandbox(session_id, workspace_root=root, resume=True) as sandbox:
        assert sandbox.execute(f"{look}; x = 'new'").stdout == "None\n"
        create_snapshot(session_id, root)
    with get_session_sandbox(session_id, workspace_root=root, resume=True) as sandbox:
        assert sandbox.execute(look).stdout == "new\n"
    restore_snapshot(old.snapshot_id, root)
    with get_session_sandbox(session_id, workspace_root=root, resume=True) as sandbox:
        assert sandbox.execute(look).stdout == "old\n"
