"""The cache of built things: private folders, each complete or absent.

An entry is built in a folder with a temporary name and renamed when its manifest is written, so a build that is
killed leaves nothing that could be taken for an entry. At start an entry is trusted by its place (a folder only
this user can write, or one of the system's administrator) and checked by size; `verify` reads it all.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import stat
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from wasm_kernel.errors import ImageError
from wasm_kernel.host import administrator
from wasm_kernel.host.durable import sync_folder, sync_tree

MANIFEST = "entry.json"  # read at every start, so it is short
DIGESTS = "digests.json"  # of every file; read by `verify` only
TIME = 1_767_225_600  # when every file was last written, as far as a guest can see: 1 January 2026
_ENVIRONMENT = "WASM_KERNEL_CACHE"
_BUILDING = "building-"


def cache_root() -> Path:
    """Where built things live: where the administrator says, `WASM_KERNEL_CACHE`, or this user's cache folder."""
    ruled = administrator.rules().image_cache
    if ruled:
        return Path(ruled)
    given = os.environ.get(_ENVIRONMENT)
    if given:
        return Path(given).expanduser().absolute()
    import platformdirs

    return Path(platformdirs.user_cache_dir("wasm-kernel"))


def private_root() -> Path:
    """The cache's folder, made if needed, which nobody but us can write to: what is in it runs as machine code.

    One that the administrator chose can be read by everybody.
    """
    root = cache_root()
    shared = bool(administrator.rules().image_cache)
    mode = 0o755 if shared else 0o700
    remedy = f"set {_ENVIRONMENT} to a folder of your own (mode 700)"
    if shared:
        remedy = "the administrator has to run `wasm-kernel image build`"
    try:
        root.mkdir(parents=True, exist_ok=True, mode=mode)
        info = root.stat()
    except OSError as e:
        raise ImageError(f"the cache folder {root} cannot be used: {e.strerror}; {remedy}") from e
    problem = ownership_problem(info)
    if not problem and info.st_uid != os.getuid():
        problem = f"belongs to user {info.st_uid}, who alone can build there"
    if problem:
        raise ImageError(f"the cache folder {root} {problem}; {remedy}")
    if info.st_mode & 0o777 != mode:
        root.chmod(mode)
    return root


def ownership_problem(info: os.stat_result) -> str:
    """How users other than us and root could change a folder; empty when they cannot."""
    if hasattr(os, "getuid") and info.st_uid not in (os.getuid(), 0):
        return f"belongs to user {info.st_uid}, not to you ({os.getuid()})"
    if info.st_mode & stat.S_IWOTH and not info.st_mode & stat.S_ISVTX:
        return "can be written by everybody"
    if info.st_uid != os.getuid() and info.st_mode & stat.S_IWGRP:
        return "can be written by a group"
    return ""


