"""What a session's kernel and the workers of a Dask cluster say to each other: bytes, and a check for each of them.

Dask carries them as opaque `bytes`, so neither it nor we ever unpickle anything that a guest has made. A frame is one
of `wire.encode`: a short JSON header and buffers. Results come from guests on other machines, so every field has a type
and a range, and `BadFrame` is raised for anything else.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any

from wasm_kernel.guest import wire
from wasm_kernel.guest.wire import BadFrame
from wasm_kernel.host.store.packs import HASH
from wasm_kernel.model.policy import ExecutionPolicy
from wasm_kernel.model.snapshots import Manifest, check_values, parse_manifest

DONE, ENDED, MISSING, REFUSED = "done", "ended", "missing", "refused"
_KINDS = (DONE, ENDED, MISSING, REFUSED)
_MOST_TEXT = 4000  # characters of a reason
_MOST_DESCRIPTION = 512 << 20
_NOT_SENT = ("env", "network")  # the first is in the guest's memory; there is no network on workers
_STATUSES = (0, 1, 2)


@dataclass(frozen=True)
class Description:
    """A guest in the middle of a cell, without the chunks that its memory and files are made of.

    Attributes:
        manifest: Its memory, open files, clock, and the files of /app and /tmp, as a snapshot's manifest has them.
        packages: The installed packages, as the files of another one.
        stack_pointer: Where its C frames end in its memory.
        function: The address of what a worker calls.
        pool, era: Which workers of the guest these are.
        policy: The session's limits.
        session: Whose it is, by a name that the host made up: all that one has on a worker shares its limits.
    """

    manifest: Manifest
    packages: Manifest
    stack_pointer: int
    function: int
    pool: int
    era: int
    policy: ExecutionPolicy
    session: str

    def encode(self) -> bytes:
        """As bytes."""
        policy = {name: value for name, value in asdict(self.policy).items() if name not in _NOT_SENT}
        header = {
            "stack_pointer": self.stack_pointer,
            "function": self.function,
            "pool": self.pool,
            "era": self.era,
            "policy": policy,
            "session": self.session,
        }
        parts = [part for m in (self.manifest, self.packages) for part in (m.snapshot.to_json(), m.body())]
        return wire.encode(header, parts)

    @classmethod
    def decode(cls, data: bytes) -> Description:
        """From bytes; `BadFrame` or `BadSnapshot` if they are none."""
        header, parts = _decoded(data, _MOST_DESCRIPTION)
        if len(parts) != 4:
            raise BadFrame("a description has four parts")
        policy = header.get("policy")
        if not isinstance(policy, dict) or not policy.keys() <= {f.name for f in fields(ExecutionPolicy)} - {
            *_NOT_SENT
        }:
            raise BadFrame("the limits in a description are not valid")
        limits = ExecutionPolicy(**policy)
        for body in (parts[1], parts[3]):
            check_values(body, max(limits.max_files, 1_000_000))
        return cls(
            parse_manifest(parts[0], parts[1]),
            parse_manifest(parts[2], parts[3]),
            _number(header, "stack_pointer", 1 << 32),
            _number(header, "function", 1 << 32),
            _number(header, "pool", 1 << 48),
            _number(header, "era", 1 << 48),
            limits,
            _text(header, "session"),
        )


@dataclass(frozen=True)
class Call:
    """A call for a worker. ``cpu_seconds``: what it may take at most; None: no limit."""

    task: int
    data: bytes
    cpu_seconds: float | None = None

    def encode(self) -> bytes:
        """As bytes."""
        return wire.encode({"task": self.task, "cpu_seconds": self.cpu_seconds}, (self.data,))

    @classmethod
    def decode(cls, data: bytes) -> Call:
        """From bytes; `BadFrame` if they are none."""
        header, parts = _decoded(data, wire.MAX_TASK_BYTES + (1 << 20))
        if len(parts) != 1:
            raise BadFrame("a call has one part")
        cpu = header.get("cpu_seconds")
        if cpu is not None and (type(cpu) is not float or not 0 <= cpu < 1e10):
            raise BadFrame("cpu_seconds is out of range")
        return cls(_number(header, "task", 1 << 48), parts[0], cpu)


@dataclass(frozen=True)
class CallOutcome:
    """What came of a call, or of handing a fork over, on a worker.

    Attributes:
        kind: DONE: there is a result. ENDED: the guest that ran it ended first. MISSING: the worker lacks chunks, or
            all of the fork. REFUSED: it does not run it at all.
        text: Why, for ENDED and REFUSED.
        status: Of the result, as the guest says it.
        data: The result, which nobody but the guest opens; for MISSING the names of the chunks.
        stdout, stderr: What it printed.
        cpu_seconds: What it took.
        changed_files: Whether it changed files, which stay on the worker.
        showed: Whether it tried to show something else.
        worker: The address of the worker.
    """

    kind: str
    text: str = ""
    status: int = 0
    data: bytes = b""
    stdout: str = ""
    stderr: str = ""
    cpu_seconds: float = 0.0
    changed_files: bool = False
    showed: bool = False
    worker: str = ""

    def encode(self) -> bytes:
        """As bytes."""
        header = {name: getattr(self, name) for name in _OUTCOME}
        header["text"] = self.text[:_MOST_TEXT]
        return wire.encode(
            header, (self.data, self.stdout.encode("utf-8", "replace"), self.stderr.encode("utf-8", "replace"))
        )

    @classmethod
    def decode(cls, data: object, policy: ExecutionPolicy) -> CallOutcome:
        """From what Dask gave as a result; `BadFrame` if that is none, or holds more than the session may have."""
        most = wire.MAX_RESULT_BYTES + policy.stdout_max_bytes + policy.stderr_max_bytes + (1 << 20)
        header, parts = _decoded(data, most)
        if header.keys() != _OUTCOME.keys() or len(parts) != 3:
            raise BadFrame("the result of a call has the wrong fields")
        for name, kind in _OUTCOME.items():
            if type(header[name]) is not kind:
                raise BadFrame(f"{name} of a result is not {kind.__name__}")
        result, stdout, stderr = parts
        if header["kind"] not in _KINDS or header["status"] not in _STATUSES:
            raise BadFrame("the result of a call is of an unknown kind")
        if len(header["text"]) > _MOST_TEXT or len(header["worker"]) > 300 or not 0 <= header["cpu_seconds"] < 1e10:
            raise BadFrame("a field of a result is out of range")
        if len(result) > wire.MAX_RESULT_BYTES or (header["kind"] == MISSING and len(result) % HASH):
            raise BadFrame("the result of a call has the wrong size")
        return cls(
            **header, data=result, stdout=stdout.decode("utf-8", "replace"), stderr=stderr.decode("utf-8", "replace")
        )

    @property
    def missing(self) -> list[bytes]:
        """The names of the chunks that are missing; none: all of the fork is."""
        return [self.data[at : at + HASH] for at in range(0, len(self.data), HASH)]


_OUTCOME: Mapping[str, type[Any]] = {
    "kind": str,
    "text": str,
    "status": int,
    "cpu_seconds": float,
    "changed_files": bool,
    "showed": bool,
    "worker": str,
}


def _decoded(data: object, most: int) -> tuple[dict[str, Any], tuple[bytes, ...]]:
    if type(data) is not bytes:
        raise BadFrame("bytes are expected")
    if len(data) > most:
        raise BadFrame(f"it has {len(data)} bytes; {most} are allowed")
    return wire.decode(data)


def _number(header: dict[str, Any], name: str, most: int) -> int:
    value = header.get(name)
    if type(value) is not int or not 0 <= value < most:
        raise BadFrame(f"{name} is out of range")
    return value


def _text(header: dict[str, Any], name: str) -> str:
    value = header.get(name)
    if not isinstance(value, str) or len(value) > 200:
        raise BadFrame(f"{name} is no text")
    return value


def identity(data: bytes) -> dict[str, str]:
    """What a worker says of itself when it is asked which image it has; values that are no texts are left out."""
    try:
        found = json.loads(data[:10_000])
    except (ValueError, TypeError, RecursionError):
        return {}
    pairs = found.items() if isinstance(found, dict) else ()
    return {str(name): value[:1000] for name, value in pairs if isinstance(value, str)}
