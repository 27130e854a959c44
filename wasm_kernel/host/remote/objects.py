"""Named blobs in an object store, or in a folder: written whole, read, listed, deleted. All calls block.

Two rules are enough for everything above: an object appears whole or not at all, and `create` lets only one of several
writers succeed. `s3://bucket/prefix` and the like go through fsspec, with the credentials of the environment; a path or
`file://` is a folder.
"""

from __future__ import annotations

import contextlib
import errno
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Protocol
from urllib.parse import unquote, urlsplit

from wasm_kernel.errors import ConfigurationError, RemoteError
from wasm_kernel.host.durable import sync_folder, write_file

_S3 = {"connect_timeout": 5, "read_timeout": 20, "retries": {"max_attempts": 1}}  # seconds; we try again ourselves
_TRIES = 3  # for one object: stores fail now and then


@dataclass(frozen=True)
class Entry:
    """An object as a listing shows it; ``modified`` is by the store's own clock."""

    name: str
    size: int
    modified: datetime


class Objects(Protocol):
    """An object store. `KeyError` for what is not there, `RemoteError` for what goes wrong."""

    address: str

    def read(self, name: str, start: int = 0, end: int | None = None) -> bytes:
        """An object's bytes, or a part of them."""
        ...

    def write(self, name: str, data: bytes) -> None:
        """Put an object there, replacing one of that name."""
        ...

    def create(self, name: str, data: bytes) -> bool:
        """Put an object there, unless there is one of that name; whether it is this one."""
        ...

    def names(self, prefix: str) -> list[str]:
        """The objects whose name begins so, sorted; ``prefix`` ends with a slash."""
        ...

    def listing(self, prefix: str) -> list[Entry]:
        """The same objects with size and time: a thousand for each request, however many there are."""
        ...

    def folders(self, prefix: str) -> list[str]:
        """The next parts of names that begin so, sorted."""
        ...

    def modified(self, name: str) -> float:
        """When an object was written, by the store's own clock, in seconds."""
        ...

    def delete(self, names: Iterable[str]) -> None:
        """Delete objects; those that are gone already do not matter."""
        ...


def open_objects(address: str) -> Objects:
    """The object store at an address: `s3://bucket/prefix`, `file:///folder`, or whatever fsspec knows."""
    scheme, _, rest = address.partition("://")
    if not rest or not scheme.isalnum():
        raise ConfigurationError(f"remote is {address!r}; it must be an address such as s3://bucket/prefix")
    if scheme == "file":
        parts = urlsplit(address)
        if parts.netloc or not parts.path.startswith("/"):
            raise ConfigurationError(f"remote is {address!r}; a folder is file:///path, with three slashes")
        return FolderObjects(address, Path(unquote(parts.path)))
    return FsspecObjects(address)


def without_credentials(address: str) -> str:
    """An address as people are shown it: no user, password or parameters in it."""
    scheme, _, rest = address.partition("://")
    host, slash, path = rest.partition("?")[0].partition("/")
    return f"{scheme}://{host.rpartition('@')[2]}{slash}{path}"


class FolderObjects:
    """Objects as files of a folder, such as one on a network file system."""

    def __init__(self, address: str, folder: Path) -> None:
        self.address, self._folder = address, folder

    def read(self, name: str, start: int = 0, end: int | None = None) -> bytes:
        with self._told(name), (self._folder / name).open("rb") as file:
            file.seek(start)
            return file.read(-1 if end is None else end - start)

    def write(self, name: str, data: bytes) -> None:
        with self._told(name):
            write_file(self._placed(name), data)

    def create(self, name: str, data: bytes) -> bool:
        with self._told(name):
            try:
                write_file(self._placed(name), data, exclusive=True)
            except FileExistsError:
                return False
        return True

    def names(self, prefix: str) -> list[str]:
        with self._told(prefix):
            inside = self._folder / prefix
            found = (path for path in inside.rglob("*") if path.is_file())
            return sorted(str(path.relative_to(self._folder)) for path in found if not _is_temporary(path.name))

    def listing(self, prefix: str) -> list[Entry]:
        found = []
        for name in self.names(prefix):
            with contextlib.suppress(FileNotFoundError):  # deleted just now
                info = (self._folder / name).stat()
                found.append(Entry(name, info.st_size, datetime.fromtimestamp(info.st_mtime, UTC)))
        return found

    def folders(self, prefix: str) -> list[str]:
        with self._told(prefix):
            inside = self._folder / prefix
            parts = [path for path in inside.iterdir() if path.is_dir()] if inside.is_dir() else []
            return sorted(path.name for path in parts if any(inner.is_file() for inner in path.rglob("*")))

    def modified(self, name: str) -> float:
        with self._told(name):
            return (self._folder / name).stat().st_mtime

    def delete(self, names: Iterable[str]) -> None:
        for name in names:
            with self._told(name), contextlib.suppress(FileNotFoundError):
                (self._folder / name).unlink()

    def _placed(self, name: str) -> Path:
        target = self._folder / name
        if not target.parent.is_dir():
            target.parent.mkdir(parents=True, exist_ok=True)
            sync_folder(target.parent.parent)
        return target

    @contextlib.contextmanager
    def _told(self, name: str) -> Iterator[None]:
        try:
            yield
        except FileNotFoundError:
            raise KeyError(name) from None
        except OSError as e:
            raise RemoteError(f"{self.address} cannot be used: {e.strerror}; look at the folder") from None


