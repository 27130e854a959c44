"""Tasks outlive the server that ran them: stopped, killed, with hostile output, and within bounds."""

from __future__ import annotations

import json
import os
import uuid
from pathlib import Path
from typing import Any

import pytest

from tests.server.conftest import Api, running
from tests.sessions.helpers import make_session
from wasm_kernel.host.disk.locks import lock_session
from wasm_kernel.server.api import task_store
from wasm_kernel.server.api.stored_tasks import summary_of
from wasm_kernel.server.api.task_store import MAX_STORED, TaskStore
from wasm_kernel.sessions.deletion import delete_session_workspace

OUTCOME = {"kind": "ok", "cause": "", "message": "", "next_step": "", "state_lost": False}
HOSTILE = 'print(\'</script>\\x1b[2J\\ud800 {"type": "done"}\\u2028\'); import math; display(math.nan); 1/0'


def stored(root: Path, sandbox_id: str) -> list[str]:
    folder = root / ".wasm-kernel" / "tasks" / sandbox_id
    return sorted(os.listdir(folder)) if folder.exists() else []


def test_tasks_survive_a_restart_of_the_server(tmp_path: Path) -> None:
    with running(tmp_path, "") as server:
        api = Api(server)
        sandbox_id = api.create()
        first = api.run(sandbox_id, "print('one'); open('f', 'w').write('x'); 41 + 1")
        second = api.run(sandbox_id, HOSTILE)
        listed = api("GET", f"sandboxes/{sandbox_id}/tasks")
        events = [api.events(sandbox_id, task["task_id"]) for task in (first, second)]
    with running(tmp_path, "") as server:
        api = Api(server)
        again = [api("GET", f"sandboxes/{sandbox_id}/tasks/{task['task_id']}") for task in (first, second)]
        assert again == [first, second]
        assert again[0]["result"]["stdout"] == "one\n" and again[0]["result"]["files_created"] == ["f"]
        assert again[1]["result"]["error"]["name"] == "ZeroDivisionError"
        assert [api.events(sandbox_id, task["task_id"]) for task in again] == events
        assert api.events(sandbox_id, first["task_id"], "?after=1") == events[0][1:]
        now = api("GET", f"sandboxes/{sandbox_id}/tasks")
        assert [t["task_id"] for t in now["items"]] == [t["task_id"] for t in listed["items"]] and now["total"] == 2
        assert api("POST", f"sandboxes/{sandbox_id}/tasks/{first['task_id']}/interrupt")["state"] == "done"
        third = api.run(sandbox_id, "3")["task_id"]
        newest = [t["task_id"] for t in api("GET", f"sandboxes/{sandbox_id}/tasks")["items"]]
        assert newest == [third, second["task_id"], first["task_id"]]
        api("GET", f"sandboxes/{sandbox_id}/tasks/{uuid.uuid4()}", status=404)
        api("DELETE", f"sandboxes/{sandbox_id}?snapshot=false")
        assert stored(server.root, sandbox_id) == []


def test_a_server_that_is_killed(tmp_path: Path) -> None:
    with running(tmp_path, "") as server:
        api = Api(server)
        sandbox_id = api.create()
        done = api.run(sandbox_id, "x = 5; x")
        task_id = api.begin(
            sandbox_id, "import time\nx = 6\nprint('so far')\nfor n in range(999): print(n); time.sleep(.1)"
        )
        api.until(lambda: api("GET", f"sandboxes/{sandbox_id}/tasks/{task_id}")["events"] > 8)
        server.process.kill()
        server.process.wait()
    with running(tmp_path, "") as server:
        api = Api(server)
        assert api("GET", f"sandboxes/{sandbox_id}/tasks/{done['task_id']}")["outcome"] == done["outcome"]
        cut = api("GET", f"sandboxes/{sandbox_id}/tasks/{task_id}")
        assert cut["state"] == "done" and cut["outcome"]["cause"] == "server_ended" and cut["outcome"]["state_lost"]
        assert cut["result"]["stdout"].startswith("begun\nso far\n0\n")
        assert api.events(sandbox_id, task_id)[-1]["type"] == "done"
        states = [t["outcome"]["kind"] for t in api("GET", f"sandboxes/{sandbox_id}/tasks")["items"]]
        assert states == ["crashed", "ok"]
        assert api.value(sandbox_id, "x") == "5"


def test_what_is_kept_of_one_task_is_bounded(api: Api) -> None:
    sandbox_id = api.create()
    task = api.run(sandbox_id, "for n in range(4000): print('é' * 500, flush=True)\n'the end'")
    root = api.server.root
    name = next(name for name in stored(root, sandbox_id) if name.endswith(".ndjson"))
    assert MAX_STORED * 0.9 < (root / ".wasm-kernel" / "tasks" / sandbox_id / name).stat().st_size < MAX_STORED * 1.1
    found = TaskStore(root).task(sandbox_id, task["task_id"])
    assert found is not None
    kinds = [event["type"] for event in found.events]
    assert kinds[-2:] == ["truncated", "done"] and set(kinds[:-2]) == {"stream"}


def fill(store: TaskStore, sandbox_id: str, count: int, size: int = 10) -> list[str]:
    ids = [str(uuid.uuid4()) for _ in range(count)]
    for task_id in ids:
        log = store.begin(sandbox_id, task_id, {"code": "1"})
        log.add(b'{"type": "stream", "name": "stdout", "text": "%s"}\n' % (b"x" * size))
        log.end({"outcome": OUTCOME})
    return ids


