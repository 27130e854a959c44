"""Which pages were written: `PAGEMAP_SCAN` and `/proc/self/pagemap` say the same, each page once."""

from __future__ import annotations

import ctypes
import mmap
import os
import platform
import random
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from wasm_kernel.host.runtime import pagescan, write_marks
from wasm_kernel.host.runtime.pages import PAGE, map_over

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


PAGES_OF_FILE = 3000  # six page tables


class Mapped:
    """A file's pages, mapped copy-on-write, and which of them were written."""

    def __init__(self, path: Path) -> None:
        path.write_bytes(random.Random(7).randbytes(PAGE) * PAGES_OF_FILE)
        self.size = PAGES_OF_FILE * PAGE
        with path.open("rb") as file:
            self.map = mmap.mmap(file.fileno(), self.size, mmap.MAP_PRIVATE, mmap.PROT_READ | mmap.PROT_WRITE)
        self._anchor = ctypes.c_char.from_buffer(self.map)
        self.address = ctypes.addressof(self._anchor)
        self.written: set[int] = set()

    def write(self, pages: Iterable[int]) -> None:
        for page in pages:
            self.map[page * PAGE + 9] = 1
            self.written.add(page)

    def read(self, pages: Iterable[int]) -> None:
        for page in pages:
            self.map[page * PAGE]

    def found(self) -> list[int]:
        """By both functions, which must agree."""
        most = 4 * PAGES_OF_FILE
        regions = (ctypes.c_uint64 * most)()
        count = pagescan.scan_into(ctypes.addressof(regions), most // 3, self.address, self.size)
        assert count is not None
        spans = sorted((regions[3 * n], regions[3 * n + 1]) for n in range(count))
        assert spans == pagescan.scan(self.address, self.size)
        return [(at - self.address) // PAGE for start, end in spans for at in range(start, end, PAGE)]

    def check(self) -> None:
        assert self.found() == sorted(self.written)

    def mark(self, but: Iterable[int] = ()) -> None:
        """What is marked counts as not written."""
        but = set(but)
        assert pagescan.mark(self.address, self.size, but), "this kernel should have userfaultfd's marks"
        self.written &= but
        self.check()

    def private(self) -> set[int]:
        spans = pagescan.private(self.address, self.size) or []
        return {(at - self.address) // PAGE for start, end in spans for at in range(start, end, PAGE)}

    def close(self) -> None:
        del self._anchor
        self.map.close()


@pytest.fixture
def mapped(tmp_path: Path) -> Iterator[Mapped]:
    if not (pagescan.can_scan and write_marks.available()):
        pytest.skip("this system has no marks")
    made = Mapped(tmp_path / "file")
    yield made
    made.close()


@pytest.mark.parametrize("seed", range(6))
def test_what_was_written_since_it_was_marked_is_found(mapped: Mapped, seed: int) -> None:
    """And only that, whatever is read, written and mapped over, before and after it."""
    choose = random.Random(seed)
    private: set[int] = set()
    other = os.memfd_create("other")
    os.truncate(other, mapped.size)

    def some(most: int) -> list[int]:
        return choose.sample(range(PAGES_OF_FILE), choose.randrange(most))

    try:
        for _ in range(12):
            mapped.read(some(300))
            mapped.write(some(200))
            private |= mapped.written
            mapped.check()
            assert mapped.private() == private
            if choose.random() < 0.4:
                first = choose.randrange(PAGES_OF_FILE - 64)
                map_over(mapped.address + first * PAGE, 64 * PAGE, other, first * PAGE)
                mapped.written -= set(range(first, first + 64))
                private -= set(range(first, first + 64))
                mapped.read(range(first, first + 64, 3))
                mapped.check()
            if choose.random() < 0.5:
                mapped.mark(choose.sample(sorted(mapped.written), len(mapped.written) // 2))
                assert mapped.private() == private
    finally:
        os.close(other)


def test_what_the_system_writes_is_written_too(mapped: Mapped) -> None:
    """A guest's file calls write to its memory from within the kernel."""
    mapped.mark()
    source = os.memfd_create("source")
    try:
        os.write(source, b"read from a file" * PAGE)
        assert os.preadv(source, [memoryview(mapped.map)[5 * PAGE : 7 * PAGE]], 0) == 2 * PAGE
    finally:
        os.close(source)
    mapped.written |= {5, 6}
    mapped.check()
    assert mapped.map[5 * PAGE : 5 * PAGE + 4] == b"read"


@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_a_forked_process_has_no_marks(mapped: Mapped) -> None:
    mapped.write([3])
    mapped.mark([3])
    pid = os.fork()
    if pid == 0:
        code = 1
        try:
            mapped.write([8])
            code = 0 if not write_marks.in_use() and {3, 8} <= set(mapped.found()) else 2
        finally:
            os._exit(code)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
    mapped.check()


def test_without_marks_all_is_as_before(mapped: Mapped, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(write_marks, "_descriptor", -1)
    monkeypatch.setattr(write_marks, "_pid", 0)
    monkeypatch.setattr(write_marks, "_opened", lambda: -1)  # as where a container forbids the call
    assert not pagescan.mark(mapped.address, mapped.size, ())
    mapped.write([1, 2, 700])
    mapped.check()
