"""What outlives a server: deleted stays deleted, released comes back; what others have open is left to them."""

from __future__ import annotations

import json
import signal
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.server.conftest import Api, running
from tests.sessions.helpers import make_session
from wasm_kernel.host.disk import tombstones
from wasm_kernel.host.disk.locks import lock_session
from wasm_kernel.sessions.session_list import list_sessions
from wasm_kernel.sessions.snapshots import list_snapshots

SETTINGS = "c.WasmKernelExtension.idle_timeout_seconds = 0\n"


def test_a_server_that_stops_and_one_that_is_killed(tmp_path: Path) -> None:
    with running(tmp_path, SETTINGS) as server:
        api = Api(server)
        kept, gone, unused, endless = (api.create() for _ in range(4))
        api.run(kept, "x = 1")
        api.run(gone, "y = 2")
        deleted = api("DELETE", f"sandboxes/{gone}")
        api.run(endless, "z = 'before'")
        # It begins where an interrupt is caught: one that comes sooner would end it, and leave something to save.
        deaf = "while True:\n  try:\n    print('begun')\n    while True: pass\n  except BaseException: pass"
        api.begin(endless, f"z = 'during'\n{deaf}")
    assert server.process.returncode == 0
    triggers = {name: [s.trigger for s in list_snapshots(server.root, name)] for name in (kept, unused, endless)}
    assert triggers == {kept: ["session_close"], unused: [], endless: ["checkpoint"]}
    assert not any(s.live for s in list_sessions(server.root))

    with running(tmp_path, SETTINGS) as server:
        api = Api(server)
        assert [api.state(name) for name in (kept, unused, endless)] == ["released"] * 3
        assert api("GET", f"sandboxes/{gone}") == deleted
        api("POST", f"sandboxes/{gone}/tasks", {"code": "1"}, 410)
        assert api("GET", f"sandboxes/{gone}/tasks")["items"] == []
        assert api.value(kept, "x") == "1" and api.value(endless, "z") == "'before'"
        api.run(kept, "x += 1")
        api.until(lambda: api("GET", f"sandboxes/{kept}/snapshots?trigger=checkpoint")["items"])
        api.until(lambda: api("GET", f"sandboxes/{kept}/snapshots")["items"][0]["execution_count"] == 4)
        api.begin(kept, "x = 'lost'\nwhile True: pass")
        server.process.send_signal(signal.SIGKILL)
        server.process.wait()

    with running(tmp_path, SETTINGS) as server:
        api = Api(server)
        assert api.state(kept) == "released" and api.value(kept, "x") == "2"
        brought_back = api.create(snapshot_id=deleted["snapshot_id"])
        assert api.value(brought_back, "y") == "2"
        Path(tmp_path / "log").write_text("")
    assert "Traceback" not in (tmp_path / "log").read_text()


def test_what_another_process_has_open(api: Api) -> None:
    session_id = make_session(api.server.root, files={"a": "b"}, notebook="/home/ann/a.ipynb")
    lock = lock_session(api.server.root, session_id)  # as a kernel's; this process is another than the server
    try:
        me = json.loads(lock.path.read_bytes())["pid"]
        shown = api("GET", f"sandboxes/{session_id}")
        assert shown["state"] == "busy" and shown["holder"]["pid"] == me and shown["holder"]["since"]
        assert shown["notebook"] == "/home/ann/a.ipynb" and shown["limits"] is None
        listed = api("GET", "sandboxes?state=busy&q=a.ipynb")["items"]
        assert [s["sandbox_id"] for s in listed] == [session_id]
        for method, path, body in (
            ("POST", "/tasks", {"code": "1"}), ("POST", "/snapshots", {}), ("POST", "/busy", None),
            ("POST", "/idle", None), ("DELETE", "", None), ("DELETE", "?snapshot=false", None),
        ):  # fmt: skip
            told = api(method, f"sandboxes/{session_id}{path}", body, 409)
            assert told["holder"]["pid"] == me and f"in use by process {me}" in told["detail"]
        assert tombstones.read(api.server.root, session_id) is None
        plan = api("POST", "prune/plan", {"max_age_hours": 0, "only": [session_id]})
        assert session_id in plan["live"]
    finally:
        lock.release()
    assert api.value(session_id, "open('a').read()") == "'b'"
    assert api("GET", f"sandboxes/{session_id}")["holder"] is None


