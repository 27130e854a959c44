"""A plan that takes long: the page says how far it is, asks again, and the plan is made once."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest

from wasm_kernel.errors import ConfigurationError
from wasm_kernel.hub.page import handlers
from wasm_kernel.hub.page.handlers import PolicyPage
from wasm_kernel.hub.page.rendering import render
from wasm_kernel.hub.page.request_memory import Memory
from wasm_kernel.hub.progress import Progress


class Asked(PolicyPage):
    """A request without a server."""

    actor = "boss"  # type: ignore[assignment]

    def __init__(self, service: Any, memory: Memory) -> None:
        self.service, self.memory = service, memory
        self.shown: list[tuple[str, dict[str, Any]]] = []
        self.headers: dict[str, str] = {}

    def show(self, template: str, **values: Any) -> None:
        self.shown.append((template, values))

    def set_header(self, name: str, value: Any) -> None:
        self.headers[name] = value


def test_a_long_plan_shows_how_far_it_is_and_is_made_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(handlers, "_AT_ONCE", 0.02)

    async def scene() -> None:
        go_on, made = asyncio.Event(), []

        async def plan(policy: Any, users: Any, progress: Progress) -> str:
            made.append(policy)
            progress.begin("Looking at users’ sessions", 400)
            progress.done = 120
            await go_on.wait()
            return "the plan"

        service, memory = SimpleNamespace(plan=plan), Memory()
        first, second = Asked(service, memory), Asked(service, memory)
        assert await first._plan({"max_age": 5}, None) is None and first.headers == {"Refresh": "1"}
        ((template, values),) = first.shown
        common = {"base": "/", "hub": "/hub/", "me": {"name": "boss"}}
        assert "Looking at users’ sessions: 120 of 400" in render(template, **values, **common)
        go_on.set()
        tried = await second._plan({"max_age": 5}, None)
        assert tried is not None and tried.plan == "the plan" and len(made) == 1  # type: ignore[comparison-overlap]
        assert not memory.planning and not second.shown
        await Asked(service, memory)._plan({"max_age": 6}, None)
        assert len(made) == 2

    asyncio.run(scene())


def test_a_plan_that_fails_says_so_once() -> None:
    async def scene() -> None:
        async def plan(*_: Any, **__: Any) -> str:
            raise ConfigurationError("the hub knows no user 'x'")

        memory = Memory()
        with pytest.raises(ConfigurationError, match="knows no user"):
            await Asked(SimpleNamespace(plan=plan), memory)._plan(None, ["x"])
        assert not memory.planning

    asyncio.run(scene())
