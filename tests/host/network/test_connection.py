"""A connection by itself: what a guest may know of the other end."""

from __future__ import annotations

from typing import Any

import pytest

from wasm_kernel.host.network import connection


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
