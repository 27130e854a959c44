"""A file that is written piece by piece into a folder of the guest's, and appears there whole or not at all."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterable, Iterator
from typing import IO, Any

from wasm_kernel.host.durable import PendingFile, sync_file_system
from wasm_kernel.model.names import METADATA_NAME

BLOCK = 1 << 20
_AT_ONCE = 128  # files that wait for one sync, each with two descriptors
TEMPORARY = f"{METADATA_NAME}.upload-"  # the guest cannot see such a name, in any folder


class NewFile:
    """A file being written, under a name that the guest cannot see until `finish`.

    As a context manager it deletes the file unless that was finished.

    Attributes:
        size: The bytes written so far.
    """

    def __init__(self, folder: int, name: str, overwrite: bool, *, in_new_folder: bool = False) -> None:
        self._folder, self._name, self._overwrite, self._in_new_folder = folder, name, overwrite, in_new_folder
        self.size = 0
        try:
            self._pending = PendingFile(TEMPORARY, 0o666, folder=folder)
        except BaseException:
            os.close(folder)
            raise
        self._file: IO[bytes] | None = os.fdopen(self._pending.handle, "wb", closefd=False)

    def __enter__(self) -> NewFile:
        return self

    def __exit__(self, *exc: object) -> None:
        self.discard()

    def write(self, block: bytes | bytearray) -> None:
        """Append bytes to the file."""
        if self._file is None:
            raise ValueError("the file is finished or discarded")
        self.size += self._file.write(block)

    def finish(self, modified_ns: int | None = None, *, sync: bool = True) -> os.stat_result:
        """Make it durable and visible; its `stat` then. Without ``sync`` the caller makes it durable."""
        self.flush(modified_ns)
        if sync and self._in_new_folder:
            sync_file_system(self._folder)  # also the folders above
        elif sync:
            self._pending.sync()
        self._pending.publish(self._name, folder=self._folder, exclusive=not self._overwrite)
        if sync:
            os.fsync(self._folder)
        info = os.fstat(self._pending.handle)
        self.discard()
        return info

    def flush(self, modified_ns: int | None = None) -> int:
        """Hand everything written to the system; the file's descriptor, for a sync."""
        if self._file is None:
            raise ValueError("the file is finished or discarded")
        self._file.flush()
        if modified_ns is not None:
            os.utime(self._pending.handle, ns=(modified_ns, modified_ns))
        return self._pending.handle

    def discard(self) -> None:
        """Delete it, unless it was finished."""
        if self._file is None:
            return
        file, self._file = self._file, None
        try:
            with contextlib.suppress(OSError):  # what a full disk did not take
                file.close()
            with contextlib.suppress(OSError):
                self._pending.discard()
        finally:
            os.close(self._folder)


class NewFiles:
    """Files that are made durable together, and only then visible: one sync for many, and none is ever half there.

    At the end of its block all are visible; if that fails, those that still wait are deleted.
    """

    def __init__(self) -> None:
        self._waiting: list[tuple[NewFile, int | None]] = []

    def __enter__(self) -> NewFiles:
        return self

    def __exit__(self, kind: type[BaseException] | None, *rest: object) -> None:
        try:
            if kind is None:
                self._finish()
        finally:
            for new, _ in self._waiting:
                new.discard()

    def write(self, new: NewFile, blocks: Iterable[bytes], modified_ns: int | None = None) -> None:
        """Give a new file its content; it becomes visible with the others."""
        self._waiting.append((new, modified_ns))
        for block in blocks:
            new.write(block)
        if len(self._waiting) >= _AT_ONCE:
            self._finish()

    def _finish(self) -> None:
        handles = [new.flush(modified_ns) for new, modified_ns in self._waiting]
        if handles:
            sync_file_system(handles[0])
        while self._waiting:
            self._waiting[-1][0].finish(sync=False)
            self._waiting.pop()


def blocks_of(data: Any) -> Iterator[bytes]:
    """Text, bytes, an open file or an iterable of bytes, as blocks of a bounded size."""
    if isinstance(data, str):
        data = data.encode()
    if isinstance(data, bytes | bytearray | memoryview):
        view = memoryview(data).cast("B")
        for start in range(0, len(view), BLOCK):
            yield bytes(view[start : start + BLOCK])
    elif hasattr(data, "read"):
        while block := data.read(BLOCK):
            yield block.encode() if isinstance(block, str) else block
    else:
        yield from data
