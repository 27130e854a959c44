"""Who may use the API, what it refuses and how it says so, and what hostile guests and clients get."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from tests.server.conftest import API, Api, Server, strict_json
from tests.sessions.helpers import make_session
from wasm_kernel.model.policy import ExecutionPolicy
from wasm_kernel.server.api.task_store import MAX_STORED
from wasm_kernel.server.api.tasks import MAX_BYTES
from wasm_kernel.server.api.views import Terms
from wasm_kernel.sessions.snapshots import list_snapshots

UNKNOWN = "3f2a9c01-5b6e-4c1d-9a77-0d5f3c2b1a00"


def operations(api: Api) -> list[tuple[str, str, str]]:
    """Method, path and id of all."""
    found = []
    for path, item in api("GET", "openapi.json")["paths"].items():
        for method, described in item.items():
            if method != "parameters":
                found.append((method.upper(), re.sub(r"{\w+}", UNKNOWN, path)[1:], described["operationId"]))
    return found


def test_nothing_without_the_token(api: Api) -> None:
    asked = operations(api)
    assert len(asked) == 22
    for method, path, _ in asked:
        for headers in ({}, {"Authorization": "token wrong"}):
            answer = api.server.request(method, f"{API}/{path}", body=b"{}", headers=headers, login=False)
            assert answer.status == 403, (method, path)
            assert answer.headers["Content-Type"] == "application/problem+json" and answer.json["detail"]


def test_nothing_that_the_authorizer_forbids(api: Api) -> None:
    for method, path, name in operations(api):
        action = "execute" if name in ("createTask", "interruptTask") else "read" if method == "GET" else "write"
        body = {"code": "1"} if name == "createTask" else None
        told = api(method, path, body, 403, X_Test_Forbid=action)
        assert told["detail"] == f"User is not authorized to {action} on resource: wasm_kernel."


def test_a_cookie_alone_changes_nothing(api: Api) -> None:
    """Another site's page has the cookie, but not what proves that the request is ours."""
    connection = api.server.connect()
    connection.request("GET", f"/user/ann/api/status?token={api.server.token}")
    answer = connection.getresponse()
    answer.read()
    cookies = "; ".join(c.partition(";")[0] for c in answer.headers.get_all("Set-Cookie") or ())
    connection.close()
    headers = {"Cookie": cookies}
    assert api.server.request("GET", f"{API}/usage", headers=headers, login=False).status == 200
    answer = api.server.request("POST", f"{API}/sandboxes", headers=headers, login=False)
    assert answer.status == 403 and "_xsrf" in answer.json["detail"]


def test_what_is_not_there(api: Api) -> None:
    for method, path, name in operations(api):
        if UNKNOWN in path:
            body = {"code": "1"} if name == "createTask" else None
            assert UNKNOWN in api(method, path, body, 404)["detail"]
    for path in ("", "/", "/sandboxes/", "/tasks", "/sandboxes/a/b", "/prune", "/prune/all"):
        assert "openapi.json describes what it has" in api("GET", path[1:] if path else "?", status=404)["detail"]
    for name in ("..", "%2e%2e", "a%2fb", "%00", "a" * 200, ".wasm-kernel", "%ff", "x%20y"):
        api("POST", f"sandboxes/{name}/tasks", {"code": "1"}, 404)
        api("GET", f"sandboxes/{name}", status=404)
        api("DELETE", f"sandboxes/{name}", status=404)
        api("GET", f"snapshots/{name}", status=404)


def test_methods_that_are_none(api: Api) -> None:
    for path, allowed in {
        "usage": "GET, OPTIONS",
        "sandboxes": "GET, POST, OPTIONS",
        "prune/plan": "POST, OPTIONS",
    }.items():
        answer = api.raw("PUT", path, {})
        assert answer.status == 405 and answer.headers["Allow"] == allowed
        assert answer.headers["Content-Type"] == "application/problem+json"