@dataclass(frozen=True)
class Entry:
    """One built thing, named by its kind and the hash of all that went into it."""

    kind: str
    key: str

    @property
    def path(self) -> Path:
        """Its folder, whether it is there or not."""
        return cache_root() / self.kind / self.key

    def manifest(self) -> dict[str, Any] | None:
        """What it says of itself, if it is there and whole as far as names and sizes tell."""
        try:
            # Whoever can change a folder above it can put another one in its place.
            if any(ownership_problem(folder.stat()) for folder in (self.path, *self.path.parents[:2])):
                return None
            manifest = json.loads((self.path / MANIFEST).read_bytes())
            if manifest["key"] != self.key:
                return None
            for name, size in manifest["sizes"].items():
                if (self.path / name).stat().st_size != size:
                    return None
        except (OSError, ValueError, KeyError, TypeError, AttributeError):
            return None
        return dict(manifest)

    def verify(self) -> list[str]:
        """Read everything and compare it with what was built: the names of the files that differ."""
        if self.manifest() is None:
            return [MANIFEST]
        try:
            digests = self.digests()
        except (OSError, ValueError):
            return [DIGESTS]
        return [name for name, digest in digests.items() if _digest(self.path / name) != digest]

    def digests(self) -> dict[str, str]:
        """The SHA-256 that each of its files had when it was built."""
        return dict(json.loads((self.path / DIGESTS).read_bytes()))

    def build(self, make: Callable[[Path], dict[str, Any]]) -> dict[str, Any]:
        """Make the entry anew. ``make`` fills a folder and returns facts for the manifest."""
        root = private_root()
        parent = root / self.kind
        parent.mkdir(exist_ok=True, mode=0o700)
        for stale in parent.glob(f"{_BUILDING}{self.key}-*"):  # the lock is ours: its builder is dead
            shutil.rmtree(stale, ignore_errors=True)
        folder = Path(tempfile.mkdtemp(prefix=f"{_BUILDING}{self.key}-", dir=parent))
        try:
            facts = make(folder)
            found = list(folder.rglob("*"))
            for path in found:  # a guest remembers them, also in the base memory
                os.utime(path, (TIME, TIME))
            files = [p for p in found if p.is_file()]
            large = [p for p in files if p.stat().st_size >= 1 << 20 or p.parent == folder]
            manifest = {
                **facts,
                "key": self.key,
                "built_at": time.time(),
                "sizes": {str(p.relative_to(folder)): p.stat().st_size for p in large},
            }
            digests = {str(p.relative_to(folder)): _digest(p) for p in files}
            (folder / DIGESTS).write_text(json.dumps(digests, indent=0))
            (folder / MANIFEST).write_text(json.dumps(manifest, indent=1))
            if administrator.rules().image_cache:
                _let_everybody_read(folder)
                parent.chmod(0o755)
            if self.path.exists():
                shutil.rmtree(self.path)
            sync_tree(folder)
            folder.rename(self.path)
            sync_folder(parent)
            return manifest
        except BaseException:
            shutil.rmtree(folder, ignore_errors=True)
            raise


def _digest(path: Path) -> str:
    try:
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError:
        return ""


def _let_everybody_read(folder: Path) -> None:
    """Make it readable for everybody, whatever the umask of whoever built it."""
    for path in (folder, *folder.rglob("*")):
        if not path.is_symlink():
            path.chmod(0o755 if path.is_dir() else 0o644)


@contextmanager
def build_lock(waiting: Callable[[dict[str, Any]], None]) -> Iterator[Callable[[dict[str, Any]], None]]:
    """Hold the cache's one build lock; the system releases it if the holder dies.

    While another process builds, ``waiting`` is called about twice a second with what that one last reported. The
    value yielded is for the holder to report its own progress.
    """
    from filelock import FileLock, Timeout  # only a build needs it, and starting should not pay for it

    root = private_root()
    lock = FileLock(root / "build.lock")
    board = root / "build.progress"
    while True:
        try:
            lock.acquire(timeout=0.5)
            break
        except Timeout:
            try:
                waiting(json.loads(board.read_bytes()))
            except (OSError, ValueError):
                waiting({})

    def report(state: dict[str, Any]) -> None:
        temporary = board.with_suffix(".new")
        temporary.write_text(json.dumps(state))
        temporary.replace(board)

    try:
        yield report
    finally:
        board.unlink(missing_ok=True)
        lock.release()


def entries(kind: str) -> list[Entry]:
    """Every finished entry of a kind."""
    folder = cache_root() / kind
    if not folder.is_dir():
        return []
    return [Entry(kind, p.name) for p in sorted(folder.iterdir()) if p.is_dir() and not p.name.startswith(_BUILDING)]


def remove(entry: Entry) -> int:
    """Delete an entry; the bytes it held."""
    size = folder_bytes(entry.path)
    doomed = entry.path.with_name(f"{_BUILDING}{entry.key}-removed-{os.getpid()}")
    entry.path.rename(doomed)  # at once: nobody finds it half deleted
    shutil.rmtree(doomed, ignore_errors=True)
    return size


def folder_bytes(folder: Path) -> int:
    """Bytes in a folder of ours."""
    return sum(p.stat().st_size for p in folder.rglob("*") if p.is_file() and not p.is_symlink())
