"""The space that snapshots take while sandboxes are used over the API: what was replaced is given back."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.server.conftest import Api, running
from wasm_kernel.host.store.chunks import ChunkStore

MB = 1 << 20
DISK = 64 * MB
REWRITE = "import os\nopen('data', 'wb').write(os.urandom(48 << 20))"


@pytest.fixture
def alone(tmp_path: Path) -> Iterator[Api]:
    """A server whose workspace is a test's own."""
    with running(tmp_path, "c.WasmKernelExtension.idle_timeout_seconds = 0\n") as server:
        yield Api(server)


class Space:
    """The largest space that snapshots took, looked at all the time."""

    def __init__(self, root: Path) -> None:
        self._folder = root / ".wasm-kernel" / "snapshots"
        self.most = 0
        self._end = threading.Event()
        self._watcher = threading.Thread(target=self._watch)

    def now(self) -> int:
        total = 0
        for path in self._folder.rglob("*"):
            try:
                total += path.stat().st_blocks * 512
            except FileNotFoundError:
                continue
        return total

    def _watch(self) -> None:
        while not self._end.wait(0.05):
            self.most = max(self.most, self.now())

    def __enter__(self) -> Space:
        self._watcher.start()
        return self

    def __exit__(self, *exc: object) -> None:
        self._end.set()
        self._watcher.join()


def test_files_written_anew_by_each_task_do_not_pile_up(alone: Api) -> None:
    """Twelve tasks over a disk of 64 MB once left 600 MB and more behind."""
    sandbox_id = alone.create(limits={"disk": DISK})
    with Space(alone.server.root) as space:
        for _ in range(12):
            assert alone.run(sandbox_id, REWRITE)["outcome"]["kind"] == "ok"
    assert space.most < 4 * DISK
    assert len(alone.value(sandbox_id, "open('data', 'rb').read(100)")) > 100


def test_nor_where_somebody_always_takes_one(alone: Api) -> None:
    sandboxes = [alone.create(limits={"disk": DISK}) for _ in range(2)]
    failed: list[object] = []

    def work(sandbox_id: str) -> None:
        for _ in range(6):
            task = alone.run(sandbox_id, REWRITE)
            if task["outcome"]["kind"] != "ok":
                failed.append(task)

    threads = [threading.Thread(target=work, args=(name,)) for name in sandboxes]
    with Space(alone.server.root) as space:
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert not failed
    assert space.most < 2 * 4 * DISK


def test_what_could_not_be_given_back_is_given_back_later(alone: Api) -> None:
    """A kernel takes a snapshot meanwhile, for long."""
    sandbox_id = alone.create(limits={"disk": DISK})
    space = Space(alone.server.root)
    alone.run(sandbox_id, REWRITE)
    with ChunkStore(alone.server.root / ".wasm-kernel" / "snapshots").hold():
        for _ in range(3):
            assert alone.run(sandbox_id, REWRITE)["outcome"]["kind"] == "ok"
        assert space.now() > 3 * 48 * MB
    alone.run(sandbox_id, "1")
    end = time.monotonic() + 30
    while space.now() > 2 * DISK:
        assert time.monotonic() < end
        time.sleep(0.1)


def test_a_large_snapshot_that_is_deleted_gives_its_space_back_at_once(alone: Api) -> None:
    sandbox_id = alone.create(limits={"disk": 2 * DISK})
    alone.run(sandbox_id, REWRITE.replace("48", "100"))
    saved = alone("POST", f"sandboxes/{sandbox_id}/snapshots", {}, 201)["snapshot_id"]
    alone.run(sandbox_id, "import os; os.remove('data')")
    alone("DELETE", f"sandboxes/{sandbox_id}")  # snapshots of one in use stay
    space = Space(alone.server.root)
    assert space.now() > 100 * MB
    alone("DELETE", f"snapshots/{saved}", status=204)
    alone.run(alone.create(limits={"disk": 2 * DISK}), REWRITE.replace("48", "70"))
    alone.until(lambda: space.now() < 100 * MB)


def test_a_damaged_snapshot_can_be_deleted(alone: Api) -> None:
    sandbox_id = alone.create()
    saved = alone("POST", f"sandboxes/{sandbox_id}/snapshots", {}, 201)["snapshot_id"]
    (manifest,) = (alone.server.root / ".wasm-kernel/snapshots/manifests" / sandbox_id).glob(f"*{saved}*")
    alone("DELETE", f"sandboxes/{sandbox_id}")
    manifest.write_bytes(b"nothing that was ever a manifest")
    alone("DELETE", f"snapshots/{saved}", status=204)
    alone("GET", f"snapshots/{saved}", status=404)
