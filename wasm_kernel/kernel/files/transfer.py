"""Files between a session and the person's own computer: links to download, uploads. Everything here blocks."""

from __future__ import annotations

import base64
import html
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlencode, urljoin

from wasm_kernel.errors import ConfigurationError, PathRefused
from wasm_kernel.host.files.folder import Folder, components
from wasm_kernel.host.files.quota import Quota
from wasm_kernel.kernel import notebook
from wasm_kernel.kernel.files.listing import items_in
from wasm_kernel.kernel.render import escape, visible
from wasm_kernel.model.names import Names, fitted, key_of, safe_name
from wasm_kernel.model.units import format_size

SMALL = 20 << 20  # bytes that fit into a page as a data: URL
MESSAGE = 10_000_000  # bytes a server's websocket accepts in one message, less the overhead
_MAX_FILES = 5000  # in an archive made here
_NO_LIMIT = 1 << 60
LONGEST_LINK = 12_000  # characters; proxies accept at most 16 KiB of URL and cookies
_NO_SERVER_PART = (
    "larger files need wasm-kernel's server extension, which this Jupyter server does not have: "
    "install wasm-kernel where the server runs, and restart it"
)


@dataclass(frozen=True)
class Links:
    """Addresses of one session at the server extension. They begin with a slash: valid on any page of that server.

    ``zip_bytes`` and ``zip_files``: the most it puts into one zip.
    """

    base: str
    zip_bytes: int = _NO_LIMIT
    zip_files: int = _NO_LIMIT

    def file(self, path: str) -> str:
        """A file, to download."""
        return f"{self.base}/files/{key_of(path)}"

    def shown(self, path: str, version: int) -> str:
        """A file to view, if browsers show its type safely. The address changes with the file."""
        return f"{self.file(path)}?inline=1&v={version:x}"

    def archive(self, paths: Sequence[str]) -> str:
        """Files and folders as one zip; none: everything."""
        query = urlencode([("path", os.fsencode(p)) for p in paths])
        return f"{self.base}/archive" + (f"?{query}" if query else "")

    def upload(self, folder: str) -> str:
        """The page that uploads into a folder."""
        return f"{self.base}/upload?" + urlencode({"path": os.fsencode(folder)})


def find_links(environ: Mapping[str, str], session_id: str) -> Links | None:
    """Ask the server that started this kernel whether it serves the session's files."""
    server = notebook.server_of(environ)
    if server is None:
        return None
    answer = notebook.ask_server(server, environ, f"wasm-kernel/sessions/{session_id}")  # does not walk the folder
    most = answer.get("archive") if isinstance(answer, dict) else None
    if not isinstance(most, dict):
        return None
    base = str(server.get("base_url") or "/")
    return Links(
        urljoin(f"/{base.strip('/')}/".replace("//", "/"), f"wasm-kernel/sessions/{session_id}"),
        int(most.get("max_bytes", _NO_LIMIT)),
        int(most.get("max_files", _NO_LIMIT)),
    )


# ---- download


@dataclass(frozen=True)
class Download:
    """A download link: the file's name, its size if known, and the address."""

    name: str
    href: str
    size: int | None = None

    def markup(self) -> str:
        """As HTML."""
        size = f", {format_size(self.size)}" if self.size is not None else ""
        return f'<a download="{escape(self.name)}" href="{html.escape(self.href)}">{escape(self.name)}</a>{size}'


def markup(made: Sequence[Download]) -> str:
    """Links as the output of a cell."""
    lines = "".join(f"<div>{d.markup()}</div>" for d in made)
    return f'<div style="font-size:var(--jp-code-font-size,13px)">Download {lines}</div>'


def relative(path: str) -> str:
    """A path as a person writes it, relative to the workspace. `ConfigurationError` if it is outside."""
    bare = path.removeprefix("/app").lstrip("/") if path == "/app" or path.startswith("/app/") else path
    if bare in ("", "."):
        return ""
    try:
        return "/".join(components(bare, backslashes=True))
    except PathRefused as e:
        raise ConfigurationError(str(e)) from None


def kind_of(folder: Folder, path: str) -> tuple[str, int]:
    """``folder`` or ``file``, and a file's size; raises a readable error if it is neither."""
    if not path:
        return "folder", 0
    try:
        with folder.enter(path):
            return "folder", 0
    except NotADirectoryError:
        pass
    except PathRefused as e:
        raise ConfigurationError(str(e)) from None
    except OSError:
        raise ConfigurationError(f"there is no {visible(path)!r} in /app; `%session files` lists the files") from None
    try:
        with folder.open(path) as file:
            return "file", os.fstat(file.fileno()).st_size
    except (PathRefused, OSError) as e:
        raise ConfigurationError(f"{visible(path)!r} cannot be read: {_why(e)}") from None


