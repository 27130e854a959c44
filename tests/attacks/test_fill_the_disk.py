"""Using more of the disk than allowed: bytes, size of a file, number of files, descriptors."""

from __future__ import annotations

import os
import resource
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tests.attacks import guards
from tests.attacks.harness import Attack, AttackTests, Family, Scene, quietly
from wasm_kernel import BaseSandbox, SandboxResult

_KIB, _MIB = 1 << 10, 1 << 20
_BYTES, _FILE, _FILES, _OPEN = 2 * _MIB, 1 * _MIB, 800, 60
_SLACK = 128 * _KIB  # folders and names take some, too


class _DiskScene(Scene):
    """Tight limits, or none."""

    def _limits(self) -> dict[str, Any]:
        tight = {"workspace_bytes": _BYTES, "max_file_bytes": _FILE, "max_files": _FILES, "max_open_files": _OPEN}
        none = {"workspace_bytes": 1 << 40, "max_file_bytes": 1 << 40, "max_files": 1 << 30, "max_open_files": 1000}
        return {**super()._limits(), **(tight if self.guarded else none)}

    def set_up(self) -> None:
        super().set_up()
        self._held_before, self._open_before = _held_bytes(), _open_below(self.workspace, self.scratch)

    def breaches(self, attack: Attack, result: SandboxResult) -> list[str]:
        found = []
        entries = [*_everything_below(self.workspace), *_everything_below(self.scratch)]
        infos = {(info.st_dev, info.st_ino): info for info in entries}
        used = sum(max(info.st_size, info.st_blocks * 512) for info in infos.values())
        held = _held_bytes() - self._held_before
        if used + held > _BYTES + _SLACK:
            found.append(f"{used >> 10} KiB on disk and {held >> 10} KiB held, {_BYTES >> 10} KiB are allowed")
        largest = max((info.st_size for info in infos.values()), default=0)
        if largest > _FILE:
            found.append(f"a file of {largest} bytes, {_FILE} are allowed")
        if len(entries) > _FILES:
            found.append(f"{len(entries)} files, {_FILES} are allowed")
        opened = _open_below(self.workspace, self.scratch) - self._open_before
        if opened > _OPEN + 2:  # the two folders are mounted
            found.append(f"{opened} descriptors, {_OPEN} are allowed")
        return found


def _everything_below(folder: Path) -> Iterator[os.stat_result]:
    """By handle: a guest's paths can be longer than the host's."""
    for _, folders, names, handle in os.fwalk(folder):
        yield from (os.stat(name, dir_fd=handle, follow_symlinks=False) for name in [*folders, *names])


def _descriptors() -> dict[str, int]:
    found = {}
    for name in os.listdir("/proc/self/fd"):
        try:
            found[name] = os.stat(f"/proc/self/fd/{name}").st_ino
        except OSError:
            continue
    return found


def _held_bytes() -> int:
    """Space of regular files that this process has open and no folder has."""
    total = 0
    for name in _descriptors():
        info = os.stat(f"/proc/self/fd/{name}")
        if stat.S_ISREG(info.st_mode) and info.st_nlink == 0 and not _target(name).startswith("/memfd:"):
            total += max(info.st_size, info.st_blocks * 512)
    return total


def _target(descriptor: str) -> str:
    try:
        return os.readlink(f"/proc/self/fd/{descriptor}")
    except OSError:
        return ""


def _open_below(*folders: Path) -> int:
    roots = tuple(str(folder.resolve()) for folder in folders)
    return sum(_target(name).startswith(roots) for name in _descriptors())


def _attack(name: str, code: str, hole: str = "", first: str = "") -> Attack:
    return Attack(name, quietly(code, _WORDS), first=quietly(first, _WORDS) if first else "", hole=hole)


_WORDS = """
import os, io, shutil, tempfile
K, M = 1 << 10, 1 << 20
def fill(path, size=M - 1, step=64 * K):
    with open(path, 'wb', buffering=0) as f:
        while size > 0: size -= f.write(b'x' * min(step, size))
"""


