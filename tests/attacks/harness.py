"""How attacks are run and judged.

An `Attack` is guest code. A `Scene` prepares the host before each attempt and says afterwards, by looking at the host,
what was breached; the guest's own opinion never counts. A `Family` is a list of attacks over one kind of scene, with
the context manager that switches their guard off. Its tests come from `AttackTests`:

* every attempt is held back by the real guard;
* every counted attempt breaches when the guard is off, so the judge can see it, and harmless code does not;
* afterwards the sandbox works, and the host holds no more descriptors than before.

Attacks that something else also stops (wasmtime, the file system) cannot breach with our guard off. They are listed
as ``in_depth`` and count for nothing. An attack with a ``hole`` gets through today: it is expected to, strictly, so
that the test fails as soon as the hole is closed and the mark can go.
"""

from __future__ import annotations

import contextlib
import gc
import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar

import pytest

from wasm_kernel import BaseSandbox, Event, ExecutionPolicy, SandboxResult, create_sandbox

_LEAK_ALLOWED = 3
_loaded: list[bool] = []  # whether this process has what it loads once


@dataclass(frozen=True)
class Attack:
    """One attempt.

    Attributes:
        name: The test's id.
        code: What the guest runs.
        first: Code the guest runs in an execution before, when an attempt needs two.
        hole: Why it gets through today; empty when it must be held back.
    """

    name: str
    code: str
    first: str = ""
    hole: str = ""

    def __str__(self) -> str:
        return self.name


_HARMLESS = Attack("harmless", "print(len('harmless'))")


@dataclass
class Verdict:
    """What the host found after an attempt."""

    breaches: list[str] = field(default_factory=list)
    said: str = ""

    def __str__(self) -> str:
        return f"{'; '.join(self.breaches) or 'no breach'} (the guest: {self.said})"


class Scene:
    """A sandbox over a folder, and what the host looks at. Subclasses say what an attempt must not do."""

    limits: ClassVar[dict[str, Any]] = {"timeout_seconds": 20.0, "interrupt_grace_seconds": 1.0}

    def __init__(self, folder: Path, guarded: bool) -> None:
        self.folder, self.guarded = folder, guarded
        self.workspace = folder / "workspace"
        self.events: list[Event] = []
        self.stack = ExitStack()  # what `close` undoes
        self.sandbox = self._create()

    def _create(self) -> BaseSandbox:
        return create_sandbox(policy=ExecutionPolicy(**self._limits()), workspace=self.workspace)

    def _limits(self) -> dict[str, Any]:
        return {**Scene.limits, **self.limits}

    @property
    def scratch(self) -> Path:
        """The host folder behind /tmp."""
        return self.sandbox._sandbox.scratch

    def set_up(self) -> None:
        """Bring the host to the state every attempt starts from."""
        empty(self.workspace)

    def breaches(self, attack: Attack, result: SandboxResult) -> list[str]:
        """What an attempt did that it must not do."""
        raise NotImplementedError

    def execute(self, code: str) -> SandboxResult:
        """Run guest code, keeping its events."""
        return self.sandbox.execute(code, on_event=self.events.append)

    def attempt(self, attack: Attack) -> Verdict:
        """Prepare, attack, judge, and start the guest afresh."""
        verdict = Verdict()
        self.set_up()
        self.events.clear()
        try:
            if attack.first:
                self.execute(attack.first)
            result = self.execute(attack.code)
        except Exception as e:  # noqa: BLE001 - whatever the host raises, a guest made it do so
            verdict.breaches.append(f"the host raised {type(e).__name__}: {e}")
        else:
            verdict.said = f"{result.outcome.kind.value} {result.outcome.cause} {result.stdout[-300:]!r}"
            verdict.said += f" {result.stderr[-300:]!r}"
            if result.error is not None:
                verdict.said += f" {result.error.name}: {str(result.error.value)[:300]}"
            verdict.breaches += self.breaches(attack, result)
        try:
            self.sandbox.reset()
        except Exception as e:  # noqa: BLE001
            verdict.breaches.append(f"reset raised {type(e).__name__}: {e}")
            self.sandbox.close()
            self.sandbox = self._create()
        return verdict

    def works(self) -> str:
        """Empty if the sandbox still does what a sandbox does."""
        empty(self.workspace)
        result = self.sandbox.execute("with open('/app/alive', 'w') as f: f.write(str(6 * 7))\nprint('alive')")
        if not result.success or result.stdout != "alive\n":
            return f"it answers {result.outcome} {result.stdout!r}"
        written = read_bytes(self.workspace / "alive")
        return "" if written == b"42" else f"it wrote {written!r}"

    def close(self) -> None:
        """Give everything back."""
        self.sandbox.close()
        self.stack.close()


@dataclass
class Verdicts:
    """What a whole family did."""

    by_name: dict[str, Verdict]
    works: str
    leaked: int


