"""A session's files for the host: list, read, write, delete, and what is refused and logged."""

from __future__ import annotations

import io
import os
import threading
import time
from datetime import UTC, datetime
from pathlib import Path

import pytest

from tests.sessions.conftest import Opened
from tests.sessions.helpers import Log, make_session, other_process, put_files, tree
from wasm_kernel import (
    PathRefused,
    delete_session_path,
    get_session_sandbox,
    list_session_files,
    open_session_file,
    prune_sessions,
    read_session_file,
    write_session_file,
)


def test_list_read_write_delete(root: Path) -> None:
    session_id = make_session(root)
    assert list_session_files(session_id, root) == []
    assert write_session_file(session_id, "report/table.csv", b"a,b\n", root) == 4
    assert write_session_file(session_id, "notes.txt", "täxt", root) == 5
    assert list_session_files(session_id, root) == ["notes.txt", "report/table.csv"]
    assert read_session_file(session_id, "report/table.csv", root) == b"a,b\n"
    with open_session_file(session_id, Path("notes.txt"), root) as file:
        assert file.read(1) == b"t"
    delete_session_path(session_id, "notes.txt", root)
    with pytest.raises(OSError, match="recursive"):
        delete_session_path(session_id, "report", root)
    delete_session_path(session_id, "report", root, recursive=True)
    assert list_session_files(session_id, root) == []
    for missing in (read_session_file, delete_session_path):
        with pytest.raises(FileNotFoundError):
            missing(session_id, "notes.txt", root)


def test_a_listing_knows_size_time_and_type(root: Path) -> None:
    session_id = make_session(root, files={"a.csv": "12345", "d/b.csv": "1", "d/c.txt": "", "d/e/f.csv": ""})
    os.utime(root / session_id / "a.csv", (1_700_000_000, 1_700_000_000))
    (root / session_id / "link").symlink_to("a.csv")
    found = {str(file): file for file in list_session_files(session_id, root, folders=True)}
    assert list(found) == ["a.csv", "d", "d/b.csv", "d/c.txt", "d/e", "d/e/f.csv", "link"]
    assert (found["a.csv"].size, found["a.csv"].kind) == (5, "file")
    assert found["a.csv"].modified_at == datetime.fromtimestamp(1_700_000_000, UTC)
    assert (found["d"].kind, found["link"].kind) == ("folder", "link")


@pytest.mark.parametrize(
    ("pattern", "recursive", "expected"),
    [
        ("*.csv", True, ["a.csv", "d/b.csv", "d/e/f.csv"]),
        ("*.csv", False, ["a.csv"]),
        ("d/*", True, ["d/b.csv", "d/c.txt", "d/e/f.csv"]),
        ("?.txt", True, ["d/c.txt"]),
        ("[ab].*", True, ["a.csv", "d/b.csv"]),
        ("*.CSV", True, []),
        (".metadata*", True, []),
        (None, False, ["a.csv"]),
    ],
)
def test_a_listing_by_pattern(root: Path, pattern: str | None, recursive: bool, expected: list[str]) -> None:
    session_id = make_session(root, files={"a.csv": "", "d/b.csv": "", "d/c.txt": "", "d/e/f.csv": ""})
    assert list_session_files(session_id, root, pattern, recursive=recursive) == expected


def test_guest_and_host_see_the_same_files(sessions: Opened, root: Path) -> None:
    session_id, sandbox = sessions.create()
    sandbox.execute("import pandas as pd; pd.DataFrame({'a': [1]}).to_csv('made.csv', index=False)")
    assert list_session_files(session_id, root, "*.csv") == ["made.csv"]
    assert read_session_file(session_id, "made.csv", root) == b"a\n1\n"
    write_session_file(session_id, "sent/in.txt", "from the host", root)
    assert sandbox.execute("print(open('sent/in.txt').read())").stdout == "from the host\n"
    sandbox.execute("open('sent/in.txt', 'a').write(', and the guest')")
    assert read_session_file(session_id, "sent/in.txt", root) == b"from the host, and the guest"
    delete_session_path(session_id, "sent", root, recursive=True)
    assert sandbox.execute("import os; print(os.listdir('.'))").stdout == "['made.csv']\n"


BAD = ["../other/x", "/etc/passwd", "a/../../x", "a\0b", ".metadata.json", "out/secret", "a\\b", ""]


@pytest.mark.parametrize("path", BAD)
def test_a_refused_path_is_a_security_event(root: Path, tmp_path: Path, log: Log, path: str) -> None:
    put_files(tmp_path / "outside", {"secret": "SECRET"})
    session_id = make_session(root, files={"a": "x"})
    (root / session_id / "out").symlink_to(tmp_path / "outside")
    before = tree(tmp_path)
    with pytest.raises(PathRefused):
        read_session_file(session_id, path, root, logger=log.logger)
    with pytest.raises(PathRefused):
        write_session_file(session_id, path, b"x", root, logger=log.logger)
    with pytest.raises(PathRefused):
        delete_session_path(session_id, path, root, recursive=True, logger=log.logger)
    events = log.events("security.path_refused")
    assert len(events) == 3
    for event in events:
        assert event["level"] == "warning"
        assert event["session_id"] == session_id
        assert event["path"] == repr(path)
        assert event["error"]
    assert tree(tmp_path) == before


