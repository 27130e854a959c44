"""Using more memory than allowed. The host looks at the size of the guest's linear memory."""

from __future__ import annotations

from typing import Any

from tests.attacks import guards
from tests.attacks.harness import Attack, AttackTests, Family, Scene, quietly
from wasm_kernel import SandboxResult
from wasm_kernel.model.policy import MIN_MEMORY_BYTES

_NONE = 640 << 20


class _MemoryScene(Scene):
    """The smallest memory there can be, or twice that."""

    def _limits(self) -> dict[str, Any]:
        return {**super()._limits(), "memory_bytes": MIN_MEMORY_BYTES if self.guarded else _NONE}

    def breaches(self, attack: Attack, result: SandboxResult) -> list[str]:
        size = result.memory_bytes
        return [f"the guest has {size >> 20} MiB"] if size > MIN_MEMORY_BYTES else []


def _attack(name: str, code: str) -> Attack:
    return Attack(name, quietly(code, "\nM = 1 << 20\n"))


class TestUseUpMemory(AttackTests):
    family = Family(
        _MemoryScene,
        [
            _attack("one large object", "x = bytearray(200 * M)"),
            _attack("many objects", "x = [bytes(M) for i in range(200)]"),
            _attack("small objects", "x = [(i, i) for i in range(4_000_000)]"),
            _attack("an array", "import numpy; x = numpy.empty(25 * M)"),
            _attack("a string", "x = 'x' * (50 * M); x += '\\U0001f600'"),
            _attack("a number", "x = 1 << (1700 * M)"),
            _attack("a list grown", "x = [0]\nwhile len(x) < 70 * M: x += x"),
            _attack("keeping on after MemoryError", """
x = []
for size in (200 * M, 64 * M, 16 * M, 4 * M, M):
    for i in range(20):
        try: x.append(bytearray(size))
        except MemoryError: break
"""),
        ],
        guards.by_scene,
    )  # fmt: skip
