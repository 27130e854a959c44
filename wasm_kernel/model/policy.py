"""Every limit on a sandbox, in one frozen value with safe defaults."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from wasm_kernel.errors import ConfigurationError
from wasm_kernel.model import network_grants
from wasm_kernel.model.units import format_size

KiB, MiB, GiB = 1 << 10, 1 << 20, 1 << 30

MAX_MEMORY_BYTES = 4 * GiB  # a 32-bit address space
MIN_MEMORY_BYTES = 320 * MiB  # the base memory with the scientific stack, and room to work

_ENV_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\Z")


def processors() -> int:
    """How many processors this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


class Range(NamedTuple):
    """The values a field of a policy can have at all."""

    least: float
    most: float
    whole: bool = True
    optional: bool = False  # None: no limit


RANGES: Mapping[str, Range] = {
    "timeout_seconds": Range(0.001, 1e9, whole=False, optional=True),
    "interrupt_grace_seconds": Range(0.05, 1e6, whole=False),
    "fuel_budget": Range(1, 2**62, optional=True),
    "memory_bytes": Range(MIN_MEMORY_BYTES, MAX_MEMORY_BYTES),
    "stdout_max_bytes": Range(0, 1 * GiB),
    "stderr_max_bytes": Range(0, 1 * GiB),
    "display_max_bytes": Range(0, 1 * GiB),
    "workspace_bytes": Range(0, 2**60),
    "max_file_bytes": Range(0, 2**60),
    "max_files": Range(1, 2**31 - 1),
    # wasmtime itself and the mounts need a few descriptors; the interposer's table ends at 1000.
    "max_open_files": Range(8, 1000),
    "workers": Range(0, 1024),
    "cluster_workers": Range(1, 100_000),
    "network_connections": Range(0, 500),
    "network_cell_bytes": Range(0, 2**60),
    "network_session_bytes": Range(0, 2**60),
    "network_connect_seconds": Range(0.1, 600, whole=False),
}


