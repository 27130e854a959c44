"""Finding the host's secrets: its environment, its standard streams, another sandbox's files."""

from __future__ import annotations

import ctypes
import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import wasmtime

from tests.attacks import guards
from tests.attacks.harness import Attack, AttackTests, Family, Scene, everything_said, quietly
from wasm_kernel import BaseSandbox, SandboxResult, create_sandbox
from wasm_kernel.host.runtime import interposer, scratch

# ---- the environment

_TOKENS = ("JUPYTERHUB_API_TOKEN", "JPY_API_TOKEN", "AWS_SECRET_ACCESS_KEY")


class _EnvironmentScene(Scene):
    """Tokens in the host's environment; unguarded, the environment is passed on."""

    def __init__(self, folder: Path, guarded: bool) -> None:
        self._secret = f"sesame-{secrets.token_hex(16)}"
        for name in _TOKENS:
            os.environ[name] = self._secret
        super().__init__(folder, guarded)
        for name in _TOKENS:
            self.stack.callback(os.environ.pop, name)

    def _limits(self) -> dict[str, Any]:
        passed = {} if self.guarded else {name: os.environ[name] for name in _TOKENS}
        return {**super()._limits(), "env": passed}

    def breaches(self, attack: Attack, result: SandboxResult) -> list[str]:
        found = []
        if self._secret in everything_said(result):
            found.append("the guest said a token")
        if attack.name == _LOOKED_AT and self._secret.encode() in self._guest_memory():
            found.append("a token is in the guest's memory")
        return found

    def _guest_memory(self) -> bytes:
        instance = self.sandbox._sandbox._guest.instance
        assert instance is not None
        return ctypes.string_at(*instance.memory_span)


_LOOKED_AT = "the guest's memory as the host sees it"


def _attack(name: str, code: str) -> Attack:
    return Attack(name, quietly(code, "\nimport os, sys\nT = 'JUPYTERHUB_API_TOKEN'\n"))


class TestStealTheEnvironment(AttackTests):
    family = Family(
        _EnvironmentScene,
        [
            _attack("os.environ", "print(dict(os.environ))"),
            _attack("os.getenv", "print(os.getenv(T))"),
            _attack("bytes", "print(os.environb)"),
            _attack("read again by the C library", "os.reload_environ(); print(os.environ)"),
            _attack("expanded in a path", "print(os.path.expandvars('$' + T))"),
            _attack("magic", "print(get_ipython().run_line_magic('env', T))"),
            _attack("the guest's memory as the guest sees it", """
import numpy
here = numpy.zeros(1, 'u1'); at = here.__array_interface__['data'][0]
word = bytes(w ^ 1 for w in b'rdr`ld,')
below = numpy.lib.stride_tricks.as_strided(here, (at,), (-1,))[::-1]
above = numpy.lib.stride_tricks.as_strided(here, (max(1, (210 << 20) - at),))
for data in (bytes(below), bytes(above)):
    i = data.find(word)
    while i >= 0: print(data[i:i + 39]); i = data.find(word, i + 1)
"""),
            _attack(_LOOKED_AT, "pass"),
        ],
        guards.by_scene,
        in_depth=[
            _attack("the process", "print(open('/proc/self/environ').read())"),
            _attack("arguments", "print(sys.argv, sys.orig_argv, sys._xoptions, sys.flags)"),
        ],
    )  # fmt: skip


# ---- standard streams


class _StreamScene(Scene):
    """A secret waits on the host's standard input; nothing may come out of its standard output."""

    def __init__(self, folder: Path, guarded: bool) -> None:
        super().__init__(folder, guarded)
        self._secret = f"sesame-{secrets.token_hex(16)}"
        self._out = folder / "out"

    def attempt(self, attack: Attack) -> Any:
        with _standard_streams(self._secret, self._out):
            return super().attempt(attack)

    def breaches(self, attack: Attack, result: SandboxResult) -> list[str]:
        found = []
        if any(self._secret in path.read_text() for path in self.workspace.iterdir()):
            found.append("the guest read the host's standard input")
        if "forged" in self._out.read_text():
            found.append("the guest wrote to the host's standard streams")
        return found


