"""Space over time as a picture: where its lines are and what is written beside it. Values only, no I/O."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from wasm_kernel.hub.usage_history import Sample
from wasm_kernel.model.units import counted, format_size

WIDTH, HEIGHT = 1000, 100
_MOST = 180  # samples drawn; of several close together only the last
_STEPS = (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000)


@dataclass(frozen=True)
class Spot:
    """A strip of the chart, with the values at its time."""

    x: float
    width: float
    text: str


@dataclass(frozen=True)
class Chart:
    """A chart in a box of WIDTH by HEIGHT.

    Attributes:
        sessions: The polygon of what sessions take, as SVG's ``points``.
        snapshots: The polygon of what snapshots take, above it.
        ticks: The labels beside it, from top to bottom.
        begin: Its first moment.
        end: Its last moment.
        spots: The texts to show at the pointer.
    """

    sessions: str
    snapshots: str
    ticks: list[str]
    begin: datetime
    end: datetime
    spots: list[Spot]


def draw(samples: Sequence[Sample]) -> Chart | None:
    """A chart of samples, oldest first; None while there are fewer than two."""
    if len(samples) < 2:
        return None
    begin, end = samples[0].time, samples[-1].time
    span = (end - begin).total_seconds() or 1.0
    drawn: dict[float, Sample] = {-1: samples[0]}
    for sample in samples[1:]:
        drawn[(sample.time - begin).total_seconds() / span * _MOST // 1] = sample
    top = _round_up(max(s.session_bytes + s.snapshot_bytes for s in drawn.values()))
    places = [(sample.time - begin).total_seconds() / span * WIDTH for sample in drawn.values()]
    lower = [_height(s.session_bytes, top) for s in drawn.values()]
    upper = [_height(s.session_bytes + s.snapshot_bytes, top) for s in drawn.values()]
    ground = [float(HEIGHT)] * len(places)
    return Chart(
        sessions=_polygon(places, lower, ground),
        snapshots=_polygon(places, upper, lower),
        ticks=[format_size(top), format_size(top / 2), "0"],
        begin=begin,
        end=end,
        spots=_spots(places, list(drawn.values())),
    )


def _round_up(size: int) -> int:
    """Round up to a size that is easy to read."""
    unit = 1
    while size > 1000 * unit:
        unit *= 1024
    return next(step for step in _STEPS if step * unit >= size) * unit


def _height(size: int, top: int) -> float:
    return HEIGHT - size / top * HEIGHT


def _polygon(places: list[float], upper: list[float], lower: list[float]) -> str:
    there = [*zip(places, upper, strict=True)]
    back = [*zip(reversed(places), reversed(lower), strict=True)]
    return " ".join(f"{x:.1f},{y:.2f}" for x, y in [*there, *back])


def _spots(places: list[float], samples: list[Sample]) -> list[Spot]:
    """Strips that reach halfway to their neighbours."""
    between = [(a + b) / 2 for a, b in zip(places[:-1], places[1:], strict=True)]
    edges = [0.0, *between, float(WIDTH)]
    return [
        Spot(
            round(left, 1),
            round(right - left, 1),
            f"{s.time:%d %b %Y %H:%M} UTC: {counted(s.sessions, 'session')}, {format_size(s.session_bytes)}; "
            f"{counted(s.snapshots, 'snapshot')}, {format_size(s.snapshot_bytes)}",
        )
        for left, right, s in zip(edges[:-1], edges[1:], samples, strict=True)
    ]
