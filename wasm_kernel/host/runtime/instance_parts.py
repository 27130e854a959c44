"""What an instance is made with, and what a guest is apart from its memory."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from wasm_kernel.host.runtime.engine import Func, Store
from wasm_kernel.host.runtime.forked_memory import ForkedMemory
from wasm_kernel.host.runtime.journal import OpenFile
from wasm_kernel.host.runtime.received_memory import ReceivedMemory

# Puts something in the place of a function of WASI's, by its name, that a guest is to be linked with.
Around = Callable[[Store, str, Func], Func]


def as_it_is(store: Store, name: str, function: Func) -> Func:
    """An `Around` that changes nothing."""
    return function


@dataclass
class AtRest:
    """What a guest is between two turns, apart from its memory.

    Attributes:
        files: Its open descriptors.
        clock_ns: Its monotonic clock.
        entry: The address of the driver's `turn` function in its memory; 0 before the driver is loaded.
    """

    files: list[OpenFile] = field(default_factory=list)
    clock_ns: int = 0
    entry: int = 0


@dataclass(frozen=True)
class Fork:
    """A guest in the middle of a turn, for its workers.

    Attributes:
        memory: Its memory as it is now.
        rest: Its open files, clock and entry.
        stack_pointer: Where its C frames end in its memory.
    """

    memory: ForkedMemory | ReceivedMemory
    rest: AtRest
    stack_pointer: int


@dataclass(frozen=True)
class Handlers:
    """What the sandbox does with what an instance brings up; all called on the instance's thread."""

    output: Callable[[int, bytes], None]
    frame: Callable[[bytes], bytes]
    first_change: Callable[[], None]
    refill: Callable[[int, int], tuple[int, int]]  # the filter's question, and how much it wants
    max_frame: int = 1 << 30  # a larger one is not even copied
    frame_refused: Callable[[int], None] = lambda size: None


@dataclass(frozen=True)
class Limits:
    """The part of a policy that an instance enforces."""

    memory_bytes: int
    max_file_bytes: int
    max_open_files: int
