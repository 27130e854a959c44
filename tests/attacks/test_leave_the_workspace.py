"""Reaching what lies outside the mounts. wasmtime and the absence of a mount stop all of this; none of it counts."""

from __future__ import annotations

import os
import secrets
from pathlib import Path

from tests.attacks import guards
from tests.attacks.harness import Attack, AttackTests, Family, Scene, everything_said, quietly
from wasm_kernel import SandboxResult


class _OutsideScene(Scene):
    """Secrets around the workspace: beside it, in another session's folder, in the host's environment."""

    def __init__(self, folder: Path, guarded: bool) -> None:
        super().__init__(folder, guarded)
        self._secret = f"sesame-{secrets.token_hex(16)}"
        (folder / "other").mkdir()
        for path in (folder / "secret.txt", folder / "other" / "secret.txt"):
            path.write_text(self._secret)
        os.environ["ATTACK_TOKEN"] = self._secret
        self.stack.callback(os.environ.pop, "ATTACK_TOKEN")

    def breaches(self, attack: Attack, result: SandboxResult) -> list[str]:
        found = []
        said = everything_said(result)
        if self._secret in said:
            found.append("the guest read a secret")
        if "root:" in said:
            found.append("the guest read the host's users")
        here = sorted(os.listdir(self.folder))
        if here != ["other", "secret.txt", "warm-up", "workspace"]:
            found.append(f"beside the workspace there is {here}")
        if (self.folder / "secret.txt").read_text() != self._secret:
            found.append("what lies beside the workspace was changed")
        return found


def _attack(name: str, code: str) -> Attack:
    return Attack(name, quietly(code, "\nimport os, pathlib, shutil\n"))


_PATHS = {
    "parent": "/app/../secret.txt",
    "parent of a folder": "/app/sub/../../secret.txt",
    "parent, relative": "../secret.txt",
    "many parents": "/app/" + "../" * 50 + "etc/passwd",
    "another session": "/app/../other/secret.txt",
    "users": "/etc/passwd",
    "doubled slash": "//etc/passwd",
    "environment of the process": "/proc/self/environ",
    "environment through a mount": "/tmp/../proc/self/environ",
    "memory of the process": "/proc/self/mem",
    "root of the process": "/proc/self/root/etc/passwd",
    "descriptor of the process": "/proc/self/fd/3/secret.txt",
    "descriptor device": "/dev/fd/3",
    "standard input device": "/dev/stdin",
    "disk": "/dev/vda",
    "from the library": "/usr/local/lib/../../../etc/passwd",
    "from the packages": "/site/../../../../../../etc/passwd",
    "home": "/root/.bashrc",
    "UNC path": "\\\\?\\C:\\Windows\\win.ini",
}


class TestLeaveTheWorkspace(AttackTests):
    family = Family(
        _OutsideScene,
        [],
        guards.by_scene,
        in_depth=[
            *[_attack(name, f"print(open({path!r}, 'rb').read(1000))") for name, path in _PATHS.items()],
            _attack("list the parent", "print(os.listdir('/app/..'))"),
            _attack("list the root", "print(os.listdir('/'))"),
            _attack("write beside", "open('/app/../evil', 'w').close()"),
            _attack("make a folder beside", "os.mkdir('/app/../evil')"),
            _attack("move out", "open('/app/x', 'w').close(); os.rename('/app/x', '/app/../evil')"),
            _attack("move in", "os.rename('/app/../secret.txt', '/app/mine')"),
            _attack("remove beside", "os.unlink('/app/../secret.txt')"),
            _attack("copy the parent", "shutil.copytree('/app/..', '/tmp/all')"),
            _attack("change folder upwards", "os.chdir('/app'); os.chdir('..'); print(open('secret.txt').read())"),
            _attack("parent by descriptor", "print(os.open('../secret.txt', os.O_RDONLY, dir_fd=10))"),
            _attack("absolute by descriptor", "print(os.read(os.open('/etc/passwd', os.O_RDONLY, dir_fd=10), 100))"),
            _attack("run a program", "print(os.popen('cat /etc/passwd').read())"),
            _attack(
                "run a program with subprocess",
                "import subprocess; print(subprocess.check_output(['cat', '/etc/passwd']))",
            ),
            _attack("run a shell command", "print(get_ipython().getoutput('cat /etc/passwd'))"),
            _attack("open a connection", "import socket; socket.create_connection(('127.0.0.1', 22), 1)"),
            _attack(
                "file address", "import urllib.request; print(urllib.request.urlopen('file:///etc/passwd').read())"
            ),
            _attack("ctypes", "import ctypes; print(ctypes.CDLL(None).getenv(b'ATTACK_TOKEN'))"),
        ],
    )
