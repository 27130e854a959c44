"""Names become addresses once, and each is judged before any is dialled."""

from __future__ import annotations

import socket
from typing import Any

import pytest

from wasm_kernel.host.network import resolving
from wasm_kernel.host.network.faults import Fault
from wasm_kernel.model.network_grants import Reach, parse_all

REACH = Reach(parse_all(["a.org", "10.0.0.1"]))


def addresses(monkeypatch: pytest.MonkeyPatch, *found: str, name: str = "a.org") -> list[str]:
    """What is dialled for what a look-up finds."""
    answer: list[Any] = [
        (socket.AF_INET6 if ":" in one else socket.AF_INET, socket.SOCK_STREAM, 6, "", (one, 443)) for one in found
    ]
    monkeypatch.setattr(resolving, "look_up", lambda *args, **options: answer)
    return [address for address, _ in resolving.addresses(name, 443, REACH, lambda host: f"allow {host}")]


def test_each_once_and_no_more_than_are_tried(monkeypatch: pytest.MonkeyPatch) -> None:
    assert addresses(monkeypatch, "8.8.8.8", "8.8.8.8", "::ffff:8.8.8.8") == ["8.8.8.8"]
    assert len(addresses(monkeypatch, *(f"8.8.8.{n}" for n in range(100)))) == resolving._MOST


def test_a_private_one_that_is_granted_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    assert addresses(monkeypatch, "8.8.8.8", "10.0.0.1") == ["8.8.8.8", "10.0.0.1"]


@pytest.mark.parametrize("bad", ["10.0.0.2", "fe80::1%eth0", "::ffff:10.0.0.2", "::127.0.0.1", "64:ff9b::7f00:1"])
def test_one_bad_one_refuses_the_name(monkeypatch: pytest.MonkeyPatch, bad: str) -> None:
    with pytest.raises(Fault, match="which has to be allowed by itself: allow "):
        addresses(monkeypatch, *(f"8.8.8.{n}" for n in range(50)), bad)


def test_no_address_at_all(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(resolving, "look_up", lambda *args, **options: [(socket.AF_UNIX, 1, 0, "", ("/run/x",))])
    with pytest.raises(Fault, match="has no address"):
        resolving.addresses("a.org", 443, REACH, str)
