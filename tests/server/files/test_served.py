"""Whether a server has a session is told without a look into it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.server.conftest import BASE, Server, Session, running
from tests.sessions.helpers import make_session
from wasm_kernel.kernel.files import transfer

# Runs in the server, as configuration does: notes down every folder that its threads for files read.
_WATCH = """
import os, threading
scandir = os.scandir
def watched(*args):
    if threading.current_thread().name.startswith("wasm-kernel-files"):
        with open({log!r}, "a") as log:
            log.write("read\\n")
    return scandir(*args)
os.scandir = watched
"""


def test_no_session_is_walked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log = tmp_path / "walks"
    monkeypatch.setenv("JUPYTER_RUNTIME_DIR", str(tmp_path / "runtime"))
    with running(tmp_path, _WATCH.format(log=str(log))) as server:
        session = Session(server, make_session(server.root, files={"a/b.txt": "x"}))
        environ = _environ_of_a_kernel(server, tmp_path)
        links = transfer.find_links(environ, session.id)
        assert links is not None
        assert links.file("a/b.txt") == f"{BASE}/{session.file('a/b.txt')}"
        assert (links.zip_bytes, links.zip_files) == (16 << 30, 100_000)
        assert transfer.find_links(environ, "no-such-session") is None
        assert not log.exists()
        assert server.get(session.url("list?limit=0")).status == 200
        assert log.read_text(), "a listing does walk: the watch works"


def _environ_of_a_kernel(server: Server, home: Path) -> dict[str, str]:
    """What a kernel of that server's has; the server has written down where it is."""
    found = next((home / "runtime").glob("jpserver-*.json"))
    assert json.loads(found.read_text())["port"] == server.port
    return {"JPY_PARENT_PID": str(server.process.pid)}


def test_who_may_ask_and_what_there_is(session: Session) -> None:
    server = session.server
    address = f"wasm-kernel/sessions/{session.id}"
    assert server.get(address).json == {
        "session_id": session.id,
        "archive": {"max_bytes": 16 << 30, "max_files": 100_000},
    }
    assert server.request("GET", address, login=False).status == 403
    assert server.get(address, X_Test_Forbid="read").status == 403
    for name in ("no-such-session", "..", "%2e%2e", ".wasm-kernel", "x" * 300):
        answer = server.get(f"wasm-kernel/sessions/{name}")
        assert answer.status == 404, name
