"""How far it goes, planned: `python -m bench.simulation` prints the tables of docs/scale.md that say "simulated".

Nobody here has a thousand users or a million sessions. This takes what one kernel, one push and one listing cost, as
measured, assumes how people work and what a store charges, and adds up. Everything assumed is below, by name; change it
and run this again. The same seed gives the same tables.
"""

from __future__ import annotations

import random
from dataclasses import dataclass

# Measured: `python -m bench.sizing` (docs/administrators.md), MB of 10^6 bytes.
KERNEL_MB = 53  # one that has run pandas, for itself, besides its data
MEMORY_PER_DATA = 2  # a table that was made from an array takes about twice its size
RELEASED_MB = 51  # after 15 minutes without a cell, whatever it held
LAB_MB = 71  # a JupyterLab server
SHARED_MB = 200  # by all kernels of a node, once
STORED_PER_DATA = 1 / 3  # how well tables compress

# Measured: `python -m bench.stored_sessions`, against a real S3 server on this machine.
FIRST_PUSH_MB = 1.8  # a session with a small table
SMALL_PUSH_MB = 1.1  # after a cell that changes little
OBJECTS = 6  # of a session in the store
PUSH = {"PUT": 2, "LIST": 5, "HEAD": 3, "GET": 3, "DELETE": 1}  # requests
BEAT = {"PUT": 1, "LIST": 1, "HEAD": 1, "GET": 1}  # of an open session, every minute
OPENING = {"PUT": 3, "LIST": 5, "HEAD": 4, "GET": 9, "DELETE": 4}  # taking the lease and pulling
DELETING = {"PUT": 3, "LIST": 5, "HEAD": 3, "GET": 3, "DELETE": 8}
JUDGING_SECONDS = 50e-6  # a session of a listing, on one core

# Assumed: people. Nobody was asked.
DAY_MINUTES = 480
OPEN_NOTEBOOKS = 3  # of which one is worked in
WORK_MINUTES, PAUSE_MINUTES = 20, 10  # on average, by turns; then perhaps another notebook
CELLS_PER_MINUTE = 1.0  # while working
CELL_SECONDS, CELL_SPREAD = 0.5, 1.5  # of CPU: median, and sigma of a log-normal distribution; the mean is 1.5 s
DATA_MB, DATA_SPREAD, MOST_DATA_MB = 20, 1.5, 1000  # a session's data, likewise; the mean is about 60 MB
NEW_DATA = 0.05  # of the cells make their session's data anew
IDLE_MINUTES = 15  # `idle_timeout_seconds`
WORKDAYS = 22  # a month

# Assumed: a store like S3 in its standard class, at list prices in dollars, seen from the same region.
PRICE = {"PUT": 5e-6, "LIST": 5e-6, "HEAD": 4e-7, "GET": 4e-7, "DELETE": 0.0}
PRICE_GB_MONTH = 0.023
LIST_SECONDS, REQUEST_SECONDS = 0.2, 0.03
PAGE = 1000  # objects of a listing
AT_ONCE = 8  # sessions of a user that are deleted at a time
USERS_AT_ONCE = 4  # `WasmKernelHub.breadth`

SEED = 17
POOL = 700  # users that are simulated
NODES = ((2, 8), (4, 16), (8, 32), (16, 64), (32, 128))  # cores, GB
SYSTEM_MB = 1000  # a node's system, and what Kubernetes runs there
OFTEN_ENOUGH = 0.01  # of the minutes may want more cores than there are; memory never


@dataclass
class Day:
    """A user's day: MB and core-seconds in each minute, cells, and MB that were pushed."""

    memory: list[float]
    cores: list[float]
    cells: int = 0
    pushed_mb: float = 0.0


def simulated_day(chance: random.Random) -> Day:
    """How one user works."""
    data = [min(MOST_DATA_MB, DATA_MB * chance.lognormvariate(0, DATA_SPREAD)) for _ in range(OPEN_NOTEBOOKS)]
    used = [-IDLE_MINUTES * 2.0] * OPEN_NOTEBOOKS
    now, works, until = 0, chance.random() < WORK_MINUTES / (WORK_MINUTES + PAUSE_MINUTES), 0.0
    day = Day([], [], pushed_mb=FIRST_PUSH_MB)
    for minute in range(DAY_MINUTES):
        if minute >= until:
            works = not works
            until = minute + chance.expovariate(1 / (WORK_MINUTES if works else PAUSE_MINUTES))
            now = chance.randrange(OPEN_NOTEBOOKS) if works else now
        seconds = 0.0
        if works and chance.random() < CELLS_PER_MINUTE:
            used[now] = minute
            seconds = min(60.0, CELL_SECONDS * chance.lognormvariate(0, CELL_SPREAD))
            day.cells += 1
            day.pushed_mb += SMALL_PUSH_MB + (data[now] * STORED_PER_DATA if chance.random() < NEW_DATA else 0)
        awake = [minute - last <= IDLE_MINUTES for last in used]
        kernels = [
            KERNEL_MB + MEMORY_PER_DATA * size if is_awake else RELEASED_MB
            for size, is_awake in zip(data, awake, strict=True)
        ]
        day.memory.append(LAB_MB + sum(kernels))
        day.cores.append(seconds / 60)
    return day


