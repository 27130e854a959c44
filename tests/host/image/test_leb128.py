"""Numbers as WebAssembly writes them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wasm_kernel.host.image.leb128 import BadNumber, read_signed, read_unsigned, signed, unsigned


@given(st.integers(0, (1 << 64) - 1), st.binary(max_size=3))
def test_an_unsigned_number_comes_back(value: int, before: bytes) -> None:
    data = before + unsigned(value)
    assert read_unsigned(data + b"\xff", len(before)) == (value, len(data))


@given(st.integers(-(1 << 63), (1 << 63) - 1), st.binary(max_size=3))
def test_a_signed_number_comes_back(value: int, before: bytes) -> None:
    data = before + signed(value)
    assert read_signed(data + b"\xff", len(before)) == (value, len(data))


def test_the_bytes_are_those_of_the_specification() -> None:
    assert unsigned(624485) == b"\xe5\x8e\x26"
    assert signed(-123456) == b"\xc0\xbb\x78"
    assert [signed(n) for n in (63, 64, -64, -65)] == [b"\x3f", b"\xc0\x00", b"\x40", b"\xbf\x7f"]
    assert read_unsigned(b"\x87\x80\x00", 0) == (7, 3), "more bytes than needed are allowed"


@pytest.mark.parametrize("data", [b"", b"\x80", b"\xff" * 10 + b"\0"])
def test_a_number_has_an_end(data: bytes) -> None:
    with pytest.raises(BadNumber):
        read_unsigned(data, 0)
    with pytest.raises(BadNumber):
        read_signed(data, 0)


def test_a_negative_number_is_not_unsigned() -> None:
    with pytest.raises(BadNumber, match="-1"):
        unsigned(-1)
