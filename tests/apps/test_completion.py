"""Shell completion: what is offered, and that real shells load the scripts and ask for it."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.apps.terminal import Main
from tests.sessions.helpers import make_session


def offered(main: Main, *words: str) -> list[str]:
    code, out, err = main("completion", "words", *words)
    assert (code, err) == (0, "")
    return [line.split("\t")[0] for line in out.splitlines()]


def test_what_is_offered(root: Path, main: Main, tmp_path: Path) -> None:
    session_id = make_session(root, title="mine \x1b[31m")
    elsewhere = make_session(tmp_path / "other")
    assert {"sessions", "prune", "snapshots", "image", "doctor", "config"} <= set(offered(main, ""))
    assert offered(main, "sess") == ["sessions"]
    assert offered(main, "sessions", "ex") == ["export"]
    assert offered(main, "prune", "--max-s") == ["--max-sessions"]
    assert "--json" in offered(main, "sessions", "show", session_id, "--")
    assert offered(main, "sessions", "show", "") == [session_id]
    assert offered(main, "sessions", "show", "--json", session_id[:5]) == [session_id]
    assert offered(main, "sessions", "delete", "some", "") == [session_id]
    assert offered(main, "prune", "--keep", "one", session_id[:2]) == [session_id]
    assert offered(main, "sessions", "show", "--workspace-root", str(tmp_path / "other"), "") == [elsewhere]
    assert offered(main, "sessions", "show", "--workspace-root", "=", str(tmp_path / "other"), "") == [elsewhere]
    assert offered(main, "completion", "") == ["bash", "zsh", "fish"]
    assert offered(main, "sessions", "import", "") == [], "a file: the shell knows"
    assert offered(main, "sessions", "show", session_id, "") == [], "nothing more is wanted"
    assert offered(main, "snapshots", "show", "") == []
    assert offered(main, "sessions", "show", "--workspace-root", "/nowhere", "") == []
    assert "\x1b" not in main("completion", "words", "sessions", "show", "")[1]


@pytest.fixture
def path(tmp_path: Path) -> str:
    """A PATH on which there is a wasm-kernel."""
    script = tmp_path / "bin" / "wasm-kernel"
    script.parent.mkdir()
    script.write_text(f'#!/bin/sh\nexec {sys.executable} -m wasm_kernel.apps.cli "$@"\n')
    script.chmod(0o755)
    return f"{script.parent}:{os.environ['PATH']}"


_ASK = {
    "bash": 'eval "$(wasm-kernel completion bash)"; COMP_WORDS=(wasm-kernel sessions show ""); COMP_CWORD=3; '
    '_wasm_kernel; printf "%s\\n" "${COMPREPLY[@]}"',
    "zsh": 'compdef() { :; }; eval "$(wasm-kernel completion zsh)"; _describe() { print -l -- "${(@P)2}"; }; '
    'words=(wasm-kernel sessions show ""); CURRENT=4; _wasm_kernel',
    "fish": 'wasm-kernel completion fish | source; complete -C "wasm-kernel sessions show "',
}


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_a_shell_asks(root: Path, tmp_path: Path, path: str, shell: str) -> None:
    if shutil.which(shell) is None:
        pytest.skip(f"{shell} is not installed")
    session_id = make_session(root, title="of mine")
    env = {**os.environ, "PATH": path, "HOME": str(tmp_path)}
    done = subprocess.run([shell, "-c", _ASK[shell]], capture_output=True, text=True, timeout=60, env=env)
    assert done.returncode == 0, done.stderr
    assert done.stdout == session_id + {"bash": "\n", "zsh": ":of mine\n", "fish": "\tof mine\n"}[shell]
