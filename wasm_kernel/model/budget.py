"""What a guest may use between cells: so much per window of time, in however many turns.

A cell is held to the limits of an `ExecutionPolicy`. Between cells a guest gets turns, too: its asyncio tasks continue,
and its widgets get messages. These have no end, so their limits are rates: what one cell may use, per window.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

from wasm_kernel.model.policy import ExecutionPolicy

OUTPUT_WINDOW = 60.0  # seconds
_SHARE = 4  # the background may use one part in this many of the time


@dataclass
class Budget:
    """An amount per window. Times are seconds of any clock that never goes backwards.

    Spending beyond the limit makes a debt, which is taken from the windows that follow. So a turn may use more than
    was left when it began, and the limit still holds in the long run.

    Attributes:
        limit: How much there is per window; infinite for no limit.
        window: Its length. The first begins with the first spending, each of the others when the one before is over.
    """

    limit: float
    window: float
    _used: float = field(default=0.0, init=False)
    _since: float = field(default=0.0, init=False)

    def left(self, now: float) -> float:
        """What may still be spent in this window; negative when there is a debt."""
        return self.limit - self._now(now)[0]

    def spend(self, amount: float, now: float) -> None:
        """Record what was spent."""
        used, since = self._now(now)
        self._used, self._since = used + amount, since

    def wait(self, now: float) -> float:
        """Seconds until there is something to spend; 0 if there is."""
        used, since = self._now(now)
        if used < self.limit:
            return 0.0
        if not self.limit:
            return math.inf
        return since + (used // self.limit) * self.window - now

    def _now(self, now: float) -> tuple[float, float]:
        """What is used up in the current window, and when that window began."""
        over = (now - self._since) // self.window
        used = self._used - over * self.limit if over >= 1 else self._used
        return (used, self._since + max(0.0, over) * self.window) if used > 0 else (0.0, now)


@dataclass
class BackgroundBudget:
    """Everything a guest may use between cells.

    Attributes:
        output: Bytes it may print, by stream, and show ("display"): the limits of one cell, each minute.
        seconds: Its time: that of one cell per minute, or per four times that time if that is longer. So the background
            gets a quarter of the time at most. If cells have no time limit, it has none either.
        fuel: The same for its instructions.
    """

    output: dict[str, Budget]
    seconds: Budget
    fuel: Budget

    @classmethod
    def of(cls, policy: ExecutionPolicy) -> BackgroundBudget:
        """The budget that belongs to a policy for cells."""
        output = {
            "stdout": policy.stdout_max_bytes,
            "stderr": policy.stderr_max_bytes,
            "display": policy.display_max_bytes,
        }
        window = max(OUTPUT_WINDOW, _SHARE * (policy.timeout_seconds or 0))
        return cls(
            {name: Budget(most, OUTPUT_WINDOW) for name, most in output.items()},
            Budget(math.inf if policy.timeout_seconds is None else policy.timeout_seconds, window),
            Budget(math.inf if policy.fuel_budget is None else policy.fuel_budget, window),
        )

    def room(self, now: float) -> dict[str, int]:
        """Bytes that may be printed and shown now."""
        return {name: max(0, int(budget.left(now))) for name, budget in self.output.items()}

    def spend(self, output: Mapping[str, int], seconds: float, fuel: int, now: float) -> None:
        """Record what a turn has used."""
        for name, size in output.items():
            self.output[name].spend(size, now)
        self.seconds.spend(seconds, now)
        self.fuel.spend(fuel, now)

    def wait(self, now: float) -> float:
        """Seconds until the guest may have another turn; 0 if it may have one now."""
        return max(self.seconds.wait(now), self.fuel.wait(now))