@pytest.mark.parametrize("session_id", ["..", "../workspace", "a/b", "", ".wasm-kernel", "a b"])
def test_a_bad_session_id_is_refused_everywhere(root: Path, session_id: str) -> None:
    for act in (list_session_files, get_session_sandbox):
        with pytest.raises(ValueError, match="session_id"):
            act(session_id, workspace_root=root)
    for act_on_path in (read_session_file, open_session_file, delete_session_path):
        with pytest.raises(ValueError, match="session_id"):
            act_on_path(session_id, "x", root)
    with pytest.raises(ValueError, match="session_id"):
        write_session_file(session_id, "x", b"", root)


def test_a_session_that_is_not_there_or_is_a_link(root: Path, tmp_path: Path) -> None:
    outside = make_session(tmp_path / "outside", files={"secret": "SECRET"})
    (root / "linked").symlink_to(tmp_path / "outside" / outside)
    (root / "plain-file").write_text("x")
    for session_id in ("no-such-session", "linked", "plain-file"):
        with pytest.raises((FileNotFoundError, PathRefused)):
            list_session_files(session_id, root)
        with pytest.raises((FileNotFoundError, PathRefused)):
            read_session_file(session_id, "secret", root)
        with pytest.raises((FileNotFoundError, PathRefused)):
            write_session_file(session_id, "secret", b"x", root)
    assert not (root / "no-such-session").exists(), "writing makes no session"
    with pytest.raises(ValueError, match="linked"):
        get_session_sandbox("linked", workspace_root=root)


def test_an_open_file_stays_the_one_that_was_opened(root: Path) -> None:
    session_id = make_session(root, files={"f": "old " * 100_000})
    with open_session_file(session_id, "f", root) as file:
        assert file.read(4) == b"old "
        write_session_file(session_id, "f", b"new", root)
        assert file.read() == b"old " * 99_999
    assert read_session_file(session_id, "f", root) == b"new"
    assert write_session_file(session_id, "f", io.BytesIO(b"stream"), root) == 6
    with pytest.raises(FileExistsError):
        write_session_file(session_id, "f", b"again", root, overwrite=False)


SWAPPING_GUEST = """
import os, shutil, time
os.makedirs('d', exist_ok=True)
open('d/f', 'w').write('inside')
print('go', flush=True)
end = time.monotonic() + 2.5
n = 0
while time.monotonic() < end:
    n += 1
    try:
        os.rename('d', 'aside'); os.symlink('aside', 'd'); os.unlink('d'); os.rename('aside', 'd')
        if n % 10 == 0: open('d/f', 'w').write('inside')
    except OSError:  # the host deleted something
        shutil.rmtree('aside', ignore_errors=True)
        try:
            if os.path.islink('d'): os.unlink('d')
            os.makedirs('d', exist_ok=True)
            open('d/f', 'w').write('inside')
        except OSError: pass
"""


def test_files_are_safe_while_the_guest_swaps_folders_for_links(sessions: Opened, root: Path) -> None:
    session_id, sandbox = sessions.create()
    started = threading.Event()
    results = []

    def run() -> None:
        results.append(sandbox.execute(SWAPPING_GUEST, on_event=lambda event: started.set()))

    guest = threading.Thread(target=run)
    guest.start()
    try:
        assert started.wait(30)
        outcomes = {"read": 0, "written": 0, "refused": 0}
        while guest.is_alive():
            try:
                assert read_session_file(session_id, "d/f", root) in (b"inside", b"by the host", b"")
                outcomes["read"] += 1
                write_session_file(session_id, "d/f", b"by the host", root)
                outcomes["written"] += 1
                list_session_files(session_id, root)
                if outcomes["written"] % 5 == 0:
                    delete_session_path(session_id, "d", root, recursive=True)
            except (OSError, PathRefused):
                outcomes["refused"] += 1
    finally:
        guest.join()
    assert results[0].success, results[0].error
    assert min(outcomes.values()) > 5, outcomes


def test_an_upload_survives_a_prune_that_runs_meanwhile(root: Path) -> None:
    """A session nobody executes in can be written to: its temporary file is no leftover while it is being written."""
    session_id = make_session(root)
    code = """
import sys
from pathlib import Path
from wasm_kernel import prune_sessions
print("ready", flush=True)
while True:
    prune_sessions(24, Path(sys.argv[1]))
"""

    def slowly() -> io.BufferedIOBase:
        class Slow(io.BytesIO):
            def read(self, size: int | None = -1) -> bytes:
                time.sleep(0.02)
                return super().read(1000)

        return Slow(b"x" * 10_000)

    with other_process(code, root):
        for _ in range(5):
            assert write_session_file(session_id, "f", slowly(), root) == 10_000
    assert read_session_file(session_id, "f", root) == b"x" * 10_000
    prune_sessions(24, root)
    assert list_session_files(session_id, root) == ["f"]
