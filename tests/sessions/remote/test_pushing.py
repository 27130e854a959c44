"""Sessions that go from machine to machine through an object store."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from urllib.request import Request, urlopen

import pytest

from wasm_kernel import create_session_sandbox, create_snapshot, get_session_sandbox, list_session_files
from wasm_kernel.errors import BadSnapshot, DamagedChunk, LeaseLost, RemoteError, SessionElsewhere
from wasm_kernel.host.disk.records import read_record, write_record
from wasm_kernel.host.remote.objects import Objects, open_objects
from wasm_kernel.sessions.housekeeping import prune_sessions
from wasm_kernel.sessions.log import SandboxLogger
from wasm_kernel.sessions.remote import lease as leases
from wasm_kernel.sessions.remote.deleting import delete_stored
from wasm_kernel.sessions.remote.keeping import SessionCopy
from wasm_kernel.sessions.remote.lease import Lease, acquire, holder
from wasm_kernel.sessions.remote.pulling import Pulled, pull_session
from wasm_kernel.sessions.remote.pushing import Pushed, SessionPush
from wasm_kernel.sessions.remote.states import newest_state
from wasm_kernel.sessions.remote.stored import remote_sessions

QUIET = SandboxLogger(level="error")


def made(root: Path, code: str) -> str:
    """A session in which this ran, saved."""
    session_id, sandbox = create_session_sandbox(workspace_root=root)
    with sandbox:
        assert sandbox.execute(code).success
        create_snapshot(session_id, root)
    return session_id


def ran(root: Path, session_id: str, code: str) -> str:
    """What this prints in a session as it was left; saved afterwards."""
    with get_session_sandbox(session_id, workspace_root=root, resume=True) as sandbox:
        result = sandbox.execute(code)
        assert result.success, result.error
        create_snapshot(session_id, root)
        return result.stdout.strip()


def push(objects: Objects, root: Path, session_id: str) -> Pushed:
    """What a kernel does from its start to its end."""
    lease = acquire(objects, session_id)
    found = SessionPush(objects, root, session_id, lease).push()
    lease.give_back()
    return found


def pull(objects: Objects, root: Path, session_id: str) -> Pulled:
    found = pull_session(objects, root, session_id, QUIET)
    assert found is not None
    return found


def test_a_session_goes_on_on_another_machine_and_comes_back(objects: Objects, nodes: tuple[Path, Path]) -> None:
    here, there = nodes
    code = "import numpy as np; x = [1]; a = np.arange(1000); open('made.txt', 'w').write('here')"
    session_id = made(here, code)
    push(objects, here, session_id)
    assert remote_sessions(objects) == [session_id]

    pull(objects, there, session_id)
    assert [str(f) for f in list_session_files(session_id, there)] == ["made.txt"]
    assert ran(there, session_id, "x.append(2); open('there.txt', 'w').write('b'); print(a.sum())") == "499500"
    push(objects, there, session_id)

    pull(objects, here, session_id)
    assert ran(here, session_id, "import os; print(x, sorted(os.listdir()))") == "[1, 2] ['made.txt', 'there.txt']"


def test_what_a_person_allowed_stays_on_the_machine(objects: Objects, nodes: tuple[Path, Path]) -> None:
    """Who can write to the store cannot give a session rights on the machines that fetch it."""
    here, there = nodes
    session_id = made(here, "x = 1")
    record = read_record(here / session_id)
    assert record is not None
    given = {"grants": {"trust": "", "add": ""}, "network": ["evil.example"], "data_folder": "/etc", "title": "Mine"}
    write_record(here / session_id, record.touched(datetime.now(UTC), **given), sync=False)
    push(objects, here, session_id)
    pull(objects, there, session_id)
    found = read_record(there / session_id)
    assert found is not None
    assert found.extra["title"] == "Mine"
    assert not {"grants", "network", "data_folder"} & found.extra.keys()


def test_only_what_changed_travels(objects: Objects, nodes: tuple[Path, Path]) -> None:
    here, there = nodes
    session_id = made(here, "import os; data = os.urandom(20 << 20); n = 0")
    lease = acquire(objects, session_id)
    session = SessionPush(objects, here, session_id, lease)
    first = session.push()
    assert first.sent_bytes > 20 << 20
    assert session.push().sent_bytes == 0  # nothing changed
    ran(here, session_id, "n = 1")
    again = session.push()
    assert 0 < again.sent_bytes < 3 << 20
    lease.give_back()
    assert pull(objects, there, session_id).fetched_chunks > 300
    with_it = pull(objects, there, session_id)
    assert with_it.fetched_chunks == 0
    assert ran(there, session_id, "print(len(data), n)") == f"{20 << 20} 1"


def test_what_is_no_longer_used_goes(objects: Objects, nodes: tuple[Path, Path]) -> None:
    here, _ = nodes
    session_id = made(here, "import os")
    lease = acquire(objects, session_id)
    session = SessionPush(objects, here, session_id, lease)
    for _ in range(4):
        ran(here, session_id, "data = os.urandom(8 << 20)")
        session.push()
    packs = objects.names(f"sessions/{session_id}/packs/")
    stored = sum(len(objects.read(name)) for name in packs)
    assert stored < 30 << 20, "of 32 MB that were written, 8 are used"
    assert len(objects.names(f"sessions/{session_id}/states/")) == 1
    assert delete_stored(objects, session_id, lease) > 2
    assert remote_sessions(objects) == []


class Killed(BaseException):
    """Instead of a kill: nothing after it happens."""


@pytest.mark.parametrize("after", range(4))
def test_a_push_that_is_killed_leaves_the_state_before_it(
    address: str, nodes: tuple[Path, Path], after: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    here, there = nodes
    objects: Any = open_objects(address)
    session_id = made(here, "x = 'first'")
    lease = acquire(objects, session_id)
    session = SessionPush(objects, here, session_id, lease)
    session.push()
    ran(here, session_id, "import os; x = 'second'; data = os.urandom(1 << 20)")
    calls = [0]

    def dying(work: Any) -> Any:
        def call(*given: Any) -> Any:
            calls[0] += 1
            if calls[0] > after:
                raise Killed
            return work(*given)

        return call

    for name in ("write", "create", "delete"):
        monkeypatch.setattr(objects, name, dying(getattr(objects, name)))
    try:
        session.push()
        expected = {"second"}
    except Killed:
        expected = {"first", "second"}
    monkeypatch.undo()
    whole: Any = open_objects(address) if address.startswith("file") else objects
    pull(whole, there, session_id)
    assert ran(there, session_id, "print(x)") in expected
    assert ran(here, session_id, "print(x)") == "second", "and here nothing is lost"


def test_the_second_machine_is_told_who_has_it_and_may_take_over(objects: Objects, nodes: tuple[Path, Path]) -> None:
    here, there = nodes
    session_id = made(here, "x = 1")
    mine = acquire(objects, session_id)
    first = SessionPush(objects, here, session_id, mine)
    first.push()
    with pytest.raises(SessionElsewhere, match=r"is open at .*, process \d+ since .*; close it there, or take it over"):
        acquire(objects, session_id)

    theirs = acquire(objects, session_id, take_over=True)
    pull(objects, there, session_id)
    second = SessionPush(objects, there, session_id, theirs)
    ran(here, session_id, "x = 'late'")
    with pytest.raises(LeaseLost, match="has taken it over"):
        first.push()
    assert ran(there, session_id, "x += 1; print(x)") == "2"
    second.push()
    theirs.give_back()
    assert holder(objects, session_id).over  # type: ignore[union-attr]

    pull(objects, here, session_id)  # what only this one had stays as a snapshot
    assert ran(here, session_id, "print(x)") == "2"


def test_what_a_holder_writes_after_it_lost_the_lease_does_not_count(
    objects: Objects, nodes: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The moment between the last look at the lease and the write: fencing, not luck."""
    here, there = nodes
    session_id = made(here, "x = 1")
    first = SessionPush(objects, here, session_id, acquire(objects, session_id))
    first.push()
    ran(here, session_id, "import os; x = 'late'; data = os.urandom(1 << 20)")
    taken: list[SessionPush] = []

    def check(self: Lease) -> None:
        if not taken and len(checks) == 1:  # right after the check before the state is written
            pull(objects, there, session_id)
            monkeypatch.setattr(Lease, "check", original)
            taken.append(SessionPush(objects, there, session_id, acquire(objects, session_id, take_over=True)))
            return
        checks.append(1)
        original(self)

    original, checks = Lease.check, list[int]()
    monkeypatch.setattr(Lease, "check", check)
    with pytest.raises(LeaseLost):
        first.push()
    state = newest_state(objects, session_id)
    assert state is not None and "/000000000002-" in state.name
    other = there.parent / "node-3"
    other.mkdir()
    pull(objects, other, session_id)  # all that the newest state names is there
    assert ran(other, session_id, "print(x)") == "1"


