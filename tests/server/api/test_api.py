"""Sandboxes over HTTP: their life, their tasks, what these say."""

from __future__ import annotations

import json
import time
from typing import Any

from tests.server.conftest import API, BASE, Api
from wasm_kernel.model.records import is_uuid

GONE = "Sandbox is deleted. Please create a new one."


def test_a_whole_life(api: Api) -> None:
    made = api.raw("POST", "sandboxes", {"idle_timeout_seconds": 1, "title": "trial"})
    assert made.status == 201
    sandbox_id = made.json["sandbox_id"]
    assert is_uuid(sandbox_id) and made.headers["Location"] == f"{BASE}/{API}/sandboxes/{sandbox_id}"
    assert (made.json["state"], made.json["title"], made.json["idle_timeout_seconds"]) == ("ready", "trial", 1)

    task = api.run(
        sandbox_id, "x = 41\ng = (n for n in range(9))\nnext(g)\nopen('f.txt', 'w').write('here')\nprint('hi')\nx"
    )
    assert task["state"] == "done" and task["outcome"]["kind"] == "ok" and task["sandbox_id"] == sandbox_id
    result = task["result"]
    assert result["stdout"] == "hi\n" and result["result"]["text/plain"] == "41"
    assert result["files_created"] == ["f.txt"] and result["execution_count"] == 1
    kinds = [event["type"] for event in api.events(sandbox_id, task["task_id"])]
    assert kinds == ["stream", "execute_result", "done"]

    api.until(lambda: api.state(sandbox_id) == "released")
    api.until(lambda: api("GET", "usage")["live_here"] == count_here(api))  # others may be released in between
    assert api.value(sandbox_id, "x + next(g)") == "42"  # the generator, too, goes on
    assert api("GET", f"sandboxes/{sandbox_id}")["execution_count"] == 2

    given = {"why": "test", "reseed": True}
    saved = api("POST", f"sandboxes/{sandbox_id}/snapshots", {"label": "good", "metadata": given}, 201)
    assert saved["sandbox_id"] == sandbox_id and saved["trigger"] == "user" and saved["created_at"]
    assert saved["trigger_type"] == "user"
    assert saved["metadata"] == given and saved["details"] == {}  # a client's words are not taken for ours
    assert api("GET", f"snapshots/{saved['snapshot_id']}") == saved
    api.run(sandbox_id, "x = 'later'")
    other = api.create(snapshot_id=saved["snapshot_id"])
    assert made.json["parent_sandbox_id"] is None
    assert api("GET", f"sandboxes/{other}")["parent_sandbox_id"] == sandbox_id
    assert api.value(other, "x + next(g), open('f.txt').read()") == "(43, 'here')"

    deleted = api("DELETE", f"sandboxes/{sandbox_id}")
    assert deleted["state"] == "deleted" and deleted["title"] == "trial" and deleted["deleted_at"]
    assert api("GET", f"sandboxes/{sandbox_id}") == deleted
    assert not (api.server.root / sandbox_id).exists()
    for method, path in (
        ("POST", "/tasks"), ("POST", "/snapshots"), ("POST", "/busy"), ("POST", "/idle"), ("DELETE", ""),
        ("POST", f"/tasks/{task['task_id']}/interrupt"), ("POST", "/stop"),
    ):  # fmt: skip
        body = {"code": "1"} if path == "/tasks" else None
        assert api(method, f"sandboxes/{sandbox_id}{path}", body, 410)["detail"] == GONE
    last = api("GET", f"snapshots/{deleted['snapshot_id']}")
    assert (last["trigger"], last["sandbox_id"]) == ("session_close", sandbox_id)
    left = api("GET", f"sandboxes/{sandbox_id}/snapshots")
    assert {s["trigger"] for s in left["items"]} == {"user", "session_close"} and left["total"] == 2
    api("POST", "prune/execute", {})  # sweeps what belongs to nobody
    again = api.create(snapshot_id=deleted["snapshot_id"])
    assert again != sandbox_id and api.value(again, "x, next(g), open('f.txt').read()") == "('later', 2, 'here')"


