"""Computing on after the fuel is used up. An attack that gets its way leaves a file behind."""

from __future__ import annotations

from typing import Any

import pytest

from tests.attacks import guards
from tests.attacks.harness import Attack, AttackTests, Family, Scene
from wasm_kernel import SandboxResult
from wasm_kernel.sessions.sandboxes import ready_image

pytestmark = pytest.mark.metered

_FUEL = 50_000_000  # a cell that does nothing takes a few million


@pytest.fixture(scope="module", autouse=True)
def loaded() -> None:
    """The metered module is loaded once per process; its descriptors are no leak."""
    ready_image(metered=True).modules(metered=True)


class _FuelScene(Scene):
    """Little fuel, or none counted."""

    def _limits(self) -> dict[str, Any]:
        return {**super()._limits(), "fuel_budget": _FUEL if self.guarded else 2**62}

    def breaches(self, attack: Attack, result: SandboxResult) -> list[str]:
        found = []
        if (self.workspace / "escaped").exists():
            found.append("the code ran to its end")
        if result.fuel_consumed is None or result.fuel_consumed > _FUEL + 1_000_000:
            found.append(f"it used {result.fuel_consumed} of {_FUEL}")
        return found


_DONE = "\nopen('/app/escaped', 'w').close()"

_ATTACKS = {
    "a loop": "for i in range(1_000_000): pass",
    "a loop in C": "sum(range(10_000_000))",
    "catching everything": """
for i in range(500):
    try:
        for k in range(2000): pass
    except BaseException: pass
""",
    "a large product": "x = 3 ** 300_000\nfor i in range(8): x * x",
    "an array": "import numpy\nfor i in range(20): numpy.sort(numpy.arange(200_000) % 997)",
    "a regular expression": "import re; re.match('(a|a)*b', 'a' * 15)",
    "a destructor": """
class D:
    def __del__(self):
        for i in range(1_000_000): pass
d = D(); del d
""",
    "a loop with input": """
for i in range(1_000_000):
    if i % 100_000 == 0:
        try: input()
        except Exception: pass
""",
}


class TestBurnFuel(AttackTests):
    family = Family(_FuelScene, [Attack(name, code + _DONE) for name, code in _ATTACKS.items()], guards.by_scene)