@pytest.mark.parametrize(
    ("path", "body", "said"),
    [
        ("sandboxes", {"idle_timeout_seconds": -1}, "idle_timeout_seconds is -1; it must be a whole number from 0 to"),
        ("sandboxes", {"idle_timeout_seconds": 1.5}, "idle_timeout_seconds is 1.5; it must be a whole number"),
        ("sandboxes", {"idle_timeout_seconds": True}, "idle_timeout_seconds is true"),
        ("sandboxes", {"snapshot_id": "../x"}, "snapshot_id is \"../x\"; it must be text such as '3f2a9c01-"),
        ("sandboxes", {"title": "x" * 201}, "it must be text of at most 200 characters"),
        ("sandboxes", {"limits": {"timeout": "1h"}}, 'limits.timeout is "1h"; it must be a number from 0.001 to'),
        ("sandboxes", {"name": "x"}, "unknown field 'name'; known fields: snapshot_id, idle_timeout_seconds"),
        ("sandboxes", [], "the body is []; it must be an object"),
        ("sandboxes", b"{", "the body is not JSON"),
        ("sandboxes", b'{"title": NaN}', "the body is not JSON: it holds NaN"),
        ("sandboxes", b'{"idle_timeout_seconds": 1e999}', "too large"),
        ("sandboxes", b'{"title": "' + b"\xff" + b'"}', "the body is not JSON"),
        ("sandboxes", b'{"limits":' * 5000, "the body is not JSON"),
        ("sandboxes", b"[" * 500 + b"]" * 500, "nested deeper"),
        (f"sandboxes/{UNKNOWN}/tasks", {}, "'code' is a required property of the body"),
        (f"sandboxes/{UNKNOWN}/tasks", {"code": "x" * 200_001}, "at most 200,000 characters"),
        (f"sandboxes/{UNKNOWN}/tasks?wait=601", {"code": "1"}, "wait is 601.0; it must be a number from 0 to 600"),
        (f"sandboxes/{UNKNOWN}/tasks?wait=x", {"code": "1"}, 'wait is "x"'),
        (f"sandboxes/{UNKNOWN}/tasks?wait=1&wait=2", {"code": "1"}, "wait is given 2 times"),
        (f"sandboxes/{UNKNOWN}/snapshots", {"metadata": 3}, "metadata is 3; it must be an object"),
        ("prune/plan", {"max_age_hours": "soon"}, "it must be a number from 0 to"),
        ("prune/plan", {"max_total_bytes": "1 parsec"}, "text such as '1.5G'"),
        ("prune/plan", {"keep": ["../x"]}, "keep.0 is"),
        ("prune/plan", {"archive": "/etc"}, 'archive is "/etc"; it must be true or false'),
    ],
)  # fmt: skip
def test_wrong_fields_are_named(api: Api, path: str, body: Any, said: str) -> None:
    assert said in api("POST", path, body, 400)["detail"]


def test_wrong_queries_are_named(api: Api) -> None:
    for query, said in {
        "limit=0": "limit is 0; it must be a whole number from 1 to 1,000",
        "limit=1001": "limit is 1001",
        "offset=-1": "offset is -1",
        "offset=": 'offset is ""',
        "state=asleep": "state.0 is \"asleep\"; it must be one of ready, busy, idle, released, deleted",
        "q=" + "x" * 201: "at most 200 characters",
        "stat=busy": "unknown argument 'stat'; known arguments: state, q",
    }.items():  # fmt: skip
        assert said in api("GET", f"sandboxes?{query}", status=400)["detail"]
    api("GET", "sandboxes?no_track_activity=1")  # Jupyter Server's own


def test_bodies_of_the_wrong_kind_or_size(api: Api) -> None:
    assert "must be application/json" in api("POST", "sandboxes", b"a=b", 415, Content_Type="text/plain")["detail"]
    assert "at most 4,194,304" in api("POST", "sandboxes", b" " * (5 << 20), 413)["detail"]
    sandbox_id = api.create()
    large = {f"k{n}": "x" * 10_000 for n in range(10)}
    assert "65,536" in api("POST", f"sandboxes/{sandbox_id}/snapshots", {"metadata": large}, 413)["detail"]


def test_no_browser_runs_what_is_answered(api: Api) -> None:
    sandbox_id = api.create(title="<script>")
    task = api.run(sandbox_id, "print('<script>alert(1)</script>')")
    for path in (f"sandboxes/{sandbox_id}", f"sandboxes/{sandbox_id}/tasks/{task['task_id']}/events", "nothing"):
        headers = api.raw("GET", path).headers
        assert headers["X-Content-Type-Options"] == "nosniff"
        assert headers["Content-Security-Policy"].startswith("sandbox; default-src 'none'")
        assert headers["Cache-Control"] == "no-store"


def test_the_document_needs_nothing_that_runs_guests(server: Server) -> None:
    assert server.get(f"{API}/openapi.json").json["openapi"] == "3.1.0"
    assert "wasmtime" not in Path(f"/proc/{server.process.pid}/maps").read_text()


# ---- what guests say


