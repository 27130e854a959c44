"""A guest that wants to change files waits until they are saved, and who shows its cells is told of it."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from wasm_kernel import create_session_sandbox
from wasm_kernel.sessions import recorder as recorders


def test_a_long_wait_for_files_is_told_and_a_short_one_is_not(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recorders, "_UNNOTICED", 0.2)
    _, made = create_session_sandbox(workspace_root=tmp_path)
    with made as sandbox:
        live, told = sandbox._live, list[bool]()
        live.on_wait = told.append
        recorder = live.recorder
        assert sandbox.execute("open('f', 'w').write('x')").success
        assert told == []
        recorder.expect_files()
        threading.Timer(1.0, recorder._files_are_saved).start()
        assert sandbox.execute("open('f', 'w').write('y')").success
        assert told == [True, False]
        assert recorder._unsaved == 0
