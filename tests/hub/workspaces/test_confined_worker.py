"""The confined worker step by step: what it opens, what it gives up and in which order, what it answers.

Nothing is given up for good here: the calls that would are replaced. Attacks on the real one: `test_confinement`.
"""

from __future__ import annotations

import json
import os
import pwd
import resource
import signal
import socket
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from wasm_kernel.errors import ConfigurationError
from wasm_kernel.hub.workspaces import confined_worker, landlock
from wasm_kernel.hub.workspaces.open_workspace import OpenedWorkspace, Refused, open_workspace

Given = list[tuple[str, Any]]


@pytest.fixture
def base(tmp_path: Path) -> Path:
    (tmp_path / "ann" / "ws").mkdir(parents=True)
    return tmp_path


@pytest.fixture
def place(base: Path) -> OpenedWorkspace:
    return open_workspace(f"{base}/{{username}}/ws", "ann")


def order(base: Path, job: str = "look", **more: Any) -> dict[str, Any]:
    template = f"{base}/{{username}}/ws"
    return {"user": "ann", "template": template, "job": job, "arguments": {}, "archive_folder": "", **more}


@pytest.fixture
def given_up(monkeypatch: pytest.MonkeyPatch) -> Given:
    """What was given up, in order; in truth nothing is."""
    said: Given = []

    def note(name: str) -> Callable[..., None]:
        return lambda *arguments: said.append((name, arguments))

    for name in ("setgroups", "setresgid", "setresuid"):
        monkeypatch.setattr(os, name, note(name))
    monkeypatch.setattr(resource, "setrlimit", note("setrlimit"))
    monkeypatch.setattr(landlock, "restrict", note("restrict"))
    monkeypatch.setattr(landlock, "is_available", lambda: True)
    return said


# ---- answers


def test_an_answer_says_where_it_is_from(base: Path, given_up: Given) -> None:
    ws = base / "ann" / "ws"
    jobs = {"look": lambda root, deep: {"seen": str(root), "deep": deep}}
    found = confined_worker._answer(order(base, arguments={"deep": 3}), jobs)
    info = ws.stat()
    assert found == {"seen": str(ws), "deep": 3, "root": str(ws), "identity": f"{info.st_dev}:{info.st_ino}"}


def test_rights_are_given_up_before_the_job_begins(base: Path, given_up: Given) -> None:
    confined_worker._answer(order(base), {"look": lambda root: given_up.append(("job", ())) or {}})
    assert [name for name, _ in given_up][-2:] == ["restrict", "job"]


def test_without_them_given_up_nothing_is_done(base: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: Any) -> None:
        raise Refused("no")

    monkeypatch.setattr(confined_worker, "_give_up_rights", refuse)
    assert confined_worker._answer(order(base), {"look": lambda root: pytest.fail("it was done")}) == {"problem": "no"}


def test_a_workspace_that_is_not_there(base: Path) -> None:
    assert confined_worker._answer(order(base, user="eve"), {}) == {"missing": f"{base}/eve"}


@pytest.mark.parametrize(
    ("error", "text"),
    [
        (OSError(5, "Input/output error"), "OSError: [Errno 5] Input/output error"),
        (ConfigurationError("not so"), "ConfigurationError: not so"),
        (ValueError("odd"), "ValueError: odd"),
        (MemoryError(), "the workspace holds more than fits into memory"),
    ],
)
def test_what_goes_wrong_is_an_answer(base: Path, given_up: Given, error: Exception, text: str) -> None:
    def fail(root: Path) -> None:
        raise error

    assert confined_worker._answer(order(base), {"look": fail}) == {"problem": text}


def test_a_child_answers_and_ends(base: Path) -> None:
    """It is a fork of this very process: whatever happens, it must not go on as one."""
    for sent, expected in ((json.dumps(order(base, user="eve")).encode(), 0), (b"no order", 1)):
        ours, theirs = socket.socketpair()
        child = os.fork()
        if child == 0:
            ours.close()
            confined_worker._be_child(theirs, {})
        theirs.close()
        with ours, ours.makefile("rwb") as file:
            file.write(sent + b"\n")
            file.flush()
            answer = file.read()
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == expected
        assert json.loads(answer) == {"missing": f"{base}/eve"} if expected == 0 else answer == b""


def test_children_that_ended_are_forgotten_and_slow_ones_are_ended() -> None:
    children: dict[int, float] = {}
    for seconds in (0, 60):
        child = os.fork()
        if child == 0:
            time.sleep(seconds)
            os._exit(0)
        children[child] = time.monotonic() + 60
    quick, slow = children
    while quick in children:
        confined_worker._reap(children)
    assert slow in children
    children[slow] = time.monotonic() - 1
    confined_worker._reap(children)
    assert os.waitstatus_to_exitcode(os.waitpid(slow, 0)[1]) == -signal.SIGKILL


