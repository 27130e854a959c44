"""Frames that take long to read. While one is decoded the other threads go on: time limits, interrupts, a server."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from wasm_kernel import ExecutionPolicy, OutcomeKind, create_sandbox
from wasm_kernel.guest import wire

_MOST = wire.MAX_HEADER_BYTES
_VALUES = wire.MAX_HEADER_VALUES - 100
_SECONDS = 1.0  # for the largest frame; this machine takes 0.3 s for the worst


def _shown(value: bytes) -> bytes:
    return b'{"type":"DisplayData","metadata":{},"transient":{},"data":{"x":' + value + b"}}"


def _filled(before: bytes, unit: bytes, after: bytes = b"", most: int = _MOST) -> bytes:
    return before + unit * ((most - len(before) - len(after)) // len(unit)) + after


def _frame(header: bytes) -> bytes:
    return len(header).to_bytes(4, "little") + header


# Each as long as a header may be, or with as many values, or with more of both than is let through.
_WORST: dict[str, Callable[[], bytes]] = {
    "brackets and a string without end": lambda: _filled(b"[" * 2_000_001 + b'"', b'\\"'),
    "the same beyond all limits": lambda: _filled(b"[" * 2_000_001 + b'"', b'\\"', most=80 << 20),
    "commas in a string without end": lambda: _filled(_shown(b"")[:-2] + b'"', b",\\n"),
    "commas in a string": lambda: _filled(_shown(b"")[:-2] + b'"', b",\\n", b'"}}'),
    "escapes": lambda: _filled(_shown(b"")[:-2] + b'"', b"a\\n", b'"}}'),
    "half characters": lambda: _filled(_shown(b"")[:-2] + b'"', b"\\ud834", b'"}}'),
    "many strings": lambda: _filled(b'["', b'","'),
    "strings side by side": lambda: _filled(b"", b'""'),
    "many names": lambda: _shown(b"{%s}" % b",".join(b'"%d\\u1234":""' % i for i in range(_VALUES // 2))),
    "many names of half characters": lambda: _shown(
        b"{%s}" % b",".join(b'"%d\\ud834":""' % i for i in range(_VALUES // 2))
    ),
    "lists in lists": lambda: _shown(b"[" * 150 + b"[[[[[[[[[[]]]]]]]]]]," * (_VALUES // 11) + b"0" + b"]" * 150),
    "long whole numbers": lambda: _filled(_shown(b"")[:-2] + b"[", b"9" * 999 + b",", b"0]}}"),
    "longer whole numbers": lambda: _filled(_shown(b"")[:-2] + b"[", b"9" * 4299 + b",", b"0]}}"),
    "fractions": lambda: _shown(b"[%s0]" % (b"0.1234567890123456789012345," * _VALUES)),
    "a fraction": lambda: _filled(_shown(b"")[:-2] + b"0.", b"1", b"}}"),
    "blanks": lambda: _filled(_shown(b"")[:-2], b" ", b"0}}"),
    "wide characters": lambda: _filled(_shown(b"")[:-2] + b'"', "\N{GRINNING FACE}".encode(), b'"}}'),
}


@contextmanager
def _another_thread() -> Iterator[list[float]]:
    """Its pauses, the longest last, once it is over: how much this process worked meanwhile, however busy the machine."""
    pauses: list[float] = []
    over = threading.Event()

    def tick() -> None:
        last = time.process_time()
        while not over.is_set():
            time.sleep(0.001)
            now = time.process_time()
            pauses.append(now - last)
            last = now

    thread = threading.Thread(target=tick)
    thread.start()
    try:
        yield pauses
    finally:
        over.set()
        thread.join()
        pauses.sort()


def _seconds(frame: bytes) -> float:
    began = time.thread_time()
    try:
        wire.decode_event(frame)
    except wire.BadFrame:
        pass
    return time.thread_time() - began


@pytest.mark.parametrize("make", _WORST.values(), ids=_WORST)
def test_the_worst_frame_takes_less_than_a_second(make: Callable[[], bytes]) -> None:
    frame = _frame(make())
    with _another_thread() as pauses:
        seconds = min(_seconds(frame) for _ in range(2))
    assert seconds < _SECONDS
    assert pauses[-1] < _SECONDS / 2


@pytest.mark.parametrize("unit", [b'\\"', b"\\n,", b'\\\\"', b'["'])
def test_time_grows_with_length_and_no_faster(unit: bytes) -> None:
    def seconds(count: int) -> float:
        frame = _frame(b"[" * 2_000_001 + b'"' + unit * count)
        return min(_seconds(frame) for _ in range(3))

    small, large = seconds(500_000), seconds(2_000_000)
    assert large < 10 * max(small, 0.01)


def test_a_flood_of_such_frames_stops_no_time_limit(tmp_path: Path) -> None:
    policy = ExecutionPolicy(timeout_seconds=2.0, interrupt_grace_seconds=1.0)
    with create_sandbox(policy=policy, workspace=tmp_path) as sandbox:
        sandbox.execute("1")
        with _another_thread() as pauses:
            result = sandbox.execute(
                "import _host\n"
                "h = b'[' * 2_000_001 + b'\"' + b'\\\\\"' * 32_000\n"
                "while True:\n"
                "    try: _host.call(len(h).to_bytes(4, 'little') + h)\n"
                "    except OSError: pass\n"
            )
        assert result.outcome.kind is OutcomeKind.TIME_LIMIT
        assert pauses[-1] < _SECONDS


def test_what_is_large_and_honest_is_shown(tmp_path: Path) -> None:
    with create_sandbox(workspace=tmp_path) as sandbox:
        result = sandbox.execute(
            "row = '<tr><td>1, [2]: {3}</td><td>\"ä\\\\\"</td></tr>\\n'\n"
            "display({'text/html': row * 300_000, 'application/json': {'a': [1, {'b': row * 5_000}, row], 1: row}},\n"
            "        raw=True)"
        )
    (shown,) = result.displays
    row = '<tr><td>1, [2]: {3}</td><td>"ä\\"</td></tr>\n'
    assert shown["text/html"] == row * 300_000
    assert shown["application/json"] == {"a": [1, {"b": row * 5_000}, row], "1": row}
    assert not result.stderr


def test_who_sends_too_many_values_is_told(tmp_path: Path) -> None:
    with create_sandbox(workspace=tmp_path) as sandbox:
        result = sandbox.execute("display({'application/json': {'a': [0] * 600_000}}, raw=True)")
    assert not result.displays
    assert f"it holds more than {wire.MAX_HEADER_VALUES} values" in result.stderr
