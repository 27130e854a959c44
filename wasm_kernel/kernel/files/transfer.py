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

from wasm_kernel.errors import ConfigurationError
from wasm_kernel.host.folder import Folder, PathRefused, components
from wasm_kernel.host.workspace import survey
from wasm_kernel.kernel import notebook
from wasm_kernel.kernel.files.listing import items_in
from wasm_kernel.kernel.render import escape, visible
from wasm_kernel.model.names import Names, key_of, safe_name
from wasm_kernel.model.policy import ExecutionPolicy
from wasm_kernel.model.units import format_size

SMALL = 20 << 20  # what a page can take as a data: address
MESSAGE = 10_000_000  # what a server's websocket takes in one message, less what is around it
_MAX_FILES = 5000  # in an archive made here
_NO_LIMIT = 1 << 60
LONGEST_LINK = 12_000  # characters; proxies take no more than 16 KiB of address and cookies
_NO_SERVER_PART = (
    "larger files need wasm-kernel's server extension, which this Jupyter server does not have: "
    "install wasm-kernel where the server runs, and restart it"
)


@dataclass(frozen=True)
class Links:
    """Addresses of one session at the server extension. They begin with a slash: any page of that server has them.

    ``zip_bytes`` and ``zip_files``: how much it puts into one zip.
    """

    base: str
    zip_bytes: int = _NO_LIMIT
    zip_files: int = _NO_LIMIT

    def file(self, path: str) -> str:
        """A file, to download."""
        return f"{self.base}/files/{key_of(path)}"

    def shown(self, path: str, version: int) -> str:
        """A file to look at, if browsers show its type safely. Another version has another address."""
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
    answer = notebook.ask_server(server, environ, f"wasm-kernel/sessions/{session_id}/list?limit=0")
    if not isinstance(answer, dict) or "quota" not in answer:
        return None
    base = str(server.get("base_url") or "/")
    most = answer.get("archive", {})
    return Links(
        urljoin(f"/{base.strip('/')}/".replace("//", "/"), f"wasm-kernel/sessions/{session_id}"),
        int(most.get("max_bytes", _NO_LIMIT)),
        int(most.get("max_files", _NO_LIMIT)),
    )


# ---- download


@dataclass(frozen=True)
class Download:
    """A link: what it gives, how large that is if known, and where it leads."""

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
    """A path as a person writes it, below the workspace. `ConfigurationError` if it is not."""
    bare = path.removeprefix("/app").lstrip("/") if path == "/app" or path.startswith("/app/") else path
    if bare in ("", "."):
        return ""
    try:
        return "/".join(components(bare, backslashes=True))
    except PathRefused as e:
        raise ConfigurationError(str(e)) from None


def kind_of(folder: Folder, path: str) -> tuple[str, int]:
    """``folder`` or ``file``, and a file's size; a sentence if it is neither."""
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
        raise ConfigurationError(
            f"there is no {visible(path)!r} in /app; `%session files` shows what there is"
        ) from None
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
                    f"{visible(path)!r} makes it {format_size(total)}, more than the {format_size(SMALL)} that fit "
                    f"into a page; {_NO_SERVER_PART}"
                )
            with folder.open(path) as file:
                data = file.read(size)
            made.append(Download(safe_name(path.rpartition("/")[2]), data_address(data), len(data)))
    return made


def _archive(root: Path, paths: Sequence[str], links: Links | None) -> Download:
    from wasm_kernel.sessions.zipping import Bounds, TooMuch, check, zip_blocks

    wanted = [p for p in paths if p] if all(paths) else []
    name = safe_name(f"{wanted[0].rpartition('/')[2] if len(wanted) == 1 else 'files'}.zip")
    with Folder(root, backslashes=True) as folder:
        for path in wanted:
            kind_of(folder, path)
        if links is not None:
            check(folder, wanted, Bounds(links.zip_bytes, links.zip_files))
            address = links.archive(wanted)
            if len(address) > LONGEST_LINK:
                raise ConfigurationError("these are too many names for one link; download the folder they are in")
            return Download(name, address)
        try:
            data = b"".join(zip_blocks(folder, wanted, Bounds(SMALL, _MAX_FILES)))
        except TooMuch as e:
            raise ConfigurationError(f"{e}; {_NO_SERVER_PART}") from None
    return Download(name, data_address(data), len(data))


def data_address(data: bytes, kind: str = "application/octet-stream") -> str:
    """An address that holds the bytes themselves."""
    return f"data:{kind};base64,{base64.b64encode(data).decode()}"


# ---- upload


def check_upload(root: Path, policy: ExecutionPolicy, sizes: Mapping[str, int]) -> None:
    """Refuse what does not fit."""
    found = survey(root)
    free, total = policy.workspace_bytes - found.used_bytes, sum(sizes.values())
    if not found.complete:
        raise ConfigurationError("how much room is left cannot be told: the folders are too deep")
    if total > free:
        limit = format_size(policy.workspace_bytes)
        raise ConfigurationError(f"{format_size(total)} do not fit: {format_size(max(0, free))} of {limit} are free")
    for name, size in sizes.items():
        if size > policy.max_file_bytes:
            raise ConfigurationError(
                f"{visible(name)!r} is larger than a file may be, {format_size(policy.max_file_bytes)}"
            )
    if found.entries + len(sizes) > policy.max_files:
        raise ConfigurationError(f"there would be more than {policy.max_files:,} files and folders")


def upload_names(names: Sequence[str]) -> list[str]:
    """What files are to be called here: the last part of what they are called there, made safe, no two the same."""
    taken = Names()
    return [taken.take(name.replace("\\", "/").rpartition("/")[2]) for name in names]


def existing(root: Path, folder: str, names: Sequence[str]) -> list[str]:
    """Which of these names are taken in a folder."""
    there = {item.path for item in items_in(root, folder)}
    return [name for name in names if name in there]


def store(root: Path, folder: str, files: Mapping[str, Any], *, replace: bool = False, both: bool = False) -> list[str]:
    """Write files, and say under which names. What is there stays, unless it is to be replaced."""
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
    from wasm_kernel.model.names import fitted

    return [name, *(fitted(name, f" ({n})") for n in range(2, 200))]


def _why(error: Exception) -> str:
    return (error.strerror or str(error)) if isinstance(error, OSError) else str(error)
