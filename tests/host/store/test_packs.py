"""What is stored of chunks: smaller where that is possible, and the same bytes again."""

from __future__ import annotations

import random
import struct

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from wasm_kernel.host.store.packs import (
    NARROW,
    RAW,
    ZSTD,
    Packer,
    new_decompressor,
    unpack,
)

COUNT = 8192


def integers(below: int, seed: int = 1) -> bytes:
    source = random.Random(seed)
    return struct.pack(f"<{COUNT}Q", *(source.randrange(below) for _ in range(COUNT)))


def packed(data: bytes) -> tuple[int, int]:
    """How large it is stored, and its codec, once it is known to come back."""
    blob, codec = Packer().pack(memoryview(data))
    assert bytes(unpack(blob, codec, len(data), new_decompressor())) == data
    return len(blob), codec


@pytest.mark.parametrize("below", [2, 50, 5000, 1 << 20, 1 << 31])
def test_integers_take_little_more_than_they_hold(below: int) -> None:
    size, codec = packed(integers(below))
    assert codec == NARROW
    assert size < COUNT * (below - 1).bit_length() / 8 * 1.2 + 1000


def test_integers_that_are_too_large_are_not_narrowed() -> None:
    for large in (1 << 32, 1 << 63, (1 << 64) - 1):
        for at in (0, 1000, COUNT - 1):
            data = bytearray(integers(50))
            data[at * 8 : at * 8 + 8] = large.to_bytes(8, "little")
            assert packed(bytes(data))[1] == ZSTD
    assert packed(integers(50)[:-1])[1] == ZSTD


def test_random_floats_are_stored_as_they_are() -> None:
    source = random.Random(1)
    floats = struct.pack(f"<{COUNT}d", *(source.random() for _ in range(COUNT)))
    assert packed(floats) == (len(floats), RAW)
    prices = struct.pack(f"<{COUNT}d", *(round(source.gammavariate(2, 10), 2) for _ in range(COUNT)))
    assert packed(prices)[0] < len(prices) * 0.5


def test_a_chunk_that_only_begins_badly_or_well() -> None:
    noise = random.Random(1).randbytes(60_000)
    assert packed(noise[:5000] + bytes(60_000))[0] < 6000
    assert packed(b"text " * 1000 + noise) == (65_000, RAW)


@settings(deadline=None)
@given(
    st.one_of(
        st.binary(min_size=1, max_size=300),
        st.lists(st.integers(0, (1 << 33) - 1), min_size=1, max_size=1500).map(
            lambda values: struct.pack(f"<{len(values)}Q", *values)
        ),
        st.tuples(st.binary(max_size=9), st.integers(1, 9000)).map(lambda pair: pair[0] + bytes(pair[1])),
    )
)
def test_every_chunk_comes_back(data: bytes) -> None:
    size, _ = packed(data)
    assert size <= len(data)


def test_what_holds_another_number_of_integers_is_refused() -> None:
    blob, codec = Packer().pack(integers(50))
    assert codec == NARROW
    for raw in (COUNT * 8 - 8, COUNT * 8 + 8, COUNT * 4):
        with pytest.raises(ValueError, match="another length"):
            unpack(blob, codec, raw, new_decompressor())
