"""What a guest waits for, and what it is told."""

from __future__ import annotations

import struct

from wasm_kernel.host.runtime import polling


def asked(userdata: int, tag: int, timeout: int = 0, flags: int = 0, clock: int = 1) -> bytes:
    return struct.pack("<QB7xIxxxxQQH6x", userdata, tag, clock, timeout, 0, flags)


def test_files_are_ready_and_clocks_are_waited_for() -> None:
    clock, late = asked(1, 0, timeout=2 * 10**9), asked(2, 0, timeout=5 * 10**9)
    assert polling.what_is_asked(late + clock, now=0, real=0) == ([], polling.Wait(2.0, (1, 0)))
    assert polling.what_is_asked(clock + asked(3, 1), now=0, real=0) == ([(3, 1)], None)
    for clock_id, wait in ((1, 1.0), (0, 2.0)):
        absolute = asked(4, 0, timeout=9 * 10**9, flags=1, clock=clock_id)
        assert polling.what_is_asked(absolute, now=8 * 10**9, real=7 * 10**9) == ([], polling.Wait(wait, (4, 0)))
    assert len(polling.pack([(1, 0), (2, 1)])) == 2 * polling.EVENT_SIZE