# ---- rights


def test_root_becomes_the_owner_and_is_confined_last(
    place: OpenedWorkspace, given_up: Given, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    theirs = OpenedWorkspace(place.handle, place.path, 1234, 5678)
    folders = {place.handle: landlock.ALL}
    confined_worker._give_up_rights(order(Path("/x"), unconfined=False), theirs, folders)
    assert [name for name, _ in given_up] == [
        "setrlimit",
        "setrlimit",
        "setgroups",
        "setresgid",
        "setresuid",
        "restrict",
    ]
    assert dict(given_up)["setgroups"] == ([],)
    assert dict(given_up)["setresgid"] == (5678,) * 3
    assert dict(given_up)["setresuid"] == (1234,) * 3
    assert dict(given_up)["restrict"] == (folders,)
    assert sorted(folders.values()) == sorted([landlock.ALL, landlock.READ]), "it reads /proc, too"


def test_nobody_but_root_works_for_others(
    place: OpenedWorkspace, given_up: Given, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 4321)
    with pytest.raises(Refused, match="the service runs as user 4321; run it as root"):
        confined_worker._give_up_rights(
            order(Path("/x"), unconfined=True), OpenedWorkspace(place.handle, "/w", 1234, 1), {}
        )
    assert "restrict" not in dict(given_up)


@pytest.mark.parametrize(
    ("us", "named", "unconfined", "fine"),
    [
        (0, True, False, True),  # nobody else has this owner
        (0, False, False, False),
        (1234, True, False, False),
        (0, False, True, True),
        (1234, False, True, True),
    ],
)
def test_where_there_is_no_landlock(
    place: OpenedWorkspace,
    given_up: Given,
    monkeypatch: pytest.MonkeyPatch,
    us: int,
    named: bool,
    unconfined: bool,
    fine: bool,
) -> None:
    monkeypatch.setattr(landlock, "is_available", lambda: False)
    monkeypatch.setattr(os, "geteuid", lambda: us)
    monkeypatch.setattr(confined_worker, "_has_that_name", lambda owner, user: named)
    theirs = OpenedWorkspace(place.handle, place.path, 1234, 1)
    if fine:
        confined_worker._give_up_rights(order(Path("/x"), unconfined=unconfined), theirs, {})
    else:
        with pytest.raises(Refused, match="no Landlock here"):
            confined_worker._give_up_rights(order(Path("/x"), unconfined=unconfined), theirs, {})
    assert "restrict" not in dict(given_up)


def test_who_has_which_name() -> None:
    root = pwd.getpwuid(0)
    assert not confined_worker._has_that_name(0, root.pw_name), "root is nobody's own owner"
    assert not confined_worker._has_that_name(54321, "ann")
    others = [entry for entry in pwd.getpwall() if entry.pw_uid not in (0, 54321)]
    assert confined_worker._has_that_name(others[0].pw_uid, pwd.getpwuid(others[0].pw_uid).pw_name)
    assert not confined_worker._has_that_name(others[0].pw_uid, "ann")


# ---- archives


def test_a_users_folder_of_archives_is_made_for_them_alone(base: Path, place: OpenedWorkspace) -> None:
    (base / "old").mkdir(mode=0o700)
    for _ in range(2):
        handle = confined_worker._open_archive(str(base / "old"), "a/../nn", place)
        assert Path(os.readlink(f"/proc/self/fd/{handle}")) == base / "old" / "a%2F..%2Fnn"
        assert os.fstat(handle).st_mode & 0o777 == 0o700
        os.close(handle)


def test_folders_of_archives_that_are_not_used(base: Path, place: OpenedWorkspace) -> None:
    with pytest.raises(Refused, match="there is no archive folder"):
        confined_worker._open_archive(str(base / "none"), "ann", place)
    (base / "open").mkdir(mode=0o755)
    with pytest.raises(Refused, match="chmod 700"):
        confined_worker._open_archive(str(base / "open"), "ann", place)
    (base / "old").mkdir(mode=0o700)
    (base / "old" / "ann").symlink_to(base)
    with pytest.raises(OSError):
        confined_worker._open_archive(str(base / "old"), "ann", place)


def test_an_archive_is_reached_by_its_handle(base: Path, given_up: Given) -> None:
    (base / "old").mkdir(mode=0o700)
    seen: list[str] = []
    wanted = order(base, "remove", archive_folder=str(base / "old"))
    confined_worker._answer(wanted, {"remove": lambda root, archive_to: seen.append(os.readlink(archive_to)) or {}})
    assert seen == [str(base / "old" / "ann")]
    (folders,) = dict(given_up)["restrict"]
    assert landlock.FILES in folders.values()