_BYTES_ATTACKS = [
    _attack("write files", "for i in range(4): fill(f'/app/{i}')"),
    _attack("write to scratch", "for i in range(4): fill(f'/tmp/{i}')"),
    _attack("write to both", "for i in range(2): fill(f'/app/{i}'); fill(f'/tmp/{i}')"),
    _attack("write in large steps", "for i in range(4): open(f'/app/{i}', 'wb').write(bytes(M - 1))"),
    _attack("write in tiny steps", "for i in range(4): fill(f'/app/{i}', step=4 * K)"),
    _attack("append", "for i in range(64):\n    with open(f'/app/{i % 4}', 'ab') as f: f.write(bytes(64 * K))"),
    _attack("append without a seek", """
for i in range(64):
    f = os.open(f'/app/{i % 4}', os.O_CREAT | os.O_WRONLY | os.O_APPEND); os.write(f, bytes(64 * K)); os.close(f)
"""),
    _attack("pwrite", """
for i in range(4):
    f = os.open(f'/app/{i}', os.O_CREAT | os.O_WRONLY)
    for k in range(15): os.pwrite(f, bytes(64 * K), k * 64 * K)
"""),
    _attack("pwrite backwards", """
for i in range(4):
    f = os.open(f'/app/{i}', os.O_CREAT | os.O_WRONLY)
    for k in reversed(range(15)): os.pwrite(f, bytes(64 * K), k * 64 * K)
"""),
    _attack("truncate upwards", """
for i in range(4):
    open(f'/app/{i}', 'w').close(); os.truncate(f'/app/{i}', M - 1)
"""),
    _attack("truncate upwards in steps", """
for i in range(4):
    f = open(f'/app/{i}', 'wb')
    for k in range(1, 16): f.truncate(k * 64 * K)
"""),
    _attack("truncate upwards and fill", """
for i in range(4):
    f = open(f'/app/{i}', 'wb'); f.truncate(M - 1); fill(f'/app/{i}')
"""),
    _attack("sparse files", """
for i in range(8):
    with open(f'/app/{i}', 'wb') as f: f.seek(M - 2); f.write(b'x')
"""),
    _attack("sparse files, filled", """
for i in range(8):
    f = os.open(f'/app/{i}', os.O_CREAT | os.O_WRONLY); os.pwrite(f, b'x', M - 2)
    for k in range(15): os.pwrite(f, bytes(64 * K), k * 64 * K)
"""),
    _attack("sparse files, after truncating by another descriptor", """
files = []
for i in range(8):
    files.append(os.open(f'/app/{i}', os.O_CREAT | os.O_WRONLY))
    for k in range(15): os.write(files[-1], bytes(64 * K))
    os.close(os.open(f'/app/{i}', os.O_WRONLY | os.O_TRUNC))
for f in files: os.pwrite(f, b'x', 15 * 64 * K)
"""),
    _attack("sparse files, after truncating by path", """
files = []
for i in range(8):
    files.append(os.open(f'/app/{i}', os.O_CREAT | os.O_WRONLY))
    for k in range(15): os.write(files[-1], bytes(64 * K))
    os.truncate(f'/app/{i}', 0)
for f in files:
    for k in reversed(range(15)): os.pwrite(f, bytes(64 * K), k * 64 * K)
"""),
    _attack("sparse files, after truncating", """
files = []
for i in range(8):
    files.append(os.open(f'/app/{i}', os.O_CREAT | os.O_WRONLY))
    for k in range(15): os.write(files[-1], bytes(64 * K))
    os.ftruncate(files[-1], 0)
for f in files: os.pwrite(f, b'x', 15 * 64 * K)
"""),
    _attack("one byte in each block", """
for i in range(4):
    f = os.open(f'/app/{i}', os.O_CREAT | os.O_WRONLY)
    for k in range(255): os.pwrite(f, b'x', k * 4 * K)
"""),
    _attack("small files", "for i in range(750):\n    with open(f'/app/{i}', 'w') as f: f.write('x')"),
    _attack("folders", "for i in range(600): os.mkdir(f'/app/{i}')"),
    _attack("long links", "for i in range(600): os.symlink('x' * 1000, f'/app/{i}')"),
    _attack("deep folders", """
deep = '/app/' + '/'.join(['d'] * 250); os.makedirs(deep)
for i in range(8): fill(f'{deep}/{i}')
"""),
    _attack("folders moved deep", """
deep = '/app/' + '/'.join(['d'] * 150); os.makedirs(deep)
other = '/app/' + '/'.join(['e'] * 100); os.makedirs(other)
os.rename('/app/e', deep + '/e')
for i in range(8): fill(deep + '/' + '/'.join(['e'] * 100) + f'/{i}')
"""),
    _attack("removed but open", """
keep = []
for i in range(8):
    fill('/app/x'); keep.append(open('/app/x', 'rb')); os.unlink('/app/x')
"""),
    _attack("replaced but open", """
keep = []
for i in range(8):
    fill('/app/y'); keep.append(open('/app/y', 'rb')); fill('/app/z', 1); os.replace('/app/z', '/app/y')
"""),
    _attack("removed with its folder, but open", """
keep = []
for i in range(8):
    os.mkdir('/app/d'); fill('/app/d/x'); keep.append(open('/app/d/x', 'rb')); shutil.rmtree('/app/d')
"""),
    _attack("removed but open, below a long path", """
name = 'n' * 250; folders = [os.open('/app', os.O_RDONLY)]; keep = []
for i in range(20):
    os.mkdir(name, dir_fd=folders[-1]); folders.append(os.open(name, os.O_RDONLY, dir_fd=folders[-1]))
for i in range(8):
    keep.append(os.open('x', os.O_CREAT | os.O_WRONLY, dir_fd=folders[-1])); os.unlink('x', dir_fd=folders[-1])
    for k in range(15): os.write(keep[-1], bytes(64 * K))
"""),
    _attack("removed but open in scratch", """
keep = []
for i in range(8):
    f = tempfile.TemporaryFile(); f.write(bytes(M - 1)); f.flush(); keep.append(f)
"""),
    _attack("hard link and remove", """
keep = []
for i in range(8):
    fill('/app/x'); os.link('/app/x', '/app/l'); keep.append(open('/app/l', 'rb'))
    os.unlink('/app/x'); os.unlink('/app/l')
"""),
    _attack("copies", "fill('/app/x', M // 2)\nfor i in range(8): shutil.copyfile('/app/x', f'/app/{i}')"),
    _attack("copied trees", """
os.mkdir('/app/t'); fill('/app/t/x', M // 2)
for i in range(8): shutil.copytree('/app/t', f'/tmp/{i}')
"""),
    _attack("databases", """
import sqlite3
for i in range(4):
    c = sqlite3.connect(f'/app/{i}.db'); c.execute('create table t(x)')
    c.execute('insert into t values (zeroblob(900000))'); c.commit(); c.close()
"""),
    _attack("arrays", "import numpy\nfor i in range(4): numpy.save(f'/app/{i}', numpy.zeros(120000))"),
    _attack("archives", """
import zipfile
for i in range(4):
    with zipfile.ZipFile(f'/app/{i}.zip', 'w') as z: z.writestr('x', bytes(M - 1000))
"""),
    _attack("over two executions", "fill('/app/2')", first="fill('/app/0'); fill('/app/1')"),
]  # fmt: skip

