"""How long 10,000 sessions of 50 users take to look at and to plan: `python -m tests.hub.measure_census [BREADTH]`.

No test: it says how fast this machine is now. Sessions have metadata and two files each; as root, owners of their own.
"""

from __future__ import annotations

import asyncio
import os
import sys
import tempfile
import time
from pathlib import Path

from tests.hub.town import Town
from tests.sessions.helpers import make_session

USERS, SESSIONS, ROUNDS = 50, 200, 3


def _give(folder: Path, owner: int) -> None:
    if os.geteuid() == 0:
        for path in (folder, *folder.rglob("*")):
            os.chown(path, owner, owner)


async def _measure(town: Town, users: list[str], breadth: int) -> None:
    service, _ = town.service(users, {"max_age": "3d", "max_sessions": 100, "warn_before": "1d"}, breadth=breadth)
    await service.census()  # the confined worker is there
    for _ in range(ROUNDS):
        begun = time.perf_counter()
        census = await service.census(fresh=True)
        looked = time.perf_counter()
        await service.plan()
        planned = time.perf_counter()
        print(
            f"{len(census.sessions):,} sessions: census {looked - begun:.2f} s, census and plan {planned - looked:.2f} s"
        )


def main() -> None:
    """Make them, measure, and take them away."""
    with tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(0o755)
        town = Town(Path(folder))
        users = town.settle(*["user"] * USERS)
        for number, user in enumerate(users):
            for hours in range(SESSIONS):
                make_session(town.root(user), hours, {"a": b"x" * 100, "b": b"y" * 100}, notebook="/home/a/b.ipynb")
            _give(town.root(user).parent, 20000 + number)
        try:
            asyncio.run(_measure(town, users, int(sys.argv[1]) if len(sys.argv) > 1 else 4))
        finally:
            town.homes.close()


if __name__ == "__main__":
    main()
