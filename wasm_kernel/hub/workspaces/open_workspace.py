"""Opens a user's workspace, so that nobody but the administrator decides where that is.

A template has two parts. Up to the user's name (``/home/{username}``) it is the administrator's: links are followed
there, but only those of root and ourselves, in folders of root and ourselves. What comes after it
(``/.local/share/wasm-kernel/workspace``) is the user's, who can put anything there at any moment: each component is
opened in the one before it, no link is followed, and it must have the same owner as the home.
"""

from __future__ import annotations

import errno
import os
import pwd
import stat
from dataclasses import dataclass
from urllib.parse import quote

from wasm_kernel.errors import ConfigurationError

NAME, HOME = "{username}", "{home}"
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_MAX_LINKS = 16


class Refused(Exception):
    """This place must not be touched; the text says why, for the administrator."""


class Missing(Exception):
    """There is no workspace yet."""


@dataclass(frozen=True)
class OpenedWorkspace:
    """An open folder: its handle, path and owner."""

    handle: int
    path: str
    owner: int
    group: int


def check_template(template: str) -> str:
    """A template that gives each user a place of their own; `ConfigurationError` if not."""
    known = template.replace(NAME, "").removeprefix(HOME)
    if (NAME not in template and not template.startswith(HOME)) or "{" in known or "}" in known:
        raise ConfigurationError(
            f"workspace_template is {template!r}; it must contain {NAME}, or begin with {HOME}, and no other braces"
        )
    if not template.startswith(("/", HOME)) or ".." in template.split("/"):
        raise ConfigurationError(f"workspace_template is {template!r}; it must be an absolute path, without ..")
    return template


def folder_name(user: str) -> str:
    """A user's name as one component of a path: escaped as the hub does it in addresses, so no / and no NUL."""
    name = quote(user, safe="@~")
    if name in ("", ".", ".."):
        raise Refused(f"no folder can be named {user!r}")
    return name


def paths(template: str, user: str) -> tuple[str, list[str]]:
    """The administrator's part of a template for a user, and the components that follow."""
    if template.startswith(HOME):
        return _home(user), _components(template.removeprefix(HOME).replace(NAME, folder_name(user)))
    filled = [part.replace(NAME, folder_name(user)) for part in _components(template)]
    last = max(number for number, part in enumerate(_components(template)) if NAME in part)
    return "/" + "/".join(filled[: last + 1]), filled[last + 1 :]


def _home(user: str) -> str:
    try:
        return pwd.getpwnam(user).pw_dir
    except KeyError:
        raise Refused(f"the system has no user {user!r}") from None


def _components(path: str) -> list[str]:
    return [part for part in path.split("/") if part not in ("", ".")]


def open_workspace(template: str, user: str) -> OpenedWorkspace:
    """Open a user's workspace. `Missing` if there is none yet, `Refused` if its place or its owner is wrong."""
    above, below = paths(template, user)
    here = open_trusted(above)
    try:
        owner, path = os.fstat(here).st_uid, above
        for name in below:
            path += f"/{name}"
            deeper = _open_below(here, name, path)
            os.close(here)
            here = deeper
            info = os.fstat(here)
            if info.st_uid != owner and not _is_trusted(owner):
                raise Refused(f"{path} belongs to user {info.st_uid}, but the folder above it to user {owner}")
            owner = info.st_uid
        return OpenedWorkspace(here, path, owner, os.fstat(here).st_gid)
    except BaseException:
        os.close(here)
        raise


def _open_below(folder: int, name: str, path: str) -> int:
    try:
        return os.open(name, _FOLDER, dir_fd=folder)
    except FileNotFoundError:
        raise Missing(path) from None
    except OSError as e:
        if e.errno in (errno.ELOOP, errno.ENOTDIR):
            raise Refused(f"{path} is a link or a file, not a folder") from None
        raise Refused(f"{path} cannot be opened: {e.strerror}") from None


def open_trusted(path: str) -> int:
    """Open a folder in a place that only root and ourselves control."""
    here = os.open("/", _FOLDER)
    waiting, links = _components(path), 0
    try:
        while waiting:
            name = waiting.pop(0)
            _check_trusted(here, path)
            try:
                deeper = os.open(name, _FOLDER, dir_fd=here)
            except FileNotFoundError:
                raise Missing(path) from None
            except OSError as e:
                target = _trusted_link(here, name, path, e)
                links += 1
                if links > _MAX_LINKS:
                    raise Refused(f"{path} goes through too many links") from None
                waiting[:0] = _components(target)
                deeper = os.open("/", _FOLDER) if target.startswith("/") else os.dup(here)
            os.close(here)
            here = deeper
        return here
    except BaseException:
        os.close(here)
        raise


def _trusted_link(folder: int, name: str, path: str, error: OSError) -> str:
    try:
        if error.errno in (errno.ELOOP, errno.ENOTDIR) and _is_trusted(os.lstat(name, dir_fd=folder).st_uid):
            return os.readlink(name, dir_fd=folder)
    except OSError:
        pass
    raise Refused(f"{path} cannot be reached: {name!r} on the way is not a trusted folder ({error.strerror})")


def _check_trusted(folder: int, path: str) -> None:
    info = os.fstat(folder)
    if not _is_trusted(info.st_uid):
        raise Refused(f"{path} lies in a folder of user {info.st_uid}; only root and this service may own it")
    if info.st_mode & (stat.S_IWGRP | stat.S_IWOTH) and not info.st_mode & stat.S_ISVTX:
        raise Refused(f"{path} lies in a folder that others can write to; make it writable for its owner alone")


def _is_trusted(uid: int) -> bool:
    return uid in (0, os.geteuid())
