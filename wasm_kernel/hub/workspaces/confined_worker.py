"""The process that works in users' workspaces. It forks one child per job, which gives up every right it can.

A workspace is its user's, who may replace any folder in it by a link at any moment, while we, maybe as root, delete
what we find there. So a job does not run in the service but in a child that

* opens the workspace (`open_workspace`), and the user's folder of archives if it is to archive,
* if it is root, becomes the owner of the workspace, so that it can do no more than that user,
* confines itself to these folders by Landlock, so that no link leads out, even if all users have one owner,
* does the job (`jobs`), answers in JSON, and ends.

Where there is no Landlock, only the first protection is left; it is enough if the system knows the owner by the user's
name, as then nobody else has that owner. Otherwise nothing is done, unless the administrator permits (``unconfined``).

The service starts the worker with nothing but one socket. It has no thread, so it can fork, and neither the hub's token
nor any other secret. Through the socket comes a message for each job: the seconds it may take, and a socket of its own.
When the service ends, so does the worker, and its children.
"""

from __future__ import annotations

import gc
import json
import os
import pwd
import resource
import select
import signal
import socket
import struct
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

from wasm_kernel.errors import WasmKernelError
from wasm_kernel.host import administrator
from wasm_kernel.hub.workspaces import landlock
from wasm_kernel.hub.workspaces.open_workspace import (
    Missing,
    OpenedWorkspace,
    Refused,
    folder_name,
    open_trusted,
    open_workspace,
)

ORDER = struct.Struct("<d")
MAX_REPLY = 256 << 20
_MAX_MEMORY = 8 << 30  # of address space, for a user who makes millions of folders
_ALSO_READ = "/proc"  # which file systems are mounted


def main() -> None:
    """Fork for each order, until the service is gone. The socket's descriptor is the only argument."""
    from wasm_kernel.hub.workspaces.jobs import JOBS  # imported once, for all children

    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)  # the service ends us, when it is done
    gc.freeze()  # children share what they do not touch, and do not live long enough to collect anything
    gc.disable()
    orders = socket.socket(fileno=int(sys.argv[1]))
    children: dict[int, float] = {}
    while True:
        ready, _, _ = select.select([orders], [], [], 0.5 if children else None)
        _reap(children)
        if not ready:
            continue
        data, handles, _, _ = socket.recv_fds(orders, ORDER.size, 1)
        if not data:
            break
        with socket.socket(fileno=handles[0]) as channel:
            child = os.fork()
            if child == 0:
                orders.close()
                _be_child(channel, JOBS)
        children[child] = time.monotonic() + ORDER.unpack(data)[0]
    for child in children:
        os.kill(child, signal.SIGKILL)


def _reap(children: dict[int, float]) -> None:
    """Forget children that ended, and kill those that took too long: a user can stop them, but not keep them."""
    for child, end in list(children.items()):
        if os.waitpid(child, os.WNOHANG)[0]:
            del children[child]
        elif time.monotonic() > end:
            os.kill(child, signal.SIGKILL)


def _be_child(channel: socket.socket, jobs: dict[str, Any]) -> None:
    code = 1
    try:
        with channel.makefile("rwb") as file:
            order = json.loads(file.readline())
            administrator.hold()  # soon they cannot be read any more
            file.write(json.dumps(_answer(order, jobs)).encode())
        code = 0
    finally:
        os._exit(code)  # whatever happened, this copy of the worker must not go on


def _answer(order: dict[str, Any], jobs: dict[str, Any]) -> dict[str, Any]:
    """Do a job; what went wrong is an answer, too."""
    try:
        place = open_workspace(order["template"], order["user"])
        arguments = order["arguments"]
        folders = {place.handle: landlock.ALL}
        if order["archive_folder"]:
            archive = _open_archive(order["archive_folder"], order["user"], place)
            folders[archive] = landlock.FILES
            arguments["archive_to"] = f"/proc/self/fd/{archive}"  # the user we become cannot reach its path
        _give_up_rights(order, place, folders)
        info = os.fstat(place.handle)
        return {
            **jobs[order["job"]](Path(place.path), **arguments),
            "root": place.path,
            "identity": f"{info.st_dev}:{info.st_ino}",
        }
    except Missing as e:
        return {"missing": str(e)}
    except Refused as e:
        return {"problem": str(e)}
    except (OSError, WasmKernelError, ValueError, ImportError) as e:
        return {"problem": f"{type(e).__name__}: {e}"}
    except MemoryError:
        return {"problem": "the workspace holds more than fits into memory"}


def _open_archive(folder: str, user: str, place: OpenedWorkspace) -> int:
    """The user's folder of archives, created if needed; it gets the workspace's owner.

    Only the administrator can get there, as the folder above it is closed to everybody else.
    """
    flags = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
    try:
        above = open_trusted(folder)
    except Missing:
        raise Refused(f"there is no archive folder {folder}; create it, for its owner alone") from None
    if os.fstat(above).st_mode & 0o077:
        raise Refused(f"the archive folder {folder} is open to others; run chmod 700 {folder}")
    name = folder_name(user)
    with suppress(FileExistsError):
        os.mkdir(name, 0o700, dir_fd=above)
    handle = os.open(name, flags, dir_fd=above)
    if os.fstat(handle).st_uid != place.owner:
        os.fchown(handle, place.owner, place.group)
    return handle


def _give_up_rights(order: dict[str, Any], place: OpenedWorkspace, folders: dict[int, int]) -> None:
    """From here on this process can do nothing but what the user can, and only in these folders."""
    confined = landlock.is_available()
    if confined:
        folders[os.open(_ALSO_READ, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)] = landlock.READ
    resource.setrlimit(resource.RLIMIT_AS, (_MAX_MEMORY, _MAX_MEMORY))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    us = os.geteuid()
    if us == 0 and place.owner != 0:
        os.setgroups([])
        os.setresgid(place.group, place.group, place.group)
        os.setresuid(place.owner, place.owner, place.owner)
    elif us != place.owner:
        raise Refused(f"{place.path} belongs to user {place.owner}, and the service runs as user {us}; run it as root")
    if confined:
        landlock.restrict(folders)
    elif not order["unconfined"] and (us != 0 or not _has_that_name(place.owner, order["user"])):
        raise Refused(
            f"{place.path}: there is no Landlock here, and its owner ({place.owner}) may own other users' workspaces; "
            "see WasmKernelHub.allow_unconfined"
        )


def _has_that_name(owner: int, user: str) -> bool:
    try:
        return owner != 0 and pwd.getpwuid(owner).pw_name == user
    except KeyError:
        return False


if __name__ == "__main__":
    main()
