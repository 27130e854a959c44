"""Where numpy's operands lie: a kernel gives what a loop over one element after the other gives, or leaves it to the original."""

from __future__ import annotations

import struct
from array import array
from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.kernels.standalone import Standalone

_ROOM = 1024  # bytes that operands lie in, often over one another
_BINARY: dict[str, tuple[str, str, Callable[[float, float], float]]] = {
    "f64_add": ("d", "d", lambda x, y: x + y),
    "f32_subtract": ("f", "f", lambda x, y: x - y),
    "i64_less": ("q", "B", lambda x, y: x < y),
    "u32_equal": ("I", "B", lambda x, y: x == y),
    "u8_bitwise_xor": ("B", "B", lambda x, y: int(x) ^ int(y)),
    "i16_maximum": ("h", "h", max),
    "u64_bitwise_or": ("Q", "Q", lambda x, y: int(x) | int(y)),
    "bool_logical_and": ("B", "B", lambda x, y: bool(x) and bool(y)),
}


@pytest.fixture(scope="module")
def kernels() -> Standalone:
    return Standalone()


def one_by_one(
    memory: bytearray, places: list[int], steps: list[int], n: int, of: tuple[str, str, Callable[..., float]]
) -> bytearray:
    """What the plainest loop leaves of the memory."""
    kind, result, function = of
    for i in range(n):
        *values, into = (place + i * step for place, step in zip(places, steps, strict=True))
        struct.pack_into(result, memory, into, function(*(struct.unpack_from(kind, memory, at)[0] for at in values)))
    return memory


@settings(max_examples=300, deadline=None)
@given(st.data())
def test_operands_anywhere(kernels: Standalone, data: st.DataObject) -> None:
    name = data.draw(st.sampled_from(sorted(_BINARY)))
    kind, result, _ = of = _BINARY[name]
    size, out_size = struct.calcsize(kind), struct.calcsize(result)
    n = data.draw(st.integers(0, 40))
    steps = [data.draw(st.sampled_from([size, size, size, size, 0, 2 * size, -size])) for _ in range(2)]
    steps.append(data.draw(st.sampled_from([out_size, out_size, out_size, 0, 2 * out_size])))
    middle = _ROOM // 2 // 8  # in elements of 8 bytes, so that operands of any two sizes are aligned and meet
    places = [8 * (middle + data.draw(st.integers(-12, 12))) for _ in range(2)]
    places.append(data.draw(st.sampled_from([places[0], places[1], 8 * (middle + data.draw(st.integers(-12, 12)))])))
    random = data.draw(st.randoms(use_true_random=False))
    before = array("B", random.randbytes(_ROOM + 512))
    if kind in "df":
        before = array("B", struct.pack(f"{len(before) // size}{kind}", *range(len(before) // size)))
    kernels.clear()
    base = kernels.put(before)
    pointers = kernels.put(array("i", [base + place for place in places]))
    fallen_back = kernels.count("originals")
    kernels.call(name, pointers, kernels.put(array("i", [n])), kernels.put(array("i", steps)), 0)
    if kernels.count("originals") == fallen_back:
        assert kernels.get("B", base, len(before)).tobytes() == one_by_one(bytearray(before), places, steps, n, of)


@pytest.mark.parametrize("name", sorted(_BINARY))
@pytest.mark.parametrize("second", [0, 1])
def test_what_kernels_are_for_is_not_left_to_the_original(kernels: Standalone, name: str, second: int) -> None:
    kind, result, _ = _BINARY[name]
    kernels.clear()
    places = [
        kernels.put(array(kind, range(40))),
        kernels.put(array(kind, range(40))),
        kernels.put(array(result, bytes(40))),
    ]
    steps = [struct.calcsize(kind), second * struct.calcsize(kind), struct.calcsize(result)]
    before = kernels.count("originals")
    arguments = [kernels.put(array("i", numbers)) for numbers in (places, [40], steps)]
    kernels.call(name, *arguments, 0)
    assert kernels.count("originals") == before
