"""From a sandbox over a folder that also holds sessions: reading, changing or seeing one, or what the host keeps there."""

from __future__ import annotations

import secrets
import unicodedata
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path

import pytest

from tests.attacks import guards
from tests.attacks.harness import Attack, AttackTests, Family, Scene, all_entries, empty, everything_said, quietly
from tests.attacks.hidden_scene import LISTED
from wasm_kernel import ConfigurationError, SandboxResult, create_sandbox, create_session_sandbox, get_session_sandbox
from wasm_kernel.host.disk.locks import SessionLock, is_live, lock_session
from wasm_kernel.host.disk.records import write_record
from wasm_kernel.host.runtime.interposer import Interposer
from wasm_kernel.model.names import STATE_FOLDER
from wasm_kernel.model.records import new_record

_UUID = "7a7cd0b4-24f5-4dd4-8c5a-0b1f2d3e4f56"
_NAMED = "sales-desk"


class _SessionsScene(Scene):
    """A session of each kind, both live, beside what the sandbox may use."""

    def __init__(self, folder: Path, guarded: bool) -> None:
        self._secret = f"sesame-{secrets.token_hex(16)}"
        self._locks: list[SessionLock] = []
        self._before: dict[str, bytes] = {}
        super().__init__(folder, guarded)
        self.stack.callback(self._release)

    def _release(self) -> None:
        while self._locks:
            self._locks.pop().release()

    def set_up(self) -> None:
        self._release()
        empty(self.workspace)
        (self.workspace / "sub").mkdir()
        (self.workspace / "own.txt").write_text("mine")
        for name in (_UUID, _NAMED):
            folder = self.workspace / name
            folder.mkdir()
            (folder / "notes.txt").write_text(self._secret)
            (folder / "empty").mkdir()
            write_record(folder, new_record(name, datetime.now(UTC)), sync=False)
            self._locks.append(lock_session(self.workspace, name))
        self._before = self._look()

    def _look(self) -> dict[str, bytes]:
        """Everything that is the host's or a session's."""
        found = {}
        for top in (_UUID, _NAMED, STATE_FOLDER):
            for path in [self.workspace / top, *all_entries(self.workspace / top)]:
                content = path.read_bytes() if path.is_file() else b""
                with suppress(OSError):
                    found[str(path.relative_to(self.workspace))] = content + str(path.stat().st_ino).encode()
        return found

    def breaches(self, attack: Attack, result: SandboxResult) -> list[str]:
        found = []
        now = self._look()
        found += [
            f"{name} was changed"
            for name in self._before.keys() | now.keys()
            if now.get(name) != self._before.get(name)
        ]
        if not all(is_live(self.workspace, name) for name in (_UUID, _NAMED)):
            found.append("a live session does not look live")
        if self._secret in everything_said(result):
            found.append("the guest said the secret")
        listed = result.stdout.partition(LISTED)[2]
        found += [f"the guest listed {name}" for name in (_UUID, _NAMED, STATE_FOLDER) if name in listed]
        changed = [*result.files_created, *result.files_modified, *result.files_deleted]
        found += [
            f"{path} is said to have changed" for path in changed if path.startswith((_UUID, _NAMED, STATE_FOLDER))
        ]
        for path in all_entries(self.workspace, self.scratch):
            name = str(path.relative_to(self.workspace)) if path.is_relative_to(self.workspace) else str(path)
            if name not in self._before and _could_be_one(path.name):
                found.append(f"a new entry {name!r}")
            if path.is_symlink() and any(map(_could_be_one, str(path.readlink()).split("/"))):
                found.append(f"a link to {path.readlink()}")
            if name not in self._before and path.is_file() and self._secret.encode() in path.read_bytes():
                found.append(f"a copy of the secret in {name!r}")
        return found

    def works(self) -> str:
        self._release()
        return super().works()


def _could_be_one(name: str) -> bool:
    folded = "".join(c for c in unicodedata.normalize("NFKD", name).casefold() if c < "\x80").rstrip(". ")
    return folded.startswith(STATE_FOLDER) or folded in (_UUID, _NAMED)


@contextmanager
def _shown() -> Iterator[None]:
    """No name is hidden."""
    with guards.hidden_name_shown(), guards.patched((Interposer, "hide_sessions", lambda self, named: None)):
        yield


