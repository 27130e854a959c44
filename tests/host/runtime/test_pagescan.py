"""Which pages were written: `PAGEMAP_SCAN` and `/proc/self/pagemap` say the same, each page once."""

from __future__ import annotations

import ctypes
import mmap
import platform
import random
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager

import pytest

from wasm_kernel.host.runtime import pagescan
from wasm_kernel.host.runtime.pages import PAGE

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="only Linux knows which pages were written")


def test_this_system_knows_both_ways() -> None:
    """Without them every cell costs a comparison of all memory, so a scan that stopped working must not be passed over."""
    assert pagescan.can_read_pagemap
    if tuple(map(int, platform.release().split(".")[:2])) >= (6, 7):
        assert pagescan.can_scan, "PAGEMAP_SCAN is there from Linux 6.7 on"


@contextmanager
def _memory(pages: int, written: Iterable[int]) -> Iterator[tuple[int, int]]:
    """Private memory of which these pages were written: its address and size."""
    size = pages * PAGE
    there = mmap.mmap(-1, size, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    if hasattr(mmap, "MADV_NOHUGEPAGE"):
        there.madvise(mmap.MADV_NOHUGEPAGE)
    anchor = ctypes.c_char.from_buffer(there)
    try:
        for page in written:
            there[page * PAGE] = 1
        yield ctypes.addressof(anchor), size
    finally:
        del anchor
        there.close()


@pytest.mark.parametrize("regions", [0, 1, 100, 511, 512, 513, 1000, 1025, 2047, 2048, 2049, 3000, 4096, 4097, 6001])
@pytest.mark.parametrize("beyond", [0, 700])
def test_more_regions_than_fit_into_a_call_of_the_kernels_or_of_ours(regions: int, beyond: int) -> None:
    """The kernel walks 512 at a time, we ask for 2,048. ``beyond``: pages after the last that was written."""
    with _memory(2 * regions + 1 + beyond, range(0, 2 * regions, 2)) as (address, size):
        found = pagescan.scan(address, size)
        assert found == [(address + 2 * n * PAGE, address + (2 * n + 1) * PAGE) for n in range(regions)]
        assert found == pagescan.read_pagemap(address, size)


@pytest.mark.parametrize("seed", range(10))
def test_both_ways_say_the_same(seed: int) -> None:
    choose = random.Random(seed)
    pages = choose.randrange(1, 20_000)
    share = choose.choice([0.001, 0.1, 0.5, 0.9])
    with _memory(pages, [n for n in range(pages) if choose.random() < share]) as (address, size):
        assert pagescan.scan(address, size) == pagescan.read_pagemap(address, size)
        first, last = sorted(choose.sample(range(pages + 1), 2))
        part = (address + first * PAGE, (last - first) * PAGE)
        assert pagescan.scan(*part) == pagescan.read_pagemap(*part)
