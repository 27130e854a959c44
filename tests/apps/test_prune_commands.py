"""`wasm-kernel prune` and `wasm-kernel sessions delete`: what goes, questions, exit codes, JSON, interrupts."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.apps.terminal import Main, interrupted, on_terminal, plain
from tests.sessions.helpers import (
    HOLD,
    deepen,
    leftovers,
    make_legacy,
    make_session,
    other_process,
    tree,
)

# ---- delete


def gone(report: Any) -> list[str]:
    return [s["session_id"] for s in report["sessions"] if s["done"]]


def as_foreseen(report: Any) -> Any:
    """What a dry run and the real one must both say."""
    sessions = [{**s, "done": None, "age_hours": None} for s in report["sessions"]]
    totals = {**report["totals"], "snapshot_bytes_freed": None}
    return {**report, "dry_run": None, "sessions": sessions, "totals": totals}


def test_delete(root: Path, main: Main) -> None:
    first, second, stays = (make_session(root, files={"a": "x" * 100}) for _ in range(3))
    dry = main.json("sessions", "delete", first, second[:8], "--dry-run")
    assert (root / first).exists()
    done = main.json("sessions", "delete", first, second[:8], "--yes")
    assert as_foreseen(done) == as_foreseen(dry)
    assert [p.name for p in root.iterdir() if p.name[0] != "."] == [stays]
    code, out, err = main("sessions", "delete", "--yes", stays, first)
    assert code == 1
    assert out.startswith("Deleted 1 session, ")
    assert f"no session '{first}'" in err
    assert main("sessions", "delete", "--yes", stays)[0] == 3


def test_delete_asks(root: Path, main: Main) -> None:
    session_id = make_session(root)
    code, _, err = main("sessions", "delete", session_id)
    assert code == 2
    assert "--yes" in err
    code, seen = on_terminal("sessions", "delete", session_id, answer="\n")
    assert code == 1
    assert "nothing was deleted" in seen
    assert (root / session_id).exists()
    code, seen = on_terminal("sessions", "delete", session_id, answer="y\n")
    assert code == 0
    assert "Delete 1 session" in seen
    assert not (root / session_id).exists()


def test_what_goes_is_named_as_a_person_knows_it(root: Path, main: Main) -> None:
    thesis = make_session(root, 72, notebook="/home/ada/thesis/chapter 3.ipynb")
    titled = make_session(root, 60, notebook="/home/ada/x.ipynb", title="Trip to Bern")
    nameless = make_session(root, 50)
    for command in (("prune", "--older-than", "2d"), ("sessions", "delete", thesis, titled, nameless)):
        code, out, _ = main(*command, "--dry-run")
        assert code == 0
        named = {line.split("\t")[0]: line.split("\t")[1] for line in out.splitlines()[:-1]}
        assert named == {thesis: "chapter 3.ipynb", titled: "Trip to Bern", nameless: ""}
    code, seen = on_terminal("sessions", "delete", thesis, answer="n\n")
    assert code == 1
    assert "chapter 3.ipynb" in plain(seen)
    assert "Delete 1 session" in seen


def test_a_session_in_use_stays(root: Path, main: Main) -> None:
    session_id, free = make_session(root, 50), make_session(root, 50)
    with other_process(HOLD, root, session_id):
        assert main.json("sessions", "show", session_id)["live"]
        for option in ("--dry-run", "--yes"):
            assert main.json("sessions", "delete", session_id, option, code=1)["live"] == [session_id]
        code, out, _ = main("sessions", "delete", session_id, "--yes")
        assert code == 1
        assert "1 in use, left alone" in out
        code, _, err = main("sessions", "repair", session_id)
        assert code == 1
        assert "in use by process" in err
        assert "wait=" not in err
        done = main.json("prune", "--older-than", "36h", "--yes")
        assert done["live"] == [session_id]
        assert gone(done) == [free]
    assert (root / session_id).exists()


def test_a_link_is_left_alone(root: Path, main: Main, tmp_path: Path) -> None:
    (tmp_path / "precious").mkdir()
    name = "aaaa0000-0000-4000-8000-000000000000"
    (root / name).symlink_to(tmp_path / "precious")
    for option in ("--dry-run", "--yes"):
        assert name in main.json("sessions", "delete", name, option, code=1)["errors"]
    assert main("sessions", "show", name)[0] == 0
    assert (root / name).is_symlink()


# ---- prune


def test_a_dry_run_says_what_the_real_one_does(root: Path, main: Main) -> None:
    for hours in (1, 50, 60, 70):
        make_session(root, hours, {"a": "x" * 1000})
    make_legacy(root)
    options = ["--max-sessions", "2", "--older-than", "65h", "--max-deletions", "5"]
    before = tree(root)
    dry = main.json("prune", *options, "--dry-run")
    assert tree(root) == before
    real = main.json("prune", *options, "--yes")
    assert as_foreseen(real) == as_foreseen(dry)
    assert [s["reason"] for s in real["sessions"] if s["done"]] == ["max_age_hours", "max_sessions"]
    assert real["totals"]["skipped"] == 1
    assert leftovers(root) == []


def test_each_bound_of_prune(root: Path, main: Main) -> None:
    old, mid, new = (make_session(root, hours, {"a": "x" * 100_000}) for hours in (72, 48, 1))

    def would_go(*options: object) -> list[str]:
        code, out, err = main("prune", *options, "--dry-run")
        assert code in (0, 3), err
        return [line.split("\t")[0] for line in out.splitlines()[:-1]]

    assert would_go("--older-than", "2d") == [old, mid]
    assert would_go("--older-than", "3w") == []
    assert would_go("--max-sessions", "1") == [old, mid]
    assert would_go("--max-total", "250k") == [old]
    assert would_go("--min-free", "1000T") == [old, mid, new]
    assert would_go("--older-than", "0", "--keep", old[:8], new) == [mid]
    assert would_go("--older-than", "0", "--max-deletions", "1") == [old]


def test_prune_with_nothing_to_do_is_3(root: Path, main: Main) -> None:
    make_session(root, 1)
    code, out, _ = main("prune", "--older-than", "36h", "--yes")
    assert code == 3
    assert out == "Deleted 0 sessions, 0 B.\n"
    assert main.json("prune", "--older-than", "36h", "--dry-run", code=3)["sessions"] == []


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        (["--older-than", "soon", "--yes"], "'soon' is not a duration"),
        (["--max-total", "lots", "--yes"], "'lots' is not a size"),
        (["--max-sessions", "-1", "--yes"], "max-sessions"),
        (["--max-sessions", "few", "--yes"], "'few' is not a whole number"),
        (["--older-than", "1h"], "add --yes"),
        (["--older-than", "1h", "--keep", "../x", "--yes"], "not a session id"),
        (["--older", "1h", "--yes"], "--older"),
        (["--older-than", "1h", "extra", "--yes"], "extra"),
    ],
)
def test_bad_usage_of_prune_is_2_in_one_line(root: Path, main: Main, options: list[str], complaint: str) -> None:
    session_id = make_session(root, 50)
    code, out, err = main("prune", *options)
    assert (code, out) == (2, "")
    assert complaint in err
    assert err.count("\n") == 1
    assert (root / session_id).exists()


def test_prune_asks_on_a_terminal_and_shows_what_goes(root: Path) -> None:
    session_id = make_session(root, 50)
    code, seen = on_terminal("prune", "--older-than", "36h", answer="n\n")
    assert code == 1
    assert "unused for too long" in seen
    assert "Delete 1 session" in seen
    assert (root / session_id).exists()
    code, seen = on_terminal("prune", "--older-than", "36h", answer="yes\n")
    assert code == 0
    assert "Deleted 1 session" in plain(seen)
    assert not (root / session_id).exists()


def test_prune_into_an_archive(root: Path, main: Main, tmp_path: Path) -> None:
    old, new = make_session(root, 50, {"a": "x"}), make_session(root, 1)
    dry = main.json("prune", "--max-sessions", "1", "--archive", tmp_path / "old", "--dry-run")
    assert not (tmp_path / "old").exists()
    done = main.json("prune", "--max-sessions", "1", "--archive", tmp_path / "old", "--yes")
    for result in (dry, done):
        (one,) = result["sessions"]
        assert (one["session_id"], one["action"], one["archive"]) == (old, "archive", f"{old}.tar.zst")
    assert not (root / old).exists()
    assert (root / new).exists()
    again = main.json("sessions", "import", tmp_path / "old" / f"{old}.tar.zst")["session_id"]
    assert (root / again / "a").read_text() == "x"


def test_what_fails_is_1_and_the_rest_is_done(root: Path, main: Main, tmp_path: Path) -> None:
    deep, plain_one = make_session(root, 50), make_session(root, 60)
    deepen(root / deep, 3000)  # too deep for any archive
    code, out, err = main("prune", "--older-than", "1d", "--archive", tmp_path / "old", "--yes")
    assert code == 1
    assert f"session {deep}" in err
    assert "Deleted 1 session" in out
    assert "1 failed" in out
    assert (root / deep).exists()
    assert not (root / plain_one).exists()


def test_an_interrupted_prune_leaves_whole_sessions(root: Path, main: Main) -> None:
    ids = [make_session(root, 50, {"a": "x", "d/b": "y"}) for _ in range(1200)]
    done = interrupted("prune", "--older-than", "1d", "--yes", folder=root / ".wasm-kernel", when="trash/*/*")
    assert done.returncode == 130, done
    assert done.stderr == b"wasm-kernel: interrupted; nothing is left half done; run it again to continue\n"
    rest = [name for name in ids if (root / name).exists()]
    assert 0 < len(rest) < len(ids)
    for name in rest:
        assert set(tree(root / name)) == {".metadata.json", "a", "d", "d/b"}
    assert len(gone(main.json("prune", "--older-than", "1d", "--yes"))) == len(rest)
    assert leftovers(root) == []
