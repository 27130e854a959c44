"""`wasm-kernel snapshots …`: real sessions, real snapshots, exit codes, JSON."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.apps.terminal import Main, on_terminal, plain, wasm_kernel
from tests.sessions.helpers import HOLD, other_process
from wasm_kernel import create_session_sandbox, create_snapshot, get_session_sandbox


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """A root with a session of two snapshots: x is 1, then 2; it is made once."""
    root = tmp_path_factory.mktemp("template") / "workspace"
    session_id, sandbox = create_session_sandbox(workspace_root=root)
    with sandbox:
        for number, label in ((1, "first"), (2, "second \x1b[31m\u202e[red]")):
            sandbox.execute(f"x = {number}; open('a.txt', 'w').write(str(x))")
            create_snapshot(session_id, root, label=label)
    return root, session_id


@pytest.fixture
def session_id(template: tuple[Path, str], root: Path) -> str:
    """That session, in a root of the test's own."""
    shutil.copytree(template[0], root, dirs_exist_ok=True)
    return template[1]


@pytest.fixture
def ids(session_id: str, main: Main) -> list[str]:
    """Its snapshots' ids, the first taken first."""
    return [s["snapshot_id"] for s in reversed(main.json("snapshots", "list"))]


Value = Callable[[], str]


@pytest.fixture
def file(root: Path, session_id: str) -> Value:
    """What is in the session's file."""
    return lambda: (root / session_id / "a.txt").read_text()


def test_list_and_show(session_id: str, ids: list[str], main: Main) -> None:
    code, out, _ = main("snapshots", "list", session_id[:8])
    assert code == 0
    rows = [line.split("\t") for line in out.splitlines()]
    assert [row[0] for row in rows] == ids[::-1]
    assert rows[1][1:3] == [session_id, "first"]
    code, out, _ = main("snapshots", "show", ids[1])
    assert code == 0
    assert "taken\t" in out
    assert not {"\x1b", "\u202e"} & set(out)
    found = main.json("snapshots", "show", ids[1][:8])
    assert found["label"] == "second \x1b[31m\u202e[red]"
    assert found["files"] == [{"path": "a.txt", "size": 1}]
    code, seen = on_terminal("snapshots", "list")
    assert ids[0][:8] in plain(seen)
    assert "next cell" in plain(seen)
    assert "[red]" in seen
    assert "\x1b[31m" not in seen


def test_nothing_there(root: Path, main: Main) -> None:
    assert main("snapshots", "list")[0] == 3
    assert main.json("snapshots", "list", code=3) == []
    assert main("snapshots", "list", "ffff0000")[0] == 3
    assert main.json("snapshots", "gc")["freed_bytes"] == 0
    assert main.json("snapshots", "verify")["whole"]
    assert main.json("snapshots", "prune", "--older-than", "1h", "--yes", code=3)["snapshots"] == []


@pytest.mark.parametrize("action", ["show", "restore", "export", "delete"])
@pytest.mark.parametrize(
    ("wanted", "expected"), [("ffff0000", 3), ("../x", 2), ("00000000-0000-4000-8000-0000000000", 3)]
)
def test_ids_that_are_none(root: Path, main: Main, action: str, wanted: str, expected: int) -> None:
    options = ["--yes"] if action == "delete" else []
    code, _, err = main("snapshots", action, wanted, *options)
    assert code == expected
    assert err.count("\n") == 1


def test_restore_and_back(session_id: str, ids: list[str], main: Main, root: Path, file: Value) -> None:
    restored = main.json("snapshots", "restore", ids[0])
    assert file() == "1"
    assert restored["session_id"] == session_id
    labels = {s["label"]: s["snapshot_id"] for s in main.json("snapshots", "list")}
    assert len(labels) >= 3
    assert main("snapshots", "restore", ids[1][:8])[0] == 0
    assert file() == "2"


def test_create(session_id: str, main: Main, root: Path) -> None:
    with get_session_sandbox(session_id, workspace_root=root) as sandbox:
        sandbox.execute("open('b.txt', 'w').write('new')")
    made = main.json("snapshots", "create", session_id, "--label", "mine")
    assert (made["label"], made["trigger"], made["file_count"]) == ("mine", "user", 2)
    code, out, _ = main("snapshots", "create", session_id)
    assert code == 0
    assert out.startswith(f"Saved session {session_id} as snapshot ")


