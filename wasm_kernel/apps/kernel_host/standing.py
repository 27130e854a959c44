"""What a process is to the system, apart from its memory: limits, priorities, rights, where it belongs.

A kernel has to be what it would be if its requester had started it. So the child of a host takes over what can be taken
over, looks at itself, and goes on only if there is no difference left. Linux only.
"""

from __future__ import annotations

import contextlib
import os
import resource
from dataclasses import dataclass, fields
from pathlib import Path

import psutil

# Of /proc/PID/status: what nobody can hand over.
_RIGHTS = ("Uid", "Gid", "Groups", "CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb", "NoNewPrivs", "Seccomp")
_NAMESPACES = ("cgroup", "ipc", "mnt", "net", "pid", "user", "uts")
_LIMITS = {name: getattr(resource, name) for name in dir(resource) if name.startswith("RLIMIT_")}
_LIMITS.pop("RLIMIT_OFILE", None)  # another name of RLIMIT_NOFILE
_CGROUPS = Path("/sys/fs/cgroup")


@dataclass(frozen=True)
class Standing:
    """What a process is to the system. Equal ones may do and use the same.

    Attributes:
        stack: RLIMIT_STACK, which is read when a process starts: it cannot be taken over.
    """

    rights: tuple[str, ...]
    namespaces: tuple[str, ...]
    root: tuple[int, int]
    label: str
    scheduler: int
    stack: tuple[int, int]
    limits: tuple[tuple[str, tuple[int, int]], ...]
    nice: int
    io_priority: tuple[int, int]
    cpus: frozenset[int]
    oom_score: str
    core_filter: str
    cgroups: tuple[str, ...]
    umask: str
    ignored: int
    blocked: int


def of(pid: int) -> Standing:
    """What a process of this user is to the system. `OSError`, if it does not let itself be looked at."""
    place = Path(f"/proc/{pid}")
    status = dict(line.partition(":\t")[::2] for line in (place / "status").read_text().splitlines())
    root = (place / "root").stat()
    limits = {name: resource.prlimit(pid, number) for name, number in _LIMITS.items()}
    io_class, io_value = psutil.Process(pid).ionice()
    return Standing(
        rights=tuple(status.get(name, "") for name in _RIGHTS),
        namespaces=tuple(str((place / "ns" / name).readlink()) for name in _NAMESPACES),
        root=(root.st_dev, root.st_ino),
        label=_text(place / "attr/current"),
        scheduler=os.sched_getscheduler(pid),
        stack=limits.pop("RLIMIT_STACK"),
        limits=tuple(limits.items()),
        nice=os.getpriority(os.PRIO_PROCESS, pid),
        io_priority=(int(io_class), io_value),
        cpus=frozenset(os.sched_getaffinity(pid)),
        oom_score=_text(place / "oom_score_adj"),
        core_filter=_text(place / "coredump_filter"),
        cgroups=tuple((place / "cgroup").read_text().splitlines()),
        umask=status.get("Umask", ""),
        ignored=int(status["SigIgn"], 16),
        blocked=int(status["SigBlk"], 16),
    )


def _text(path: Path) -> str:
    try:
        return path.read_text().strip("\0\n")
    except OSError:  # no such thing on this system
        return ""


def take_over(theirs: Standing) -> list[str]:
    """Become what another process is to the system, signals apart; what could not be taken over."""
    for line in theirs.cgroups:
        _enter(line)
    with contextlib.suppress(OSError, ValueError):
        os.umask(int(theirs.umask, 8))
    _lower_limits(theirs)
    for name, value in (("oom_score_adj", theirs.oom_score), ("coredump_filter", theirs.core_filter)):
        with contextlib.suppress(OSError):
            if value != _text(Path("/proc/self") / name):
                Path("/proc/self", name).write_text(f"0x{value}" if name == "coredump_filter" else value)
    with contextlib.suppress(OSError):
        os.sched_setaffinity(0, theirs.cpus)
    me = psutil.Process()
    with contextlib.suppress(OSError, psutil.Error, ValueError):
        if theirs.io_priority != tuple(me.ionice()):
            me.ionice(*theirs.io_priority)
    with contextlib.suppress(OSError):
        os.setpriority(os.PRIO_PROCESS, 0, theirs.nice)
    mine = of(os.getpid())
    names = {field.name for field in fields(Standing)} - {"ignored", "blocked"}  # `child` sets those last
    return sorted(name for name in names if getattr(mine, name) != getattr(theirs, name))


def _lower_limits(theirs: Standing) -> None:
    for name, limits in theirs.limits:
        with contextlib.suppress(OSError, ValueError):  # nobody but root can raise a hard limit
            if resource.getrlimit(_LIMITS[name]) != limits:
                resource.setrlimit(_LIMITS[name], limits)


def _enter(line: str) -> None:
    """Move this process to a cgroup, given as in /proc/PID/cgroup, unless it is there."""
    if line in Path("/proc/self/cgroup").read_text().splitlines():
        return
    number, controllers, path = line.split(":", 2)
    names = ["", "unified"] if number == "0" else [controllers.removeprefix("name=")]
    for name in names:
        with contextlib.suppress(OSError):
            Path(_CGROUPS / name, path.lstrip("/"), "cgroup.procs").write_text("0")
            return
