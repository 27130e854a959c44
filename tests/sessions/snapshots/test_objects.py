"""Every kind of object survives: one snapshot of a session that holds them all, gone on with by another process."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.objects import KINDS, Kind, check_cell
from wasm_kernel import create_session_sandbox, create_snapshot

CHECK = """
import json, sys
from tests.objects import KINDS, check_cell
from wasm_kernel import get_session_sandbox
found = {}
with get_session_sandbox(sys.argv[1], workspace_root=sys.argv[2], resume=True) as sandbox:
    for kind in KINDS:
        result = sandbox.execute(check_cell(kind))
        found[kind.name] = result.stdout.strip() if result.success else f"{result.error or result.outcome}"
print(json.dumps(found))
"""


@pytest.fixture(scope="module")
def survived(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """What each check came to, in another process."""
    folder = tmp_path_factory.mktemp("objects")
    session_id, sandbox = create_session_sandbox(workspace_root=folder / "here")
    with sandbox:
        failed = {}
        for kind in KINDS:
            result = sandbox.execute(kind.make)
            if not result.success:
                failed[kind.name] = str(result.error or result.outcome)
        assert failed == {}, "they could not even be made"
        taken = create_snapshot(session_id, folder / "here")
        print(f"{taken.stored_bytes:,} bytes stored of {taken.memory_bytes:,}")
    there = Path(__file__).parent.parent.parent.parent
    done = subprocess.run(
        [sys.executable, "-c", CHECK, session_id, folder / "here"],
        capture_output=True,
        text=True,
        timeout=120,
        cwd=there,
    )
    assert done.returncode == 0, done.stderr
    found: dict[str, str] = json.loads(done.stdout)
    return found


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)
def test_it_survives(survived: dict[str, str], kind: Kind) -> None:
    assert survived[kind.name] == "True"


def test_the_list_is_that_of_the_issue() -> None:
    assert len(KINDS) == len({kind.name for kind in KINDS}) == 31
    for kind in KINDS:
        compile(check_cell(kind), kind.name, "exec", flags=0x2000)  # top-level await, as in a notebook


def test_a_patched_json_does_not_break_the_driver(tmp_path: Path) -> None:
    with create_session_sandbox(workspace_root=tmp_path)[1] as sandbox:
        assert sandbox.execute("import json; real = json.dumps; json.dumps = lambda *a, **k: 'x' + real(*a)").success
        assert sandbox.execute("print(json.dumps(1))").stdout == "x1\n"
