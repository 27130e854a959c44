"""How far a copy of files beside the notebook is, and its end on an interrupt."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from wasm_kernel.errors import Interrupted
from wasm_kernel.kernel.magics import notebook_files
from wasm_kernel.kernel.magics.answers import ProgressLine


def test_a_long_copy_says_how_far_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [0.0]
    monkeypatch.setattr(notebook_files.time, "monotonic", lambda: now[0])
    sent: list[Any] = []
    shown = ProgressLine(
        lambda parent, kind, content: sent.append((kind, content["data"]["text/plain"])), {}, silent=False
    )
    tell = notebook_files._progress(shown, 10 << 20, threading.Event())
    tell(1 << 20)
    assert sent == [], "most copies are done before anybody could read it"
    now[0] = 2.0
    tell(1 << 20)
    now[0] = 2.1
    tell(1 << 20)
    now[0] = 3.0
    tell(1 << 20)
    assert sent == [
        ("display_data", "copying: 2.0 MB of 10.0 MB"),
        ("update_display_data", "copying: 4.0 MB of 10.0 MB"),
    ]


def test_an_interrupt_ends_it() -> None:
    cancelled = threading.Event()
    tell = notebook_files._progress(ProgressLine(lambda *message: None, {}, silent=False), 10, cancelled)
    tell(1)
    cancelled.set()
    with pytest.raises(Interrupted):
        tell(1)
