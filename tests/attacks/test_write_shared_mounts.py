"""Writing to what all guests share: standard library, packages, our own guest code. All of it is mounted read-only.

The image itself is never attacked: its mounts are replaced by copies with a few files each, and stay as read-only as
`image.mounts` says they are.
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
from wasm_kernel import BaseSandbox, SandboxResult
from wasm_kernel.host.image import image
from wasm_kernel.host.runtime.engine import Mount

_SHARED = ["/usr/local/lib", "/site", "/kernel", "/dev", "/packages", "/data"]
_real_mounts = image.Image.mounts


@contextmanager
def _mounted(folder: Path, *, writable: bool) -> Iterator[None]:
    def mounts(self: image.Image, *arguments: Any) -> list[Mount]:
        found = _real_mounts(self, *arguments)
        assert [m.guest for m in found if m.guest not in _SHARED] == ["/tmp", "/app"]
        return [
            replace(m, host=folder / m.guest.strip("/").replace("/", "-"), writable=m.writable or writable)
            if m.guest in _SHARED
            else m
            for m in found
        ]

    with guards.patched((image.Image, "mounts", mounts)):
        yield


class _SharedScene(Scene):
    """Copies of the shared mounts, with a file to spoil in each."""

    def _create(self) -> BaseSandbox:
        for guest in _SHARED:
            self._host_of(guest).mkdir(parents=True, exist_ok=True)
        self.stack.close()
        self.stack.enter_context(_mounted(self.folder / "shared", writable=not self.guarded))
        return super()._create()

    def _host_of(self, guest: str) -> Path:
        return self.folder / "shared" / guest.strip("/").replace("/", "-")

    def set_up(self) -> None:
        super().set_up()
        for guest in _SHARED:
            here = self._host_of(guest)
            empty(here)
            (here / "module.py").write_text("innocent = True\n")
            (here / "package").mkdir()
            (here / "package" / "__init__.py").write_text("")
            (here / "null").write_text("")
        (self.workspace / "own.py").write_text("innocent = False\n")
        self._before = self._look()

    def _look(self) -> dict[str, tuple[Any, ...]]:
        found: dict[str, tuple[Any, ...]] = {}
        for where, folders, names in os.walk(self.folder / "shared"):
            for name in [*folders, *names]:
                path = Path(where) / name
                info = path.lstat()
                content = b"" if path.is_dir() or path.is_symlink() else path.read_bytes()
                found[str(path)] = (
                    info.st_ino,
                    info.st_mode,
                    info.st_nlink,
                    info.st_mtime_ns,
                    info.st_ctime_ns,
                    content,
                )
        return found

    def breaches(self, attack: Attack, result: SandboxResult) -> list[str]:
        now = self._look()
        return [
            f"{path} was changed" for path in sorted({*now, *self._before}) if now.get(path) != self._before.get(path)
        ]


# Each is tried on every shared mount, M.
_WAYS = {
    "create": "open(M + '/new.py', 'w').write('evil')",
    "overwrite": "open(M + '/module.py', 'w').write('evil')",
    "append": "open(M + '/module.py', 'a').write('evil')",
    "patch in place": "os.pwrite(os.open(M + '/module.py', os.O_RDWR), b'evil', 0)",
    "truncate": "os.truncate(M + '/module.py', 1)",
    "remove": "os.unlink(M + '/module.py')",
    "move out": "os.rename(M + '/module.py', '/app/module.py')",
    "move in": "os.rename('/app/own.py', M + '/module.py')",
    "make a folder": "os.mkdir(M + '/evil')",
    "touch": "os.utime(M + '/module.py', (1, 1))",
    "link in": "os.symlink('module.py', M + '/link.py')",
}
# More ways, on one mount each.
_MORE = {
    "hard link out, then write": ("/site", "os.link(M + '/module.py', '/app/l'); open('/app/l', 'w').write('evil')"),
    "hard link in": ("/site", "os.link('/app/own.py', M + '/evil.py')"),
    "rename inside": ("/kernel", "os.rename(M + '/module.py', M + '/package/module.py')"),
    "remove a folder": ("/kernel", "import shutil; shutil.rmtree(M + '/package')"),
    "by folder descriptor": ("/packages", "os.unlink('module.py', dir_fd=os.open(M, os.O_RDONLY))"),
    "by the preopened descriptor": ("/site", "os.unlink('module.py', dir_fd=4)"),
    "through a path with dots": ("/site", "open(M + '/package/../module.py', 'w').write('evil')"),
    "with O_APPEND": ("/kernel", "os.write(os.open(M + '/module.py', os.O_WRONLY | os.O_APPEND), b'evil')"),
    "with O_TRUNC alone": ("/kernel", "os.open(M + '/module.py', os.O_RDONLY | os.O_TRUNC)"),
    "bytecode by importing": (
        "/packages",
        "sys.path.insert(0, M); sys.dont_write_bytecode = False; import package, module",
    ),
    "a database": ("/packages", "import sqlite3; sqlite3.connect(M + '/db').execute('create table t(x)')"),
    "touch by descriptor": ("/usr/local/lib", "os.utime(os.open(M + '/module.py', os.O_RDONLY), (1, 1))"),
    "truncate by descriptor": ("/usr/local/lib", "os.ftruncate(os.open(M + '/module.py', os.O_RDWR), 0)"),
    "replace null": ("/dev", "os.rename('/app/own.py', M + '/null')"),
    "remove null": ("/dev", "os.unlink(M + '/null')"),
}
# What is written to /dev/null never arrives, writable or not.
_STOPPED_BY_OTHERS = {
    "write to null": ("/dev", "open(M + '/null', 'w').write('evil')"),
    "pwrite to null": ("/dev", "os.pwrite(os.open(M + '/null', os.O_RDWR), b'evil', 0)"),
    "append to null": ("/dev", "open(M + '/null', 'a').write('evil')"),
    "chmod": ("/site", "os.chmod(M + '/module.py', 0)"),
}


def _attack(name: str, mount: str, code: str) -> Attack:
    return Attack(f"{name} {mount}", quietly(code, f"\nimport os\nM = {mount!r}\n"))


class TestWriteSharedMounts(AttackTests):
    family = Family(
        _SharedScene,
        [_attack(name, mount, code) for mount in _SHARED for name, code in _WAYS.items()]
        + [_attack(name, *more) for name, more in _MORE.items()],
        guards.by_scene,
        in_depth=[_attack(name, *more) for name, more in _STOPPED_BY_OTHERS.items()],
    )
