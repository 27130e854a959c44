"""Fifty sessions in one process at once, as a server of agents has them."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping

from bench.report import Section, milliseconds, number
from bench.rounds import interleave
from bench.setting import Setting, succeed
from wasm_kernel import aio

_MANY = 50
_CELL = "total = sum(n * n for n in range(20_000))"


def run(setting: Setting) -> Section:
    """Measure opening them, a small and a computing cell in all of them, in turn and at once, and closing them."""

    def life() -> Mapping[str, float]:
        return asyncio.run(_life(setting))

    found = interleave([life], setting.rounds.threads, setting.tick)
    speed_up = number(found.ratio("in turn", "at once"))
    return Section(
        f"{_MANY} sessions in one process",
        f"`wasm_kernel.aio`: {_MANY} sessions, each with its checkpoints on, times in ms for all of them together. "
        f"Cell: `{_CELL}`; `pass` 10 times in each.",
        ["", "median [best]", ""],
        [
            ["opened at once", milliseconds(found, "open"), f"{number(found.median('open') * 1e3 / _MANY)} ms each"],
            ["the cell, one session after the other", milliseconds(found, "in turn"), "1"],
            ["the cell, all at once", milliseconds(found, "at once"), f"{speed_up}x as fast"],
            [
                "`pass`, all at once",
                milliseconds(found, "no-op"),
                f"{number(_MANY * 10 / found.median('no-op'))} a second",
            ],
            ["closed at once, everything saved", milliseconds(found, "close"), ""],
        ],
    )


async def _life(setting: Setting) -> dict[str, float]:
    root = setting.workspace()
    took: dict[str, float] = {}

    async def timed(name: str, work: Callable[[], Awaitable[object]]) -> None:
        started = time.perf_counter()
        await work()
        took[name] = time.perf_counter() - started

    sessions: list[aio.AsyncSession] = []

    async def opened() -> None:
        sessions.extend(await asyncio.gather(*(aio.create_session(None, root) for _ in range(_MANY))))

    async def cell(session: aio.AsyncSession, code: str = _CELL) -> None:
        succeed(await session.execute(code))

    async def in_turn() -> None:
        for session in sessions:
            await cell(session)

    async def no_ops(session: aio.AsyncSession) -> None:
        for _ in range(10):
            await cell(session, "pass")

    await timed("open", opened)
    await asyncio.gather(*map(cell, sessions))  # what is made once is made
    await timed("in turn", in_turn)
    await timed("at once", lambda: asyncio.gather(*map(cell, sessions)))
    await timed("no-op", lambda: asyncio.gather(*map(no_ops, sessions)))
    await timed("close", lambda: asyncio.gather(*(session.close() for session in sessions)))
    return took