_FILE_ATTACKS = [
    _attack("a file too large", "fill('/app/x', 2 * M - 64 * K)"),
    _attack("a file too large in one write", "open('/app/x', 'wb').write(bytes(M + 1))"),
    _attack("a file too large by one byte", "fill('/app/x', M); open('/app/x', 'ab').write(b'x')"),
    _attack("a file too large by pwrite", "os.pwrite(os.open('/app/x', os.O_CREAT | os.O_WRONLY), b'x', M)"),
    _attack("a file too large by a seek", "f = open('/app/x', 'wb'); f.seek(M + 5); f.write(b'x'); f.close()"),
    _attack("a file too large by truncate", "open('/app/x', 'wb').truncate(M + 1)"),
    _attack("a file too large by append", "fill('/app/x', M); f = open('/app/x', 'ab', buffering=0); f.write(b'x')"),
    _attack("a file too large by append without a seek", """
fill('/app/x', M); os.write(os.open('/app/x', os.O_WRONLY | os.O_APPEND), b'x')
"""),
    _attack("a file too large by pwrite in append mode", """
fill('/app/x', M); os.pwrite(os.open('/app/x', os.O_WRONLY | os.O_APPEND), b'x', 0)
"""),
    _attack("a file too large in scratch", "fill('/tmp/x', 2 * M - 64 * K)"),
]  # fmt: skip

