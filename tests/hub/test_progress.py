"""How far a plan is, while it is made."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest

from tests.hub.town import Town, town_in
from tests.sessions.helpers import make_session, plant_snapshot
from wasm_kernel.hub.census import HubUser
from wasm_kernel.hub.progress import Progress, for_each


@pytest.fixture(scope="module")
def town(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Town]:
    with town_in(tmp_path_factory.mktemp("town")) as made:
        yield made


def test_every_user_counts_once_in_each_phase(town: Town) -> None:
    users = town.settle("ann", "bob", "cid")
    for user in users:
        plant_snapshot(town.root(user), make_session(town.root(user), 100))
    progress, seen = Progress(), []
    real = town.homes.do

    class Watched:
        obstacle, shift, close = town.homes.obstacle, town.homes.shift, town.homes.close

        async def do(self, user: HubUser, job: str, **arguments: Any) -> dict[str, Any]:
            found = await real(user, job, **arguments)
            seen.append((job, progress.phase, progress.done, progress.total))
            return found

    service, _ = town.service(users, workplace=Watched(), breadth=1)
    plan = asyncio.run(service.plan({"max_age": "1d"}, progress=progress))
    assert len(plan.remove) == 3
    phases = {job: {(phase, total) for j, phase, _, total in seen if j == job} for job in ("look", "foresee")}
    assert phases == {"look": {("Looking at users’ sessions", 3)}, "foresee": {("Counting their snapshots", 3)}}
    assert [done for job, _, done, _ in seen if job == "look"] == [0, 1, 2]
    assert (progress.done, progress.total) == (3, 3)


def test_one_that_fails_does_not_leave_the_others_running() -> None:
    ended: list[int] = []

    async def work(n: int) -> None:
        if n == 0:
            raise ValueError("no")
        await asyncio.sleep(0.01)
        ended.append(n)

    progress = Progress()
    with pytest.raises(ValueError, match="no"):
        asyncio.run(for_each(range(4), work, 4, progress))
    assert sorted(ended) == [1, 2, 3] and progress.done == 4
