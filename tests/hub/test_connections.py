"""Users' connections in the audit log: copied once, checked, and never a reason to fail."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Awaitable, Callable, Collection
from pathlib import Path
from typing import Any

import pytest

from tests.hub.test_deletions import ANN, Desk
from wasm_kernel.host.network.connection_log import ConnectionLog
from wasm_kernel.hub.audit import AuditLog
from wasm_kernel.hub.census import HubUser
from wasm_kernel.hub.connections import ConnectionCopies, connection_rows
from wasm_kernel.hub.run_journal import Journal
from wasm_kernel.hub.workspaces.checked_answers import BadAnswer
from wasm_kernel.hub.workspaces.jobs import JOBS

NOON = "2026-11-18T12:00:00.000000Z"
LINE = {
    "time": "2026-11-18T10:00:00.000000Z",
    "ended": NOON,
    "host": "a.example",
    "port": 443,
    "sent": 10,
    "received": 20,
}


async def one_by_one(users: Collection[HubUser], work: Callable[[HubUser], Awaitable[None]]) -> None:
    for user in users:
        await work(user)


@pytest.fixture
def audit(tmp_path: Path) -> AuditLog:
    return AuditLog(tmp_path / "audit.jsonl")


@pytest.fixture
def log(tmp_path: Path) -> ConnectionLog:
    """The log of a session of Ann's."""
    return ConnectionLog(tmp_path / "workspace" / ".wasm-kernel" / "history" / "mine")


@pytest.fixture
def copy(tmp_path: Path, audit: AuditLog) -> Callable[[], None]:
    """Copy what is new, as a service that has just started does."""
    desk = Desk({"connections": lambda after: JOBS["connections"](tmp_path / "workspace", after)})

    def copy() -> None:
        copies = ConnectionCopies(tmp_path / "connections.json", desk)
        asyncio.run(copies.copy([ANN], Journal(audit, "schedule", "prune"), one_by_one))

    return copy


def test_new_ones_are_copied_once(copy: Callable[[], None], log: ConnectionLog, audit: AuditLog) -> None:
    log.add(LINE)
    copy()
    copy()
    (entry,), count = audit.read()
    assert count == 1
    assert (entry.action, entry.user, entry.session_id, entry.bytes) == ("connect", "ann", "mine", 30)
    assert entry.detail == "a.example:443 at 2026-11-18T10:00:00.000000Z"
    log.add({**LINE, "ended": "2026-11-18T13:00:00.000000Z", "host": "b.example"})
    copy()
    entries, count = audit.read(action="connect")
    assert count == 2
    assert entries[0].detail.startswith("b.example")


def test_one_that_lasted_beyond_a_copy_is_in_the_next(
    copy: Callable[[], None], log: ConnectionLog, audit: AuditLog
) -> None:
    log.add({**LINE, "time": "2026-11-18T11:59:00.000000Z"})
    copy()
    log.add({**LINE, "host": "long.example", "ended": "2026-11-18T20:00:00.000000Z"})  # began before that one
    copy()
    assert sorted(entry.detail.split(":")[0] for entry in audit.read()[0]) == ["a.example", "long.example"]


def test_one_that_has_not_ended_is_copied_by_its_beginning(
    copy: Callable[[], None], log: ConnectionLog, audit: AuditLog
) -> None:
    """Its kernel may be killed: then there is no end."""
    log.add({name: value for name, value in LINE.items() if name != "ended"})
    copy()
    copy()
    assert [entry.detail.split(":")[0] for entry in audit.read()[0]] == ["a.example"]


def test_more_than_one_run_copies_are_in_the_next(
    copy: Callable[[], None], log: ConnectionLog, audit: AuditLog
) -> None:
    """Many short connections do not hide one among them."""
    for n in range(2500):
        log.add({**LINE, "host": f"{n}.example", "ended": f"2026-11-18T12:00:00.{n:06}Z"})
    for count in (1000, 2000, 2500, 2500):
        copy()
        assert audit.read()[1] == count
    assert len({entry.detail for entry in audit.read(limit=5000)[0]}) == 2500


@pytest.mark.parametrize(
    "hostile", [{"port": "x"}, {"sent": -1}, {"host": 5}, {"session_id": "../x"}, {"time": None}, {"ended": 5}]
)
def test_what_users_wrote_is_checked(hostile: dict[str, Any]) -> None:
    with pytest.raises(BadAnswer):
        connection_rows({"connections": [{"session_id": "mine", **LINE, **hostile}]})


def test_a_user_who_cannot_be_asked_is_asked_the_next_time(tmp_path: Path) -> None:
    audit = AuditLog(tmp_path / "audit.jsonl")
    for answer in ({"problem": "gone"}, {"connections": "x"}, {}):
        copies = ConnectionCopies(tmp_path / "connections.json", Desk({"connections": answer}))
        asyncio.run(copies.copy([ANN], Journal(audit, "schedule", "prune"), one_by_one))
    assert audit.read() == ([], 0)


def test_a_hostile_home_takes_nobodys_time(tmp_path: Path) -> None:
    history = tmp_path / ".wasm-kernel" / "history"
    for name, make in {
        "pipe": os.mkfifo,
        "link": lambda path: path.symlink_to("/etc/passwd"),
        "large": lambda path: path.write_bytes(b"x" * (5 << 20)),
        "odd": lambda path: path.write_text('3\n[]\n{"time": 5}\n' + json.dumps({**LINE, "time": "9"}) + "\n"),
        "folder": lambda path: path.mkdir(),
    }.items():
        (history / name).mkdir(parents=True)
        make(history / name / "network.jsonl")
    found = JOBS["connections"](tmp_path, "")["connections"]
    assert [line["session_id"] for line in found] == ["odd", "odd"]
