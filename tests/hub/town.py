"""Users with homes, and the service that works in them, without a hub."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests import processes
from wasm_kernel.hub.census import HubUser
from wasm_kernel.hub.policies import Policies
from wasm_kernel.hub.service import Arrangement, Service
from wasm_kernel.hub.workplace import Workplace
from wasm_kernel.hub.workspaces.homes import Homes

_numbers = itertools.count(1)


@dataclass
class Citizens:
    """Who there is, and whose server runs, as a test says."""

    people: dict[str, HubUser] = field(default_factory=dict)

    async def users(self) -> list[HubUser]:
        return list(self.people.values())

    async def user(self, name: str) -> HubUser | None:
        return self.people.get(name)


@contextlib.contextmanager
def town_in(folder: Path) -> Iterator[Town]:
    """A town for a module's tests; its worker starts when one needs it, and ends with them all."""
    town = Town(folder)
    with processes.shared("confined_worker"):
        yield town
        town.homes.close()


class Town:
    """A folder of homes. Its confined worker works for all tests of a module; every test has users of its own."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.template = f"{folder}/homes/{{username}}/ws"
        self.archives = folder / "archives"
        self.archives.mkdir(mode=0o700)
        self.homes = Homes(self.template, archive_folder=str(self.archives))

    def settle(self, *names: str) -> list[str]:
        """New users with empty workspaces; their names, which begin so."""
        made = [f"{name}{next(_numbers)}" for name in names]
        for name in made:
            self.root(name).mkdir(parents=True)
        return made

    def root(self, user: str) -> Path:
        """A user's workspace."""
        return self.folder / "homes" / user / "ws"

    def service(
        self,
        users: list[str],
        policy: Mapping[str, Any] | None = None,
        *,
        workplace: Workplace | None = None,
        **more: Any,
    ) -> tuple[Service, Citizens]:
        """A service for these users, with a state of its own."""
        citizens = Citizens({name: HubUser(name) for name in users})
        state = self.folder / f"state{next(_numbers)}"
        how = Arrangement(state, Policies(policy or {}), can_archive=True, **more)
        return Service(how, workplace or self.homes, citizens), citizens

    def do(self, user: str, job: str, **arguments: Any) -> dict[str, Any]:
        """One job in a user's workspace."""
        return asyncio.run(self.homes.do(HubUser(user), job, **arguments))
