"""`wasm-kernel remote` as it is typed."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from tests.apps.terminal import Main
from tests.sessions.remote.test_pushing import made, push
from wasm_kernel import create_session_sandbox, create_snapshot, get_session_sandbox
from wasm_kernel.apps import cli
from wasm_kernel.host.remote.objects import open_objects


def test_push_there_and_pull_here(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    here, there, store = tmp_path / "here", tmp_path / "there", f"file://{tmp_path}/store"
    session_id, sandbox = create_session_sandbox(workspace_root=here)
    with sandbox:
        sandbox.execute("x = 41")
        create_snapshot(session_id, here)

    def run(*words: str, expect: int = 0) -> str:
        assert cli.main(["remote", *words]) == expect
        told = capsys.readouterr()
        return told.out + told.err

    assert "there are no sessions" in run("list", "--remote", store, expect=3)
    assert "sent" in run("push", "--remote", store, "--workspace-root", str(here))
    assert session_id in run("list", "--remote", store)
    assert "fetched" in run("pull", session_id, "--remote", store, "--workspace-root", str(there))
    with get_session_sandbox(session_id, workspace_root=there, resume=True) as other:
        assert other.execute("print(x + 1)").stdout == "42\n"
    assert "Would delete 1 session" in run("delete", session_id, "--dry-run", "--remote", store)
    found = json.loads(run("delete", session_id, "--yes", "--json", "--remote", store))
    assert found == {"deleted": [session_id]}
    assert "was deleted in" in run("pull", session_id, "--remote", store, "--workspace-root", str(there), expect=1)


def test_which_store(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("WASM_KERNEL_REMOTE", raising=False)
    assert cli.main(["remote", "list"]) == 2
    assert "which store? Give --remote s3://bucket/prefix" in capsys.readouterr().err
    for address, said in (("bucket", "it must be an address"), ("file://host/x", "three slashes"), ("no://x", "no")):
        assert cli.main(["remote", "list", "--remote", address]) == 2
        assert said in capsys.readouterr().err


def test_prune_and_delete_know_the_store(
    root: Path, main: Main, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = f"file://{tmp_path}/store"
    monkeypatch.setenv("WASM_KERNEL_REMOTE", store)
    objects, elsewhere = open_objects(store), tmp_path / "elsewhere"
    elsewhere.mkdir()
    here, pushed, far = made(root, "x = 1"), made(root, "x = 1"), made(elsewhere, "x = 1")
    push(objects, root, pushed)
    push(objects, elsewhere, far)
    code, out, _ = main("prune", "--older-than", "0s", "--dry-run")
    assert code == 0 and re.search(r"here and in the store", out) and re.search(r"\tin the store\tunused", out)
    dry = main.json("prune", "--older-than", "0s", "--dry-run")
    assert {s["session_id"]: s["stored_bytes"] > 0 for s in dry["sessions"]} == {here: False, pushed: True, far: True}
    assert dry["totals"]["stored_bytes_freed"] == sum(s["stored_bytes"] for s in dry["sessions"])
    other = main.json("prune", "--older-than", "0s", "--dry-run", "--workspace-root", str(elsewhere))
    assert [s["session_id"] for s in other["sessions"]] == [far], "the store is that of the kernel's sessions"
    assert main.json("prune", "--older-than", "0s", "--dry-run", "--only-here")["totals"]["stored_bytes_freed"] == 0

    monkeypatch.setenv("WASM_KERNEL_WORKSPACE", str(tmp_path / "new" / "machine"))
    fresh = main.json("prune", "--older-than", "0s", "--dry-run")
    assert {s["session_id"] for s in fresh["sessions"]} == {pushed, far}, "a machine that has no sessions yet"
    monkeypatch.setenv("WASM_KERNEL_WORKSPACE", str(root))

    code, out, _ = main("sessions", "delete", far[:8], "--yes")
    assert code == 0 and re.search(r"Deleted 1 session, 0 B here, .* in the store", out)
    done = main.json("prune", "--older-than", "0s", "--yes", "--only-here")
    assert {s["session_id"] for s in done["sessions"] if s["done"]} == {here, pushed}
    assert [one["session_id"] for one in main.json("remote", "list")] == [pushed], "it was asked to leave it there"
    assert main.json("prune", "--older-than", "1d", "--yes", code=3)["totals"]["removed"] == 0
    assert main.json("remote", "delete", pushed, "--yes") == {"deleted": [pushed]}
    code, _, err = main("remote", "pull", pushed)
    assert code == 1 and "was deleted in" in err


def test_a_store_that_cannot_be_asked_says_what_to_do(root: Path, main: Main, monkeypatch: pytest.MonkeyPatch) -> None:
    made(root, "x = 1")
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_DEFAULT_REGION"):
        monkeypatch.setenv(name, "us-east-1")
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:1")
    monkeypatch.setenv("WASM_KERNEL_REMOTE", "s3://bucket/ann")
    code, _, err = main("prune", "--older-than", "0s", "--yes")
    assert code == 1 and "cannot be reached" in err and "--only-here" in err
    assert main.json("prune", "--older-than", "0s", "--yes", "--only-here")["totals"]["removed"] == 1