@contextmanager
def _standard_streams(text: str, out: Path) -> Iterator[None]:
    """Descriptors 0, 1 and 2 of this process replaced for a while."""
    reader, writer = os.pipe()
    os.write(writer, f"{text}\n".encode())
    os.close(writer)
    target = os.open(out, os.O_CREAT | os.O_TRUNC | os.O_WRONLY)
    before = [os.dup(i) for i in range(3)]
    try:
        for i, new in enumerate((reader, target, target)):
            os.dup2(new, i)
        yield
    finally:
        for i, old in enumerate(before):
            os.dup2(old, i)
        for fd in (reader, target, *before):
            os.close(fd)


class _InheritingConfig(wasmtime.WasiConfig):  # type: ignore[misc]
    def __init__(self) -> None:
        super().__init__()
        self.inherit_stdin()
        self.inherit_stdout()
        self.inherit_stderr()


@contextmanager
def _streams_inherited() -> Iterator[None]:
    is_stream = "(i32.lt_u (i32.sub (local.get $fd) (i32.const 1)) (i32.const 2))"
    text = guards.without(interposer.filter_text(), is_stream, "(i32.const 0)")
    with guards.filter_replaced(text), guards.patched((wasmtime, "WasiConfig", _InheritingConfig)):
        yield


class TestStealTheStandardStreams(AttackTests):
    family = Family(
        _StreamScene,
        [
            _attack("read descriptor 0", "open('/app/x', 'wb').write(os.read(0, 100))"),
            _attack("read every descriptor", """
for fd in range(3):
    try: data = os.read(fd, 100)
    except OSError: continue
    with open('/app/x', 'ab') as f: f.write(data)
"""),
            _attack("read sys.stdin", "open('/app/x', 'w').write(sys.stdin.readline())"),
            _attack("write descriptor 1", "os.write(1, b'for' + b'ged')"),
            _attack("write descriptor 2", "os.write(2, b'for' + b'ged')"),
            _attack("print", "print('for' + 'ged', flush=True)"),
            _attack("print to stderr", "print('for' + 'ged', file=sys.__stderr__, flush=True)"),
        ],
        _streams_inherited,
    )  # fmt: skip


# ---- another sandbox


class _NeighbourScene(Scene):
    """Another sandbox in the same process, with a secret in its /tmp; unguarded, both have the same."""

    def _create(self) -> BaseSandbox:
        self.stack.close()
        self._neighbour = create_sandbox(workspace=self.folder / "neighbour")
        self.stack.callback(self._neighbour.close)
        theirs = self._neighbour._sandbox.scratch
        self._file = theirs / "secret.txt"
        if self.guarded:
            return super()._create()
        with guards.patched((scratch, "make", lambda: theirs)):
            return super()._create()

    def set_up(self) -> None:
        super().set_up()
        self._secret = f"sesame-{secrets.token_hex(16)}"
        made = self._neighbour.execute(f"open('/tmp/secret.txt', 'w').write({self._secret!r}); x = {self._secret!r}")
        assert made.success

    def breaches(self, attack: Attack, result: SandboxResult) -> list[str]:
        found = []
        if self._secret in everything_said(result) or "secret.txt" in result.stdout:
            found.append("the guest saw a file of its neighbour's")
        if not self._file.exists() or self._file.read_text() != self._secret:
            found.append("the guest changed a file of its neighbour's")
        return found


class TestStealFromANeighbour(AttackTests):
    family = Family(
        _NeighbourScene,
        [
            _attack("read its scratch", "print(open('/tmp/secret.txt').read())"),
            _attack("list its scratch", "print(os.listdir('/tmp'))"),
            _attack("overwrite its scratch", "open('/tmp/secret.txt', 'w').write('mine')"),
            _attack("empty its scratch", "import shutil; shutil.rmtree('/tmp', ignore_errors=True)"),
        ],
        guards.by_scene,
        in_depth=[
            _attack("its workspace", "print(open('/app/../neighbour/secret.txt').read())"),
            _attack("its variables", "print(x)"),
        ],
    )