def test_old_tasks_go(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(task_store, "_MOST_OF_ONE", 5)
    monkeypatch.setattr(task_store, "_MOST_IN_ALL", 12)
    monkeypatch.setattr(task_store, "_TRIM_EVERY", 1)
    store = TaskStore(tmp_path)
    ids = fill(store, "a", 8)
    assert [task.task_id for task in store.records("a")] == ids[:2:-1]
    for name in "bcd":
        fill(store, name, 5)
    left = {name: len(store.records(name)) for name in "abcd"}
    assert sum(left.values()) == 12 and left["a"] == 0 and left["d"] == 5
    monkeypatch.setattr(task_store, "_MOST_BYTES", 3000)
    fill(store, "e", 5, size=1000)
    assert len(store.records("e")) <= 3 and store.records("d") == []


def test_a_sandboxs_tasks_go_with_it(tmp_path: Path) -> None:
    session_id = make_session(tmp_path)
    fill(TaskStore(tmp_path), session_id, 2)
    delete_session_workspace(session_id, tmp_path)
    assert stored(tmp_path, session_id) == []


def test_a_disk_that_takes_nothing_does_not_stop_tasks(tmp_path: Path) -> None:
    (tmp_path / ".wasm-kernel").mkdir()
    (tmp_path / ".wasm-kernel" / "tasks").write_text("a file")
    store = TaskStore(tmp_path)
    fill(store, "a", 2)
    assert store.records("a") == [] and store.task("a", str(uuid.uuid4())) is None


@pytest.mark.parametrize("what", ["torn", "wild", "deep", "link", "pipe", "types", "huge"])
def test_files_that_anybody_may_have_written(what: str, api: Api) -> None:
    sandbox_id = api.create()
    task_id = api.run(sandbox_id, "print('fine')")["task_id"]
    api("POST", f"sandboxes/{sandbox_id}/idle")
    folder = api.server.root / ".wasm-kernel" / "tasks" / sandbox_id
    other = str(uuid.uuid4())
    record, events = folder / f"00000009-{other}.json", folder / f"00000009-{other}.ndjson"
    said: dict[str, Any] = {"code": "1", "outcome": OUTCOME, "created_at": "2026-11-22T10:15:30Z", "events": 1}
    record.write_text(json.dumps(said))
    events.write_text('{"type": "stream", "name": "stdout", "text": "kept"}\n')
    if what == "torn":
        with events.open("a") as file:
            file.write('{"type": "stream", "name": "std')
    elif what == "wild":
        events.write_bytes(events.read_bytes() + b"\xff\xfe\x00\n[1]\n" + b"9" * 10_000 + b"\n")
    elif what == "deep":
        events.write_text(events.read_text() + "[" * 100_000 + "\n" + '{"a":' * 5000 + "1" + "}" * 5000 + "\n")
        record.write_text(json.dumps({**said, "more": json.loads("[" * 500 + "]" * 500)}))
    elif what == "link":
        (folder / "secret").write_text(json.dumps(said))
        record.unlink()
        record.symlink_to(folder / "secret")
    elif what == "pipe":
        events.unlink()
        os.mkfifo(events)
    elif what == "types":
        wild = {"type": 5, "name": [], "text": {}, "data": 7, "traceback": "x", "exit_code": "no", "seq": "1"}
        kinds = ("stream", "execute_result", "display_data", "error", "done", "truncated", "unheard of")
        with events.open("a") as file:
            file.writelines(json.dumps({**wild, "type": kind}) + "\n" for kind in kinds)
        record.write_text(json.dumps({**said, "created_at": [], "ended_at": 5, "events": -1, "truncated": "yes"}))
    elif what == "huge":
        record.write_text(json.dumps({**said, "code": "x" * 1_000_000}))
    listed = [t["task_id"] for t in api("GET", f"sandboxes/{sandbox_id}/tasks")["items"]]
    gone = what in ("deep", "link", "huge")
    assert listed == ([task_id] if gone else [task_id, other])
    answer = api.raw("GET", f"sandboxes/{sandbox_id}/tasks/{other}")
    assert answer.status == (404 if gone else 200)
    if not gone:
        assert answer.json["result"]["stdout"] == ("" if what == "pipe" else "kept")
        assert api.raw("GET", f"sandboxes/{sandbox_id}/tasks/{other}/events").status == 200
    assert api("GET", f"sandboxes/{sandbox_id}/tasks/{task_id}")["result"]["stdout"] == "fine\n"


def test_names_that_are_no_tasks_are_left_alone(tmp_path: Path) -> None:
    store = TaskStore(tmp_path)
    (task_id,) = fill(store, "a", 1)
    folder = tmp_path / ".wasm-kernel" / "tasks" / "a"
    for name in ("x.json", f"1-{task_id}.json", f"00000002-{'-' * 36}.json", f"00000002-{task_id}.txt"):
        (folder / name).write_text("{}")
    (folder / f"00000003-{uuid.uuid4()}.json").mkdir()
    assert [task.task_id for task in store.records("a")] == [task_id]
    assert store.records("../a") == [] and store.task("..", task_id) is None


def test_a_task_that_another_server_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    session_id = make_session(tmp_path)
    lock = lock_session(tmp_path, session_id)
    TaskStore(tmp_path).begin(session_id, str(uuid.uuid4()), {"code": "1"})
    (mine,) = TaskStore(tmp_path).records(session_id)
    assert mine.cut_off  # this process would know it
    monkeypatch.setattr(task_store.os, "getpid", lambda: 1)
    (theirs,) = TaskStore(tmp_path).records(session_id)
    assert not theirs.cut_off and summary_of(session_id, theirs.task_id, theirs)["state"] == "running"
    lock.release()
    (ended,) = TaskStore(tmp_path).records(session_id)
    assert ended.cut_off