def downloads(root: Path, paths: Sequence[str], links: Links | None, *, as_zip: bool) -> list[Download]:
    """A link for each file, or one for all of them as a zip."""
    if as_zip:
        return [_archive(root, paths, links)]
    made, total = [], 0
    with Folder(root, backslashes=True) as folder:
        for path in paths:
            kind, size = kind_of(folder, path)
            if kind == "folder":
                named = visible(path) or "/app"
                raise ConfigurationError(f"{named!r} is a folder; `%session download {named} --zip` gives it as a zip")
            total += size
            if links is not None:
                made.append(Download(safe_name(path.rpartition("/")[2]), links.file(path), size))
                continue
            if total > SMALL:
                raise ConfigurationError(
                    f"with {visible(path)!r} it is {format_size(total)}, more than the {format_size(SMALL)} that fit "
                    f"into a page; {_NO_SERVER_PART}"
                )
            with folder.open(path) as file:
                data = file.read(size)
            made.append(Download(safe_name(path.rpartition("/")[2]), data_address(data), len(data)))
    return made


def _archive(root: Path, paths: Sequence[str], links: Links | None) -> Download:
    from wasm_kernel.sessions.zip_stream import Bounds, ZipTooLarge, check, zip_blocks

    wanted = [p for p in paths if p] if all(paths) else []
    name = safe_name(f"{wanted[0].rpartition('/')[2] if len(wanted) == 1 else 'files'}.zip")
    with Folder(root, backslashes=True) as folder:
        for path in wanted:
            kind_of(folder, path)
        if links is not None:
            check(folder, wanted, Bounds(links.zip_bytes, links.zip_files))
            address = links.archive(wanted)
            if len(address) > LONGEST_LINK:
                raise ConfigurationError("too many names for one link; download their folder instead")
            return Download(name, address)
        try:
            data = b"".join(zip_blocks(folder, wanted, Bounds(SMALL, _MAX_FILES)))
        except ZipTooLarge as e:
            raise ConfigurationError(f"{e}; {_NO_SERVER_PART}") from None
    return Download(name, data_address(data), len(data))


def data_address(data: bytes, kind: str = "application/octet-stream") -> str:
    """A data: URL that contains the bytes themselves."""
    return f"data:{kind};base64,{base64.b64encode(data).decode()}"


# ---- upload


def check_upload(quota: Quota, sizes: Mapping[str, int]) -> None:
    """Refuse an upload that does not fit."""
    if quota.used is None:
        raise ConfigurationError("the free space is unknown, because folders are nested too deep; delete some of them")
    total = sum(sizes.values())
    if total > quota.free:
        free, limit = format_size(quota.free), format_size(quota.limit)
        raise ConfigurationError(f"{format_size(total)} does not fit: {free} of {limit} is free")
    for name, size in sizes.items():
        if size > quota.max_file:
            raise ConfigurationError(
                f"{visible(name)!r} is larger than the limit for one file, {format_size(quota.max_file)}"
            )
    if len(sizes) > quota.free_entries:
        raise ConfigurationError(f"there would be more than {quota.max_entries:,} files and folders")


def upload_names(names: Sequence[str]) -> list[str]:
    """Names for uploaded files: the last part of their original paths, made safe and unique."""
    taken = Names()
    return [taken.take(name.replace("\\", "/").rpartition("/")[2]) for name in names]


def existing(root: Path, folder: str, names: Sequence[str]) -> list[str]:
    """Which of these names are taken in a folder."""
    there = {item.path for item in items_in(root, folder)}
    return [name for name in names if name in there]


def store(root: Path, folder: str, files: Mapping[str, Any], *, replace: bool = False, both: bool = False) -> list[str]:
    """Write files, and return their names. Existing files stay, unless they are to be replaced."""
    written = []
    prefix = f"{folder}/" if folder else ""
    with Folder(root, backslashes=True) as workspace:
        for name, data in files.items():
            target = name
            if both:
                taken = Names()
                for other in existing(root, folder, _variants(name)):
                    taken.take(other)
                target = taken.take(name)
            workspace.write(f"{prefix}{target}", [bytes(data)], overwrite=replace)
            written.append(target)
    return written


def _variants(name: str) -> list[str]:
    return [name, *(fitted(name, f" ({n})") for n in range(2, 200))]


def _why(error: Exception) -> str:
    return (error.strerror or str(error)) if isinstance(error, OSError) else str(error)
