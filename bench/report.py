"""What a run found, as Markdown."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from bench.rounds import Samples


@dataclass(frozen=True)
class Aim:
    """Something the project set out to reach, and whether this run did."""

    text: str
    measured: str
    met: bool

    def line(self) -> str:
        """One line of the report."""
        return f"Aim: {self.text}. This run: {self.measured}, **{'met' if self.met else 'not met'}**."


@dataclass(frozen=True)
class Section:
    """One subject's table."""

    title: str
    text: str
    header: Sequence[str]
    rows: Sequence[Sequence[str]]
    aims: Sequence[Aim] = field(default=())

    def markdown(self) -> str:
        """The section's text."""
        lines = [f"## {self.title}", "", self.text, ""]
        lines += [_row(self.header), _row(["---", *["---:"] * (len(self.header) - 1)])]
        lines += [_row(row) for row in self.rows]
        for aim in self.aims:
            lines += ["", aim.line()]
        return "\n".join(lines) + "\n"


def _row(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"


def number(value: float) -> str:
    """Three significant digits, without an exponent."""
    if value >= 100:
        return f"{value:.0f}"
    return f"{value:.1f}" if value >= 10 else f"{value:.2f}"


def milliseconds(samples: Samples, name: str) -> str:
    """Median and best of something measured in seconds."""
    return f"{number(samples.median(name) * 1e3)} [{number(samples.best(name) * 1e3)}]"


def seconds(value: float) -> str:
    """A time in the unit that fits it."""
    return f"{number(value * 1e3)} ms" if value < 1 else f"{number(value)} s"


def megabytes(value: float) -> str:
    """Bytes, in millions."""
    return f"{value / 1e6:.1f}"
