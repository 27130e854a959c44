"""The administrator's file, and what it rules. It is at two fixed places; no setting of a user's leads elsewhere.

It counts only if nobody but its owner can write it. In an environment that belongs to the user, that is the user: there
they are the administrator.
"""

from __future__ import annotations

import contextlib
import os
import pwd
import stat
import sys
from pathlib import Path

from wasm_kernel.errors import ConfigurationError, NotAllowed
from wasm_kernel.model import limits
from wasm_kernel.model.administrator import Rules, combined, parse, unusable
from wasm_kernel.model.policy import ExecutionPolicy

_NAME = "etc/wasm-kernel/administrator.toml"
_MAX_BYTES = 64 << 10
_held: Rules | None = None


def places() -> list[str]:
    """Where the file may be: the machine's, and the environment's. Texts, because every cell looks there."""
    return [f"/{_NAME}", f"{sys.prefix}/{_NAME}"]


def hold() -> None:
    """Keep to the rules as they are now: this process gives up the right to read them."""
    global _held
    with contextlib.suppress(NotAllowed):  # whoever needs them is told that they cannot be read
        _held = rules()


def rules() -> Rules:
    """The rules in force; read at each use: two looks at the disk. `NotAllowed` when a file cannot be used."""
    if _held is not None:
        return _held
    return combined(parse(text, path) for path in places() if (text := _text(path)) is not None)


def _text(path: str) -> str | None:
    try:
        handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as e:
        raise unusable(path, f"it cannot be read: {e.strerror}") from None
    try:
        problem = _problem(Path(path), os.fstat(handle))
        if problem:
            raise unusable(path, problem)
        return os.read(handle, _MAX_BYTES).decode()
    except UnicodeDecodeError as e:
        raise unusable(path, f"it is not UTF-8 text: {e.reason} at byte {e.start}") from None
    finally:
        os.close(handle)


def _problem(path: Path, info: os.stat_result) -> str:
    """Why a file cannot be trusted; empty when it can."""
    if not stat.S_ISREG(info.st_mode) or info.st_size >= _MAX_BYTES:
        return f"it is not an ordinary file of less than {_MAX_BYTES:,} bytes"
    if info.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        return f"users other than its owner can write to it; run `chmod go-w {path}`"
    folder = path.parent
    if os.getuid() not in (0, folder.stat().st_uid) and os.access(folder, os.W_OK):  # not so on a read-only disk
        return f"you can write to its folder, and are not its owner; run `chmod go-w {folder}`"
    return ""


def permitted(policy: ExecutionPolicy) -> ExecutionPolicy:
    """A policy within the rules: what was left at its default is lowered, what was asked for is refused if too high."""
    found = rules()
    try:
        return limits.within(policy, found.maxima)
    except ConfigurationError as e:
        raise ConfigurationError(f"{e} ({', '.join(sorted(set(found.sources.values())))})") from None


def check_image(key: str) -> None:
    """Refuse any image but the one that is pinned."""
    found = rules()
    if found.image and found.image != key:
        source = found.sources["image"]
        raise NotAllowed(
            f"this version of wasm-kernel uses the image {key}, and {source} allows only {found.image}. The "
            f"administrator has to install the version that was pinned, or write image = {key!r} there"
        )


def workspace_root() -> Path | None:
    """Where every user's sessions are, if that is ruled. A user's home is what the system says, not the environment."""
    named = rules().workspace_root
    return _expanded(named) if named else None


def data_folders() -> list[Path] | None:
    """The only folders that notebooks may see at /data; None: there is no such rule."""
    named = rules().data_folders
    return None if named is None else [_expanded(folder) for folder in sorted(named)]


def _expanded(named: str) -> Path:
    if named.startswith("~"):
        return Path(pwd.getpwuid(os.getuid()).pw_dir) / named[1:].lstrip("/")
    return Path(named)