_COUNT_ATTACKS = [
    _attack("too many files", "for i in range(850): os.close(os.open(f'/app/{i}', os.O_CREAT | os.O_WRONLY))"),
    _attack("too many hard links", "open('/app/x', 'w').close()\nfor i in range(850): os.link('/app/x', f'/app/{i}')"),
    _attack("too many in two folders", """
for i in range(430):
    for d in ('/app', '/tmp'): os.close(os.open(f'{d}/{i}', os.O_CREAT | os.O_WRONLY))
"""),
    _attack("too many open files", """
open('/app/x', 'w').close(); keep = []
for i in range(80): keep.append(os.open('/app/x', os.O_RDONLY))
"""),
    _attack("too many open folders", "keep = [os.open('/app', os.O_RDONLY) for i in range(80)]"),
    _attack("too many open after closing what was not opened", """
open('/app/x', 'w').close()
for i in (0, *range(3, 8)): os.close(i)
keep = []
while len(keep) < 80: keep.append(os.open('/app/x', os.O_RDONLY))
"""),
]  # fmt: skip


class TestFillTheDisk(AttackTests):
    family = Family(_DiskScene, [*_BYTES_ATTACKS, *_FILE_ATTACKS, *_COUNT_ATTACKS], guards.by_scene)


class _LinkedScene(_DiskScene):
    """The workspace lies behind a link, as in a home folder on another disk."""

    def _create(self) -> BaseSandbox:
        (self.folder / "real").mkdir(exist_ok=True)
        if not (self.folder / "link").is_symlink():
            (self.folder / "link").symlink_to("real")
        self.workspace = self.folder / "link" / "workspace"
        return super()._create()


class TestFillTheDiskBehindALink(AttackTests):
    family = Family(
        _LinkedScene,
        [
            _attack("write files", "for i in range(4): fill(f'/app/{i}')"),
            _attack(
                "removed but open",
                "keep = []\nfor i in range(8): fill('/app/x'); keep.append(open('/app/x', 'rb')); os.unlink('/app/x')",
            ),
        ],
        guards.by_scene,
    )


class _FewDescriptorsScene(_DiskScene):
    """The process may open few files, and the guest as many: it can leave none for the host to look with."""

    def _limits(self) -> dict[str, Any]:
        return {**super()._limits(), "max_open_files": 1000}

    def set_up(self) -> None:
        super().set_up()
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        resource.setrlimit(resource.RLIMIT_NOFILE, (len(_descriptors()) + 40, hard))
        self.stack.callback(resource.setrlimit, resource.RLIMIT_NOFILE, (soft, hard))

    def breaches(self, attack: Attack, result: SandboxResult) -> list[str]:
        self.stack.close()
        return [found for found in super().breaches(attack, result) if "descriptors" not in found]


class TestFillTheDiskWithoutDescriptors(AttackTests):
    family = Family(
        _FewDescriptorsScene,
        [
            _attack(
                "no descriptor left for the host",
                """
fill('/app/x'); files = [os.open(f'/app/{i}', os.O_CREAT | os.O_WRONLY) for i in range(4)]; keep = []
try:
    while True: keep.append(os.open('/app/x', os.O_RDONLY))
except OSError: pass
for f in files:
    for k in range(15): os.write(f, bytes(64 * K))
""",
            )
        ],
        guards.by_scene,
    )
