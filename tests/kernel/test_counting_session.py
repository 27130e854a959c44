"""Messages of a kernel: ids of their own, and a request's header as it was in all that is sent about it."""

from __future__ import annotations

from typing import Any

from jupyter_client.session import Session

from wasm_kernel.kernel.counting_session import CountingSession


def received(session: Session, frames: list[bytes]) -> dict[str, Any]:
    return session.deserialize(session.feed_identities(frames)[1])


def test_every_answer_names_its_own_request() -> None:
    kernel, client = CountingSession(key=b"k"), Session(key=b"k")
    requests = [received(kernel, client.serialize(client.msg("execute_request", {"code": code}))) for code in "ab"]
    ids = set()
    for request in (*requests, *requests):
        for _ in range(2):
            answer = received(client, kernel.serialize(kernel.msg("status", {"n": 1}, parent=request)))
            assert answer["parent_header"] == request["header"]
            ids.add(answer["header"]["msg_id"])
    assert len(ids) == 8


def test_what_only_looks_like_a_header_is_packed_as_it_is_now() -> None:
    kernel = CountingSession(key=b"k")
    content = {"msg_id": "1", "session": "other"}
    first = kernel.pack(content)
    content["msg_id"] = "2"
    assert kernel.pack(content) != first
