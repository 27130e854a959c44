"""`wasm-kernel remote` as it is typed."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from wasm_kernel import create_session_sandbox, create_snapshot, get_session_sandbox
from wasm_kernel.apps import cli


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
    assert "no session" in run("pull", session_id, "--remote", store, "--workspace-root", str(there), expect=1)


def test_which_store(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("WASM_KERNEL_REMOTE", raising=False)
    assert cli.main(["remote", "list"]) == 2
    assert "which store? Give --remote s3://bucket/prefix" in capsys.readouterr().err
    for address, said in (("bucket", "it must be an address"), ("file://host/x", "three slashes"), ("no://x", "no")):
        assert cli.main(["remote", "list", "--remote", address]) == 2
        assert said in capsys.readouterr().err
