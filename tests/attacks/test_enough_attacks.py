"""How many attempts there are. Those in depth, and those that still get through, do not count."""

from __future__ import annotations

import importlib
from pathlib import Path

from tests.attacks import test_kill_the_host, test_make_raw_calls
from tests.attacks.harness import AttackTests

_AT_LEAST = 300


def families() -> list[type[AttackTests]]:
    """Every family of this folder."""
    for path in sorted(Path(__file__).parent.glob("test_*.py")):
        importlib.import_module(f"tests.attacks.{path.stem}")
    return AttackTests.__subclasses__()


def count() -> int:
    """Attempts that are held back, and that breach without their guard."""
    held = sum(not attack.hole for tests in families() for attack in tests.family.attacks)
    raw = len(test_make_raw_calls.COUNTED_CALLS) + len(test_make_raw_calls.COUNTED_IMPORTS)
    return held + raw + len(test_kill_the_host.COUNTED)


def test_there_are_enough_attacks() -> None:
    assert count() >= _AT_LEAST
