"""What was answered survives a power cut: written, synced, renamed, and the folder synced, in this order.

Each case is an act and the paths that have to last. `test_each_sync_is_needed` takes every sync away, one at a time, and
wants the recording to miss it: so a sync that is not needed, or that nothing guards, shows. `test_power_cut.py` tries
some of it on a disk that loses what was not synced.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import pytest

from tests.durability import Recording, Site, recorded
from tests.sessions.helpers import make_session, plant_snapshot
from wasm_kernel import SandboxLogger, write_session_file
from wasm_kernel.host.disk import packages, tombstones
from wasm_kernel.host.disk.records import RecordKeeper, read_record, write_record
from wasm_kernel.host.files.saved_tree import SavedTree
from wasm_kernel.host.image import cache
from wasm_kernel.host.store.cell_log import CellLog
from wasm_kernel.hub.audit import AuditEntry, AuditLog
from wasm_kernel.model.names import METADATA_NAME, STATE_FOLDER
from wasm_kernel.model.records import SessionRecord
from wasm_kernel.model.snapshots import SavedFile
from wasm_kernel.sessions.archive import export_session, import_session
from wasm_kernel.sessions.catalog import create_session_folder, repair_session_metadata
from wasm_kernel.sessions.housekeeping import archive_sessions
from wasm_kernel.sessions.recorder import snapshot_store

QUIET = SandboxLogger(level="error")
Act = Callable[[], object]
Check = Callable[[Recording], list[str]]
Case = Callable[[Path], tuple[Act, Check]]
ID = "11111111-1111-4111-8111-111111111111"


def lasts(*places: Path) -> Check:
    """Whatever got a name at or below these places."""
    return lambda recording: recording.problems(lambda path: any(p == path or p in path.parents for p in places))


def record_of(root: Path, session_id: str) -> SessionRecord:
    record = read_record(root / session_id)
    assert record is not None
    return record


def a_first_snapshot(root: Path) -> tuple[Act, Check]:
    """Packs, their manifest, and the folders that the store is in."""
    make_session(root, session_id=ID)
    (root / STATE_FOLDER).mkdir()
    store = root / STATE_FOLDER / "snapshots"

    def check(recording: Recording) -> list[str]:
        (manifest,) = (store / "manifests" / ID).iterdir()
        early = recording.durable_at(next((store / "packs").iterdir())) > recording.moment_of(manifest)
        return [*lasts(store)(recording), *(["the manifest was there before the folder of packs was synced"] * early)]

    return lambda: plant_snapshot(root, ID, data=os.urandom(200)), check


def a_collection(root: Path) -> tuple[Act, Check]:
    """What is still wanted is moved to a new pack."""
    make_session(root, session_id=ID)
    with contextlib.closing(snapshot_store(root)) as store, store.take() as take:
        wanted = take.put(os.urandom(200))
        take.put(os.urandom(60_000))
        take.commit(ID, "one", b"", wanted)

    def act() -> None:
        with contextlib.closing(snapshot_store(root)) as store:
            assert store.collect(lambda body: [body]).packs_rewritten == 1

    store = root / STATE_FOLDER / "snapshots" / "packs"

    def check(recording: Recording) -> list[str]:
        (new,), (old,) = store.iterdir(), [path for path in recording.unlinked if path.parent == store]
        early = recording.unlinked[old] < recording.durable_at(new)
        return [*lasts(store)(recording), *(["the old pack was gone before the new one was durable"] * early)]

    return act, check


def a_record(root: Path) -> tuple[Act, Check]:
    make_session(root, session_id=ID)
    record = record_of(root, ID).touched(datetime.now(UTC), title="new")
    return lambda: write_record(root / ID, record, sync=True), lasts(root / ID)


def a_record_at_the_end(root: Path) -> tuple[Act, Check]:
    """Refreshed after a cell without a sync, made durable when the session is closed."""
    make_session(root, session_id=ID)

    def act() -> None:
        keeper = RecordKeeper(root / ID)
        keeper.replace(record_of(root, ID).touched(datetime.now(UTC)))
        keeper.close()

    return act, lambda recording: recording.unsynced(root / ID / METADATA_NAME)


def a_repaired_record(root: Path) -> tuple[Act, Check]:
    (root / ID).mkdir()
    return lambda: repair_session_metadata(ID, root, QUIET), lasts(root / ID)


def a_new_session(root: Path) -> tuple[Act, Check]:
    return lambda: create_session_folder(root, QUIET, session_id=ID)[2].release(), lasts(root / ID)


def a_tombstone(root: Path) -> tuple[Act, Check]:
    make_session(root, session_id=ID)
    tombstones.write(root, "other", {}, most=9)
    return lambda: tombstones.write(root, ID, {"why": "test"}, most=9), lasts(root / STATE_FOLDER / "deleted")


def an_archive(root: Path) -> tuple[Act, Check]:
    make_session(root, session_id=ID, files={"a/b": b"data" * 10_000})
    return lambda: export_session(ID, root / "out.tar.zst", root), lasts(root / "out.tar.zst")


def a_zip(root: Path) -> tuple[Act, Check]:
    make_session(root, session_id=ID, files={"a/b": b"data" * 10_000})
    return lambda: export_session(ID, root / "out.zip", root), lasts(root / "out.zip")


def an_archive_of_what_goes(root: Path) -> tuple[Act, Check]:
    """In a new folder; then the session is deleted."""
    make_session(root, hours=100, session_id=ID, files={"a/b": b"data" * 10_000})

    def act() -> None:
        assert archive_sessions(24, root / "archive", root, logger=QUIET).archived

    return act, lasts(root / "archive")


def an_import(root: Path) -> tuple[Act, Check]:
    make_session(root, session_id=ID, files={"a/b": b"data" * 10_000})
    export_session(ID, root / "out.zip", root)
    old = set(root.iterdir())

    def check(recording: Recording) -> list[str]:
        return lasts(*(path for path in root.iterdir() if path not in old and path.name[0] != "."))(recording)

    return lambda: import_session(root / "out.zip", root, logger=QUIET), check


def an_upload(root: Path) -> tuple[Act, Check]:
    """As the server writes one, and the library: piece by piece, folders included."""
    make_session(root, session_id=ID)
    return lambda: write_session_file(ID, "new/folder/f", b"data" * 1000, root), lasts(root / ID)


def an_upload_into_a_folder_that_is_there(root: Path) -> tuple[Act, Check]:
    make_session(root, session_id=ID, files={"folder/other": b""})
    return lambda: write_session_file(ID, "folder/f", b"data" * 1000, root), lasts(root / ID)


def a_restore(root: Path) -> tuple[Act, Check]:
    """Many files at once: each is whole, whenever it appears."""
    (root / "app").mkdir()
    saved = [SavedFile("app", b"f%d" % n, "file", 4, chunks=(b"x" * 32,)) for n in range(3)]

    def check(recording: Recording) -> list[str]:
        return [f"{one.path.name} is not whole" for one in recording.named if not one.is_whole]

    return lambda: SavedTree("app", root / "app").restore(saved, lambda name, length: b"data"), check


def packages_of_a_session(root: Path) -> tuple[Act, Check]:
    make_session(root, session_id=ID)
    packages.prepare(root, ID)

    def act() -> None:
        with packages.changing(root, ID) as change:
            (change.new / "module.py").write_text("x = 1\n")
            change.put_in_use(["module"])

    return act, lasts(root / STATE_FOLDER / "packages" / ID)


def a_part_of_the_image(root: Path) -> tuple[Act, Check]:
    def make(folder: Path) -> dict[str, str]:
        (folder / "part").write_bytes(b"data")
        return {}

    return lambda: cache.Entry("base", "k").build(make), lasts(root / "cache" / "base")


def a_line_of_the_audit_log(root: Path) -> tuple[Act, Check]:
    log = AuditLog(root / "log")
    return lambda: log.append([AuditEntry("t", "r", "a", "delete")]), lambda recording: recording.unsynced(root / "log")


def a_log_of_cells(root: Path) -> tuple[Act, Check]:
    """Also of a file that was closed before it was synced, because its cells were about to be stored."""
    store = root / STATE_FOLDER / "snapshots"
    store.mkdir(parents=True)
    log = CellLog(store / "logs" / ID, "key")

    def act() -> None:
        log.append(b"{}", b"one")
        log.rotate()
        log.append(b"{}", b"two")
        log.sync()

    def check(recording: Recording) -> list[str]:
        files = list((store / "logs" / ID).iterdir())
        assert len(files) == 2
        return [*lasts(store / "logs")(recording), *(p for file in files for p in recording.unsynced(file))]

    return act, check


CASES: list[Case] = [
    a_first_snapshot,
    a_collection,
    a_record,
    a_record_at_the_end,
    a_repaired_record,
    a_new_session,
    a_tombstone,
    an_archive,
    a_zip,
    an_archive_of_what_goes,
    an_import,
    an_upload,
    an_upload_into_a_folder_that_is_there,
    a_restore,
    packages_of_a_session,
    a_part_of_the_image,
    a_line_of_the_audit_log,
    a_log_of_cells,
]


SPARE: dict[Case, set[Site]] = {  # the record is synced when the session is begun, and with all the rest at its end
    an_import: {("records", "write_record", "file"), ("records", "write_record", "folder")},
}


def problems(case: Case, root: Path, deaf_to: Site | None = None) -> tuple[Recording, list[str]]:
    root.mkdir()
    act, check = case(root)
    with recorded(deaf_to) as recording:
        act()
    return recording, check(recording)


@pytest.mark.parametrize("case", CASES)
def test_it_lasts(case: Case, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WASM_KERNEL_CACHE", str(tmp_path / "root" / "cache"))
    recording, found = problems(case, tmp_path / "root")
    assert found == []
    assert recording.sites


@pytest.mark.parametrize("case", CASES)
def test_each_sync_is_needed(case: Case, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WASM_KERNEL_CACHE", str(tmp_path / "root" / "cache"))
    recording, _ = problems(case, tmp_path / "root")
    for number, site in enumerate(recording.sites - SPARE.get(case, set())):
        monkeypatch.setenv("WASM_KERNEL_CACHE", str(tmp_path / f"{number}" / "cache"))
        _, found = problems(case, tmp_path / f"{number}", site)
        assert found, f"nothing is missed without the sync of {site}"