@dataclass(frozen=True)
class Family:
    """Attacks of one kind."""

    scene: Callable[[Path, bool], Scene]
    attacks: list[Attack]
    unguarded: Callable[[], AbstractContextManager[Any]]
    in_depth: list[Attack] = field(default_factory=list)

    def __post_init__(self) -> None:
        names = [a.name for a in [*self.attacks, *self.in_depth]]
        assert len(set(names)) == len(names), f"two attacks have one name: {sorted(names)}"

    def run(self, folder: Path, *, guarded: bool) -> Verdicts:
        """Every attempt in one sandbox."""
        descriptors = count_descriptors(folder)
        with ExitStack() as stack:
            if not guarded:
                stack.enter_context(self.unguarded())
            scene = self.scene(folder, guarded)
            stack.callback(lambda: scene.close())
            attacks = [*self.attacks, *self.in_depth] if guarded else self.attacks
            verdicts = {attack.name: scene.attempt(attack) for attack in [_HARMLESS, *attacks]}
            works = scene.works()
        return Verdicts(verdicts, works, count_descriptors(folder) - descriptors)


class AttackTests:
    """The tests of a family. A subclass names it."""

    family: ClassVar[Family]

    def pytest_generate_tests(self, metafunc: pytest.Metafunc) -> None:
        """One test id per attempt."""
        family = metafunc.cls.family
        if "attack" in metafunc.fixturenames:
            everything = [*family.attacks, *family.in_depth]
            metafunc.parametrize("attack", [_parameter(a, in_depth=a in family.in_depth) for a in everything])
        if "counted" in metafunc.fixturenames:
            metafunc.parametrize("counted", family.attacks, ids=str)

    @pytest.fixture(scope="class")
    @classmethod
    def guarded(cls, tmp_path_factory: pytest.TempPathFactory) -> Verdicts:
        """All attempts, with the guard."""
        return cls.family.run(tmp_path_factory.mktemp("guarded"), guarded=True)

    @pytest.fixture(scope="class")
    @classmethod
    def unguarded(cls, tmp_path_factory: pytest.TempPathFactory) -> Verdicts:
        """All attempts, without it."""
        return cls.family.run(tmp_path_factory.mktemp("unguarded"), guarded=False)

    def test_is_held_back(self, attack: Attack, guarded: Verdicts) -> None:
        verdict = guarded.by_name[attack.name]
        assert not verdict.breaches, str(verdict)

    def test_is_seen_without_the_guard(self, counted: Attack, unguarded: Verdicts) -> None:
        verdict = unguarded.by_name[counted.name]
        assert verdict.breaches, str(verdict)

    def test_harmless_code_is_no_breach(self, guarded: Verdicts, unguarded: Verdicts) -> None:
        for verdict in (guarded.by_name[_HARMLESS.name], unguarded.by_name[_HARMLESS.name]):
            assert not verdict.breaches, str(verdict)

    def test_leaves_the_host_unharmed(self, guarded: Verdicts) -> None:
        assert not guarded.works
        assert guarded.leaked <= _LEAK_ALLOWED


def _parameter(attack: Attack, *, in_depth: bool) -> Any:
    marks = [pytest.mark.xfail(reason=attack.hole, strict=True)] if attack.hole else []
    return pytest.param(attack, id=f"{attack.name} (in depth)" if in_depth else attack.name, marks=marks)


def quietly(code: str, words: str = "") -> str:
    """Guest code that says in one line what it raised: IPython's tracebacks take long. ``words`` run before it."""
    told = "print(repr(e)[:300], file=sys.stderr)"
    return f"import sys{words}\ntry:\n    exec({code!r})\nexcept BaseException as e:\n    {told}\n"


# ---- looking at the host


def empty(folder: Path) -> None:
    """Remove everything in a folder."""
    for entry in os.scandir(folder):
        if entry.is_dir(follow_symlinks=False):
            shutil.rmtree(entry.path)
        else:
            os.unlink(entry.path)


def count_descriptors(folder: Path) -> int:
    """Open descriptors of this process, once everything that is loaded once per process is loaded."""
    with create_sandbox(workspace=folder / "warm-up") as sandbox:
        if not _loaded:
            for code in ("1", "1/0", "import asyncio\nasync def go(): pass\ntask = asyncio.create_task(go())"):
                sandbox.execute(code)
            sandbox._sandbox.ask({"op": "pump"})
            _loaded.append(True)
        sandbox.execute("1")
    gc.collect()
    return len(os.listdir("/proc/self/fd"))


def all_entries(*folders: Path) -> Iterator[Path]:
    """Everything below some folders, links not followed."""
    for folder in folders:
        for where, inner, names in os.walk(folder):
            yield from (Path(where) / name for name in [*inner, *names])


def read_bytes(path: Path) -> bytes:
    """A file's bytes; none if it is a link, a folder, or gone."""
    if path.is_symlink():
        return b""
    with contextlib.suppress(OSError):
        return path.read_bytes()
    return b""


def everything_said(result: SandboxResult) -> str:
    """All text that came out of an execution, in any channel."""
    parts: list[Any] = [result.stdout, result.stderr, result.result, result.displays, result.error, result.reply]
    return "\n".join(part if isinstance(part, str) else repr(part) for part in parts)
