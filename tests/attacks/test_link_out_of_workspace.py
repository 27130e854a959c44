"""Links whose target lies outside their folder: the guest cannot follow them, but a host that copies or packs could."""

from __future__ import annotations

import os
from pathlib import Path

from tests.attacks import guards
from tests.attacks.harness import Attack, AttackTests, Family, Scene, all_entries, quietly
from wasm_kernel import SandboxResult


class _LinkScene(Scene):
    """A secret beside the workspace, where links may lead."""

    def __init__(self, folder: Path, guarded: bool) -> None:
        super().__init__(folder, guarded)
        (folder / "secret.txt").write_text("sesame")

    def set_up(self) -> None:
        super().set_up()
        (self.workspace / "sub" / "deep").mkdir(parents=True)

    def breaches(self, attack: Attack, result: SandboxResult) -> list[str]:
        found = []
        for root in (self.workspace, self.scratch):
            for path in all_entries(root):
                if path.is_symlink() and not _stays_below(path, root):
                    found.append(f"{path.name!r} points to {os.readlink(path)!r}")
        if "sesame" in result.stdout:
            found.append("the guest read what lies outside")
        return found


def _stays_below(link: Path, root: Path) -> bool:
    target = os.readlink(link)
    return not os.path.isabs(target) and os.path.normpath(link.parent / target).startswith(f"{root}/")


def _attack(name: str, code: str) -> Attack:
    return Attack(name, quietly(code, "\nimport os, pathlib, tarfile, io\n"))


_ATTACKS = [
    _attack("to the parent", "os.symlink('..', '/app/l')"),
    _attack("to a file beside", "os.symlink('../secret.txt', '/app/l'); print(open('/app/l').read())"),
    _attack("from a folder", "os.symlink('../../secret.txt', '/app/sub/l')"),
    _attack("far up", "os.symlink('../' * 40 + 'etc/passwd', '/app/l')"),
    _attack("down and up", "os.symlink('sub/../../secret.txt', '/app/l')"),
    _attack("doubled slashes", "os.symlink('..//secret.txt', '/app/l')"),
    _attack("dots in between", "os.symlink('./../secret.txt', '/app/l')"),
    _attack("trailing dots", "os.symlink('sub/../..', '/app/l')"),
    _attack("trailing slash", "os.symlink('../', '/app/l')"),
    _attack("by folder descriptor", "os.symlink('../secret.txt', 'l', dir_fd=os.open('/app', os.O_RDONLY))"),
    _attack("in the scratch folder", "os.symlink('../secret.txt', '/tmp/l')"),
    _attack("pathlib", "pathlib.Path('/app/l').symlink_to('../secret.txt')"),
    _attack("bytes", "os.symlink(b'../secret.txt', b'/app/l')"),
    _attack("of a folder", "os.symlink('../../..', '/app/sub/deep/l', target_is_directory=True)"),
    _attack("made deep, moved up", "os.symlink('../../x', '/app/sub/deep/l'); os.rename('/app/sub/deep/l', '/app/l')"),
    _attack("chained", "os.symlink('..', '/app/sub/up'); os.symlink('sub/up/../secret.txt', '/app/l')"),
    _attack("out of an archive", """
t = tarfile.TarInfo('l'); t.type = tarfile.SYMTYPE; t.linkname = '../secret.txt'
with tarfile.open('/tmp/t.tar', 'w') as f: f.addfile(t)
tarfile.open('/tmp/t.tar').extractall('/app', filter='fully_trusted')
"""),
]  # fmt: skip

_STOPPED_BY_OTHERS = [
    _attack("absolute", "os.symlink('/etc/passwd', '/app/l'); print(open('/app/l').read())"),
    _attack("absolute to a mount", "os.symlink('/app', '/app/l')"),
    _attack("absolute with doubled slashes", "os.symlink('//etc/passwd', '/app/l')"),
    _attack("hard link to a file outside", "os.link('/app/../secret.txt', '/app/l')"),
    _attack("hard link to a host path", "os.link('/etc/passwd', '/app/l')"),
]


class TestLinkOutOfWorkspace(AttackTests):
    family = Family(_LinkScene, _ATTACKS, guards.links_may_climb, in_depth=_STOPPED_BY_OTHERS)
