"""Deleting for users without any workspace: who is asked what, what is noted before and after, when it stops."""

from __future__ import annotations

import asyncio
import contextlib
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from tests.hub.town import Citizens
from wasm_kernel.hub import deletions
from wasm_kernel.hub.audit import AuditLog
from wasm_kernel.hub.census import HubUser
from wasm_kernel.hub.deletions import Deletions
from wasm_kernel.hub.hubapi import HubUnavailable
from wasm_kernel.hub.plan import UserPlan
from wasm_kernel.hub.policies import rules_from
from wasm_kernel.hub.run_journal import Journal
from wasm_kernel.model.retention import Decision

ANN = HubUser("ann")
ONE, TWO = Decision("one", "max_age_hours", 50.0, 100, "1-1"), Decision("two", "asked for", 0.0, 10, "2-2")


@dataclass
class Desk:
    """Does nothing, and answers as a test says."""

    answers: dict[str, Any] = field(default_factory=dict)
    asked: list[tuple[str, dict[str, Any]]] = field(default_factory=list)
    in_the_way: str = ""

    def obstacle(self, user: HubUser) -> str:
        return self.in_the_way

    def shift(self) -> contextlib.AbstractAsyncContextManager[None]:
        return contextlib.nullcontext()

    async def do(self, user: HubUser, job: str, *, archive: bool = False, **arguments: Any) -> dict[str, Any]:
        self.asked.append((job, {**arguments, "archive": archive}))
        found = self.answers.get(job, {})
        return dict(found(**arguments) if callable(found) else found)

    def close(self) -> None:
        pass


def gone(decisions: list[list[Any]]) -> dict[str, Any]:
    """The answer of a worker that removed all it was asked to."""
    rows = [{"session_id": i, "action": "delete", "done": True, "size_bytes": size} for i, _, size, _ in decisions]
    return {"sessions": rows, "totals": {"snapshot_bytes_freed": 7}}


@pytest.fixture
def desk() -> Desk:
    return Desk({"remove": gone})


@pytest.fixture
def log(tmp_path: Path) -> AuditLog:
    return AuditLog(tmp_path / "audit.jsonl")


def working(desk: Desk, *, can_archive: bool = True) -> Deletions:
    return Deletions(desk, Citizens({"ann": ANN}), can_archive=can_archive)


def noted(log: AuditLog) -> list[tuple[str, str, str]]:
    return [(e.result, e.session_id or e.snapshot_id, e.reason) for e in reversed(log.read(100, 0)[0])]


def test_sessions_are_noted_before_and_after(desk: Desk, log: AuditLog) -> None:
    result = asyncio.run(working(desk).remove("ann", [ONE, TWO], Journal(log, "me", "prune"), archive=False))
    assert (result.deleted, result.snapshot_bytes) == ({"one": 100, "two": 10}, 7)
    listed = [["one", "max_age_hours", 100, "1-1"], ["two", "asked for", 10, "2-2"]]
    assert desk.asked == [("remove", {"decisions": listed, "archive": False})]
    assert noted(log) == [
        ("begun", "", "max_age_hours"),
        ("done", "one", "max_age_hours"),
        ("done", "two", "asked for"),
    ]


def test_what_cannot_be_noted_is_not_done(desk: Desk, tmp_path: Path) -> None:
    log = AuditLog(tmp_path / "audit.jsonl")
    (tmp_path / "audit.jsonl").mkdir()
    with pytest.raises(OSError):
        asyncio.run(working(desk).remove("ann", [ONE], Journal(log, "me", "prune"), archive=False))
    assert desk.asked == []