def test_stop_is_another_name_for_delete(api: Api) -> None:
    first = api.create()
    saved = api("POST", f"sandboxes/{first}/snapshots", {}, 201)
    sandbox_id = api.create(snapshot_id=saved["snapshot_id"])
    api.run(sandbox_id, "kept = 7")
    stopped = api("POST", f"sandboxes/{sandbox_id}/stop")
    assert (stopped["state"], stopped["parent_sandbox_id"]) == ("deleted", first)
    assert api("GET", f"sandboxes/{sandbox_id}") == stopped
    assert api("GET", f"snapshots/{stopped['snapshot_id']}")["trigger_type"] == "session_close"
    assert api.value(api.create(snapshot_id=stopped["snapshot_id"]), "kept") == "7"
    assert api("POST", f"sandboxes/{first}/stop?snapshot=false")["snapshot_id"] is None
    assert api("POST", f"sandboxes/{first}/restart", None, 404)["detail"].startswith("the API has no")


def count_here(api: Api) -> int:
    """How many sandboxes this server says that it has in memory."""
    here = [s for s in api("GET", "sandboxes")["items"] if s["holder"] is None]
    return sum(s["state"] in ("ready", "busy", "idle") for s in here)


def test_frames_that_take_long_to_read_stop_nobody_else(api: Api) -> None:
    sandbox_id = api.create()
    code = (
        "import _host\n"
        "h = b'[' * 2_000_001 + b'\"' + b'\\\\\"' * 32_000\n"
        "while True:\n"
        "    try: _host.call(len(h).to_bytes(4, 'little') + h)\n"
        "    except OSError: pass\n"
    )
    task = api.begin(sandbox_id, code)
    waits = []
    for _ in range(10):
        began = time.monotonic()
        assert api.server.get("api/status").status == 200
        waits.append(time.monotonic() - began)
        time.sleep(0.2)
    assert max(waits) < 5, waits
    api("POST", f"sandboxes/{sandbox_id}/tasks/{task}/interrupt")
    api.until(lambda: api.state(sandbox_id) != "busy")


def test_two_at_once_and_the_server_answers_meanwhile(api: Api) -> None:
    one, two = api.create(), api.create()
    endless = api.begin(one, "n = 0\nwhile True: n += 1")
    assert api.state(one) == "busy"
    asked = "api/status?no_track_activity=1"
    before = api.server.get(asked).json["last_activity"]
    api.until(lambda: api.server.get(asked).json["last_activity"] > before)  # nobody takes it for an idle server
    assert api.value(two, "sum(range(10))") == "45"
    started = time.monotonic()
    for _ in range(20):
        api("GET", f"sandboxes/{one}")
    assert time.monotonic() - started < 30
    told = api("POST", f"sandboxes/{one}/tasks", {"code": "1"}, 409)
    assert told["task_id"] == endless and endless in told["detail"]
    assert api("POST", f"sandboxes/{one}/snapshots", {}, 409)["task_id"] == endless
    api("POST", f"sandboxes/{one}/tasks/{endless}/interrupt")
    api.until(lambda: api.state(one) == "idle")
    task = api("GET", f"sandboxes/{one}/tasks/{endless}")
    assert task["outcome"]["kind"] == "interrupted" and task["result"]["error"]["name"] == "KeyboardInterrupt"
    assert int(api.value(one, "n")) > 0  # what it had is still there
    assert api("POST", f"sandboxes/{one}/tasks/{endless}/interrupt")["state"] == "done"  # nothing happens


def test_a_task_that_takes_long_is_answered_before_it_ends(api: Api) -> None:
    sandbox_id = api.create()
    path = f"sandboxes/{sandbox_id}/tasks?wait=0.2"
    running = api("POST", path, {"code": "import time; time.sleep(600)"}, 202)
    assert running["state"] == "running" and running["result"] is None and running["outcome"] is None
    api("POST", f"sandboxes/{sandbox_id}/tasks/{running['task_id']}/interrupt")
    assert api.events(sandbox_id, running["task_id"])[-1]["outcome"]["kind"] == "interrupted"