def test_a_holder_that_is_gone_loses_its_lease(
    objects: Objects, nodes: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    here, _ = nodes
    session_id = made(here, "x = 1")
    acquire(objects, session_id)
    with pytest.raises(SessionElsewhere):
        acquire(objects, session_id)
    monkeypatch.setattr(leases, "_STALE_AFTER", -1000.0)
    assert acquire(objects, session_id).token == 2


def test_leases_that_are_over_do_not_pile_up(objects: Objects) -> None:
    first = acquire(objects, "s")
    for _ in range(5):
        first.beat()  # too late, and so left over
        acquire(objects, "s", take_over=True).give_back()
    kept = [name.rpartition("/")[2] for name in objects.names("sessions/s/leases/")]
    assert kept == ["000000000006", "000000000006.beat", "000000000006.over"]
    with pytest.raises(LeaseLost):
        first.check()


def test_a_lease_that_goes_while_it_is_looked_at_is_nobodys(objects: Objects) -> None:
    acquire(objects, "s")
    before = holder(objects, "s")
    assert before is not None
    acquire(objects, "s", take_over=True)
    assert not leases.is_held(objects, "s", before)
    with pytest.raises(SessionElsewhere, match="is open at"):
        acquire(objects, "s")


def test_only_one_of_two_that_come_at_once_gets_it(objects: Objects, monkeypatch: pytest.MonkeyPatch) -> None:
    first = acquire(objects, "s")
    first.give_back()
    before = holder(objects, "s")
    monkeypatch.setattr(leases, "holder", lambda *given: before)  # both looked before either came
    assert acquire(objects, "s").token == 2
    with pytest.raises(SessionElsewhere, match="just opened elsewhere"):
        acquire(objects, "s")


def test_what_was_not_pushed_is_not_overwritten_by_what_was(objects: Objects, nodes: tuple[Path, Path]) -> None:
    here, _ = nodes
    session_id = made(here, "x = 'pushed'")
    push(objects, here, session_id)
    ran(here, session_id, "x = 'only here'")  # the network was away when it was closed
    pull(objects, here, session_id)
    assert ran(here, session_id, "print(x)") == "only here"
    push(objects, here, session_id)


def test_damage_is_noticed(objects: Objects, nodes: tuple[Path, Path]) -> None:
    here, there = nodes
    session_id = made(here, "import os; data = os.urandom(1 << 20)")
    push(objects, here, session_id)
    pack = objects.names(f"sessions/{session_id}/packs/")[0]
    whole = objects.read(pack)
    for broken in (whole[: len(whole) // 2], b"", whole[:-1000] + bytes(1000)):
        objects.write(pack, broken)
        with pytest.raises(DamagedChunk):
            pull_session(objects, there, session_id, QUIET)
    objects.write(pack, whole)
    state = objects.names(f"sessions/{session_id}/states/")[-1]
    data = objects.read(state)
    for broken in (data[:-5], data[:50], b"", data[:-1] + bytes([data[-1] ^ 1])):
        objects.write(state, broken)
        with pytest.raises(BadSnapshot):
            pull_session(objects, there, session_id, QUIET)
    objects.write(state, data)
    pull(objects, there, session_id)


def test_a_store_that_refuses_says_so_and_loses_nothing(
    s3: str, nodes: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    here, _ = nodes
    session_id = made(here, "x = 1")
    with pytest.raises(RemoteError, match="no-such-bucket"):
        acquire(open_objects("s3://no-such-bucket/x"), session_id)
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:1")
    with pytest.raises(RemoteError, match="cannot be reached"):
        acquire(open_objects(s3), session_id)
    assert ran(here, session_id, "print(x)") == "1"


def test_a_store_that_fails_now_and_then_is_asked_again(s3: str, nodes: tuple[Path, Path]) -> None:
    here, there = nodes
    objects: Any = open_objects(s3)
    store, fails = objects._store, [0]

    class Flaky:
        def __getattr__(self, name: str) -> Any:
            work = getattr(store, name)

            def call(*given: Any, **named: Any) -> Any:
                fails[0] += 1
                if fails[0] % 3 == 0:
                    raise OSError("503 slow down")
                return work(*given, **named)

            return call

    session_id = made(here, "x = 5")
    objects._store = Flaky()
    push(objects, here, session_id)
    pull(objects, there, session_id)
    assert ran(there, session_id, "print(x)") == "5" and fails[0] > 10


@pytest.fixture
def strict(s3: str, s3_server: str) -> Iterator[str]:
    """A bucket on a server that knows nobody's keys, after this: its address."""

    def ask(count: bytes) -> None:
        headers = {"Content-Type": "text/plain"}
        request = Request(f"{s3_server}/moto-api/reset-auth", count, headers, method="POST")
        urlopen(request, timeout=30).close()

    ask(b"0")
    yield s3
    ask(b"inf")


def test_wrong_credentials_say_so_at_once_and_lose_nothing(strict: str, nodes: tuple[Path, Path]) -> None:
    here, _ = nodes
    session_id = made(here, "x = 1")
    objects = open_objects(strict)
    for work in (
        lambda: acquire(objects, session_id),
        lambda: pull_session(objects, here, session_id, QUIET),
        lambda: prune_sessions(0, here, store=objects),
        lambda: objects.write("a", b""),
    ):
        with pytest.raises(RemoteError, match=r"prefix refuses: .*; look at its credentials and their rights"):
            work()
    told: list[str] = []
    copy = SessionCopy(objects, here, session_id, None, 1.0, told.append)
    assert not copy.close(60.0)
    assert "refuses" in copy.status.problem
    assert all("Nothing is lost" in text for text in told)
    assert ran(here, session_id, "print(x)") == "1"


def test_no_credentials_say_so(
    s3: str, nodes: tuple[Path, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.delenv(name)
    for name in ("AWS_SHARED_CREDENTIALS_FILE", "AWS_CONFIG_FILE"):
        monkeypatch.setenv(name, str(tmp_path / "none"))
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    session_id = made(nodes[0], "x = 1")
    with pytest.raises(RemoteError, match="refuses: Unable to locate credentials; look at its credentials"):
        acquire(open_objects(s3), session_id)
    assert ran(nodes[0], session_id, "print(x)") == "1"