_WORDS = f"""
import os, sys, shutil, pathlib
S, T, LISTED = {_UUID!r}, {_NAMED!r}, {LISTED!r}
D, W = '/app/' + S, '/app/{STATE_FOLDER}'
F, L = D + '/notes.txt', W + '/locks/' + S
"""
_ATTACKS = {
    "read": "print(open(F).read())",
    "read of a named session": "print(open('/app/' + T + '/notes.txt').read())",
    "read through dots": "print(open('/app/sub/../' + S + '/notes.txt').read())",
    "read by a relative path": "os.chdir('/app/sub'); print(open('../' + S + '/notes.txt').read())",
    "read from its folder": "os.chdir(D); print(open('notes.txt').read())",
    "read by descriptor": "d = os.open(D, os.O_RDONLY); print(os.read(os.open('notes.txt', os.O_RDONLY, dir_fd=d), 99))",
    "read by a descriptor of /app": """
d = os.open('/app/.', os.O_RDONLY); print(os.read(os.open(S + '/notes.txt', os.O_RDONLY, dir_fd=d), 99))
""",
    "read through a link to the folder": "os.symlink(S, '/app/l'); print(open('/app/l/notes.txt').read())",
    "read through a link to a dot": "os.symlink('.', '/app/l'); print(open('/app/l/' + S + '/notes.txt').read())",
    "a link to the file": "os.symlink(S + '/notes.txt', '/app/l'); print(open('/app/l').read())",
    "a link made elsewhere": "os.symlink(S, '/tmp/l'); os.rename('/tmp/l', '/app/l'); print(open('/app/l/notes.txt').read())",
    "a link to the state": "os.symlink('.wasm-kernel', '/app/l'); os.unlink('/app/l/locks/' + S)",
    "a hard link": "os.link(F, '/app/mine'); print(open('/app/mine').read())",
    "copied": "shutil.copytree(D, '/tmp/copy')",
    "all copied": "shutil.copytree('/app', '/tmp/copy')",
    "kept open over two executions": "print(f.read())",
    "listed": "print(LISTED, os.listdir('/app'))",
    "listed by bytes": "print(LISTED, os.listdir(b'/app'))",
    "listed through a link": "os.symlink('.', '/app/l'); print(LISTED, os.listdir('/app/l'))",
    "walked": "print(LISTED, list(os.walk('/app')))",
    "found by a pattern": "import glob; print(LISTED, glob.glob('/app/*', include_hidden=True))",
    "told by a stat": "os.stat(D); print(LISTED, S)",
    "told by a stat of the state": "os.stat(W); print(LISTED, W)",
    "told by mkdir": "\ntry: os.mkdir(D)\nexcept FileExistsError: print(LISTED, S)",
    "locks listed": "print(LISTED, W, os.listdir(W + '/locks'))",
    "lock deleted": "os.unlink(L)",
    "lock emptied": "open(L, 'w').close()",
    "lock replaced": "open('/app/x', 'w').close(); os.rename('/app/x', L)",
    "lock of a named session deleted": "os.unlink(W + '/locks/' + T)",
    "locks moved away": "os.rename(W + '/locks', '/app/locks')",
    "state moved away": "os.rename(W, '/app/state')",
    "state deleted": "shutil.rmtree(W)",
    "gate deleted": "os.unlink(W + '/gate')",
    "a file written": "open(F, 'w').write('gone')",
    "a file added": "open(D + '/new.txt', 'w').write('new')",
    "a folder added": "os.mkdir(D + '/new')",
    "a folder removed": "os.rmdir(D + '/empty')",
    "a file removed": "os.unlink(F)",
    "a file moved away": "os.rename(F, '/app/mine')",
    "a file moved there": "os.rename('/app/own.txt', D + '/own.txt')",
    "the folder moved away": "os.rename(D, '/app/mine')",
    "the folder deleted": "shutil.rmtree(D)",
    "a named session deleted": "shutil.rmtree('/app/' + T)",
    "a file made older": "os.utime(F, (1, 1)); print(LISTED, S)",
    "a package put there": "os.makedirs(W + '/packages/' + S + '/evil')",
}
_SPELLINGS = {
    "the state in capitals": ".WASM-KERNEL",
    "with a long s": ".wa\u017fm-kernel",
    "with a Kelvin sign": ".wasm-\u212aernel",
    "with both": ".WA\u017fM-\u212aERNEL",
    "with a zero-width space": ".wasm\u200b-kernel",
    "with a mark": ".wasm-ke\u0301rnel",
    "with a dot at the end": ".wasm-kernel.",
    "as the temporary of something": ".wasm-kernel.new",
    "in a folder": "sub/.wasm-kernel",
    "a session in capitals": _UUID.upper(),
    "a session with a dot": f"{_UUID}.",
    "a session with a blank": f"{_UUID} ",
    "a session with a mark": f"{_UUID[:5]}\u0301{_UUID[5:]}",
    "a named session in capitals": _NAMED.upper(),
    "a named session with a long s": "\u017fales-de\u017f\u212a",
    "a session in a folder": f"sub/{_UUID}",
}


