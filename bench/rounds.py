"""Rounds of alternating contenders, and what is made of their numbers."""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Mapping, Sequence

Measure = Callable[[], Mapping[str, float]]
Tick = Callable[[int, int], None]  # told how much is done, and of how much


class Samples:
    """Named numbers, one per round."""

    def __init__(self) -> None:
        self._values: dict[str, list[float]] = {}

    def add(self, values: Mapping[str, float]) -> None:
        """Take the numbers of one measurement."""
        for name, value in values.items():
            self._values.setdefault(name, []).append(value)

    def values(self, name: str) -> list[float]:
        """All of a name."""
        return self._values[name]

    def get(self, name: str) -> list[float]:
        """All of a name; none if it was never measured."""
        return self._values.get(name, [])

    def median(self, name: str) -> float:
        """The median over the rounds."""
        return statistics.median(self._values[name])

    def best(self, name: str) -> float:
        """The smallest."""
        return min(self._values[name])

    def ratio(self, name: str, to: str) -> float:
        """The median of the rounds' own ratios."""
        return statistics.median(a / b for a, b in zip(self._values[name], self._values[to], strict=True))


def rotated(contenders: Sequence[Measure], turn: int) -> list[Measure]:
    """The contenders in this round's order."""
    start = turn % len(contenders)
    return [*contenders[start:], *contenders[:start]]


def interleave(contenders: Sequence[Measure], rounds: int, tick: Tick, warm_up: bool = True) -> Samples:
    """Let the contenders take turns. A warm-up round, whose numbers are thrown away, fills caches first."""
    if warm_up:
        for measure in contenders:
            measure()
    samples = Samples()
    for turn in range(rounds):
        for place, measure in enumerate(rotated(contenders, turn), 1):
            samples.add(measure())
            tick(turn * len(contenders) + place, rounds * len(contenders))
    return samples


def percentile(values: Sequence[float], share: float) -> float:
    """The value which this share of the values does not pass (nearest rank)."""
    ranked = sorted(values)
    return ranked[math.ceil(share * len(ranked)) - 1]
