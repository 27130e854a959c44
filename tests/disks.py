"""Small disks of a test's own: real ext4 in a file, to be filled to the last block or cut off from its power."""

from __future__ import annotations

import contextlib
import os
import secrets
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

_SETTLE = "-o", "loop,commit=3600"  # the journal is committed by fsync alone, never by the clock


@dataclass(frozen=True)
class Disk:
    """A mounted file system.

    Attributes:
        at: Where it is mounted.
        image: The file that it is in.
    """

    at: Path
    image: Path

    @property
    def free(self) -> int:
        """Bytes that can still be written."""
        return shutil.disk_usage(self.at).free

    def fill(self) -> None:
        """Take every block: afterwards there is none for a folder, or for a file with a byte in it."""
        handle = os.open(self.at / "everything-else", os.O_RDWR | os.O_CREAT)
        try:
            size, step = os.fstat(handle).st_size, 1 << 20
            while step >= 1024:
                try:
                    os.posix_fallocate(handle, size, step)
                    size += step
                except OSError:
                    step //= 2
            os.fsync(handle)  # what was freed just now is free by then
        finally:
            os.close(handle)
        if self._has_a_block():
            self.fill()

    def _has_a_block(self) -> bool:
        try:
            (self.at / "one-more").mkdir()
        except OSError:
            return False
        (self.at / "one-more").rmdir()
        return True

    def make_room(self) -> None:
        """Give back what `fill` took."""
        (self.at / "everything-else").unlink()
        os.sync()

    def cut(self) -> Path:
        """What the disk would hold if the power failed now, as a file; nobody may write to it meanwhile.

        The image's own bytes are all that its device was given so far. What the mounted file system still has in memory
        is not among them, and nothing but a sync makes it write that: its journal is not committed by the clock.
        """
        copy = self.image.with_name(f"cut-{secrets.token_hex(4)}.img")
        subprocess.run(["cp", "--sparse=always", self.image, copy], check=True)
        return copy

    @contextlib.contextmanager
    def after_power_cut(self, cut: Path | None = None) -> Iterator[Path]:
        """What is there when the power is back, after a cut now or an earlier one: mounting replays the journal."""
        copy = cut or self.cut()
        with _mounted(copy, self.at.with_name(f"{self.at.name}-cut")) as disk:
            yield disk.at
        copy.unlink()


@contextlib.contextmanager
def ext4(folder: Path, megabytes: int) -> Iterator[Disk]:
    """A disk of that size, empty; the test is skipped where none can be made."""
    if os.getuid() != 0 or not sys.platform.startswith("linux"):
        pytest.skip("needs root on Linux, to mount a disk in a file")
    if shutil.which("mkfs.ext4") is None:
        pytest.skip("needs mkfs.ext4 (e2fsprogs)")
    image = folder / "disk.img"
    with image.open("wb") as file:
        file.truncate(megabytes << 20)
    subprocess.run(["mkfs.ext4", "-q", "-m", "0", image], check=True)
    with _mounted(image, folder / "disk") as disk:
        yield disk


@contextlib.contextmanager
def _mounted(image: Path, at: Path) -> Iterator[Disk]:
    at.mkdir()
    done = subprocess.run(["mount", *_SETTLE, image, at], capture_output=True, text=True)
    if done.returncode:
        pytest.skip(f"cannot mount a file here (no loop devices?): {done.stderr.strip()}")
    try:
        yield Disk(at, image)
    finally:
        subprocess.run(["umount", "-l", at], check=True)
        at.rmdir()
