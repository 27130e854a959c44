"""Cache entries are whole or absent: killed builds, two processes, damage, foreign folders."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest

from tests.conformance.client import eventually
from wasm_kernel import ImageError
from wasm_kernel.host.image import cache
from wasm_kernel.host.image.cache import Entry


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("WASM_KERNEL_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


def _make(folder: Path) -> dict[str, Any]:
    (folder / "sub").mkdir()
    (folder / "data").write_bytes(b"x" * 100)
    (folder / "sub" / "more").write_bytes(b"y")
    return {"fact": 1}


def test_an_entry_is_built_and_found(root: Path) -> None:
    entry = Entry("kind", "abc")
    assert entry.manifest() is None
    entry.build(_make)
    manifest = entry.manifest()
    assert manifest is not None
    assert manifest["fact"] == 1
    assert entry.verify() == []
    assert [p.name for p in (root / "kind").iterdir()] == ["abc"]


@pytest.mark.parametrize("damage", ["truncate", "remove", "manifest", "foreign key", "not json"])
def test_damage_is_seen_at_once(root: Path, damage: str) -> None:
    entry = Entry("kind", "abc")
    entry.build(_make)
    if damage == "truncate":
        (entry.path / "data").write_bytes(b"x")
    elif damage == "remove":
        (entry.path / "data").unlink()
    elif damage == "manifest":
        (entry.path / "entry.json").unlink()
    elif damage == "foreign key":
        text = (entry.path / "entry.json").read_text().replace('"abc"', '"other"')
        (entry.path / "entry.json").write_text(text)
    else:
        (entry.path / "entry.json").write_text("{")
    assert entry.manifest() is None
    entry.build(_make)
    assert entry.manifest() is not None


def test_changed_bytes_of_the_same_size_are_found_by_verify(root: Path) -> None:
    entry = Entry("kind", "abc")
    entry.build(_make)
    (entry.path / "data").write_bytes(b"z" * 100)
    (entry.path / "sub" / "more").write_bytes(b"!")
    assert entry.verify() == ["data", "sub/more"]


def test_a_build_that_fails_leaves_nothing(root: Path) -> None:
    def fail(folder: Path) -> dict[str, Any]:
        (folder / "half").write_text("made")
        raise RuntimeError("no")

    with pytest.raises(RuntimeError):
        Entry("kind", "abc").build(fail)
    assert list((root / "kind").iterdir()) == []


_KILLED = """
import sys, time
from pathlib import Path
from wasm_kernel.host.image.cache import Entry, build_lock
def make(folder):
    (folder / "half").write_text("made")
    print("building", flush=True)
    time.sleep(60)
with build_lock(lambda state: None) as report:
    report({"step": "slow"})
    Entry("kind", "abc").build(make)
"""


def test_a_killed_build_releases_its_lock_and_is_cleaned_up_by_the_next(root: Path) -> None:
    process = subprocess.Popen([sys.executable, "-c", _KILLED], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    assert process.stdout.readline() == "building\n"
    waited: list[dict[str, Any]] = []
    done = threading.Event()

    def second() -> None:
        with cache.build_lock(waited.append):
            Entry("kind", "abc").build(_make)
        done.set()

    thread = threading.Thread(target=second)
    thread.start()
    assert eventually(lambda: {"step": "slow"} in waited), (
        "the second builder should wait, and see what the first reports"
    )
    assert Entry("kind", "abc").manifest() is None
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    process.stdout.close()
    thread.join(60)
    assert done.is_set()
    assert Entry("kind", "abc").manifest() is not None
    assert [p.name for p in (root / "kind").iterdir()] == ["abc"]


def test_the_cache_is_private(root: Path) -> None:
    assert cache.private_root().stat().st_mode & 0o777 == 0o700
    root.chmod(0o777)
    with pytest.raises(ImageError, match="WASM_KERNEL_CACHE"):
        cache.private_root()
    root.chmod(0o750)
    assert cache.private_root().stat().st_mode & 0o777 == 0o700


@pytest.mark.skipif(os.getuid() != 0, reason="only root can give a folder away")
def test_a_folder_of_somebody_else_is_refused(root: Path) -> None:
    cache.private_root()
    os.chown(root, 12345, 12345)
    with pytest.raises(ImageError, match="12345"):
        cache.private_root()


@pytest.mark.skipif(os.getuid() != 0, reason="only root can give a folder away")
@pytest.mark.parametrize("whose", [".", "kind", "kind/abc"])
def test_an_entry_below_a_folder_of_somebody_else_is_not_trusted(root: Path, whose: str) -> None:
    entry = Entry("kind", "abc")
    entry.build(_make)
    assert entry.manifest() is not None
    os.chown(root / whose, 12345, 12345)
    assert entry.manifest() is None


@pytest.mark.parametrize("whose", [".", "kind", "kind/abc"])
def test_an_entry_below_a_folder_that_everybody_can_write_is_not_trusted(root: Path, whose: str) -> None:
    entry = Entry("kind", "abc")
    entry.build(_make)
    (root / whose).chmod(0o777)
    assert entry.manifest() is None


def test_a_cache_that_cannot_be_made_says_what_to_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("WASM_KERNEL_CACHE", str(tmp_path / "file" / "cache"))
    with pytest.raises(ImageError, match="set WASM_KERNEL_CACHE"):
        cache.private_root()


def test_entries_are_removed_whole(root: Path) -> None:
    entry = Entry("kind", "abc")
    entry.build(_make)
    assert cache.entries("kind") == [entry]
    assert cache.remove(entry) > 100
    assert cache.entries("kind") == []
    assert list((root / "kind").iterdir()) == []
