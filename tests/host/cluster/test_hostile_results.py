"""What comes back from a cluster is data: checked, capped, never unpickled. Milliseconds, no cluster."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from typing import Any

import pytest

from wasm_kernel.guest import wire
from wasm_kernel.guest.wire import BadFrame
from wasm_kernel.host.cluster import frames
from wasm_kernel.host.cluster.frames import DONE, MISSING, Call, CallOutcome, Description
from wasm_kernel.host.store.packs import HASH
from wasm_kernel.model.policy import ExecutionPolicy

POLICY = ExecutionPolicy()


class Bomb:
    """What would be found out if it were unpickled."""

    exploded = 0

    def __reduce__(self) -> Any:
        return _explode, ()


def _explode() -> None:
    Bomb.exploded += 1


def header(**changes: Any) -> dict[str, Any]:
    found = {name: getattr(CallOutcome(DONE), name) for name in frames._OUTCOME}
    return {**found, **changes}


def test_what_was_said_is_read_back() -> None:
    outcome = CallOutcome(DONE, "", 1, b"\0data", "out", "err\udcff", 1.5, True, True, "tcp://a:1")
    assert CallOutcome.decode(outcome.encode(), POLICY) == CallOutcome(
        DONE, "", 1, b"\0data", "out", "err?", 1.5, True, True, "tcp://a:1"
    )
    assert CallOutcome.decode(CallOutcome(MISSING, data=b"a" * 64).encode(), POLICY).missing == [b"a" * HASH] * 2
    assert Call.decode(Call(7, b"x", 2.0).encode()) == Call(7, b"x", 2.0)


@pytest.mark.parametrize(
    "data",
    [
        pickle.dumps(Bomb()),
        Bomb(),
        bytearray(CallOutcome(DONE).encode()),
        b"",
        b"\0" * 100,
        CallOutcome(DONE).encode() + b"\0",
        wire.encode(header(kind="dance"), (b"", b"", b"")),
        wire.encode(header(kind=1), (b"", b"", b"")),
        wire.encode(header(status=3), (b"", b"", b"")),
        wire.encode(header(status=True), (b"", b"", b"")),
        wire.encode(header(cpu_seconds=-1.0), (b"", b"", b"")),
        wire.encode(header(cpu_seconds=float("nan")), (b"", b"", b"")),
        wire.encode(header(cpu_seconds=0), (b"", b"", b"")),
        wire.encode(header(text="x" * 5000), (b"", b"", b"")),
        wire.encode(header(worker="x" * 500), (b"", b"", b"")),
        wire.encode(header(changed_files=1), (b"", b"", b"")),
        wire.encode(header(more=1), (b"", b"", b"")),
        wire.encode(header(), (b"", b"")),
        wire.encode(header(kind=MISSING), (b"a" * 33, b"", b"")),
    ],
)
def test_a_forged_result_is_refused(data: object) -> None:
    with pytest.raises(BadFrame):
        CallOutcome.decode(data, POLICY)
    assert not Bomb.exploded


def test_results_and_calls_have_a_largest_size(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(wire, "MAX_RESULT_BYTES", 1000)
    assert CallOutcome.decode(CallOutcome(DONE, data=b"x" * 1000).encode(), POLICY).data
    with pytest.raises(BadFrame):
        CallOutcome.decode(CallOutcome(DONE, data=b"x" * 1001).encode(), POLICY)
    small = ExecutionPolicy(stdout_max_bytes=0, stderr_max_bytes=0)
    with pytest.raises(BadFrame):
        CallOutcome.decode(CallOutcome(DONE, stdout="x" * (2 << 20)).encode(), small)
    monkeypatch.setattr(wire, "MAX_TASK_BYTES", 1000)
    with pytest.raises(BadFrame):
        Call.decode(Call(1, b"x" * (2 << 20)).encode())


@pytest.mark.parametrize(
    "change",
    [
        lambda header: header.update(policy={"memory_bytes": 1}),
        lambda header: header.update(policy={"env": {"A": "b"}}),
        lambda header: header.update(policy={"network": ["example.org"]}),
        lambda header: header.update(policy=[]),
        lambda header: header.update(stack_pointer=1 << 40),
        lambda header: header.update(function=-1),
        lambda header: header.pop("era"),
        lambda header: header.update(session=1),
    ],
)
def test_a_description_of_anything_else_is_refused(change: Callable[[dict[str, Any]], Any]) -> None:
    from wasm_kernel.host.cluster.captured_fork import _head
    from wasm_kernel.model.snapshots import Manifest

    good = Description(Manifest(_head("k", 65536)), Manifest(_head("k", 0)), 1, 2, 3, 4, POLICY, "s").encode()
    assert Description.decode(good).policy.memory_bytes == POLICY.memory_bytes
    found, parts = wire.decode(good)
    change(found)
    with pytest.raises(ValueError):
        Description.decode(wire.encode(found, parts))


def test_what_a_worker_says_of_itself_is_texts_or_nothing() -> None:
    assert frames.identity(b'{"key": "a", "more": 1, "problem": ["x"]}') == {"key": "a"}
    assert frames.identity(pickle.dumps(Bomb())) == {}
    assert frames.identity(b"[" * 10_000) == {}
