"""The last snapshot of a session whose kernel was killed: its last cells are in the log of cells alone."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.sessions.test_cell_recovery import ID, Running, copied, logs, play
from wasm_kernel import (
    ImageMissing,
    OlderImage,
    SandboxError,
    delete_session_workspace,
    fork_session,
    get_session_sandbox,
    list_snapshots,
)
from wasm_kernel.host.disk.locks import lock_session
from wasm_kernel.host.image import image, older_images
from wasm_kernel.hub.workspaces import jobs
from wasm_kernel.sessions.inventory import stamp_of


@pytest.fixture
def killed(tmp_path: Path) -> Path:
    """What a kill leaves in the middle of quick cells."""

    async def scene(running: Running) -> None:
        await running.run("x = [0]; open('/app/f', 'w').write('early')")
        for n in range(1, 6):
            await running.run(f"x.append({n}); open('/app/f', 'w').write('cell {n}')")
        copied(tmp_path / "root", tmp_path / "killed")

    play(tmp_path / "root", scene)
    assert logs(tmp_path / "killed"), "the last cells are in the log"
    return tmp_path / "killed"


def test_every_answered_cell_is_in_the_last_snapshot(killed: Path) -> None:
    last = delete_session_workspace(ID, killed, snapshot=True)
    assert last is not None and last.trigger == "session_close" and not (killed / ID).exists()
    assert not logs(killed)
    fork = fork_session("gone", killed, snapshot_id=last.snapshot_id)
    with get_session_sandbox(fork, workspace_root=killed, resume=True) as sandbox:
        assert sandbox.execute("print(x, open('f').read())").stdout == "[0, 1, 2, 3, 4, 5] cell 5\n"
    lock_session(killed, ID).release()  # it was given back


def test_without_an_image_nothing_is_deleted(killed: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(*args: Any) -> Any:
        raise ImageMissing("there is no image")

    monkeypatch.setattr(image, "load", missing)
    with pytest.raises(SandboxError, match="killed before its last cells were stored.*no image"):
        delete_session_workspace(ID, killed, snapshot=True)
    found = jobs.stop(killed, [[ID, "asked for", 1, stamp_of(killed, ID)]])
    assert "killed before its last cells" in found["errors"][ID] and (killed / ID).is_dir() and logs(killed)


def test_cells_of_another_image(killed: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = list_snapshots(killed)
    wanted = image.load().key

    def unusable(key: str) -> Any:
        assert key == wanted
        raise OlderImage("which is not on this machine")

    monkeypatch.setattr(older_images, "load", unusable)
    with pytest.raises(SandboxError, match="no image is there to bring them back: which is not on this machine"):
        delete_session_workspace(ID, killed, snapshot=True)
    assert (killed / ID).is_dir() and list_snapshots(killed) == before
