"""The scene of all attacks on `.metadata.json`: a secret in it, and every way the host can see that it was touched."""

from __future__ import annotations

import os
import re
import secrets
import unicodedata
from pathlib import Path

from tests.attacks.harness import Attack, Scene, all_entries, empty, everything_said, quietly, read_bytes
from wasm_kernel import SandboxResult

HIDDEN = ".metadata.json"
TEMPORARY = ".metadata.json.tmp-7f3a"  # what the host itself may have there while it replaces the file
LISTED = "LISTED"  # an attack on listings prints this before what it found
_MTIME = 987_654_321


class HiddenScene(Scene):
    """A workspace with hidden files of the host's and some of the guest's own."""

    def __init__(self, folder: Path, guarded: bool) -> None:
        super().__init__(folder, guarded)
        self._secret = f"sesame-{secrets.token_hex(16)}"
        self._before: dict[str, tuple[int, ...]] = {}

    def set_up(self) -> None:
        empty(self.workspace)
        (self.workspace / "sub").mkdir()
        (self.workspace / "folder").mkdir()
        (self.workspace / "folder" / "inner.txt").write_text("mine")
        (self.workspace / "own.txt").write_text("mine")
        for name in (HIDDEN, TEMPORARY):
            path = self.workspace / name
            path.write_text(f'{{"secret": "{self._secret}"}}\n')
            path.chmod(0o640)
            os.utime(path, (_MTIME, _MTIME))
            self._before[name] = self._look(name)

    def _look(self, name: str) -> tuple[int, ...]:
        try:
            info = os.lstat(self.workspace / name)
        except FileNotFoundError:
            return ()
        return (info.st_ino, info.st_size, info.st_mtime_ns, info.st_ctime_ns, info.st_mode, info.st_nlink)

    def breaches(self, attack: Attack, result: SandboxResult) -> list[str]:
        found = []
        for name, before in self._before.items():
            if (now := self._look(name)) != before:
                found.append(f"{name} was changed: {before} is now {now}")
            elif self._secret not in (self.workspace / name).read_text():
                found.append(f"{name} has other bytes")
            if str(_MTIME) in result.stdout:
                found.append(f"the guest knows what a stat of {name} says")
        found += self._strange_entries()
        said = everything_said(result)
        if self._secret in said:
            found.append("the guest said the secret")
        if HIDDEN in result.stdout.partition(LISTED)[2]:
            found.append("the guest listed the name")
        return found

    def _strange_entries(self) -> list[str]:
        found = []
        for path in all_entries(self.workspace, self.scratch):
            if path.parent == self.workspace and path.name in self._before:
                continue
            if is_hidden(path.name):
                found.append(f"a new entry {path.name!r}")
            if path.is_symlink() and any(is_hidden(part) for part in os.readlink(path).split("/")):
                found.append(f"a link {path.name!r} to {os.readlink(path)!r}")
            if self._secret.encode() in read_bytes(path):
                found.append(f"a copy of the secret in {path.name!r}")
        return found


def is_hidden(name: str) -> bool:
    """Whether some file system could take a name for the hidden one, or for a temporary of it."""
    folded = unicodedata.normalize("NFD", name).casefold()
    parts = re.split(r"[\\/]", folded)
    return any(re.sub(r"[^\x01-\x7f]", "", part).startswith(HIDDEN) for part in parts)


def attack(name: str, code: str, first: str = "", hole: str = "") -> Attack:
    """An attack in the words all of these share: P is the hidden file's path, N its name."""
    return Attack(name, quietly(code, _WORDS), first=quietly(first, _WORDS) if first else "", hole=hole)


_WORDS = f"""
import os, sys, io, shutil, pathlib
N = {HIDDEN!r}
P = "/app/" + N
T = "/app/" + {TEMPORARY!r}
LISTED = {LISTED!r}
"""
