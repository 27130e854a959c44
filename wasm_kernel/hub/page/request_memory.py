"""What one request leaves for the next: plans that were shown, and runs that were done."""

from __future__ import annotations

import asyncio
import secrets
from collections import OrderedDict
from dataclasses import dataclass, field
from typing import Any

from wasm_kernel.hub.plan import HubPlan, Run
from wasm_kernel.hub.progress import Progress

_REMEMBERED = 50  # plans and results


@dataclass(frozen=True)
class Tried:
    """A plan that was shown, so that only what was seen is done."""

    plan: HubPlan
    policy: dict[str, Any] | None
    users: list[str] | None


@dataclass
class Planning:
    """A plan that is being made."""

    making: asyncio.Task[HubPlan]
    progress: Progress


@dataclass
class Memory:
    """What one request leaves for the next; lost with the process: then the plan is made again."""

    plans: OrderedDict[str, Tried] = field(default_factory=OrderedDict)
    runs: OrderedDict[str, Run] = field(default_factory=OrderedDict)
    planning: OrderedDict[tuple[str, str], Planning] = field(default_factory=OrderedDict)

    def keep_plan(self, tried: Tried) -> str:
        """Remember a plan, and return its name."""
        name = secrets.token_hex(8)
        _keep(self.plans, name, tried)
        return name

    def begin_plan(self, asked: tuple[str, str], planning: Planning) -> None:
        """Remember a plan that is being made: whoever asked for it will ask again."""
        planning.making.add_done_callback(lambda made: made.cancelled() or made.exception())
        _keep(self.planning, asked, planning)

    def keep_run(self, run: Run) -> None:
        """Remember what was done."""
        _keep(self.runs, run.run_id, run)


def _keep(where: OrderedDict[Any, Any], name: Any, value: Any) -> None:
    where[name] = value
    while len(where) > _REMEMBERED:
        where.popitem(last=False)