def test_events_come_as_they_happen_and_again_to_whoever_is_late(api: Api) -> None:
    sandbox_id = api.create()
    task_id = api.begin(sandbox_id, "import time\ntime.sleep(600)\n")
    connection = api.server.connect()
    connection.request(
        "GET", f"{BASE}/{API}/sandboxes/{sandbox_id}/tasks/{task_id}/events", headers=api.server.authorized
    )
    answer = connection.getresponse()
    first = json.loads(answer.readline())
    assert first == {"seq": 1, "type": "stream", "name": "stdout", "text": "begun\n"}
    assert api("GET", f"sandboxes/{sandbox_id}/tasks/{task_id}")["state"] == "running"
    api("POST", f"sandboxes/{sandbox_id}/tasks/{task_id}/interrupt")
    rest = [json.loads(line) for line in answer.read().splitlines() if line]
    connection.close()
    assert [event["type"] for event in rest] == ["error", "done"]
    assert api.events(sandbox_id, task_id) == [first, *rest]
    assert api.events(sandbox_id, task_id, "?after=2") == rest[1:]
    assert api.events(sandbox_id, task_id, "?after=1000") == []


def test_everything_a_cell_can_show(api: Api) -> None:
    sandbox_id = api.create()
    code = """
from IPython.display import display, clear_output
import sys
print('out'); print('err', file=sys.stderr)
handle = display({'text/plain': 'one'}, raw=True, display_id=True)
handle.update({'text/plain': 'two'}, raw=True)
clear_output()
'last'
"""
    task = api.run(sandbox_id, code)
    kinds = {event["type"] for event in api.events(sandbox_id, task["task_id"])}
    assert kinds == {"stream", "display_data", "update_display_data", "clear_output", "execute_result", "done"}
    result = task["result"]
    assert (result["stdout"], result["stderr"], result["displays"]) == ("out\n", "err\n", [{"text/plain": "one"}])
    failed = api.run(sandbox_id, "1/0")
    assert failed["outcome"]["kind"] == "error" and failed["result"]["error"]["name"] == "ZeroDivisionError"
    assert failed["result"]["exit_code"] == 1 and failed["result"]["error"]["traceback"]
    asked = api.run(sandbox_id, "input('name? ')")
    assert asked["result"]["error"]["name"] == "StdinNotImplementedError"
    magic = api.run(sandbox_id, "%pip install nothing")  # the host's magics are for people in notebooks
    assert magic["outcome"]["kind"] == "error"
    listed = api("GET", f"sandboxes/{sandbox_id}/tasks?limit=2")
    assert [t["task_id"] for t in listed["items"]] == [magic["task_id"], asked["task_id"]]
    assert listed["total"] == 4 and listed["next_offset"] == 2 and "result" not in listed["items"][0]


def test_a_fresh_interpreter(api: Api) -> None:
    sandbox_id = api.create()
    api.run(sandbox_id, "x = 1; open('kept', 'w').close()")
    task = api.run(sandbox_id, "'x' in globals(), __import__('os').listdir()", fresh=True)
    assert task["result"]["result"]["text/plain"] == "(False, ['kept'])"
    assert task["result"]["execution_count"] == 1


def test_busy_keeps_it_and_idle_lets_it_go(api: Api) -> None:
    sandbox_id, never = api.create(idle_timeout_seconds=1), api.create(idle_timeout_seconds=0)
    assert api("POST", f"sandboxes/{sandbox_id}/busy")["state"] == "busy"
    api.run(sandbox_id, "x = 1")
    time.sleep(2.5)
    assert api.state(never) == "ready"
    api("DELETE", f"sandboxes/{never}?snapshot=false")
    shown = api("GET", f"sandboxes/{sandbox_id}")
    assert shown["state"] == "busy" and shown["idle_seconds"] is None and shown["task_id"] is None
    assert api("POST", f"sandboxes/{sandbox_id}/idle")["state"] == "idle"
    api.until(lambda: api.state(sandbox_id) == "released")
    assert api("POST", f"sandboxes/{sandbox_id}/idle")["state"] == "released"  # nothing to do
    assert api("POST", f"sandboxes/{sandbox_id}/busy")["state"] == "busy"  # back in memory
    assert api.value(sandbox_id, "x") == "1"
    api("POST", f"sandboxes/{sandbox_id}/idle")