def test_a_fresh_start_that_a_kernel_promised_is_kept(api: Api) -> None:
    sandbox_id = api.create(idle_timeout_seconds=1)
    api.run(sandbox_id, "x = 1")
    api.until(lambda: api.state(sandbox_id) == "released")
    record = api.server.root / sandbox_id / ".metadata.json"
    record.write_text(json.dumps({**json.loads(record.read_text()), "fresh_start": True}))
    assert api.value(sandbox_id, "'x' in globals()") == "False"
    api.run(sandbox_id, "x = 2")
    api.until(lambda: api.state(sandbox_id) == "released")
    assert api.value(sandbox_id, "x") == "2"


def test_a_snapshot_that_cannot_be_used_here(api: Api) -> None:
    sandbox_id = api.create(idle_timeout_seconds=1)
    api.run(sandbox_id, "x = 1; open('f', 'w').write('kept')")
    api.until(lambda: api.state(sandbox_id) == "released")
    manifests = api.server.root / ".wasm-kernel" / "snapshots" / "manifests" / sandbox_id
    for path in manifests.iterdir():
        data = bytearray(path.read_bytes())
        data[-40] ^= 1
        path.write_bytes(data)
    assert "damaged" in api("POST", f"sandboxes/{sandbox_id}/tasks", {"code": "x"}, 409)["detail"]
    assert api.run(sandbox_id, "open('f').read()", fresh=True)["result"]["result"]["text/plain"] == "'kept'"
    deleted = api("DELETE", f"sandboxes/{sandbox_id}")
    assert api.value(api.create(snapshot_id=deleted["snapshot_id"]), "open('f').read()") == "'kept'"


def test_tombstones_are_bounded_and_count_only_where_nothing_is(tmp_path: Path) -> None:
    ids = [f"a-{n}" for n in range(5)]
    for name in ids:
        tombstones.write(tmp_path, name, {"n": name}, most=3)
        time.sleep(0.01)
    assert tombstones.by_age(tmp_path) == ids[2:] and tombstones.names(tmp_path) == set(ids[2:])
    assert tombstones.read(tmp_path, "a-4") == {"n": "a-4"} and tombstones.read(tmp_path, "a-0") is None
    (tmp_path / "a-4").mkdir()  # it was never deleted: whoever began that was killed
    assert tombstones.read(tmp_path, "a-4") is None
    (tmp_path / ".wasm-kernel" / "deleted" / "a-3.json").write_bytes(b'{"half')
    assert tombstones.read(tmp_path, "a-3") is None
    for bad in ("../x", "", ".x"):
        assert tombstones.read(tmp_path, bad) is None
        with pytest.raises(ValueError):
            tombstones.write(tmp_path, bad, {}, most=3)
    assert list((tmp_path / ".wasm-kernel" / "new").iterdir()) == []


def test_a_deletion_that_fails_leaves_everything(api: Api) -> None:
    sandbox_id = api.create()
    api.run(sandbox_id, "x = 5; open('f', 'w').close()")
    state = api.server.root / ".wasm-kernel"
    (state / "deleted").mkdir(exist_ok=True)
    blocked = state / "deleted" / f"{sandbox_id}.json"
    blocked.mkdir()  # the tombstone cannot be set
    answer = api.raw("DELETE", f"sandboxes/{sandbox_id}")
    blocked.rmdir()
    assert answer.status == 409
    assert api.state(sandbox_id) == "idle" and api.value(sandbox_id, "x") == "5"
    assert api("DELETE", f"sandboxes/{sandbox_id}")["state"] == "deleted"


def test_requests_at_the_same_time(api: Api) -> None:
    sandbox_id = api.create()
    statuses = at_once(10, lambda: api.raw("POST", f"sandboxes/{sandbox_id}/tasks?wait=60", {"code": "2"}).status)
    assert 200 in statuses and set(statuses) <= {200, 409}
    statuses = at_once(5, lambda: api.raw("DELETE", f"sandboxes/{sandbox_id}").status)
    assert statuses.count(200) == 1 and set(statuses) <= {200, 409, 410}


def at_once(count: int, work: Callable[[], Any]) -> list[Any]:
    found: list[Any] = []
    threads = [threading.Thread(target=lambda: found.append(work())) for _ in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return found
