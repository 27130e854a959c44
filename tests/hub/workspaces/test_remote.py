"""The hub's work by users' servers, without a hub or a server: what is asked of the API, and what it makes of it."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.sessions.helpers import make_session, plant_snapshot, put_files, set_age
from wasm_kernel import (
    SessionLocked,
    WasmKernelError,
    create_snapshot,
    delete_session_workspace,
    delete_snapshot,
    list_snapshots,
)
from wasm_kernel.host.disk import tombstones
from wasm_kernel.host.disk.locks import SessionLock, lock_session, state_folder
from wasm_kernel.hub.census import HubUser
from wasm_kernel.hub.workspaces import checked_answers, remote
from wasm_kernel.hub.workspaces.remote import NotDone, Remote
from wasm_kernel.model.policy import ExecutionPolicy
from wasm_kernel.server.api import openapi, upkeep, views
from wasm_kernel.server.api.values import operations
from wasm_kernel.sessions.log import SandboxLogger
from wasm_kernel.sessions.snapshots import fork_snapshot

BOB = HubUser("bob", server="/user/bob/")
QUIET = SandboxLogger(level="error")
OPERATIONS = operations(openapi.document("/", {}, 900))


class Server(Remote):
    """Asks no server but does what one would do, with requests and answers as they are on the wire."""

    def __init__(self, root: Path) -> None:
        super().__init__(None, "http://127.0.0.1:8000", "secret")  # type: ignore[arg-type]
        self._root = root
        self.asked: list[tuple[str, Any]] = []

    async def _ask(self, server: str, what: str, body: Any = None, *, method: str = "") -> dict[str, Any]:
        self.asked.append((what, body))
        return json.loads(json.dumps(self._answer(what, json.loads(json.dumps(body)), method)))  # type: ignore[no-any-return]

    def _answer(self, what: str, body: Any, method: str) -> Any:
        name, _, query = what.partition("?")
        if name.startswith("prune/"):
            dry_run = name == "prune/plan"
            operation = OPERATIONS["planPrune" if dry_run else "executePrune"]
            wanted = operation.body("application/json", json.dumps(body).encode())
            return upkeep.prune(self._root, wanted, None, dry_run=dry_run)  # type: ignore[arg-type]
        if method == "DELETE":
            try:
                delete_snapshot(name.rpartition("/")[2], self._root, logger=QUIET)
            except WasmKernelError as e:
                raise NotDone(str(e)) from None
            return {}
        if name.endswith("/stop"):
            session_id = name.split("/")[1]
            try:
                last = delete_session_workspace(session_id, self._root, QUIET, snapshot=True)
            except SessionLocked as e:
                raise NotDone(str(e), 409) from None
            if last is None:
                raise NotDone("there is no such sandbox", 404)
            terms = views.Terms(ExecutionPolicy(), {}, 900)
            return views.sandbox(self._root, session_id, terms, None)
        if name == "sandboxes" and body is not None:
            OPERATIONS["createSandbox"].body("application/json", json.dumps(body).encode())
            return {"sandbox_id": fork_snapshot(body["snapshot_id"], self._root, logger=QUIET)}
        if name == "usage":
            return upkeep.usage(self._root)
        assert name == "sandboxes" and query
        terms = views.Terms(ExecutionPolicy(), {}, 900)
        return views.sandboxes(self._root, terms, {}, {"offset": 0, "limit": 1000})

    def does(self, job: str, **arguments: Any) -> dict[str, Any]:
        """The answer to a job."""
        return asyncio.run(self.do(BOB, job, **arguments))


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    root = tmp_path / "ws"
    root.mkdir()

    async def made() -> Server:
        return Server(root)

    yield asyncio.run(made())


@pytest.fixture
def root(server: Server) -> Path:
    return server._root


@pytest.fixture
def in_use(root: Path) -> Iterator[Callable[[str], None]]:
    locks: list[SessionLock] = []
    yield lambda session_id: locks.append(lock_session(root, session_id))
    for lock in locks:
        lock.release()


def decisions(server: Server) -> dict[str, list[Any]]:
    """Every session that is listed, as something that was decided."""
    found = server.does("look")
    return {s["session_id"]: [s["session_id"], "asked for", s["size_bytes"], s["stamp"]] for s in found["sessions"]}


def test_a_session_that_was_used_since_stays_however_little_time_passed(
    server: Server, root: Path, in_use: Callable[[str], None]
) -> None:
    """An age cannot tell: what was used a second ago is as old as what was listed two seconds ago."""
    same, used, live = (make_session(root, 0.001) for _ in range(3))
    wanted = decisions(server)
    set_age(root, used, 0.001)  # used again, and as old as before
    in_use(live)
    found = checked_answers.pruned(server.does("remove", decisions=list(wanted.values()), archive=False))
    assert list(found.deleted) == [same] and found.deleted[same] > 0
    assert (found.changed, found.live, found.errors) == ((used,), (live,), {})
    assert not (root / same).exists() and (root / used).is_dir()
    assert server.asked[-1][1] == {"stamps": {i: w[3] for i, w in wanted.items()}, "archive": False}


def test_stopped_and_created_again(server: Server, root: Path, in_use: Callable[[str], None]) -> None:
    old, live = make_session(root, 50, {"f": b"content"}), make_session(root)
    wanted = decisions(server)
    in_use(live)
    gone = ["0c11d2e3-0000-4000-8000-000000000000", "asked for", 1, ""]
    found = checked_answers.pruned(server.does("stop", decisions=[*wanted.values(), gone]))
    (last,) = list_snapshots(root, old)
    assert (found.deleted, found.saved, found.live) == ({old: wanted[old][2]}, {old: last.snapshot_id}, (live,))
    assert list(found.errors) == gone[:1]
    made = server.does("fork", snapshot_id=last.snapshot_id, title="t" * 500)
    assert (root / made["session_id"] / "f").read_bytes() == b"content"
    assert len(server.asked[-1][1]["title"]) == 200


@pytest.mark.parametrize("lie", [{"snapshot_id": ["x"]}, {"snapshot_id": "../x"}, {"snapshot_id": 7}])
def test_lies_about_a_last_snapshot(server: Server, root: Path, lie: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    session_id = make_session(root)
    wanted = decisions(server)[session_id]
    monkeypatch.setattr(server, "_answer", lambda *asked: lie)
    found = server.does("stop", decisions=[wanted])
    if "errors" in found and not found["errors"]:
        with pytest.raises(checked_answers.BadAnswer):
            checked_answers.pruned(found)
    else:
        assert "neither text nor a number" in str(found)


def test_a_new_session_can_be_removed_and_one_with_a_name(server: Server, root: Path) -> None:
    made = [make_session(root), make_session(root, session_id="my-own-name")]
    found = checked_answers.pruned(server.does("remove", decisions=list(decisions(server).values()), archive=False))
    assert set(found.deleted) == set(made)


def test_what_was_not_asked_for_is_not_believed(server: Server, root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    session_id, other = make_session(root), make_session(root)
    wanted = decisions(server)[session_id]
    told = server._answer

    def lie(what: str, body: Any, method: str) -> Any:
        found = told(what, body, method)
        more = {**found["sessions"][0], "session_id": other}
        return {**found, "sessions": [*found["sessions"], more], "live": [other], "errors": {other: "x"}}

    monkeypatch.setattr(server, "_answer", lie)
    found = checked_answers.pruned(server.does("remove", decisions=[wanted], archive=False))
    assert (list(found.deleted), found.live, found.errors) == ([session_id], (), {})


def test_deleted_sessions_are_forgotten_and_nothing_else_goes(server: Server, root: Path) -> None:
    old = make_session(root, 1000)
    for name, moment in (("gone", "2020-01-01T00:00:00Z"), ("fresh", "2999-01-01T00:00:00Z")):
        tombstones.write(root, name, {"deleted_at": moment}, most=10)
    put_files(state_folder(root) / "trash/0123456789abcdef", {"f": "x"})
    server.does("sweep")
    assert tombstones.names(root) == {"gone", "fresh"}
    assert not list((root / ".wasm-kernel/trash").iterdir())
    assert checked_answers.pruned(server.does("sweep", max_age_hours=24.0)).deleted == {}
    assert tombstones.names(root) == {"fresh"}
    assert (root / old).is_dir()


def test_snapshots_of_live_sessions_are_spared(server: Server, root: Path, in_use: Callable[[str], None]) -> None:
    rests, live = make_session(root), make_session(root)
    taken = {s: [create_snapshot(s, root, logger=QUIET).snapshot_id for _ in range(2)] for s in (rests, live)}
    in_use(live)
    dry = checked_answers.foreseen(
        server.does("foresee", decisions=[], policy={"max_per_session": 1, "max_age_hours": None})
    )
    done = checked_answers.pruned(server.does("thin", policy={"max_per_session": 1, "max_age_hours": None}))
    assert dry.snapshots == done.snapshots == (taken[rests][0],)
    refused = checked_answers.pruned(server.does("forget", snapshot_ids=[taken[rests][1], taken[live][0]]))
    assert refused.snapshots == (taken[rests][1],)
    assert "is in use" in refused.errors[taken[live][0]]
    assert {s.snapshot_id for s in list_snapshots(root)} == set(taken[live])


@pytest.mark.parametrize("most", [250, 1])
def test_what_is_foreseen_counts_snapshots_of_sessions_that_go(
    server: Server, root: Path, monkeypatch: pytest.MonkeyPatch, most: int
) -> None:
    monkeypatch.setattr(remote, "_MAX_IDS", most)
    going, stays = [make_session(root) for _ in range(2)], make_session(root)
    wanted = [w for name, w in decisions(server).items() if name in going]
    for name in (*going, stays):
        for hours in (2, 1):
            plant_snapshot(root, name, hours, data=f"{name}{hours}".encode() * 10)
    found = checked_answers.foreseen(server.does("foresee", decisions=wanted, policy={"max_per_session": 1}))
    assert found.of_sessions == dict.fromkeys(going, 2 * 370)
    thinned = {list_snapshots(root, stays)[1].snapshot_id}
    assert thinned <= set(found.snapshots)
    if most > 1:
        assert set(found.snapshots) == thinned
        assert found.snapshot_bytes == 370
    bare = checked_answers.foreseen(server.does("foresee", decisions=wanted))
    assert (bare.of_sessions, bare.snapshots, bare.snapshot_bytes) == (found.of_sessions, (), 0)
    assert len(list_snapshots(root)) == 6


def test_a_server_that_does_not_count_snapshots_yet(
    server: Server, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    session_id = make_session(root)
    wanted = list(decisions(server).values())
    told = server._answer

    def before(what: str, body: Any, method: str) -> Any:
        found = told(what, body, method)
        for item in found["sessions"]:
            del item["snapshot_bytes"]
        return found

    monkeypatch.setattr(server, "_answer", before)
    assert checked_answers.foreseen(server.does("foresee", decisions=wanted)).of_sessions == {session_id: 0}


@pytest.mark.parametrize(
    "answer", [{}, {"sessions": 1}, {"sessions": [], "errors": []}, {"sessions": [{}], "errors": {}, "live": []}]
)
def test_a_server_that_answers_nonsense(server: Server, monkeypatch: pytest.MonkeyPatch, answer: Any) -> None:
    monkeypatch.setattr(server, "_answer", lambda *_: answer)
    assert server.does("remove", decisions=[["a", "asked for", 1, "1-2"]], archive=False).keys() == {"problem"}


def test_a_server_that_is_too_old_to_have_stamps(server: Server, root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    make_session(root)
    told = server._answer

    def before(what: str, body: Any, method: str) -> Any:
        found = told(what, body, method)
        for item in found.get("items", ()):
            del item["stamp"]
        return found

    monkeypatch.setattr(server, "_answer", before)
    assert "too old" in server.does("look")["problem"]


def test_a_report_is_checked() -> None:
    good = {"sessions": [{"session_id": "a", "action": "delete", "done": True, "size_bytes": 1}], "errors": {}}
    assert checked_answers.pruned(good).deleted == {"a": 1}
    one = good["sessions"][0]  # type: ignore[index]
    for bad in (
        {**good, "sessions": [{**one, "session_id": "../x"}]},
        {**good, "sessions": [{**one, "size_bytes": -1}]},
        {**good, "sessions": [{**one, "archive": 1}]},
        {**good, "totals": []},
        {**good, "totals": {"snapshot_bytes_freed": "1"}},
        {**good, "errors": {"a": 1}},
        {**good, "changed": ["../x"]},
    ):
        with pytest.raises(checked_answers.BadAnswer):
            checked_answers.pruned(bad)


def test_what_is_foreseen_is_checked() -> None:
    good = {
        "sessions": [{"session_id": "a", "action": "delete", "snapshot_bytes": 3}, {"action": "keep"}],
        "snapshots": ["b"],
        "totals": {"snapshot_bytes_freed": 5},
    }
    assert checked_answers.foreseen(good) == checked_answers.Foreseen({"a": 3}, ("b",), 2)
    assert checked_answers.foreseen({"problem": "away"}) == checked_answers.Foreseen({}, (), 0)
    assert checked_answers.foreseen({**good, "totals": {}}).snapshot_bytes == 0, "less than nothing is not freed"
    for bad in (
        {**good, "sessions": [{"session_id": "../x", "action": "delete"}]},
        {**good, "sessions": [{"session_id": "a", "action": "delete", "snapshot_bytes": -1}]},
        {**good, "sessions": ["a"]},
        {**good, "snapshots": [1]},
        {**good, "totals": 1},
    ):
        with pytest.raises(checked_answers.BadAnswer):
            checked_answers.foreseen(bad)
