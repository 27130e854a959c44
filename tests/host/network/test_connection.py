"""A connection by itself: what a guest may know of the other end, and what it still reads of it."""

from __future__ import annotations

import socket
import threading
from typing import Any

import pytest

from wasm_kernel.host.network import connection
from wasm_kernel.host.network.connection import MOST_AT_ONCE, Connection
from wasm_kernel.host.network.opening import BackgroundStep


class Secured:
    """An encrypted socket whose other end showed a certificate."""

    def __init__(self, size: int) -> None:
        self._size = size

    def getpeercert(self, binary_form: bool = False) -> Any:
        return b"x" * self._size if binary_form else {"subject": ()}

    version = cipher = selected_alpn_protocol = lambda self: None


@pytest.mark.parametrize(("size", "told"), [(0, True), (64 << 10, True), ((64 << 10) + 1, False)])
def test_a_certificate_of_any_size_goes_into_an_answer(size: int, told: bool) -> None:
    found = connection._description(Secured(size))  # type: ignore[arg-type]
    assert bool(found["peer"]) is told
    assert len(found["certificate"]) == (-(-size // 3) * 4 if told else 0)


def test_what_arrived_is_read_although_nothing_more_can_be_sent() -> None:
    """A server that says why it takes no more of an upload, and closes."""
    here, there = socket.socketpair()
    here.setblocking(False)
    done = threading.Event()
    made = Connection("a.org", 80, BackgroundStep(lambda: here, "a.org:80", done.set, socket.socket.close), done.set)
    assert done.wait(60)
    with there:
        while made.send(bytes(MOST_AT_ONCE)) is not None:
            pass
        there.sendall(b"HTTP/1.1 413 Too large")
    assert made.receive(100) == b"HTTP/1.1 413 Too large"
    made.close()


def test_what_nobody_waits_for_any_more_is_closed_when_it_is_there() -> None:
    here, there = socket.socketpair()
    go, done = threading.Event(), threading.Event()
    step = BackgroundStep(lambda: here if go.wait(60) else here, "a.org:80", done.set, socket.socket.close)
    made = Connection("a.org", 80, step, done.set)
    made.close()
    assert here.fileno() != -1
    go.set()
    assert done.wait(60)
    assert here.fileno() == -1
    there.close()
