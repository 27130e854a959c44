"""Steps on threads of their own: what nobody waits for any more is closed, whenever it is done."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable

import pytest

from wasm_kernel.host.network import opening
from wasm_kernel.host.network.faults import Fault
from wasm_kernel.host.network.opening import BackgroundStep


@pytest.fixture
def made() -> list[str]:
    """What was thrown away."""
    return []


def step(work: Callable[[], str], made: list[str]) -> tuple[BackgroundStep[str], threading.Event]:
    done = threading.Event()
    return BackgroundStep(work, "a.org:443", done.set, made.append), done


def test_abandoned_before_it_is_done(made: list[str]) -> None:
    go = threading.Event()
    begun, done = step(lambda: str(go.wait(60)), made)
    begun.abandon()
    assert (begun.running, made) == (True, [])
    go.set()
    assert done.wait(60)
    assert (begun.running, made) == (False, ["True"])


def test_abandoned_after_it_is_done(made: list[str]) -> None:
    begun, done = step(lambda: "socket", made)
    assert done.wait(60)
    begun.abandon()
    assert made == ["socket"]


def test_what_went_wrong_is_told(made: list[str]) -> None:
    def fail() -> str:
        raise ConnectionRefusedError("/secret/path")

    begun, done = step(fail, made)
    assert done.wait(60)
    with pytest.raises(Fault, match=r"a\.org:443 refused the connection"):
        begun.result()
    begun.abandon()
    assert made == []


def test_each_address_has_its_share_of_the_time(monkeypatch: pytest.MonkeyPatch) -> None:
    given: list[float | None] = []

    class Deaf(socket.socket):
        def connect(self, address: object) -> None:
            given.append(self.gettimeout())
            raise TimeoutError

    monkeypatch.setattr(socket, "socket", Deaf)
    found = [(f"203.0.113.{n}", socket.AF_INET) for n in range(4)]
    with pytest.raises(TimeoutError):
        opening._first(found, 443, opening.time.monotonic() + 8)
    assert [round(seconds or 0) for seconds in given] == [2, 3, 4, 8]


def test_out_of_time() -> None:
    with pytest.raises(TimeoutError):
        opening._left(opening.time.monotonic())