def _attacks() -> list[Attack]:
    first = {"kept open over two executions": "f = open(F)"}
    made = [
        Attack(name, quietly(code, _WORDS), first=quietly(first[name], _WORDS) if name in first else "")
        for name, code in _ATTACKS.items()
    ]
    ways = (
        "os.mkdir('/app/' + NAME)",
        "open('/app/' + NAME, 'w').close()",
        "os.rename('/app/own.txt', '/app/' + NAME)",
    )
    for i, (name, spelt) in enumerate(_SPELLINGS.items()):
        made.append(Attack(f"spelt {name}", quietly(f"NAME = {spelt!r}\n{ways[i % 3]}", _WORDS)))
    return made


class TestReachSessions(AttackTests):
    family = Family(_SessionsScene, _attacks(), _shown)


def test_by_default_both_use_one_folder_and_see_nothing_of_each_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    session_id, session = create_session_sandbox()
    named = get_session_sandbox("by-name")
    with session, named, create_sandbox() as plain:
        assert plain.workspace == tmp_path / "workspace"
        session.execute("open('a.txt', 'w').write('x' * 1000)")
        named.execute("open('b.txt', 'w').write('x' * 1000)")
        result = plain.execute("import os; open('own.txt', 'w').write('x'); print(sorted(os.listdir('/app')))")
        assert result.stdout == "['own.txt']\n"
        assert result.files_created == ["own.txt"]
        assert plain.execute("os.path.exists('/app/by-name')").result == {"text/plain": "False"}
        assert plain.execute(f"os.path.exists('/app/{session_id}')").result == {"text/plain": "False"}


def test_what_only_looks_like_one_may_be_used(tmp_path: Path) -> None:
    """Files named by a UUID and something more, anything in /tmp, and anything in a session's own folder."""
    code = (
        "import os, uuid\n"
        "name = str(uuid.uuid4())\n"
        "open(f'/app/{name}.png', 'w').close(); open(f'/app/x-{name}', 'w').close(); os.mkdir(f'/tmp/{name}')\n"
        "open(f'/tmp/{name}/f', 'w').close(); os.chdir(f'/tmp/{name}'); open(str(uuid.uuid4()), 'w').close()\n"
        "print(len(os.listdir('.')), len(os.listdir('/app')))\n"
    )
    with create_sandbox(workspace=tmp_path / "plain") as plain:
        assert plain.execute(code).stdout == "2 2\n"
    _, session = create_session_sandbox(workspace_root=tmp_path / "root")
    with session:
        code = "import os, uuid; os.mkdir('/app/' + str(uuid.uuid4())); print(len(os.listdir('/app')))"
        assert session.execute(code).stdout == "1\n"
        assert not session.execute("os.mkdir('/app/.wasm-kernel')").success


def test_more_names_than_can_be_hidden_are_refused(tmp_path: Path) -> None:
    with create_sandbox(workspace=tmp_path) as sandbox:
        assert sandbox.execute("1").success
        locks = tmp_path / STATE_FOLDER / "locks"
        locks.mkdir(parents=True)
        for number in range(600):
            (locks / f"{'x' * 100}-{number}").touch()
        with pytest.raises(ConfigurationError, match="a workspace of its own"):
            sandbox.execute("1")
        for path in locks.iterdir():
            path.unlink()
        assert sandbox.execute("1").success