def test_fork_from_a_snapshot(session_id: str, ids: list[str], main: Main, root: Path) -> None:
    done = main.json("sessions", "fork", session_id, "--snapshot", ids[0])
    assert (root / done["session_id"] / "a.txt").read_text() == "1"
    assert done["forked_from"] == session_id
    new = main.json("sessions", "fork", session_id[:8])["session_id"]
    assert (root / new / "a.txt").read_text() == "2"
    assert main("sessions", "fork", new, "--snapshot", ids[0])[0] == 2, "it is another session's"


def test_export_and_import(session_id: str, ids: list[str], main: Main, root: Path, tmp_path: Path) -> None:
    target = tmp_path / "x.snapshot"
    made = main.json("snapshots", "export", ids[0], target)
    assert made["size_bytes"] == target.stat().st_size
    assert main("snapshots", "export", ids[0], target)[0] == 2
    assert main("snapshots", "export", ids[1], target, "--force")[0] == 0
    new = main.json("snapshots", "import", target)
    assert (root / new["session_id"] / "a.txt").read_text() == "2"
    assert main("snapshots", "import", tmp_path / "missing")[0] == 3
    target.write_bytes(target.read_bytes()[:100])
    code, _, err = main("snapshots", "import", target)
    assert code == 1
    assert err.count("\n") == 1


def test_delete(ids: list[str], main: Main) -> None:
    assert main("snapshots", "delete", ids[0])[0] == 2, "there is nobody to ask"
    dry = main.json("snapshots", "delete", ids[0], "--dry-run")
    assert len(main.json("snapshots", "list")) == 2
    assert main.json("snapshots", "delete", ids[0], "--yes") == {**dry, "dry_run": False}
    found = main.json("snapshots", "delete", ids[0], ids[1], "--yes", code=1)
    assert found["deleted"] == [ids[1]]
    assert list(found["errors"]) == [ids[0]]
    assert main.json("snapshots", "gc")["freed_bytes"] > 0


def test_prune(ids: list[str], main: Main) -> None:
    code, out, err = main("snapshots", "prune", "--yes")
    assert (code, out) == (3, "Deleted 0 snapshots, 0 B.\n")
    assert "without a bound no snapshot is deleted" in err
    assert main("snapshots", "prune", "--max-per-session", "1")[0] == 2, "there is nobody to ask"
    dry = main.json("snapshots", "prune", "--max-per-session", "1", "--dry-run")
    assert dry["snapshots"] == [ids[0]]
    assert len(main.json("snapshots", "list")) == 2
    real = main.json("snapshots", "prune", "--max-per-session", "1", "--yes")
    assert real["snapshots"] == dry["snapshots"]
    assert main("snapshots", "prune", "--older-than", "0", "--yes")[0] == 3, "the newest stays"


def test_snapshots_go_with_their_session(session_id: str, ids: list[str], main: Main) -> None:
    done = main.json("prune", "--older-than", "0", "--yes")
    assert [s["session_id"] for s in done["sessions"] if s["done"]] == [session_id]
    assert done["totals"]["snapshot_bytes_freed"] > 0
    assert main("snapshots", "list")[0] == 3


def test_verify_finds_damage(session_id: str, ids: list[str], main: Main, root: Path) -> None:
    good = main.json("snapshots", "verify")
    assert good["whole"]
    assert {s["snapshot_id"] for s in good["snapshots"]} == set(ids)
    for pack in (root / ".wasm-kernel" / "snapshots" / "packs").iterdir():
        data = bytearray(pack.read_bytes())
        data[len(data) // 2 - 100 : len(data) // 2 + 100] = bytes(200)
        pack.chmod(0o600)
        pack.write_bytes(data)
    code, _, err = main("snapshots", "verify")
    assert code == 1
    assert "cannot be used" in err or "cannot be read" in err
    assert not main.json("snapshots", "verify", code=1)["whole"]


def test_a_session_in_use(session_id: str, ids: list[str], main: Main, root: Path, file: Value) -> None:
    with other_process(HOLD, root, session_id):
        for arguments in (["create", session_id], ["restore", ids[0]]):
            code, _, err = main("snapshots", *arguments)
            assert code == 1
            assert "in use by process" in err
            assert err.count("\n") == 1
    assert file() == "2"


def test_in_processes_of_their_own(session_id: str, ids: list[str], file: Value) -> None:
    done = wasm_kernel("snapshots", "restore", ids[0])
    assert (done.returncode, done.stderr) == (0, "")
    assert file() == "1"
    code, seen = on_terminal("snapshots", "verify")
    assert code == 0
    assert "everything is intact" in plain(seen)
    assert "Reading" in plain(seen)
