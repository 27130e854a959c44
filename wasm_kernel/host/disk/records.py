"""Sessions' metadata files, replaced whole: `model.records` says what is in them."""

from __future__ import annotations

import contextlib
import os
import stat
import time
from pathlib import Path

from wasm_kernel.host.durable import sync_folder, write_file
from wasm_kernel.model.names import METADATA_NAME
from wasm_kernel.model.records import BadRecord, SessionRecord, check_record, parse_record

_MAX_METADATA = 1 << 20
_SYNC_EVERY = 30.0  # seconds


def read_record(folder: Path) -> SessionRecord | None:
    """A session's metadata; None when it has none. `BadRecord` when it cannot be understood, or is not its own."""
    try:
        handle = os.open(folder / METADATA_NAME, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK)
    except FileNotFoundError:
        return None
    except OSError as e:
        raise BadRecord(f"cannot be read: {e.strerror}") from None
    try:
        info = os.fstat(handle)
        if not stat.S_ISREG(info.st_mode) or info.st_size > _MAX_METADATA:
            raise BadRecord("not an ordinary file of reasonable size")
        data = os.read(handle, info.st_size)
    finally:
        os.close(handle)
    return check_record(parse_record(data), folder.name.partition(".")[0])  # one being made has a dot in its name


def write_record(folder: Path, record: SessionRecord, *, sync: bool) -> None:
    """Replace a session's metadata: whole or not at all. ``sync`` makes it survive a power cut right away."""
    write_file(folder / METADATA_NAME, record.to_json(), random_bytes=6, sync=sync)


class RecordKeeper:
    """Refreshes one session's metadata often and cheaply: synced at most every half minute, and at the end."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._synced = time.monotonic()
        self._unsynced = False

    def replace(self, record: SessionRecord) -> None:
        """Write a newer record; it is synced if that is due."""
        due = time.monotonic() - self._synced > _SYNC_EVERY
        write_record(self._folder, record, sync=due)
        self._unsynced = not due
        if due:
            self._synced = time.monotonic()

    def close(self) -> None:
        """Make the last record survive a power cut."""
        if self._unsynced:
            with contextlib.suppress(OSError):
                handle = os.open(self._folder / METADATA_NAME, os.O_RDONLY | os.O_CLOEXEC)
                try:
                    os.fsync(handle)
                finally:
                    os.close(handle)
                sync_folder(self._folder)
            self._unsynced = False