def test_no_more_than_there_is_room_for(api: Api) -> None:
    made = [api.create() for _ in range(4)]
    for sandbox_id in made:
        api("POST", f"sandboxes/{sandbox_id}/busy")
    refused = api.raw("POST", "sandboxes", {})
    assert refused.status == 429 and "at most 4 sandboxes" in refused.json["detail"] and refused.headers["Retry-After"]
    api.run(made[1], "x = 'kept'")
    api("POST", f"sandboxes/{made[1]}/idle")
    another = api.create()  # the idle one goes for it, though its time is not over
    assert api.state(made[1]) == "released" and api("GET", "usage")["live_here"] == 4
    assert api.value(made[1], "x") == "'kept'"  # and now the other goes for this one
    assert api.state(another) == "released"
    for sandbox_id in made:
        api("POST", f"sandboxes/{sandbox_id}/idle")


def test_the_administrators_maxima_hold(api: Api) -> None:
    for limits, said in (
        ({"memory": 2 << 30}, "limits.memory is 2147483648; it must be a whole number from 335,544,320 to 1,073,741,824"),
        ({"timeout": None}, "limits.timeout is null; it must be a number from 0.001 to 3,600"),
        ({"output": 1 << 40}, "limits.output"),
        ({"speed": 1}, "limits: unknown field 'speed'; known fields: memory, timeout"),
    ):  # fmt: skip
        assert said in api("POST", "sandboxes", {"limits": limits}, 400)["detail"]
    assert api("GET", "openapi.json")["paths"]["/sandboxes"]["post"]["requestBody"]["content"]["application/json"][
        "schema"
    ]["properties"]["limits"]["properties"]["memory"]["maximum"] == 1 << 30  # fmt: skip
    sandbox_id = api.create(limits={"timeout": 0.3, "memory": 400 << 20}, idle_timeout_seconds=1)
    assert api("GET", f"sandboxes/{sandbox_id}")["limits"]["timeout"] == 0.3
    assert api.run(sandbox_id, "while True: pass")["outcome"]["kind"] == "time_limit"
    assert api.run(sandbox_id, "x = bytearray(300 << 20)")["result"]["error"]["name"] == "MemoryError"
    api.until(lambda: api.state(sandbox_id) == "released")
    assert api.run(sandbox_id, "while True: pass")["outcome"]["kind"] == "time_limit"  # remembered


def test_a_snapshot_too_large_for_a_sandbox(api: Api) -> None:
    sandbox_id = api.create()
    api.run(sandbox_id, "x = bytearray(400 << 20)")
    saved = api("POST", f"sandboxes/{sandbox_id}/snapshots", {}, 201)["snapshot_id"]
    wanted = {"snapshot_id": saved, "limits": {"memory": 400 << 20}}
    before = api("GET", "usage")["sessions"]
    assert "bytes of memory" in api("POST", "sandboxes", wanted, 409)["detail"]
    assert api("GET", "usage")["sessions"] == before  # nothing is left of it


def test_deleting_stops_what_does_not_want_to_stop(api: Api) -> None:
    sandbox_id = api.create()
    api.run(sandbox_id, "x = 'before'")
    stubborn = "while True:\n  try:\n    x = 'during'\n    while True: pass\n  except BaseException: pass"
    task_id = api.begin(sandbox_id, stubborn)
    deleted = api("DELETE", f"sandboxes/{sandbox_id}")
    assert deleted["state"] == "deleted"
    task = api("GET", f"sandboxes/{sandbox_id}/tasks/{task_id}")
    how = task["outcome"]
    assert how["kind"] == "interrupted" or how["cause"] == "SandboxClosed"  # the first: it was not stubborn yet
    again = api.create(snapshot_id=deleted["snapshot_id"])
    assert api.value(again, "x") == "'before'"