def users_of(cores: int, gigabytes: int, days: list[Day]) -> tuple[int, str]:
    """How many users a node holds, added one by one, and what there is too little of for one more."""
    memory, busy = [float(SYSTEM_MB + SHARED_MB)] * DAY_MINUTES, [0.0] * DAY_MINUTES
    for count, day in enumerate(days):
        memory = [a + b for a, b in zip(memory, day.memory, strict=True)]
        busy = [a + b for a, b in zip(busy, day.cores, strict=True)]
        if max(memory) > gigabytes * 1000:
            return count, "memory"
        if sum(used > cores for used in busy) > OFTEN_ENOUGH * DAY_MINUTES:
            return count, "cores"
    raise ValueError(f"{len(days)} users do not fill a node of {cores} cores; simulate more")


def cost(requests: dict[str, int]) -> float:
    """Of some requests, in dollars."""
    return sum(PRICE[name] * count for name, count in requests.items())


def nodes_table(days: list[Day]) -> str:
    """How many users a node holds."""
    lines = ["| a node with | holds users | one more would lack |", "|---|---:|---|"]
    for cores, gigabytes in NODES:
        count, lacks = users_of(cores, gigabytes, days)
        lines.append(f"| {cores} cores, {gigabytes} GB | {count} | {lacks} |")
    return "\n".join(lines)


def day_table(days: list[Day]) -> str:
    """What a user's day brings to the store."""
    pushed = sorted(day.pushed_mb for day in days)
    cells = sum(day.cells for day in days) / len(days)
    pushes, beats = cells * cost(PUSH), DAY_MINUTES * OPEN_NOTEBOOKS * cost(BEAT)
    openings = OPEN_NOTEBOOKS * cost(OPENING)
    month = 1000 * WORKDAYS
    rows = [
        ("cells, each of them pushed", f"{cells:.0f}"),
        ("sent to the store, mean", f"{sum(pushed) / len(pushed):.0f} MB"),
        (
            "median; 95 of 100 users send less than",
            f"{pushed[len(pushed) // 2]:.0f} MB; {pushed[len(pushed) * 95 // 100]:.0f} MB",
        ),
        ("requests for pushes, 1,000 users for a month", f"${pushes * month:.0f}"),
        ("requests for leases that are kept, likewise", f"${beats * month:.0f}"),
        ("requests for opening, likewise", f"${openings * month:.2f}"),
    ]
    return "\n".join(["| a user and a day | |", "|---|---:|", *(f"| {name} | {value} |" for name, value in rows)])


def million_table(chance: random.Random) -> str:
    """What a million sessions on a store cost."""
    sessions, users = 1_000_000, 1000
    sizes = [
        FIRST_PUSH_MB + min(MOST_DATA_MB, DATA_MB * chance.lognormvariate(0, DATA_SPREAD)) * STORED_PER_DATA
        for _ in range(20_000)
    ]
    terabytes = sum(sizes) / len(sizes) * sessions / 1e6
    pages = sessions * OBJECTS // PAGE
    gone = sessions // 100
    of_one = sum(DELETING.values()) * REQUEST_SECONDS / AT_ONCE
    rows = [
        ("objects", f"{sessions * OBJECTS:,}"),
        ("space", f"{terabytes:.0f} TB, ${terabytes * 1000 * PRICE_GB_MONTH:,.0f} a month"),
        (
            "looking at all, in one prefix",
            f"{pages:,} requests, ${pages * PRICE['LIST']:.2f}, {_minutes(pages * LIST_SECONDS)}",
        ),
        (f"in {users:,} prefixes, {USERS_AT_ONCE} at a time", _minutes(pages * LIST_SECONDS / USERS_AT_ONCE)),
        ("judging what was listed", f"{sessions * JUDGING_SECONDS:.0f} s of one core"),
        (f"pruning 1 of 100, {gone:,} sessions", f"${gone * cost(DELETING):.2f}, {_minutes(gone * of_one)}"),
        (f"the same, {USERS_AT_ONCE} users at a time", _minutes(gone * of_one / USERS_AT_ONCE)),
        ("collecting what interrupted pushes left", "no request more than looking, and one to delete each object"),
    ]
    return "\n".join(["| a million sessions | |", "|---|---:|", *(f"| {name} | {value} |" for name, value in rows)])


def _minutes(seconds: float) -> str:
    return f"{seconds / 60:.0f} min"


def tables() -> list[str]:
    """All tables, in the order of the document."""
    chance = random.Random(SEED)
    days = [simulated_day(chance) for _ in range(POOL)]
    return [nodes_table(days), day_table(days), million_table(chance)]


if __name__ == "__main__":
    print("\n\n".join(tables()))
