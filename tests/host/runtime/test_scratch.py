"""Scratch folders go with their sandbox, or after their process was killed."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from wasm_kernel.host.runtime import scratch

_HOLD = "from wasm_kernel.host.runtime import scratch\nprint(scratch.make(), flush=True)\nimport time; time.sleep(60)"


def test_what_a_killed_process_left_is_swept_and_what_a_living_one_uses_is_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    env = {**os.environ, "TMPDIR": str(tmp_path)}
    holders = [
        subprocess.Popen([sys.executable, "-c", _HOLD], stdout=subprocess.PIPE, text=True, env=env) for _ in range(2)
    ]
    folders = []
    for holder in holders:
        assert holder.stdout is not None
        folders.append(Path(holder.stdout.readline().strip()))
    os.kill(holders[0].pid, signal.SIGKILL)
    holders[0].wait()
    assert folders[0].is_dir()
    done = subprocess.run(
        [sys.executable, "-c", "from wasm_kernel.host.runtime import scratch; scratch.remove(scratch.make())"],
        env=env,
        check=False,
    )
    assert done.returncode == 0
    assert not folders[0].parent.exists()
    assert folders[1].is_dir()
    holders[1].kill()
    holders[1].wait()
    for holder in holders:
        assert holder.stdout is not None
        holder.stdout.close()
    assert [p.name for p in tmp_path.iterdir()] == [folders[1].parent.name], "the last one's own is gone with it"


def test_a_folder_that_another_process_names(tmp_path: Path) -> None:
    mine = scratch.make()
    try:
        assert scratch.of_another(str(mine)) == mine
        (tmp_path / "wasm-kernel-scratch-x").mkdir()
        (tmp_path / "wasm-kernel-scratch-x" / "tmp-link").symlink_to(mine)
        (tmp_path / "wasm-kernel-scratch-link").symlink_to(mine.parent)
        for told in (
            None,
            3,
            "",
            "/",
            "/etc",
            "nul\0",
            str(mine.parent),
            str(mine / "tmp-deeper"),
            f"{mine}/../{mine.name}",
            os.path.relpath(mine),
            str(tmp_path / "wasm-kernel-scratch-x" / "tmp-gone"),
            str(tmp_path / "wasm-kernel-scratch-x" / "tmp-link"),
            str(tmp_path / "wasm-kernel-scratch-link" / mine.name),
        ):
            assert scratch.of_another(told) is None, told
    finally:
        scratch.remove(mine)


def test_the_process_folder_goes_with_the_last(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first, second = scratch.make(), scratch.make()
    parent = first.parent
    assert second.parent == parent
    scratch.remove(first)
    assert second.is_dir()
    scratch.remove(second)
    assert not second.exists()
