"""Housekeeping is one recipe: whoever asks for it, the same goes, stays and is told."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from tests.sessions.helpers import leftovers, make_legacy, make_session, put_files, set_age, tree
from wasm_kernel import (
    ArchiveResult,
    PruneResult,
    RetentionPolicy,
    SessionLocked,
    SnapshotRetention,
    archive_sessions,
    create_snapshot,
    delete_snapshot,
    list_sessions,
    list_snapshots,
    prune_sessions,
    prune_snapshots,
)
from wasm_kernel.apps import cli
from wasm_kernel.host.disk import removal, tombstones
from wasm_kernel.host.disk.locks import SessionLock, lock_session, state_folder
from wasm_kernel.hub.workspaces import jobs
from wasm_kernel.model.records import format_time
from wasm_kernel.model.retention import Plan
from wasm_kernel.server.api import upkeep
from wasm_kernel.sessions.housekeeping import carry_out, foreseen, plan_housekeeping, plan_removal, report
from wasm_kernel.sessions.log import SandboxLogger

QUIET = SandboxLogger(level="error")
DAY = 24.0


@pytest.fixture
def root(tmp_path: Path) -> Path:
    folder = tmp_path / "workspace"
    folder.mkdir()
    return folder


@pytest.fixture
def in_use(root: Path) -> Iterator[Callable[[str], str]]:
    """Marks sessions as live."""
    locks: list[SessionLock] = []

    def use(session_id: str) -> str:
        locks.append(lock_session(root, session_id))
        return session_id

    yield use
    for lock in locks:
        lock.release()


def command(*arguments: object) -> None:
    assert cli.main([str(a) for a in arguments]) in (0, 3)


# Everybody who prunes what was not used for a day.
EDGES: dict[str, Callable[[Path], object]] = {
    "library": lambda root: prune_sessions(DAY, root, logger=QUIET),
    "library, archive": lambda root: archive_sessions(DAY, root.parent / "old", root, logger=QUIET),
    "command line": lambda root: command("prune", "--older-than", "1d", "--yes", "--workspace-root", root),
    "command line, archive": lambda root: command(
        "prune", "--older-than", "1d", "--yes", "--archive", root.parent / "old", "--workspace-root", root
    ),
    "REST": lambda root: upkeep.prune(root, {"max_age_hours": DAY, "archive": False}, None, dry_run=False),
    "REST, archive": lambda root: upkeep.prune(
        root, {"max_age_hours": DAY, "archive": True}, root.parent / "old", dry_run=False
    ),
    "hub's worker": lambda root: jobs.sweep(root, DAY),
}


@pytest.mark.parametrize("edge", EDGES)
def test_what_belongs_to_nothing_goes_even_if_no_session_does(root: Path, edge: str) -> None:
    session_id = make_session(root, 1, {"f": "x"})
    state = state_folder(root)
    for place in ("new/0c11d2e3.12345678", "trash/0123456789abcdef", f"packages/{session_id[:8]}", "history/gone"):
        put_files(state / place, {"f": "x"})
    (root / session_id / ".metadata.json.0123456789ab").write_text("half")
    EDGES[edge](root)
    assert leftovers(root) == []
    assert not list((state / "packages").iterdir()) and not list((state / "history").iterdir())
    assert tree(root / session_id).keys() == {".metadata.json", "f"}


@pytest.mark.parametrize("edge", EDGES)
def test_what_is_remembered_of_deleted_sessions_expires(root: Path, edge: str) -> None:
    state = state_folder(root)
    for hours, name in ((2, "fresh"), (100, "old")):
        moment = format_time(datetime.now(UTC) - timedelta(hours=hours))
        tombstones.write(root, name, {"deleted_at": moment}, most=10)
        put_files(state / "snapshots/manifests" / name, {"m": "x"})
    EDGES[edge](root)
    assert tombstones.names(root) == {"fresh"}
    assert [p.name for p in (state / "snapshots/manifests").iterdir()] == ["fresh"]


UNBOUNDED: dict[str, Callable[[Path], object]] = {
    "library": lambda root: prune_sessions(0, root, logger=QUIET, policy=RetentionPolicy()),
    "command line": lambda root: command("prune", "--yes", "--workspace-root", root),
    "command line, snapshots": lambda root: command("snapshots", "prune", "--yes", "--workspace-root", root),
    "REST": lambda root: upkeep.prune(root, {"archive": False}, None, dry_run=False),
    "hub's worker": lambda root: jobs.sweep(root),
    "hub's worker, snapshots": lambda root: jobs.thin(root, {}),
}


@pytest.mark.parametrize("edge", UNBOUNDED)
def test_without_a_bound_no_session_goes(root: Path, edge: str) -> None:
    """Nor is one forgotten; but leftovers are swept."""
    session_id = make_session(root, 10_000)
    tombstones.write(root, "old", {"deleted_at": "2020-01-01T00:00:00Z"}, most=10)
    put_files(state_folder(root) / "trash/0123456789abcdef", {"f": "x"})
    UNBOUNDED[edge](root)
    assert (root / session_id).is_dir()
    assert tombstones.names(root) == {"old"}
    assert leftovers(root) == []


# ---- snapshots


def snapshots_of(root: Path, session_id: str, count: int = 3) -> list[str]:
    return [create_snapshot(session_id, root, logger=QUIET).snapshot_id for _ in range(count)]


THINNING: dict[str, Callable[[Path], object]] = {
    "library": lambda root: prune_snapshots(SnapshotRetention(max_per_session=1), root, logger=QUIET),
    "command line": lambda root: command(
        "snapshots", "prune", "--max-per-session", 1, "--yes", "--workspace-root", root
    ),
    "REST": lambda root: upkeep.prune(
        root, {"snapshots": {"max_per_session": 1}, "archive": False}, None, dry_run=False
    ),
    "hub's worker": lambda root: jobs.thin(root, {"max_per_session": 1}),
}


@pytest.mark.parametrize("edge", THINNING)
def test_snapshots_of_live_sessions_are_spared(root: Path, in_use: Callable[[str], str], edge: str) -> None:
    rests, live = make_session(root, 1), make_session(root, 1)
    of_rests, of_live = snapshots_of(root, rests), snapshots_of(root, live)
    in_use(live)
    THINNING[edge](root)
    assert [s.snapshot_id for s in list_snapshots(root, rests)] == of_rests[-1:]
    assert {s.snapshot_id for s in list_snapshots(root, live)} == set(of_live)


def test_a_snapshot_of_a_live_session_cannot_be_deleted(
    root: Path, in_use: Callable[[str], str], capsys: pytest.CaptureFixture[str]
) -> None:
    live = make_session(root, 1)
    (snapshot_id,) = snapshots_of(root, live, 1)
    in_use(live)
    with pytest.raises(SessionLocked, match=f"session {live} is in use"):
        delete_snapshot(snapshot_id, root)
    assert cli.main(["snapshots", "delete", snapshot_id, "--yes", "--workspace-root", str(root)]) == 1
    assert "is in use" in capsys.readouterr().err
    assert "is in use" in jobs.forget(root, [snapshot_id])["errors"][snapshot_id]
    assert [s.snapshot_id for s in list_snapshots(root)] == [snapshot_id]


def test_a_session_opened_after_the_plan_keeps_its_snapshots(root: Path, in_use: Callable[[str], str]) -> None:
    session_id = make_session(root, 1)
    taken = snapshots_of(root, session_id)
    planned = plan_housekeeping(root, RetentionPolicy(), snapshots=SnapshotRetention(max_per_session=1))
    assert [s.snapshot_id for s in planned.snapshots] == taken[:2]
    in_use(session_id)
    done = carry_out(root, planned, QUIET)
    assert (done.deleted_snapshots, done.live_sessions) == ([], [session_id])
    assert len(list_snapshots(root)) == 3


def test_what_is_reclaimed_counts_snapshots_and_a_dry_run_says_the_same(root: Path) -> None:
    old = make_session(root, 1, {"f": os.urandom(100_000)})
    put_files(root / old, {"g": "x" * 1000})
    snapshots_of(root, old, 2)
    set_age(root, old, 100)
    size = next(s.size_bytes for s in list_sessions(root))
    added = sum(s.stored_bytes for s in list_snapshots(root))
    assert added > 100_000
    before = tree(root)
    dry = prune_sessions(DAY, root, dry_run=True, logger=QUIET)
    assert tree(root) == before
    done = prune_sessions(DAY, root, logger=QUIET)
    assert done.reclaimed_bytes == dry.reclaimed_bytes == size + added
    assert done.snapshot_bytes_freed > 100_000
    assert replace(done, dry_run=True, snapshot_bytes_freed=dry.snapshot_bytes_freed) == dry


def test_a_plan_of_snapshots_leaves_out_those_that_go_with_their_session(root: Path) -> None:
    old, young = make_session(root, 1), make_session(root, 1)
    of_old, of_young = snapshots_of(root, old, 2), snapshots_of(root, young, 2)
    set_age(root, old, 100)
    planned = plan_housekeeping(
        root, RetentionPolicy(max_age_hours=DAY), snapshots=SnapshotRetention(max_per_session=1)
    )
    done = carry_out(root, planned, QUIET)
    assert foreseen(planned).deleted_snapshots == done.deleted_snapshots == of_young[:1]
    assert not {s.snapshot_id for s in list_snapshots(root)} & set(of_old)


# ---- sessions that were chosen


def test_chosen_sessions_go_if_they_are_as_they_were_seen(root: Path, in_use: Callable[[str], str]) -> None:
    names = ("same", "used", "gone", "live", "kept", "bystander")
    made = {name: make_session(root, 1, title=name) for name in names}
    made["named"] = make_session(root, 1, session_id="my-own-name")
    made["legacy"] = make_legacy(root)
    stamps = {s.session_id: s.stamp for s in list_sessions(root) if s.session_id != made["bystander"]}
    stamps[made["gone"]] = "1-2"
    set_age(root, made["used"], 0)
    in_use(made["live"])
    planned = plan_housekeeping(root, RetentionPolicy(keep=frozenset([made["kept"]])), stamps=stamps)
    dry = foreseen(planned)
    told = {s["session_id"]: (s["action"], s["reason"]) for s in report(planned, dry)["sessions"]}
    assert told == {
        made["same"]: ("delete", "asked for"),
        made["named"]: ("delete", "asked for"),
        made["used"]: ("keep", "changed"),
        made["gone"]: ("keep", "changed"),
        made["live"]: ("keep", "live"),
        made["kept"]: ("keep", "kept by the policy"),
        made["legacy"]: ("skip", "no_metadata"),
    }
    done = carry_out(root, planned, QUIET)
    assert set(done.deleted_sessions) == {made["same"], made["named"]} == set(dry.deleted_sessions)
    assert set(done.changed_sessions) == {made["used"], made["gone"]}
    assert done.live_sessions == [made["live"]]
    assert (root / made["bystander"]).is_dir()


def test_a_mount_stops_also_what_was_decided_elsewhere(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    session_id = make_session(root, 100, {"f": "x"})
    planned = plan_removal(root, plan_housekeeping(root, RetentionPolicy(max_age_hours=DAY)).sessions)
    monkeypatch.setattr(removal, "mounted_in", lambda root: {session_id})
    done = carry_out(root, planned, QUIET)
    assert "unmount" in done.errors[session_id]
    assert (root / session_id / "f").exists()


# ---- the report


def test_there_is_one_report() -> None:
    assert ArchiveResult is PruneResult


def test_every_edge_tells_the_same(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    make_session(root, 100, {"f": "x" * 1000}, title="An", notebook="/n/a.ipynb")
    make_session(root, 1)
    make_legacy(root)
    rest: Any = upkeep.prune(root, {"max_age_hours": DAY, "archive": False}, None, dry_run=True)
    arguments = ["prune", "--older-than", "1d", "--dry-run", "--json", "--workspace-root", str(root)]
    assert cli.main(arguments) == 0
    by_command = json.loads(capsys.readouterr().out)
    worker: Any = jobs.remove(root, [])
    for told in (rest, by_command):
        for one in told["sessions"]:
            one.pop("age_hours")
    assert by_command == rest
    assert worker.keys() == rest.keys() and worker["totals"].keys() == rest["totals"].keys()
    assert rest["totals"]["removed"] == 1 and rest["totals"]["skipped"] == 1
    planned = plan_removal(root, Plan())
    assert report(planned, foreseen(planned)).keys() == rest.keys()
