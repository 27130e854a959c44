"""Takes what memory is free between the objects of the base memory, for good; at build time.

A cell would get its memory from there, a few bytes from each of hundreds of pages, and every guest would copy each of
them and look at it after every cell. Without holes all of it comes from one place, the end of the memory.
"""

_kept: list[object] = []  # what fills them
_MOST, _LARGE = 1 << 20, 16 << 20
_HEAD, _OF_BYTES = 4, 17  # bytes that the allocator needs for a block, and a bytes object for itself
_BLOCKS = (*(1 << power for power in range(20, 10, -1)), *range(1024, 16, -16))  # as the allocator cuts them


def fill() -> int:
    """Fill the holes; how many there were."""
    kept = _kept
    kept += [None] * _MOST
    end = id(bytes(_LARGE))  # larger than any hole
    count = 0
    for size in _BLOCKS:
        while count < _MOST:
            block: object = bytes(size - _HEAD - _OF_BYTES)
            if id(block) >= end:
                break
            kept[count] = block
            count += 1
    while count < _MOST:  # the smallest block is too small for bytes
        block = object()
        if id(block) >= end:
            break
        kept[count] = block
        count += 1
    del kept[count:]
    return count
