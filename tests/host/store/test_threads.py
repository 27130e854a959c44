"""Two threads give what one does."""

from __future__ import annotations

import threading
import time

import pytest

from wasm_kernel.host.store.threads import in_threads


def test_two_threads_give_what_one_does_and_raise_what_either_raises(monkeypatch: pytest.MonkeyPatch) -> None:
    items = list(range(200))
    assert in_threads(lambda i: i * i, items, 1 << 30) == [i * i for i in items]

    def fail(i: int) -> int:
        if i == 100:
            raise ZeroDivisionError
        time.sleep(0.0001)
        return i

    before = threading.active_count()
    for _ in range(10):
        with pytest.raises(ZeroDivisionError):
            in_threads(fail, items, 1 << 30)
        assert threading.active_count() == before

    def refuse(thread: threading.Thread) -> None:
        raise RuntimeError("can't create new thread at interpreter shutdown")

    monkeypatch.setattr(threading.Thread, "start", refuse)
    assert in_threads(lambda i: i * i, items, 1 << 30) == [i * i for i in items]
