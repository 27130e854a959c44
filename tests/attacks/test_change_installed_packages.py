"""Changing what the host installed for a session: its sets, and the link that says which one is in use.

A guest that could would have its next life, or the host's next install, begin with files of its choice.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from tests.attacks import guards
from tests.attacks.harness import Attack, AttackTests, Family, Scene, empty, quietly
from wasm_kernel import BaseSandbox, ExecutionPolicy, SandboxLogger, SandboxResult
from wasm_kernel.host.files import workspace_survey
from wasm_kernel.host.image import image
from wasm_kernel.host.runtime.engine import Mount
from wasm_kernel.host.runtime.sandbox import Sandbox

_real_mounts = image.Image.mounts


@contextmanager
def _packages_writable() -> Iterator[None]:
    def mounts(self: image.Image, *arguments: Any) -> list[Mount]:
        return [replace(m, writable=True) if m.guest == "/packages" else m for m in _real_mounts(self, *arguments)]

    with guards.patched((image.Image, "mounts", mounts)):
        yield


class _PackagesScene(Scene):
    """A guest with an installed package, `fruit`."""

    def _create(self) -> BaseSandbox:
        self._packages = self.folder / "packages"
        self._packages.mkdir(exist_ok=True)
        folder = workspace_survey.prepare(self.workspace)
        policy = ExecutionPolicy(**self._limits())
        return BaseSandbox(Sandbox(image.load(), folder, policy, self._packages), SandboxLogger())

    def set_up(self) -> None:
        super().set_up()
        empty(self._packages)
        (self._packages / "set-1" / "fruit").mkdir(parents=True)
        (self._packages / "set-1" / "fruit" / "__init__.py").write_text("ripe = True\n")
        (self._packages / "current").symlink_to("set-1")
        (self.workspace / "own.py").write_text("ripe = False\n")
        (self.workspace / "set-2").mkdir()
        self._before = self._look()

    def _look(self) -> dict[str, tuple[Any, ...]]:
        found: dict[str, tuple[Any, ...]] = {}
        for where, folders, names in os.walk(self._packages):
            for name in [*folders, *names]:
                path = Path(where) / name
                info = path.lstat()
                content = os.readlink(path) if path.is_symlink() else b"" if path.is_dir() else path.read_bytes()
                found[str(path)] = (info.st_ino, info.st_mode, info.st_nlink, info.st_mtime_ns, content)
        return found

    def breaches(self, attack: Attack, result: SandboxResult) -> list[str]:
        now = self._look()
        found = [f"{p} was changed" for p in sorted({*now, *self._before}) if now.get(p) != self._before.get(p)]
        survey = workspace_survey.survey(self.workspace)
        if any(name not in ("own.py", "set-2") for name in survey.files):
            found.append(f"something came into the workspace: {sorted(survey.files)}")
        return found


_WAYS = {
    "overwrite a module": "open(F, 'w').write('evil')",
    "overwrite through the link": "open('/packages/current/fruit/__init__.py', 'w').write('evil')",
    "append": "open(F, 'a').write('evil')",
    "patch in place": "os.pwrite(os.open(F, os.O_RDWR), b'evil', 0)",
    "truncate": "os.truncate(F, 0)",
    "truncate by opening": "os.open(F, os.O_RDONLY | os.O_TRUNC)",
    "touch": "os.utime(F, (1, 1))",
    "add a module": "open('/packages/set-1/evil.py', 'w')",
    "add bytecode": "import py_compile; py_compile.compile(F, '/packages/set-1/fruit/__init__.pyc')",
    "bytecode by importing": "sys.dont_write_bytecode = False; import fruit",
    "remove a module": "os.unlink(F)",
    "rename a module": "os.rename(F, F + '.bak')",
    "rename a set": "os.rename('/packages/set-1', '/packages/set-9')",
    "take a set away": "os.rename('/packages/set-1', '/app/stolen')",
    "bring a set": "os.rename('/app/set-2', '/packages/set-2')",
    "make a set": "os.mkdir('/packages/set-2')",
    "remove the link": "os.unlink('/packages/current')",
    "another link": "os.unlink('/packages/current'); os.symlink('set-2', '/packages/current')",
    "move a file over the link": "os.rename('/app/own.py', '/packages/current')",
    "link a module in": "os.link('/app/own.py', '/packages/set-1/own.py')",
    "link a module out and write": "os.link(F, '/app/l'); open('/app/l', 'w').write('evil')",
    "symlink in": "os.symlink('fruit', '/packages/set-1/vegetable')",
    "by the folder's descriptor": "os.unlink('__init__.py', dir_fd=os.open('/packages/set-1/fruit', os.O_RDONLY))",
    "remove a set": "import shutil; shutil.rmtree('/packages/set-1')",
    "after importing": "import fruit; open(fruit.__file__, 'w').write('evil')",
}
_STOPPED_BY_OTHERS = {
    "chmod": "os.chmod(F, 0)",
    "symlink out and write": "os.symlink(F, '/app/l')\nopen('/app/l', 'w').write('evil')",
    "out of the mount": "open('/packages/../evil', 'w')",
}


def _attack(name: str, code: str) -> Attack:
    return Attack(name, quietly(code, "\nimport os\nF = '/packages/set-1/fruit/__init__.py'\n"))


class TestChangeInstalledPackages(AttackTests):
    family = Family(
        _PackagesScene,
        [_attack(name, code) for name, code in _WAYS.items()],
        _packages_writable,
        in_depth=[_attack(name, code) for name, code in _STOPPED_BY_OTHERS.items()],
    )