def _is_temporary(name: str) -> bool:
    """Whether a killed writer left it: a name of ours, a dot and 16 digits."""
    return len(name.rpartition(".")[2]) == 16


class FsspecObjects:
    """Objects in a store that fsspec has an implementation for."""

    def __init__(self, address: str) -> None:
        self.address = shown = without_credentials(address)
        options = {"config_kwargs": _S3} if address.startswith(("s3://", "s3a://")) else {}
        try:
            from fsspec.core import url_to_fs
        except ImportError:
            raise ConfigurationError(f"{shown} needs the extra 'remote': pip install 'wasm-kernel[remote]'") from None
        try:
            self._store, self._root = url_to_fs(address, use_listings_cache=False, skip_instance_cache=True, **options)
            if options:
                self._store.retries = 1
        except (ImportError, ValueError) as e:
            raise ConfigurationError(f"remote is {shown!r}: {e}") from None

    def read(self, name: str, start: int = 0, end: int | None = None) -> bytes:
        def part(path: str) -> bytes:
            try:
                return bytes(self._store.cat_file(path, start=start or None, end=end))
            except OSError as e:
                if getattr(e, "errno", None) == errno.EINVAL or "Range" in str(e):  # it begins beyond the end
                    return b""
                raise

        found: bytes = self._do(name, part)
        return found

    def write(self, name: str, data: bytes) -> None:
        self._do(name, lambda path: self._store.pipe_file(path, data), writes=True)

    def create(self, name: str, data: bytes) -> bool:
        def attempt(path: str) -> bool:
            try:
                self._store.pipe_file(path, data, mode="create")
            except FileExistsError:
                return bool(self._store.cat_file(path) == data)  # a try before this one may have succeeded, unheard
            except OSError as e:
                if "PreconditionFailed" in str(e) or "pre-conditions" in str(e):
                    return bool(self._store.cat_file(path) == data)
                raise
            return True

        return bool(self._do(name, attempt, writes=True))

    def names(self, prefix: str) -> list[str]:
        found: list[str] = self._do(prefix, self._store.find, missing=[])
        begin = len(self._root.rstrip("/")) + 1
        return sorted(path[begin:] for path in found)

    def listing(self, prefix: str) -> list[Entry]:
        def look(path: str) -> list[Entry]:
            found: Mapping[str, Mapping[str, Any]] = self._store.find(path, detail=True)
            return [Entry(name[begin:], int(info["size"] or 0), self._time(name, info)) for name, info in found.items()]

        begin = len(self._root.rstrip("/")) + 1
        entries: list[Entry] = self._do(prefix, look, missing=[])
        return sorted(entries, key=lambda entry: entry.name)

    def _time(self, path: str, info: Mapping[str, Any]) -> datetime:
        """When an object was written; every implementation has a name of its own for that."""
        for name in ("LastModified", "last_modified", "updated", "mtime"):
            value = info.get(name)
            if isinstance(value, str):
                value = datetime.fromisoformat(value)
            if isinstance(value, int | float):
                return datetime.fromtimestamp(value, UTC)
            if isinstance(value, datetime):
                return value if value.tzinfo is not None else value.replace(tzinfo=UTC)
        found: datetime = self._store.modified(path)
        return found if found.tzinfo is not None else found.replace(tzinfo=UTC)

    def folders(self, prefix: str) -> list[str]:
        found: list[dict[str, Any]] = self._do(prefix, lambda path: self._store.ls(path, detail=True), missing=[])
        return sorted(item["name"].rstrip("/").rpartition("/")[2] for item in found if item["type"] == "directory")

    def modified(self, name: str) -> float:
        return float(self._do(name, self._store.modified).timestamp())

    def delete(self, names: Iterable[str]) -> None:
        for name in names:
            self._do(name, self._store.rm_file, missing=None)

    def _do(self, name: str, work: Any, *, writes: bool = False, **default: Any) -> Any:
        """Do something with an object, a few times if it fails for a reason that may pass."""
        path = f"{self._root.rstrip('/')}/{name}".rstrip("/")
        for attempt in range(_TRIES):
            try:
                return work(path)
            except FileNotFoundError:
                if "missing" in default:
                    return default["missing"]
                if writes:
                    raise RemoteError(f"{self.address} cannot be written to: there is no such bucket") from None
                raise KeyError(name) from None
            except PermissionError as e:
                raise self._refusal(e) from None
            except Exception as e:  # noqa: BLE001 - every implementation has errors of its own
                if "credentials" in str(e).lower():  # there are none, or they have expired
                    raise self._refusal(e) from None
                if attempt == _TRIES - 1:
                    said = str(e) or type(e).__name__
                    raise RemoteError(f"{self.address} cannot be reached: {said}; it is tried again later") from None
        raise AssertionError

    def _refusal(self, error: BaseException) -> RemoteError:
        said = str(error).rstrip(".")
        return RemoteError(f"{self.address} refuses: {said}; look at its credentials and their rights")