def test_batches_end_with_the_first_that_fails(desk: Desk, log: AuditLog, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(deletions, "_BATCH", 1)
    desk.answers["remove"] = {"problem": "the disk is gone"}
    result = asyncio.run(working(desk).remove("ann", [ONE, TWO], Journal(log, "me", "prune"), archive=False))
    assert result.errors == {"user": "the disk is gone"}
    assert len(desk.asked) == 1


def test_a_server_started_between_two_batches(desk: Desk, log: AuditLog, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(deletions, "_BATCH", 1)

    def remove(decisions: list[list[Any]]) -> dict[str, Any]:
        desk.in_the_way = "it runs"
        return gone(decisions)

    desk.answers["remove"] = remove
    result = asyncio.run(working(desk).remove("ann", [ONE, TWO], Journal(log, "me", "prune"), archive=False))
    assert (list(result.deleted), result.left_alone) == (["one"], "it runs")


@pytest.mark.parametrize("who", ["nobody", "no hub"])
def test_users_who_are_not_known_now_are_left_alone(desk: Desk, log: AuditLog, who: str) -> None:
    class Empty(Citizens):
        async def user(self, name: str) -> HubUser | None:
            if who == "no hub":
                raise HubUnavailable("no hub")
            return None

    work = Deletions(desk, Empty(), can_archive=True)
    journal, plan = Journal(log, "me", "prune"), UserPlan("ann", rules_from({"snapshot_max_per_session": 1}))
    for result in (
        asyncio.run(work.remove("ann", [ONE], journal, archive=False)),
        asyncio.run(work.delete_snapshots("ann", ["s"], journal)),
        asyncio.run(work.thin(plan, journal)),
        asyncio.run(work.sweep(plan)),
    ):
        assert result.left_alone == ("no hub" if who == "no hub" else "the hub no longer knows them")
    assert (desk.asked, noted(log)) == ([], [])


def test_without_an_archive_folder_nothing_is_archived_or_deleted(desk: Desk, log: AuditLog) -> None:
    work = working(desk, can_archive=False)
    result = asyncio.run(work.remove("ann", [ONE], Journal(log, "me", "prune"), archive=True))
    assert "archive_folder" in result.errors["user"]
    assert desk.asked == []


@pytest.mark.parametrize(
    ("answer", "text"),
    [
        ({"missing": "/home/ann/ws"}, "the workspace /home/ann/ws no longer exists"),
        ({"problem": "x" * 2000}, "x" * 1000),
        ({"sessions": 1}, "the answer about their workspace is invalid: sessions is not a list, or too long"),
    ],
)
def test_answers_that_are_none(desk: Desk, log: AuditLog, answer: dict[str, Any], text: str) -> None:
    desk.answers["remove"] = answer
    result = asyncio.run(working(desk).remove("ann", [ONE], Journal(log, "me", "prune"), archive=False))
    assert result.errors == {"user": text}
    assert [how for how, *_ in noted(log)] == ["begun", "failed"]


def test_snapshots_are_foreseen_once(desk: Desk) -> None:
    desk.answers["foresee"] = {
        "sessions": [{"session_id": "one", "action": "delete", "snapshot_bytes": 40}],
        "snapshots": ["s"],
        "totals": {"snapshot_bytes_freed": 42},
    }
    plan = UserPlan("ann", rules_from({"snapshot_max_per_session": 1}), remove=(ONE,))
    seen = asyncio.run(working(desk).foresee(plan, ANN))
    assert (seen.reclaimed_bytes, seen.snapshots, seen.snapshot_bytes) == (100 + 40 + 2, ("s",), 2)
    assert desk.asked[0][1]["policy"] == {"max_age_hours": None, "max_per_session": 1, "max_total_bytes": None}
    bare = UserPlan("ann", rules_from({"max_age": "1d"}), remove=(ONE,))
    asyncio.run(working(desk).foresee(bare, ANN))
    assert desk.asked[1][1]["policy"] is None
    for answer in ({"problem": "away"}, {"sessions": "none"}):
        desk.answers["foresee"] = answer
        assert asyncio.run(working(desk).foresee(plan, ANN)) == plan


def test_what_belongs_to_nothing_is_swept_once_a_day(desk: Desk) -> None:
    work, plan = working(desk), UserPlan("ann", rules_from({"max_age": "1d"}))
    for _ in range(2):
        assert not asyncio.run(work.sweep(plan)).errors
    assert desk.asked == [("sweep", {"max_age_hours": 24.0, "archive": False})]
