"""Tables of a snapshot's memory: what goes into the store for one, and how to get from one to another."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping

from wasm_kernel.host.runtime.memory import CHUNK, CapturedMemory, Part, PendingPages, Span
from wasm_kernel.host.store.chunks import Transaction
from wasm_kernel.model.snapshots import BASE, PAGES

PAGE = CHUNK // PAGES
_ALL_BASE = (BASE,) * PAGES
_PORTION = 8 << 20  # bytes of memory that are read before they are stored


def portions(parts: Mapping[int, PendingPages], count: int) -> Iterator[list[Part]]:
    """Batches small enough that little is read and not yet stored."""
    items = sorted(parts.items(), key=lambda part: id(part[1]))  # each reader's together
    for start in range(0, len(items), count):
        yield items[start : start + count]


def put(take: Transaction, parts: list[Part], pages: int) -> Iterator[tuple[int, bytes | None]]:
    """Store chunks or pages and return their names; None: as in the base."""
    numbers = [number for number, _ in parts]
    contents: list[bytes | None] = []
    for later, some in itertools.groupby(parts, lambda part: part[1]):
        if pages == 1:
            contents += later.read_each([number for number, _ in some])
        else:
            contents += [later.read(number * pages, pages) for number, _ in some]
    names = iter(take.put_many([memoryview(content) for content in contents if content is not None]))
    for number, content in zip(numbers, contents, strict=True):
        yield number, None if content is None else next(names)


Table = Mapping[int, tuple[bytes, ...]]


def updated(now: Table, memory: CapturedMemory, take: Transaction) -> dict[int, tuple[bytes, ...]]:
    """A table with what changed of the memory, which is stored."""
    table = dict(now)
    for some in portions(memory.whole, _PORTION // CHUNK):
        for number, name in put(take, some, PAGES):
            if name is None:
                table.pop(number, None)
            else:
                table[number] = (name,)
    pages: dict[int, list[bytes]] = {}
    for some in portions(memory.pages, _PORTION // PAGE):
        for page, name in put(take, some, 1):
            number = page // PAGES
            known = table.get(number, ())
            changed = pages.setdefault(number, list(known) if len(known) == PAGES else [BASE] * PAGES)
            changed[page % PAGES] = BASE if name is None else name
    for number, found in pages.items():
        if all(name == BASE for name in found):
            table.pop(number, None)
        else:
            table[number] = tuple(found)
    return table


def difference(now: Table, then: Table, changed: set[int]) -> tuple[list[Span], list[bytes], list[int]]:
    """How to turn a memory with one table, some pages of which have changed, into one with another table.

    Ranges of pages to replace, the name of what belongs in each, and pages to reset to the base.
    """
    suspects: dict[int, set[int]] = {}
    for page in changed:
        suspects.setdefault(page // PAGES, set()).add(page % PAGES)
    stretches: list[Span] = []
    wanted: list[bytes] = []
    of_base: list[int] = []
    for number in sorted(now.keys() | then.keys() | suspects.keys()):
        before, after, touched = now.get(number, _ALL_BASE), then.get(number, _ALL_BASE), suspects.get(number, set())
        if before == after and not touched:
            continue
        first = number * PAGES
        if len(after) == 1:
            stretches.append((first, first + PAGES))
            wanted.append(after[0])
            continue
        for n, name in enumerate(after):
            if len(before) == PAGES and before[n] == name and n not in touched:
                continue
            if name == BASE:
                of_base.append(first + n)
            else:
                stretches.append((first + n, first + n + 1))
                wanted.append(name)
    return stretches, wanted, of_base
