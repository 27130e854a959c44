"""What the tests of sessions share: sessions made by hand, logs that are read back, other processes."""

from __future__ import annotations

import contextlib
import io
import json
import os
import subprocess
import sys
import uuid
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from wasm_kernel import SandboxLogger
from wasm_kernel.host.disk.records import read_record, write_record
from wasm_kernel.host.files.workspace_survey import METADATA_NAME
from wasm_kernel.model.names import STATE_FOLDER
from wasm_kernel.model.records import SessionRecord
from wasm_kernel.model.snapshots import Manifest, SavedFile, Snapshot
from wasm_kernel.sessions.recorder import snapshot_store

UUID4 = r"[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}"


def make_session(
    root: Path,
    hours: float = 0.0,
    files: Mapping[str, bytes | str] | None = None,
    session_id: str | None = None,
    **extra: Any,
) -> str:
    """A session last used so many hours ago, written by hand as the specification says; its id."""
    session_id = session_id or str(uuid.uuid4())
    folder = root / session_id
    folder.mkdir(parents=True)
    moment = datetime.now(UTC) - timedelta(hours=hours)
    (folder / METADATA_NAME).write_bytes(SessionRecord(session_id, moment, moment, 1, extra).to_json())
    put_files(folder, files or {})
    return session_id


def make_legacy(root: Path, files: Mapping[str, bytes | str] | None = None, session_id: str | None = None) -> str:
    """A session from before there was metadata; its id."""
    session_id = session_id or str(uuid.uuid4())
    (root / session_id).mkdir(parents=True)
    put_files(root / session_id, files or {})
    return session_id


def make_corrupted(root: Path, damage: bytes = b'{"session_id": "x", "crea') -> str:
    """A session whose metadata cannot be read; its id."""
    session_id = make_session(root, hours=1000)
    (root / session_id / METADATA_NAME).write_bytes(damage)
    return session_id


def put_files(folder: Path, files: Mapping[str, bytes | str]) -> None:
    """Write files below a folder."""
    for name, data in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data.encode() if isinstance(data, str) else data)


def deepen(folder: Path, levels: int) -> None:
    """Folders below each other, deeper than any path reaches, as a guest can make them by renaming."""
    here = os.open(folder, os.O_RDONLY)
    for _ in range(levels):
        os.mkdir("d", dir_fd=here)
        deeper = os.open("d", os.O_RDONLY, dir_fd=here)
        os.close(here)
        here = deeper
    os.close(os.open("bottom", os.O_CREAT | os.O_WRONLY, dir_fd=here))
    os.close(here)


def set_age(root: Path, session_id: str, hours: float) -> None:
    """Make a session look unused for so long."""
    record = read_record(root / session_id)
    assert record is not None
    moment = datetime.now(UTC) - timedelta(hours=hours)
    created = min(record.created_at, moment)
    write_record(
        root / session_id, SessionRecord(session_id, created, moment, record.version, record.extra), sync=False
    )


def metadata(root: Path, session_id: str) -> dict[str, Any]:
    """A session's metadata as its file says."""
    found = json.loads((root / session_id / METADATA_NAME).read_bytes())
    assert isinstance(found, dict)
    return found


def tree_bytes(folder: Path) -> int:
    """The size of all files below a folder, its metadata included."""
    return sum(p.lstat().st_size for p in folder.rglob("*") if p.is_symlink() or not p.is_dir())


def tree(folder: Path) -> dict[str, bytes | str | None]:
    """Everything below a folder: contents of files, targets of links, None for folders."""
    found: dict[str, bytes | str | None] = {}
    for path in sorted(folder.rglob("*")):
        name = str(path.relative_to(folder))
        if path.is_symlink():
            found[name] = os.readlink(path)
        else:
            found[name] = path.read_bytes() if path.is_file() else None
    return found


def leftovers(root: Path) -> list[str]:
    """Temporary files and locks of sessions that are gone: nothing of the kind may outlive a prune."""
    state = root / STATE_FOLDER
    found = [str(p.relative_to(root)) for p in root.rglob(f"{METADATA_NAME}.*") if ".damaged-" not in p.name]
    for place in ("new", "trash"):
        if (state / place).is_dir():
            found += [str(p.relative_to(root)) for p in (state / place).iterdir()]
    if (state / "locks").is_dir():
        found += [str(p.relative_to(root)) for p in (state / "locks").iterdir() if not (root / p.name).is_dir()]
    return found


class Log:
    """A logger that writes JSON, and what it wrote."""

    def __init__(self, level: str = "debug") -> None:
        self.stream = io.StringIO()
        self.logger = SandboxLogger(level=level, json=True, stream=self.stream)

    def events(self, name: str | None = None) -> list[dict[str, Any]]:
        """The events so far, or those of one name."""
        found = [json.loads(line) for line in self.stream.getvalue().splitlines()]
        return [event for event in found if name is None or event["event"] == name]

    def event(self, name: str) -> dict[str, Any]:
        """The only event of this name."""
        found = self.events(name)
        assert len(found) == 1, f"{name} was logged {len(found)} times: {self.stream.getvalue()}"
        return found[0]

    def warnings(self) -> list[dict[str, Any]]:
        """Warnings and errors."""
        return [event for event in self.events() if event["level"] in ("warning", "error")]


@contextlib.contextmanager
def other_process(code: str, *args: object, **options: Any) -> Iterator[subprocess.Popen[str]]:
    """Another Python that runs this code; killed at the end. It has printed its first line when the block begins."""
    process = subprocess.Popen(
        [sys.executable, "-c", code, *map(str, args)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        **options,
    )
    assert process.stdout is not None
    try:
        line = process.stdout.readline()
        assert line.strip() == "ready", f"the other process said {line!r}"
        yield process
    finally:
        process.kill()
        process.communicate()


def run_python(code: str, *args: object, timeout: float = 60, **options: Any) -> str:
    """Run code in another Python to its end; what it printed."""
    done = subprocess.run(
        [sys.executable, "-c", code, *map(str, args)],
        capture_output=True,
        text=True,
        timeout=timeout,
        **options,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


HOLD = """
import sys, time
from pathlib import Path
from wasm_kernel.host.disk.locks import lock_session
lock = lock_session(Path(sys.argv[1]), sys.argv[2])
print("ready", flush=True)
sys.stdin.readline()
lock.release()
print("released", flush=True)
sys.stdin.readline()
"""
"""Holds a session's lock until a line comes, or until it is killed."""


def plant_snapshot(
    root: Path, session_id: str, hours: float = 0.0, *, trigger: str = "checkpoint", data: bytes = b""
) -> Snapshot:
    """A snapshot of one file, taken so many hours ago, written to the store by hand: no guest runs for it."""
    data = data or uuid.uuid4().bytes
    with contextlib.closing(snapshot_store(root)) as store, store.take() as take:
        snapshot = Snapshot(
            str(uuid.uuid4()),
            session_id,
            trigger,
            datetime.now(UTC) - timedelta(hours=hours),
            stored_bytes=len(data),
            file_count=1,
            file_bytes=len(data),
        )
        file = SavedFile("app", b"f", "file", len(data), chunks=(take.put(data),))
        take.commit(session_id, snapshot.snapshot_id, snapshot.to_json(), Manifest(snapshot, files=(file,)).body())
    return snapshot
