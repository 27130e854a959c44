"""Starts a host for the kernels to come, aside, by a kernel that had to start without one."""

from __future__ import annotations

import contextlib
import fcntl
import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from wasm_kernel.apps.kernel_host import address, protocol
from wasm_kernel.model.units import parse_duration

IDLE = "WASM_KERNEL_HOST_IDLE"
_IDLE_SECONDS = 1800.0
_MODULE = "wasm_kernel.apps.kernel_host"


def idle_seconds(environ: Mapping[str, str]) -> float:
    """How long a host without kernels waits for a request; what cannot be understood means the usual time."""
    try:
        return parse_duration(environ[IDLE]) if environ.get(IDLE) else _IDLE_SECONDS
    except ValueError:
        return _IDLE_SECONDS


def start_aside(environ: Mapping[str, str]) -> None:
    """Start a host for kernels like this one, unless there is one. Nobody waits for it or minds if it fails."""
    key = address.key(sys.executable, environ)
    place, path = Path(address.folder(environ)), address.socket_path(environ, key)
    with contextlib.suppress(OSError):
        place.mkdir(mode=0o700, exist_ok=True)
    if not address.is_private(str(place)):
        return
    there = protocol.connect(path)
    if there is not None:
        there.close()
        return
    command = [sys.executable, "-P", "-m", _MODULE, str(idle_seconds(environ))]
    log = os.open(Path(path).with_suffix(".log"), os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW, 0o600)
    streams: list[tuple[Any, ...]] = [(os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0)]
    streams += [(os.POSIX_SPAWN_DUP2, log, number) for number in (1, 2)]
    with contextlib.suppress(OSError):
        first = os.posix_spawn(command[0], command, address.fixed(environ), file_actions=streams, setsid=True)
        os.waitpid(first, 0)  # it forks at once, so that the host is nobody's child
    os.close(log)


def lock(path: Path) -> int | None:
    """The lock of a host's place, held while it takes requests; None if another one is there."""
    handle = os.open(path.with_suffix(".lock"), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(handle)
        return None
    return handle
