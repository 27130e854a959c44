"""An agent without a model: it tries three repairs of a failing script in forks, and keeps the one whose tests pass.

python examples/agent.py
"""

import asyncio
import tempfile

from wasm_kernel import aio

SCRIPT = """
def median(values):
    values.sort()
    return values[len(values) // 2]
"""
TESTS = """
import importlib, stats
importlib.reload(stats)
assert stats.median([3, 1, 2]) == 2
assert stats.median([4, 1, 3, 2]) == 2.5, "even number of values"
given = [3, 1, 2]
stats.median(given)
assert given == [3, 1, 2], "the caller's list was changed"
"""
REPAIRS = {
    "average": (
        "return values[len(values) // 2]",
        "return (values[(len(values) - 1) // 2] + values[len(values) // 2]) / 2",
    ),
    "copy": ("values.sort()", "values = sorted(values)"),
    "library": (SCRIPT.strip(), "from statistics import median"),
}


async def attempt(start: aio.AsyncSession, name: str, old: str, new: str) -> tuple[aio.AsyncSession, bool]:
    """Repair the script in a fork, and run the tests there."""
    fork = await start.fork(name=name)
    source = (await fork.read_file("stats.py")).decode()
    await fork.write_file("stats.py", source.replace(old, new).encode())
    result = await fork.execute(TESTS)
    print(f"{name:8} {'passes' if result.success else 'fails: ' + str(result.error and result.error.value)}")
    return fork, result.success


async def main() -> None:
    """Fail, fork three times, keep the best."""
    with tempfile.TemporaryDirectory() as root:
        async with await aio.create_session("task", root) as session:
            await session.write_file("stats.py", SCRIPT.encode())
            failed = await session.execute(TESTS)
            print(f"before   fails: {failed.error and failed.error.value}")
            await session.undo()  # nothing of the failed run stays: not even the module that it imported
            tried = await asyncio.gather(*(attempt(session, name, *repair) for name, repair in REPAIRS.items()))
            kept = next(fork for fork, passed in tried if passed)
            print("\nKept:", kept.session_id)
            print((await kept.read_file("stats.py")).decode())
            for fork, _ in tried:
                await fork.close()


asyncio.run(main())
