"""What is known of a guest between two turns: whether its memory is saved, and so what a trap would cost.

The memory's files (`GuestMemory`) hold the guest as it was when it was last kept. A turn runs ahead of them; keeping
brings them up to date. The phases and the moves between them:

    FRESH ──replied──▶ AHEAD ──kept──▶ KEPT ──begin_turn──▶ AHEAD
                         │  ◀──────────── trapped: the files hold what was before the turn, so it is KEPT again
                         └──could_not_keep──▶ UNKEPT ──kept──▶ KEPT

A trap in a FRESH guest leaves it FRESH. One in an UNKEPT guest costs everything: the files hold neither the guest of
before nor that of now, and it has to start afresh. From any phase `restored` leads to KEPT, `started_afresh` to FRESH.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import Enum

from wasm_kernel.host.runtime.instance_parts import AtRest


class Phase(Enum):
    """How the guest's live memory relates to the files that hold it."""

    FRESH = "fresh"  # nothing ran since the base memory
    KEPT = "kept"  # the files are up to date
    AHEAD = "ahead"  # it had a turn since; the files hold what was before
    UNKEPT = "unkept"  # there was no room to keep it: only the live memory is right


@dataclass
class GuestState:
    """A guest's phase, and what it is at rest apart from its memory.

    Attributes:
        rest: Its open files and clock, as they belong to the memory that is kept.
        reseed: Whether the next request gives it other random numbers than those of the snapshot it was made from.
    """

    rest: AtRest
    phase: Phase = Phase.FRESH
    reseed: bool = False

    @property
    def fresh(self) -> bool:
        """Whether the next request has to set it up: nothing ran in it yet."""
        return self.phase is Phase.FRESH

    @property
    def saved(self) -> bool:
        """Whether a trap would cost no more than the turn it happens in."""
        return self.phase is not Phase.UNKEPT

    @property
    def needs_keeping(self) -> bool:
        """Whether its files are behind its memory."""
        return self.phase in (Phase.AHEAD, Phase.UNKEPT)

    def begin_turn(self) -> None:
        """It is about to run, and so to get ahead of its files."""
        if self.phase is Phase.KEPT:
            self.phase = Phase.AHEAD

    def replied(self) -> None:
        """It ran a request to its end, and so has applied what came with it."""
        if self.phase is Phase.FRESH:
            self.phase = Phase.AHEAD
        self.reseed = False

    def trapped(self, clock_ns: int) -> None:
        """Its instance can no longer be used. The next one goes on from the files; its clock does not go back."""
        self.rest = replace(self.rest, clock_ns=clock_ns)
        if self.phase is Phase.AHEAD:
            self.phase = Phase.KEPT

    def kept(self, rest: AtRest) -> None:
        """The files are up to date."""
        self.rest, self.phase = rest, Phase.KEPT

    def could_not_keep(self) -> None:
        """The files could not be brought up to date, and may hold part of it."""
        self.phase = Phase.UNKEPT

    def restored(self, rest: AtRest, *, reseed: bool) -> None:
        """It is the guest of a snapshot now."""
        self.rest, self.phase, self.reseed = rest, Phase.KEPT, reseed

    def started_afresh(self, rest: AtRest) -> None:
        """It is what the base memory holds."""
        self.rest, self.phase, self.reseed = rest, Phase.FRESH, False
