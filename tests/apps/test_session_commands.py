"""`wasm-kernel sessions …`: output, exit codes, JSON, terminals, interrupts."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from tests.apps.terminal import Main, command, interrupted, on_terminal, plain, wasm_kernel
from tests.sessions.helpers import (
    make_corrupted,
    make_legacy,
    make_session,
    metadata,
)
from wasm_kernel.apps import cli_output

# ---- looking


def test_list_shows_every_session(root: Path, main: Main) -> None:
    old = make_session(root, 50, {"a.csv": "x" * 2000}, notebook="/home/ada/a.ipynb", execution_count=3)
    new = make_session(root, 1, title="fits")
    legacy = make_legacy(root)
    code, out, _ = main("sessions", "list")
    assert code == 0
    rows = [line.split("\t") for line in out.splitlines()]
    assert [row[0] for row in rows] == [new, old, legacy]
    assert rows[1][1:3] == ["a.ipynb", "3"]
    assert rows[0][1] == "fits"
    assert rows[2][5] == "no metadata"
    found = main.json("sessions", "list")
    assert [s["session_id"] for s in found] == [new, old, legacy]
    assert found[1]["notebook"] == "/home/ada/a.ipynb"


def test_nothing_there_is_3(root: Path, main: Main, tmp_path: Path) -> None:
    code, out, err = main("sessions", "list")
    assert (code, out) == (3, "")
    assert "no session" in err
    assert main.json("sessions", "list", code=3) == []
    code, _, err = main("sessions", "list", "--workspace-root", tmp_path / "nowhere")
    assert code == 3
    assert "nowhere' does not exist" in err
    root.rmdir()
    code, _, err = main("sessions", "list")
    assert code == 3
    assert "no sessions yet" in err
    assert err.count("\n") == 1


def test_the_root_is_the_kernels(root: Path, main: Main, tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    session_id = make_session(elsewhere)
    config = tmp_path / "jupyter" / "jupyter_wasm_kernel_config.py"
    config.parent.mkdir()
    config.write_text(f"c.WasmKernel.workspace_root = {str(elsewhere)!r}")
    assert main("sessions", "list")[1].startswith(session_id)
    config.write_text("oops(")
    code, _, err = main("sessions", "list")
    assert code == 2
    assert "SyntaxError" in err
    assert err.count("\n") == 1


def test_show_by_id_and_by_its_beginning(root: Path, main: Main) -> None:
    session_id = make_session(root, 50, {"a": "12345", "b/c": "6"}, title="x")
    make_session(root, session_id="named-one")
    for name in (session_id, session_id[:8]):
        code, out, _ = main("sessions", "show", name)
        assert code == 0
        assert f"session\t{session_id}" in out
        assert "last used\t" in out
    found = main.json("sessions", "show", session_id)
    assert found["file_count"] == 2
    assert found["path"] == str(root / session_id)
    assert main("sessions", "show", "named-one")[0] == 0
    assert main("sessions", "show", "named")[0] == 3, "a name is not shortened"


@pytest.mark.parametrize(
    ("wanted", "expected"),
    [
        ("00000000-0000-4000-8000-000000000000", 3),
        ("ffff", 3),
        ("abc", 3),  # too little of an id
        ("aaaa", 2),  # two begin so
        ("../x", 2),
        ("a\x1b[31mb", 2),
        ("", 2),
    ],
)
@pytest.mark.parametrize("action", ["show", "files", "export", "fork"])
def test_ids_that_are_none(root: Path, main: Main, action: str, wanted: str, expected: int) -> None:
    for n in range(2):
        make_session(root, session_id=f"aaaa000{n}-0000-4000-8000-000000000000")
    code, out, err = main("sessions", action, wanted)
    assert (code, out) == (expected, "")
    assert err.startswith("wasm-kernel: ")
    assert err.count("\n") == 1
    assert "\x1b" not in err


def test_files_and_names_that_would_deceive(root: Path, main: Main) -> None:
    evil = "b\x1b[31m\u202egpj.exe\n\t"
    session_id = make_session(root, 1, {"a.csv": "x" * 2000, evil: "", "[red]x": ""}, title="\x1b]0;owned\x07\u2066t")
    code, out, _ = main("sessions", "files", session_id)
    assert code == 0
    assert len(out.splitlines()) == 3
    for text in (out, main("sessions", "list")[1], main("sessions", "show", session_id)[1]):
        assert not set(text) & set("\x1b\x07\u202e\u2066")
    assert {f["path"] for f in main.json("sessions", "files", session_id)} == {"a.csv", evil, "[red]x"}
    assert main("sessions", "files", session_id, "*.csv")[1].startswith("a.csv\t")
    assert main("sessions", "files", session_id, "*.txt")[0] == 3
    _, seen = on_terminal("sessions", "files", session_id)
    assert "[red]x" in seen
    assert "\x1b[31m" not in seen
    assert "\u202e" not in seen


# ---- terminals and pipes


def test_a_table_with_colours_on_a_terminal(root: Path) -> None:
    session_id = make_session(root, 50, {"a.csv": "x" * 2000}, title="fits [bold]x")
    code, seen = on_terminal("sessions", "list")
    assert code == 0
    assert "\x1b[" in seen
    assert "title or notebook" in seen
    assert session_id[:8] in plain(seen)
    assert session_id not in plain(seen), "as much of an id as is needed"
    assert "fits [bold]x" in plain(seen)
    assert max(map(len, plain(seen).splitlines())) <= 100
    code, seen = on_terminal("sessions", "list", NO_COLOR="1")
    assert "title or notebook" in seen
    assert "\x1b[" not in seen


def test_no_colours_and_no_bars_in_a_pipe(root: Path, tmp_path: Path) -> None:
    session_id = make_session(root, 50, {"a.csv": "x" * 2000})
    for arguments in (
        ["sessions", "list"],
        ["sessions", "export", session_id, str(tmp_path / "x.zip")],
        ["prune", "--older-than", "36h", "--yes"],
    ):
        done = wasm_kernel(*arguments, FORCE_COLOR="1")
        assert done.returncode == 0, done.stderr
        assert "\x1b" not in done.stdout
        assert done.stderr == ""


def test_a_pipe_that_closes_early(root: Path) -> None:
    for _ in range(2000):
        make_session(root)
    ours = subprocess.Popen(command("sessions", "list"), stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert ours.stdout is not None
    ours.stdout.read(10)
    ours.stdout.close()
    assert ours.wait(60) == 1
    assert ours.stderr is not None
    with ours.stderr as errors:
        assert errors.read() == b""


def test_ids_are_as_long_as_needed(monkeypatch: pytest.MonkeyPatch) -> None:
    one, other = "aaaa0000-1000-4000-8000-000000000000", "aaaa0000-1100-4000-8000-000000000000"
    assert cli_output.short_ids([one, other]) == {one: one, other: other}
    monkeypatch.setattr("sys.stdout.isatty", lambda: True, raising=False)
    assert cli_output.short_ids([one, "named-session-of-mine"])[one] == "aaaa0000"
    assert cli_output.short_ids([one, other]) == {one: "aaaa0000-10", other: "aaaa0000-11"}


# ---- export, import, fork, repair


@pytest.mark.parametrize("ending", ["zip", "tar.zst"])
def test_there_and_back(root: Path, main: Main, tmp_path: Path, ending: str) -> None:
    session_id = make_session(root, 50, {"a.csv": "x" * 2000, "d/e": b"\0\1"}, title="fits")
    target = tmp_path / f"out.{ending}"
    made = main.json("sessions", "export", session_id[:8], target)
    assert made == {"session_id": session_id, "path": str(target), "size_bytes": target.stat().st_size}
    new = main.json("sessions", "import", target)["session_id"]
    assert (root / new / "d/e").read_bytes() == b"\0\1"
    assert metadata(root, new)["title"] == "fits"
    before = target.read_bytes()
    code, _, err = main("sessions", "export", session_id, target)
    assert code == 2
    assert "--force" in err
    assert target.read_bytes() == before
    assert main("sessions", "export", session_id, target, "--force")[0] == 0


def test_where_an_export_goes(root: Path, main: Main, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    session_id = make_session(root)
    monkeypatch.chdir(tmp_path)
    assert main("sessions", "export", session_id)[0] == 0
    assert (tmp_path / f"{session_id}.tar.zst").exists()
    (tmp_path / "d").mkdir()
    assert main("sessions", "export", session_id, "d")[0] == 0
    assert (tmp_path / "d" / f"{session_id}.tar.zst").exists()
    assert main("sessions", "export", session_id, "no/where.zip")[0] == 2
    assert main("sessions", "export", session_id, "x.rar")[0] == 2


def test_archives_that_are_none(root: Path, main: Main, tmp_path: Path) -> None:
    assert main("sessions", "import", tmp_path / "missing.zip")[0] == 3
    (tmp_path / "bad.zip").write_bytes(b"no zip")
    code, _, err = main("sessions", "import", tmp_path / "bad.zip")
    assert code == 1
    assert err.count("\n") == 1
    session_id = make_session(root, files={"a": "x" * 5000})
    main("sessions", "export", session_id, tmp_path / "x.zip")
    code, _, err = main("sessions", "import", tmp_path / "x.zip", "--max-size", "1k")
    assert code == 1
    assert "use --max-size" in err
    assert [p.name for p in root.iterdir() if p.name[0] != "."] == [session_id]


def test_import_makes_a_root(main: Main, root: Path, tmp_path: Path) -> None:
    main("sessions", "export", make_session(root), tmp_path / "x.zip")
    new = main.json("sessions", "import", tmp_path / "x.zip", "--workspace-root", tmp_path / "new")
    assert Path(new["path"]).parent == tmp_path / "new"


def test_repair(root: Path, main: Main) -> None:
    legacy, damaged = make_legacy(root, {"a": "x"}), make_corrupted(root)
    assert [r["session_id"] for r in main.json("sessions", "repair", legacy, damaged)] == [legacy, damaged]
    assert metadata(root, damaged)["session_id"] == damaged
    assert main("sessions", "repair", legacy, "nope")[0] == 1
    assert main("sessions", "repair", "nope")[0] == 3


# ---- interrupted


@pytest.mark.parametrize("ending", ["zip", "tar.zst"])
def test_an_interrupted_export_leaves_no_file(root: Path, tmp_path: Path, ending: str) -> None:
    session_id = make_session(root, files={"a": os.urandom(1 << 20) * 60})
    place = tmp_path / "out"
    place.mkdir()
    done = interrupted("sessions", "export", session_id, str(place / f"x.{ending}"), folder=place, when=".*part*")
    assert done.returncode == 130, done
    assert list(place.iterdir()) == []


def test_an_interrupted_import_leaves_no_session(root: Path, tmp_path: Path, main: Main) -> None:
    session_id = make_session(root, files={f"f{n}": "x" for n in range(2000)})
    main("sessions", "export", session_id, tmp_path / "x.zip")
    new = root / ".wasm-kernel" / "new"
    done = interrupted("sessions", "import", str(tmp_path / "x.zip"), folder=new, when="*")
    assert done.returncode == 130, done
    assert list(new.iterdir()) == []
    assert [p.name for p in root.iterdir() if p.name[0] != "."] == [session_id]


def test_bars_only_on_a_terminal(root: Path, tmp_path: Path) -> None:
    session_id = make_session(root, files={"a": os.urandom(1 << 20)})
    code, seen = on_terminal("sessions", "export", session_id, str(tmp_path / "x.zip"))
    assert code == 0
    assert "Exporting" in plain(seen)
    assert "100%" in plain(seen)