def test_deleting_without_a_snapshot(api: Api) -> None:
    sandbox_id = api.create(idle_timeout_seconds=1)
    api.run(sandbox_id, "x = 1")
    api.until(lambda: api.state(sandbox_id) == "released")
    deleted = api("DELETE", f"sandboxes/{sandbox_id}?snapshot=false")
    assert deleted["state"] == "deleted" and deleted["snapshot_id"] is None


def test_snapshots_are_listed_and_deleted(api: Api) -> None:
    sandbox_id = api.create(idle_timeout_seconds=1)
    ids = [api("POST", f"sandboxes/{sandbox_id}/snapshots", {"label": f"n{n}"}, 201)["snapshot_id"] for n in range(3)]
    listed = api("GET", f"sandboxes/{sandbox_id}/snapshots?trigger=user&limit=2")
    assert [s["snapshot_id"] for s in listed["items"]] == [ids[2], ids[1]] and listed["total"] == 3
    rest = api("GET", f"sandboxes/{sandbox_id}/snapshots?trigger=user&limit=2&offset={listed['next_offset']}")
    assert [s["snapshot_id"] for s in rest["items"]] == [ids[0]] and rest["next_offset"] is None
    assert api("GET", f"sandboxes/{sandbox_id}/snapshots?trigger=session_close")["total"] == 0
    assert set(ids) <= {s["snapshot_id"] for s in api("GET", "snapshots?limit=1000")["items"]}
    api.until(lambda: api.state(sandbox_id) == "released")  # while it is live, they stay
    api("DELETE", f"snapshots/{ids[1]}", status=204)
    assert api("GET", f"snapshots/{ids[1]}", status=404)["detail"] == f"there is no snapshot {ids[1]}"
    api("DELETE", f"snapshots/{ids[1]}", status=404)
    api("POST", "sandboxes", {"snapshot_id": ids[1]}, 404)
    assert api.value(sandbox_id, "1") == "1"


def test_what_a_task_leaves_replaces_what_the_one_before_left(api: Api) -> None:
    sandbox_id = api.create()
    for n in range(5):
        api.run(sandbox_id, f"x = {n}")

    def checkpoints() -> list[Any]:
        return list(api("GET", f"sandboxes/{sandbox_id}/snapshots?trigger=checkpoint")["items"])

    api.until(
        lambda: [found["execution_count"] for found in checkpoints()] == [6]
    )  # the last is there before the one before goes


def test_filters_and_pages(api: Api) -> None:
    made = api.create(title="Find ME")
    api("POST", f"sandboxes/{made}/busy")
    found = api("GET", "sandboxes?q=find%20me")
    assert [s["sandbox_id"] for s in found["items"]] == [made]
    assert made not in [s["sandbox_id"] for s in api("GET", "sandboxes?unused_for_seconds=100000")["items"]]
    busy = api("GET", "sandboxes?state=busy&limit=1000")["items"]
    assert {s["state"] for s in busy} == {"busy"} and made in [s["sandbox_id"] for s in busy]
    assert made not in [s["sandbox_id"] for s in api("GET", "sandboxes?state=idle&state=ready&limit=1000")["items"]]
    pages = []
    offset: int | None = 0
    while offset is not None:
        page = api("GET", f"sandboxes?limit=3&offset={offset}")
        pages += [s["sandbox_id"] for s in page["items"]]
        offset = page["next_offset"]
    assert sorted(pages) == sorted(s["sandbox_id"] for s in api("GET", "sandboxes?limit=1000")["items"])
    api("DELETE", f"sandboxes/{made}?snapshot=false")
    assert made not in [s["sandbox_id"] for s in api("GET", "sandboxes?limit=1000")["items"]]
    assert made in [s["sandbox_id"] for s in api("GET", "sandboxes?state=deleted&limit=1000")["items"]]