def test_json_is_valid_whatever_a_guest_says(api: Api) -> None:
    sandbox_id = api.create()
    code = r"""
import os, sys, json
from IPython.display import display
display({'application/json': {'n': float('nan'), 'i': [float('inf')], 's': '\ud800', '\udfff': 1}}, raw=True)
print('\ud83d', '\u2028', '\0')
sys.stdout.flush()
os.write(1, b'\xff\xfe\n')
raise ValueError('\ud800')
"""
    task = api.run(sandbox_id, code)  # read strictly
    assert task["result"]["displays"][0]["application/json"]["n"] is None
    assert task["result"]["displays"][0]["application/json"]["i"] == [None]
    assert api.events(sandbox_id, task["task_id"])[-1]["type"] == "done"
    assert task["result"]["error"]["name"] == "ValueError"


def test_a_guest_that_says_too_much(api: Api) -> None:
    sandbox_id = api.create()
    task_id = api.begin(sandbox_id, "for n in range(8): print('\\x01' * 1_000_000)\nprint('end')")
    api.until(lambda: api.state(sandbox_id) == "idle")
    answer = api.raw("GET", f"sandboxes/{sandbox_id}/tasks/{task_id}/events")
    assert len(answer.body) < MAX_BYTES + 10_000
    kinds = [strict_json(line)["type"] for line in answer.body.splitlines()]
    assert kinds[-2:] == ["truncated", "done"] and kinds.count("truncated") == 1
    task = api("GET", f"sandboxes/{sandbox_id}/tasks/{task_id}")
    assert task["truncated"] and "end" not in task["result"]["stdout"] and task["outcome"]["kind"] == "ok"


def test_old_tasks_are_on_the_disk_only_and_shorter(api: Api) -> None:
    sandbox_id = api.create()
    loud = "for n in range(3): print('\\x01' * 900_000)"
    tasks = [api.run(sandbox_id, loud)["task_id"] for _ in range(10)]
    listed = api("GET", f"sandboxes/{sandbox_id}/tasks")["items"]
    assert [t["task_id"] for t in listed] == tasks[::-1]
    assert (listed[0]["truncated"], listed[-1]["truncated"]) == (False, True)
    newest, oldest = (api("GET", f"sandboxes/{sandbox_id}/tasks/{i}") for i in (tasks[-1], tasks[0]))
    assert len(newest["result"]["stdout"]) == 3 * 900_001
    assert 100_000 < len(oldest["result"]["stdout"]) < MAX_STORED // 6  # six bytes of JSON each
    assert oldest["truncated"] and oldest["outcome"]["kind"] == "ok"


def test_metadata_that_asks_for_too_much(tmp_path: Path) -> None:
    """A session may come from elsewhere, with whatever its metadata says."""
    terms = Terms(ExecutionPolicy(), {"memory": 1 << 30}, 900)
    for asked, timeout in (
        ({"idle_timeout_seconds": 5, "limits": {"memory": 4 << 30}}, 5),
        ({"idle_timeout_seconds": -5, "limits": {"memory": "lots"}}, 900),
        ({"idle_timeout_seconds": True, "limits": {"nothing": 1}}, 900),
        ({"idle_timeout_seconds": 1e99, "limits": {"memory": 10**400}}, 900),
        ({"limits": []}, 900),
        ("x", 900),
    ):
        wishes = terms.wishes(tmp_path / make_session(tmp_path, sandbox=asked))
        assert wishes.idle_timeout == timeout
        assert wishes.policy.memory_bytes in (1 << 30, ExecutionPolicy().memory_bytes)
    assert (
        terms.wishes(tmp_path / make_session(tmp_path, sandbox={"limits": {"memory": 4 << 30}})).policy.memory_bytes
        == 1 << 30
    )


def test_a_clients_text_does_not_break_anything(api: Api) -> None:
    sandbox_id = api.create(title="\x00\ud800\u202e")
    label = '\ud83d"\n</script>'
    saved = api("POST", f"sandboxes/{sandbox_id}/snapshots", {"label": label, "metadata": {"\ud800": "\ud800"}}, 201)
    assert saved["label"] == '?"\n</script>' and saved["metadata"] == {"?": "?"}
    assert list_snapshots(api.server.root, sandbox_id)[0].label == saved["label"]
    task = api("POST", f"sandboxes/{sandbox_id}/tasks?wait=100", json.dumps({"code": "'\ud800\x00'"}).encode())
    assert task["outcome"]["kind"] in ("ok", "error")
