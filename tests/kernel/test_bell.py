"""The loop is woken by a thread that goes on."""

from __future__ import annotations

import asyncio
import sys
import threading

from wasm_kernel.kernel.bell import Bell


def test_what_hangs_on_it_is_done_on_the_loop() -> None:
    done: list[threading.Thread] = []

    async def main() -> None:
        heard = asyncio.Event()
        bell = Bell()
        bell.ring()  # it hangs nowhere yet
        bell.hang(asyncio.get_running_loop(), lambda: (done.append(threading.current_thread()), heard.set()))  # type: ignore[func-returns-value]
        for _ in range(3):
            heard.clear()
            thread = threading.Thread(target=lambda: [bell.ring() for _ in range(100_000)])
            thread.start()
            await asyncio.wait_for(heard.wait(), 60)
            thread.join()
        await asyncio.sleep(0.05)
        before = len(done)
        bell.close()
        bell.ring()
        bell.close()
        await asyncio.sleep(0.05)
        assert len(done) == before

    asyncio.run(main())
    assert set(done) == {threading.main_thread()}


def test_whoever_rings_it_goes_on_first() -> None:
    """The loop's thread waits for the interpreter's lock; ringing does not hand it over."""
    order: list[str] = []

    async def main() -> None:
        loop, bell, rings, ready = asyncio.get_running_loop(), Bell(), asyncio.Event(), threading.Event()
        bell.hang(loop, lambda: (order.append("loop"), rings.set()))  # type: ignore[func-returns-value]

        def thread() -> None:
            ready.wait()
            for _ in range(50):
                bell.ring()
                order.append("thread")

        other = threading.Thread(target=thread)
        other.start()
        ready.set()
        await asyncio.wait_for(rings.wait(), 60)
        other.join()
        bell.close()

    before = sys.getswitchinterval()
    sys.setswitchinterval(60)  # nobody takes the lock away
    try:
        asyncio.run(main())
    finally:
        sys.setswitchinterval(before)
    assert order[:50] == ["thread"] * 50
