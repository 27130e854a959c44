"""Files that the host's own operations on sessions stumble over: nothing a guest leaves may stop them for others."""

from __future__ import annotations

import subprocess
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from wasm_kernel import (
    create_session_sandbox,
    delete_session_workspace,
    export_session,
    list_session_files,
    prune_sessions,
    read_session_file,
)

_DEEP = """
import os
folder = os.open('/app', os.O_RDONLY); hop = '/'.join(['d'] * 1000)
for k in range(2):
    for i in range(1, 1001): os.mkdir('/'.join(['d'] * i), dir_fd=folder)
    folder = os.open(hop, os.O_RDONLY, dir_fd=folder)
"""
_STRANGE = """
import os
for name in ('a\\\\b', 'line\\nbreak', ' ', '-rf', '\\u202egnp', 'x' * 200):
    with open('/app/' + name, 'w') as f: f.write('data')
os.symlink('loop', '/app/loop'); os.symlink('.', '/app/here'); os.symlink('nowhere', '/app/dangling')
os.utime('/app/-rf', ns=(2**63 - 1, 2**63 - 1))
"""


@pytest.fixture
def root(tmp_path: Path) -> Iterator[Path]:
    """A workspace root, removed by a tool that no tree is too deep for."""
    yield tmp_path / "root"
    subprocess.run(["rm", "-rf", tmp_path / "root"], check=True)


def _left_by(code: str, root: Path) -> str:
    """A session in which this ran."""
    session_id, sandbox = create_session_sandbox(workspace_root=root)
    with sandbox:
        result = sandbox.execute(code)
        assert result.success, result.error
    return session_id


def test_a_deep_tree_is_deleted(root: Path) -> None:
    session_id = _left_by(_DEEP, root)
    delete_session_workspace(session_id, root)
    assert not (root / session_id).exists()


def test_a_deep_tree_does_not_keep_others_from_being_pruned(root: Path) -> None:
    _left_by(_DEEP, root)
    other = _left_by("pass", root)
    assert other in prune_sessions(older_than_hours=1e-9, workspace_root=root).deleted_sessions


def test_a_deep_tree_is_listed_and_exported(root: Path, tmp_path: Path) -> None:
    session_id = _left_by(_DEEP, root)
    assert list_session_files(session_id, root) == []
    assert zipfile.ZipFile(export_session(session_id, tmp_path / "deep.zip", root)).testzip() is None


def test_strange_files_are_listed_read_and_pruned(root: Path) -> None:
    session_id = _left_by(_STRANGE, root)
    listed = list_session_files(session_id, root)
    assert len(listed) == 9
    for name in ("line\nbreak", " ", "-rf", "\u202egnp", "here/here/ "):
        assert read_session_file(session_id, name, root) == b"data"
    for name in ("loop", "dangling"):
        with pytest.raises((ValueError, OSError)):
            read_session_file(session_id, name, root)
    assert prune_sessions(older_than_hours=1e-9, workspace_root=root).deleted_sessions == [session_id]


def test_every_file_is_exported(root: Path, tmp_path: Path) -> None:
    """What archive_sessions leaves out it deletes."""
    session_id = _left_by(_STRANGE, root)
    names = zipfile.ZipFile(export_session(session_id, tmp_path / "strange.zip", root)).namelist()
    assert sum(name.startswith("files/") for name in names) == 6
