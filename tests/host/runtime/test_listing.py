"""Names that are not UTF-8: a guest cannot see or open them, and everything else in their folder is as it was."""

from __future__ import annotations

import os
import struct
from pathlib import Path

import pytest

from tests.sessions.helpers import make_session
from wasm_kernel import create_sandbox, get_session_sandbox
from wasm_kernel.host.runtime.listing import list_folder

BAD = (b"caf\xe9.csv", b"\xff\xfe", b"\xed\xa0\x80surrogate")


def put(folder: Path, *names: bytes) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for name in names:
        (folder / os.fsdecode(name)).write_text("x")


def names(data: bytes) -> dict[str, int]:
    found, at = {}, 0
    while at < len(data):
        _, _, length, kind = struct.unpack_from("<QQIB", data, at)
        found[data[at + 24 : at + 24 + length].decode()] = kind
        at += 24 + length
    return found


def test_what_is_listed(tmp_path: Path) -> None:
    put(tmp_path, *BAD, b"f", "ü \u2028 \U0001f600".encode())
    (tmp_path / "d" / "e").mkdir(parents=True)
    (tmp_path / "l").symlink_to("f")
    os.mkfifo(tmp_path / "p")
    everything = {".": 3, "..": 3, "f": 4, "ü \u2028 \U0001f600": 4, "d": 3, "l": 7, "p": 0}
    for path in (b".", b"./."):
        assert names(list_folder(tmp_path, path)) == everything
    assert names(list_folder(tmp_path, b"d")) == {".": 3, "..": 3, "e": 3}
    assert names(list_folder(tmp_path, b"./d//e/")) == {".": 3, "..": 3}


def test_nothing_is_listed_beyond_the_root(tmp_path: Path) -> None:
    root = tmp_path / "root"
    put(root, b"f")
    (root / "out").symlink_to("../other")
    (root / "absolute").symlink_to("/")
    put(tmp_path / "other", b"secret")
    for path in (b"..", b"/", b"out", b"absolute", b"f", b"missing", b"\xff", b"a\0b", b"x" * 5000):
        assert list_folder(root, path) == b"", path


@pytest.mark.parametrize("more", [0, 3000], ids=["few", "more than one buffer"])
def test_a_guest_lists_everything_else(tmp_path: Path, more: int) -> None:
    put(tmp_path, *BAD, b"data.csv", *(b"f%d" % n for n in range(more)))
    put(tmp_path / "deep" / "folder", b"\xff", b"inside")
    with create_sandbox(workspace=tmp_path) as sandbox:

        def say(code: str) -> str:
            result = sandbox.execute(code)
            assert result.success, result.error
            return result.stdout.strip()

        say("import os, glob, pathlib, shutil")
        count = str(2 + more)
        assert say("print(len(os.listdir('/app')), 'data.csv' in os.listdir())") == f"{count} True"
        assert say("print(len(list(os.scandir())), len(glob.glob('*')))") == f"{count} {count}"
        assert say("print([(d, n) for _, d, n in os.walk('deep')])") == "[(['folder'], []), ([], ['inside'])]"
        assert say("print([e.is_dir() for e in os.scandir() if e.name == 'deep'])") == "[True]"
        assert say("print([e.inode() == e.stat().st_ino for e in os.scandir('deep/folder')])") == "[True]"
        assert say("os.chdir('deep'); print(os.listdir('folder'))") == "['inside']"
        assert say("os.mkdir('/app/new'); print(len(os.listdir('/app')))") == str(3 + more)
        result = sandbox.execute("open('/app/new/f', 'w').write('x')")
        assert result.files_created == ["new/f"]


def test_what_is_hidden_stays_hidden(tmp_path: Path) -> None:
    session_id = make_session(tmp_path, files={"f": "x"})
    put(tmp_path / session_id, *BAD)
    with get_session_sandbox(session_id, workspace_root=tmp_path) as sandbox:
        assert sandbox.execute("import os; print(os.listdir())").stdout == "['f']\n"