@dataclass(frozen=True)
class ExecutionPolicy:
    """What a guest may use. Every field says what it bounds, and what it does not.

    Between cells, a notebook's background tasks and widgets together get, each minute, the output and displays of one
    `execute`; and its time and fuel each minute, or per four times the timeout if that is longer (`model.budget`).

    Attributes:
        timeout_seconds: Wall-clock time of one `execute`. Past it the guest gets a TimeoutError, and
            `interrupt_grace_seconds` later it is stopped by force. Time spent waiting for `input()` counts.
            `None`: no limit. `complete`, `inspect` and `is_complete` get the same, but at most 10 s.
        fuel_budget: WebAssembly instructions of one `execute`, a deterministic bound on work. `None` (the
            default) runs the faster, unmetered module. A number needs the metered one, which is compiled on first use.
            Time in the host's file system and in `sleep` costs no fuel.
        memory_bytes: Size of the guest's linear memory, interpreter and libraries included. Past it allocations
            raise MemoryError. It never shrinks while a guest lives. It does not bound host memory for output.
        stdout_max_bytes: UTF-8 bytes of standard output kept and streamed per `execute`; the rest is dropped
            after one notice. The program continues.
        stderr_max_bytes: The same for standard error.
        display_max_bytes: Bytes of display data, results, tracebacks and comm messages per `execute`, as sent by
            the guest; anything beyond that is dropped after one notice.
        workspace_bytes: Bytes on disk of `/app` and `/tmp` together. Past it writes fail with ENOSPC. Files put
            there by the host count; sparse files count by size.
        max_file_bytes: Size of any single file the guest writes (EFBIG). Files put there by the host may be larger.
        max_files: Files, folders and links under `/app` and `/tmp` together. Past it creating one fails with ENOSPC.
        max_open_files: Descriptors the guest holds at once (EMFILE).
        workers: Copies of the guest that work at the same time for process pools and joblib in one `execute`, and
            not more than the machine has processors. 0: their tasks run one after the other in the guest itself.
            They have no limits of their own: memory, output, files, fuel and the CPU time of one timeout are for the
            guest and all its workers together.
        cluster_workers: The same on a Dask cluster that the session is attached to, and not more than that has threads.
            There, memory, disk and open files are for all that runs on one of its workers.
        network: The hosts that the guest may connect to without asking anybody, such as ``api.github.com``,
            ``*.data.gov.uk`` or ``10.1.2.3:5432``; ports 80 and 443 unless said. Empty: none.
        network_connections: Connections open at once.
        network_cell_bytes: Bytes sent and received by one `execute`, together. Past it sockets raise OSError.
        network_session_bytes: The same for all executions together; of a session, also in earlier processes.
        network_connect_seconds: Time to look up a name and connect to it, and again to agree on encryption.
        interrupt_grace_seconds: How long C code may take to return to Python after an interrupt or a time limit,
            before it is stopped by force and the guest's memory is restored to what it was before the execute.
        env: The guest's environment variables, on top of the few the runtime needs. Nothing of the host's
            environment is ever passed on.
    """

    timeout_seconds: float | None = None
    fuel_budget: int | None = None
    memory_bytes: int = 2 * GiB
    stdout_max_bytes: int = 10 * MiB
    stderr_max_bytes: int = 10 * MiB
    display_max_bytes: int = 64 * MiB
    workspace_bytes: int = 4 * GiB
    max_file_bytes: int = 2 * GiB
    max_files: int = 100_000
    max_open_files: int = 256
    workers: int = field(default_factory=processors)
    cluster_workers: int = 256
    network: Sequence[str] = ()
    network_connections: int = 64
    network_cell_bytes: int = 1 * GiB
    network_session_bytes: int = 20 * GiB
    network_connect_seconds: float = 30.0
    interrupt_grace_seconds: float = 5.0
    env: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for name, range_ in RANGES.items():
            _check(name, getattr(self, name), range_)
        object.__setattr__(self, "env", _checked_env(self.env))
        object.__setattr__(self, "network", _checked_network(self.network))

    def __hash__(self) -> int:
        return hash((self.memory_bytes, self.timeout_seconds, tuple(sorted(self.env.items()))))


def _check(name: str, value: Any, allowed: Range) -> None:
    if value is None and allowed.optional:
        return
    kind = int if allowed.whole else int | float
    if isinstance(value, bool) or not isinstance(value, kind) or not allowed.least <= value <= allowed.most:
        what = f"a number from {allowed.least:g} to {allowed.most:g}"
        if allowed.whole:
            what = f"a whole number from {_readable(name, allowed.least)} to {_readable(name, allowed.most)}"
        none = ", or None for no limit" if allowed.optional else ""
        raise ConfigurationError(f"{name} is {_readable(name, value)}; it must be {what}{none}")


def _readable(name: str, value: Any) -> str:
    size = name.endswith("_bytes") and type(value) is int and abs(value) >= 1024
    return f"{value!r} ({format_size(value)})" if size else repr(value)


def _checked_network(hosts: Sequence[str]) -> tuple[str, ...]:
    if isinstance(hosts, str) or not isinstance(hosts, Sequence) or not all(isinstance(host, str) for host in hosts):
        raise ConfigurationError(f"network is {hosts!r}; it must be a list of hosts, such as ['api.github.com']")
    return tuple(str(grant) for grant in sorted(network_grants.parse_all(hosts)))


def _checked_env(env: Mapping[str, str]) -> dict[str, str]:
    if not isinstance(env, Mapping):
        raise ConfigurationError(f"env is {env!r}; it must be a mapping of names to strings")
    for name, value in env.items():
        if not isinstance(name, str) or not _ENV_NAME.match(name):
            raise ConfigurationError(f"env has the name {name!r}; use letters, digits and underscores")
        if not isinstance(value, str) or "\0" in value:
            raise ConfigurationError(f"env[{name!r}] is {value!r}; it must be a string without NUL")
    return dict(env)
