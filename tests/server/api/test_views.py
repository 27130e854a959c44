"""Listings: of thousands of sessions, only those on the page are measured."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from tests.sessions.helpers import make_session, plant_snapshot
from wasm_kernel.model.policy import ExecutionPolicy
from wasm_kernel.server.api import views
from wasm_kernel.sessions.session_list import list_sessions

TERMS = views.Terms(ExecutionPolicy(), {}, 900)


def page(root: Path, **query: Any) -> dict[str, Any]:
    return views.sandboxes(root, TERMS, {}, {"offset": 0, "limit": 100, **query})


def test_a_page_says_the_same_as_the_whole_list(tmp_path: Path) -> None:
    ids = [make_session(tmp_path, hours=n, files={"f": "x" * n, "d/g": "y"}, title=f"t{n}") for n in range(12)]
    for n in (2, 2, 3):
        plant_snapshot(tmp_path, ids[n])
    packages = tmp_path / ".wasm-kernel" / "packages" / ids[2]
    packages.mkdir(parents=True)
    (packages / "p.py").write_text("x" * 5000)
    (tmp_path / "link").symlink_to(ids[0])
    expected = {s.session_id: (s.size_bytes, s.snapshot_count, s.problem) for s in list_sessions(tmp_path)}
    assert expected[ids[2]][0] > 5000
    assert expected[ids[2]][1] == 2
    found = page(tmp_path)["items"]
    assert {s["sandbox_id"]: (s["size_bytes"], s["snapshot_count"], s["problem"]) for s in found} == expected
    assert [s["sandbox_id"] for s in page(tmp_path, offset=3, limit=4)["items"]] == ids[3:7]
    assert [s["sandbox_id"] for s in page(tmp_path, q="T11")["items"]] == ids[11:]


def test_only_the_page_is_measured(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for n in range(60):
        plant_snapshot(tmp_path, make_session(tmp_path, hours=n, files={"f": "x"}))
    looked: list[str] = []
    scandir, listdir = os.scandir, os.listdir
    monkeypatch.setattr(os, "scandir", lambda path: looked.append(str(path)) or scandir(path))
    monkeypatch.setattr(os, "listdir", lambda path: looked.append(str(path)) or listdir(path))
    found = page(tmp_path, limit=5)
    assert (len(found["items"]), found["total"]) == (5, 60)
    assert len(looked) < 5 * 4 + 10, "folders were looked into that nobody sees"
