"""Sessions that were saved with another image, in real kernels. That image is really built: its guest has one file more.

About 25 CPU seconds, half of them for the base memory.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.apps.terminal import wasm_kernel
from tests.conformance.client import Kernel, eventually
from wasm_kernel import Snapshot, list_snapshots
from wasm_kernel.host.image import cache, image
from wasm_kernel.host.image.older_images import inputs_of

pytestmark = pytest.mark.filterwarnings("ignore")
NAME = "notebook"
_EARLIER_VERSION = """
from wasm_kernel.host.image import image
sources = image.guest_sources
image.guest_sources = lambda *folder: sources(*folder) | ({} if folder else {"earlier.py": b"SAYS = 'earlier'"})
"""


class Machine:
    """A cache with the images of two versions, and one session. Kernels of both versions run on it."""

    def __init__(self, folder: Path) -> None:
        self.root, self._cache, self._earlier = folder / "sessions", folder / "cache", folder / "earlier"
        self._cache.mkdir(mode=0o700)
        for entry in (*image.parts().all(), image.parts().runtime):
            (self._cache / entry.kind).mkdir(exist_ok=True)
            (self._cache / entry.kind / entry.key).symlink_to(entry.path)
        self._earlier.mkdir()
        (self._earlier / "sitecustomize.py").write_text(_EARLIER_VERSION)
        self.kernels: list[Kernel] = []
        done = wasm_kernel("image", "build", **self.environ(earlier=True))
        assert done.returncode == 0, done.stderr
        (self.older,) = {path.name for path in (self._cache / "base").iterdir()} - {image.parts().base.key}
        self.base = self._cache / "base" / self.older

    def environ(self, *, earlier: bool = False) -> dict[str, str]:
        env = {"WASM_KERNEL_CACHE": str(self._cache), "WASM_KERNEL_WORKSPACE": str(self.root)}
        return env | ({"PYTHONPATH": str(self._earlier)} if earlier else {})

    def start(self, *, earlier: bool = False) -> Kernel:
        env = {**self.environ(earlier=earlier), "WASM_KERNEL_HOST": "0", "WASM_KERNEL_SESSION": NAME}
        self.kernels.append(Kernel(self.root, **env))
        return self.kernels[-1]

    def command(self, *arguments: str) -> Any:
        done = wasm_kernel(*arguments, "--json", **self.environ())
        return json.loads(done.stdout)

    def snapshots(self) -> list[Snapshot]:
        return list_snapshots(self.root, NAME)

    def end(self) -> None:
        for kernel in self.kernels:
            kernel.stop()
        self.kernels.clear()
        shutil.rmtree(self.root, ignore_errors=True)


@pytest.fixture(scope="module")
def two_images(tmp_path_factory: pytest.TempPathFactory) -> Machine:
    return Machine(tmp_path_factory.mktemp("machine"))


@pytest.fixture
def machine(two_images: Machine) -> Iterator[Machine]:
    yield two_images
    two_images.end()


@pytest.fixture
def saved(machine: Machine) -> Machine:
    """The session was used and closed with the earlier version."""
    close(used(machine.start(earlier=True)))
    return machine


def used(kernel: Kernel) -> Kernel:
    kernel.ok("from wasm_guest import earlier; x = [1, 2]; open('file', 'w').write('kept')")
    kernel.ok("x.append(3)")
    return kernel


def close(kernel: Kernel) -> None:
    kernel.client.stop_channels()
    kernel.manager.shutdown_kernel(now=False)


CHECK = "print(x, earlier.SAYS, open('file').read())"
CHECKED = "[1, 2, 3] earlier kept\n"


def test_it_goes_on_until_it_is_reset(saved: Machine) -> None:
    kernel = saved.start()
    first = kernel.ok(CHECK)
    assert first.stdout == CHECKED
    assert "Continued from" in first.said and "saved with an earlier version of the sandbox" in first.said
    kernel.ok("x.append(4)")
    close(kernel)
    kernel = saved.start()
    assert kernel.ok("print(x)").stdout == "[1, 2, 3, 4]\n"
    assert {inputs_of(s.image_key) for s in saved.snapshots()} == {saved.older}
    assert "an earlier version" in kernel.ok("%session info").said
    kernel.ok("%session reset")
    assert "an earlier version" not in kernel.ok("%session info").said
    assert "cannot import name" in kernel.run("from wasm_guest import earlier").traceback
    kernel.ok("y = 1")
    kernel.ok("%session undo 3")
    assert kernel.ok("print(x, earlier.SAYS)").stdout == "[1, 2, 3, 4] earlier\n", "undo leads back to it"
    kernel.ok("%session reset")
    kernel.ok("y = 2")
    close(kernel)
    again = saved.start().ok("print(y)")
    assert again.stdout == "2\n" and "earlier version" not in again.said
    assert {inputs_of(s.image_key) for s in saved.snapshots()} == {saved.older, image.parts().base.key}


def test_cells_that_only_a_log_holds_come_back(machine: Machine) -> None:
    kernel = used(machine.start(earlier=True))
    kernel.ok("x.append(4)")
    os.kill(kernel.pid, signal.SIGKILL)
    kernel.stop()
    kernel = machine.start()
    assert kernel.ok("print(x, earlier.SAYS)").stdout == "[1, 2, 3, 4] earlier\n"
    kernel.ok("x.append(5)")
    os.kill(kernel.pid, signal.SIGKILL)
    kernel.stop()
    assert machine.start().ok("print(x, earlier.SAYS)").stdout == "[1, 2, 3, 4, 5] earlier\n"


@pytest.fixture(params=["not there", "another protocol"])
def unusable(saved: Machine, request: pytest.FixtureRequest) -> Iterator[Callable[[], None]]:
    """The older image cannot be used; calling it mends that."""
    manifest = saved.base / cache.MANIFEST
    before = manifest.read_text()
    if request.param == "not there":
        manifest.unlink()
    else:
        manifest.write_text(json.dumps({**json.loads(before), "protocol": 99}))

    def mend() -> None:
        manifest.write_text(before)

    yield mend
    mend()


def test_without_the_image_files_are_there_and_variables_are_kept(
    saved: Machine, unusable: Callable[[], None], tmp_path: Path
) -> None:
    kernel = saved.start()
    first = kernel.ok("print(open('file').read(), 'x' in globals())")
    assert first.stdout == "kept False\n" and first.stderr == ""
    (said,) = (c["data"]["text/plain"] for c in first.of("display_data"))
    assert said.count("\n") == 0 and "another version of the sandbox" in said and "wasm-kernel that saved them" in said
    kept = next(s for s in saved.snapshots() if s.trigger == "user")
    assert kept.snapshot_id[:8] in said and inputs_of(kept.image_key) == saved.older
    refused = kernel.run(f"%session restore {kept.snapshot_id}")
    assert "another version of the sandbox" in refused.said
    kernel.ok("y = 1")
    close(kernel)
    assert "another version" not in saved.start().ok("print(y)").said, "it is said once"
    saved.kernels[-1].stop()
    archive = tmp_path / "archive.zip"
    assert wasm_kernel("sessions", "export", NAME, str(archive), **saved.environ()).returncode == 0
    unusable()
    kernel = saved.start()
    kernel.ok(f"%session restore {kept.snapshot_id}")
    assert kernel.ok(CHECK).stdout == CHECKED


def test_without_the_image_cells_that_only_a_log_holds_are_lost_and_that_is_said(machine: Machine) -> None:
    kernel = used(machine.start(earlier=True))
    assert eventually(lambda: any(s.metadata.get("number") == 2 for s in machine.snapshots())), "it is stored"
    kernel.ok("x.append(4)")
    os.kill(kernel.pid, signal.SIGKILL)
    kernel.stop()
    manifest = machine.base / cache.MANIFEST
    before = manifest.read_text()
    manifest.unlink()
    try:
        first = machine.start().ok("print(open('file').read())")
    finally:
        manifest.write_text(before)
    assert first.stdout == "kept\n"
    assert "What the last cells did before their kernel was killed is lost." in first.said


def test_an_image_that_a_session_needs_is_not_cleaned_away(saved: Machine, tmp_path: Path) -> None:
    own, older = (next(use for use in saved.command("image", "list") if use["current"] is now) for now in (True, False))
    assert (own["key"], own["sessions"]) == (image.parts().base.key, [])
    assert (older["key"], older["sessions"], older["problem"]) == (saved.older, [NAME], "")
    cleaned = saved.command("image", "clean")
    assert cleaned["deleted"] == []
    count = len(saved.snapshots())
    assert cleaned["kept"] == [{"key": saved.older, "reason": f"1 session needs it for {count} snapshots"}]
    unneeded = [{"part": "base", "key": saved.older}]
    for arguments in (["--even-needed"], []):
        dry = saved.command("image", "clean", "--dry-run", *arguments)
        assert [{k: d[k] for k in ("part", "key")} for d in dry["deleted"]] == unneeded
        shutil.rmtree(saved.root)
        saved.root.mkdir()
    close(used(saved.start(earlier=True)))
    elsewhere = tmp_path / "elsewhere"
    saved.root.rename(elsewhere)
    assert saved.command("image", "clean", "--dry-run")["deleted"]
    assert saved.command("image", "clean", "--workspace-root", str(elsewhere))["deleted"] == []
    assert saved.base.is_dir()
