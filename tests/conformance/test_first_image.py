"""A kernel on a machine without an image: it is really built, but for what takes minutes, which is there already.

Another process, here the test, holds the lock of the build for as long as a test wants to look.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from pathlib import Path
from queue import Empty

import pytest

from tests.conformance.client import Kernel, eventually
from wasm_kernel.host.image import cache, image

_STATE = {"step": "compile", "index": 3, "count": 5, "fraction": 0.4, "note": ""}
_FAR = "another process is building the sandbox, once on this machine: step 3 of 5, compiling it for this CPU, 40%"
_HISTORY = {"hist_access_type": "tail", "n": 100, "output": False, "raw": True}
Start = Callable[..., Kernel]


@pytest.fixture
def empty_cache(tmp_path: Path) -> Path:
    """A cache in which only the filter is missing."""
    folder = tmp_path / "cache"
    folder.mkdir(mode=0o700)
    parts = image.parts()
    for entry in {*parts.all()} - {parts.filter}:
        (folder / entry.kind).mkdir(mode=0o700)
        (folder / entry.kind / entry.key).symlink_to(entry.path)
    return folder


@pytest.fixture
def built_elsewhere(empty_cache: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[ExitStack]:
    """Another process builds until this is closed."""
    with ExitStack() as stack:
        monkeypatch.setenv("WASM_KERNEL_CACHE", str(empty_cache))
        stack.enter_context(cache.build_lock(lambda state: None))(_STATE)
        yield stack


def _states(kernel: Kernel) -> list[str]:
    """The states that the kernel has told so far."""
    with suppress(Empty):
        while True:
            kernel.others.append(kernel.client.get_iopub_msg(timeout=0.5))
    return [m["content"]["execution_state"] for m in kernel.others if m["msg_type"] == "status"]


def test_the_cell_that_waits_shows_how_far_it_is_whoever_began_it(start: Start, built_elsewhere: ExitStack) -> None:
    kernel = start()
    kernel.ask("history_request", _HISTORY, timeout=20)  # as JupyterLab does when it opens a notebook
    cell = kernel.start("1 + 1")
    shown = kernel.wait_for("update_display_data", _FAR)
    assert shown["parent_header"]["msg_id"] == cell
    assert "<progress" in shown["content"]["data"]["text/html"]
    built_elsewhere.close()
    done = kernel.finish(cell)
    assert done.ok and done.result == "2"
    assert "the sandbox is ready" in done.of("update_display_data")[-1]["data"]["text/plain"]
    assert len(done.of("display_data")) == 1


def test_an_interrupt_ends_the_wait_and_the_next_cell_goes_on(start: Start, built_elsewhere: ExitStack) -> None:
    kernel = start()
    kernel.ask("history_request", _HISTORY, timeout=20)
    cell = kernel.start("1 + 1")
    kernel.wait_for("update_display_data", _FAR)
    kernel.ask("interrupt_request", channel="control")
    done = kernel.finish(cell)
    assert done.reply["ename"] == "KeyboardInterrupt" and "run the cell again" in done.traceback
    kernel.ask("complete_request", {"code": "pri", "cursor_pos": 3}, timeout=20)  # begins nothing
    built_elsewhere.close()
    assert kernel.ok("1 + 2").result == "3"


def test_while_no_cell_runs_a_notice_and_the_tooltip_say_how_far_it_is(
    start: Start, built_elsewhere: ExitStack
) -> None:
    kernel = start()
    kernel.ask("history_request", _HISTORY, timeout=20)
    notice = kernel.wait_for("display_data", _FAR)
    assert notice["parent_header"] == {}
    tip = kernel.ask("inspect_request", {"code": "print", "cursor_pos": 5, "detail_level": 0}, timeout=20)
    assert _FAR in tip["data"]["text/plain"]
    assert kernel.ask("complete_request", {"code": "pri", "cursor_pos": 3}, timeout=20)["matches"] == []
    assert _states(kernel)[-1] == "busy"
    built_elsewhere.close()
    assert eventually(lambda: _states(kernel)[-1] == "idle")


def test_a_build_that_fails_is_told_in_the_cell_and_tried_again(
    start: Start, built_elsewhere: ExitStack, empty_cache: Path
) -> None:
    (empty_cache / "filter").write_text("in the way")
    built_elsewhere.close()
    kernel = start()
    failed = kernel.run("1 + 1")
    assert failed.reply["ename"] == "BuildFailed" and "wasm-kernel doctor" in failed.traceback
    (empty_cache / "filter").unlink()
    assert kernel.ok("1 + 1").result == "2"
