"""The messages that host and guest exchange, as frozen values; `wire` is their codec. Both sides load this file."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Stream:
    """Text written to stdout or stderr. Made by the host from the guest's raw writes, never sent as a frame."""

    name: str
    text: str


@dataclass(frozen=True)
class DisplayData:
    """A mime bundle to show; ``transient`` may hold a display_id."""

    data: dict[str, Any]
    metadata: dict[str, Any] = field(default_factory=dict)
    transient: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class UpdateDisplay:
    """A mime bundle that replaces the one shown under ``transient["display_id"]``."""

    data: dict[str, Any]
    metadata: dict[str, Any] = field(default_factory=dict)
    transient: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class ClearOutput:
    """Forget what the cell has shown so far, now or at the next output."""

    wait: bool = False


@dataclass(frozen=True)
class ExecuteResult:
    """The value of the cell's last expression, as a mime bundle."""

    data: dict[str, Any]
    metadata: dict[str, Any] = field(default_factory=dict)
    execution_count: int = 0


@dataclass(frozen=True)
class Parent:
    """What follows belongs to the request with this id: to that of the cell whose asyncio task goes on now."""

    msg_id: str


@dataclass(frozen=True)
class ErrorRaised:
    """An exception that reached the top of the cell; the traceback's lines are coloured."""

    ename: str
    evalue: str
    traceback: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class Comm:
    """One message of a comm (ipywidgets): ``action`` is comm_open, comm_msg or comm_close."""

    action: str
    content: dict[str, Any]
    metadata: dict[str, Any] = field(default_factory=dict)
    buffers: tuple[bytes, ...] = ()


@dataclass(frozen=True)
class InputRequest:
    """The guest waits for a line from the person; the answer is an `Answer`'s bytes."""

    prompt: str
    password: bool = False


@dataclass(frozen=True)
class HostMagic:
    """The cell came to a magic of the host's, ``%name line``. The host does it only if the user's text holds it."""

    name: str
    line: str


@dataclass(frozen=True)
class Waiting:
    """The cell awaits something, for at most so many seconds; the answer is a widget's message that came meanwhile."""

    seconds: float


@dataclass(frozen=True)
class Network:
    """Something to do with a connection that the host holds: `host.network.guest_network` has the actions."""

    action: str
    arguments: dict[str, Any]
    buffers: tuple[bytes, ...] = ()


@dataclass(frozen=True)
class NextRequest:
    """The guest asks what to do; the answer is an encoded request."""


@dataclass(frozen=True)
class InterruptSeen:
    """The guest's signal handler ran: Python code is in charge again, so no force is needed."""


@dataclass(frozen=True)
class Unused:
    """Memory that the guest holds and has no use for, as pairs of address and length: it may become zeros."""

    stretches: list[list[int]]


@dataclass(frozen=True)
class StartWorkers:
    """Fork the guest ``count`` times for a pool. Each copy calls the function at ``entry``."""

    pool: int
    era: int
    entry: int
    count: int


@dataclass(frozen=True)
class SubmitTask:
    """A call, pickled by the guest, for a worker of this pool that was forked in this era or later."""

    pool: int
    era: int
    task: int
    buffers: tuple[bytes, ...] = ()


@dataclass(frozen=True)
class CancelTask:
    """Take a task back, if no worker has it yet."""

    pool: int
    task: int


@dataclass(frozen=True)
class AwaitTasks:
    """Wait, for at most so many seconds, for results of tasks and for workers that end."""

    seconds: float


@dataclass(frozen=True)
class StopWorkers:
    """End the workers of a pool: at once, or each when it has done its task."""

    pool: int
    at_once: bool


@dataclass(frozen=True)
class NextTask:
    """A worker asks what to do."""


@dataclass(frozen=True)
class TaskDone:
    """A worker's result, pickled: of a call that returned (1), of one that raised (0), or why it cannot work (2)."""

    task: int
    status: int
    buffers: tuple[bytes, ...] = ()


@dataclass(frozen=True)
class Reply:
    """The guest's answer to the request it was given."""

    content: dict[str, Any]
    buffers: tuple[bytes, ...] = ()


Event = Stream | DisplayData | UpdateDisplay | ClearOutput | ExecuteResult | ErrorRaised | Comm | InputRequest | Parent
Frame = (
    DisplayData
    | UpdateDisplay
    | ClearOutput
    | ExecuteResult
    | ErrorRaised
    | Comm
    | Parent
    | InputRequest
    | HostMagic
    | Waiting
    | Network
    | NextRequest
    | InterruptSeen
    | Unused
    | StartWorkers
    | SubmitTask
    | CancelTask
    | AwaitTasks
    | StopWorkers
    | NextTask
    | TaskDone
    | Reply
)

# What a guest asks of its workers, and what a worker says: each is refused to the other.
WorkerRequest = StartWorkers | SubmitTask | CancelTask | AwaitTasks | StopWorkers
WorkerSays = NextTask | TaskDone
