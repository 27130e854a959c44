"""The audit log: whole lines, the newest first, never too long."""

from __future__ import annotations

import asyncio
import fcntl
import json
import resource
import threading
import uuid
from collections import Counter
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path

import pytest

from wasm_kernel.hub.audit import AuditEntry, AuditLog, fair_share
from wasm_kernel.hub.plan import UserResult
from wasm_kernel.hub.run_journal import Journal


def entry(number: int, **more: str) -> AuditEntry:
    return AuditEntry("2026-11-22T10:15:30.000000Z", f"run{number}", "schedule", "prune", **{"user": "ann", **more})  # type: ignore[arg-type]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "state" / "audit.jsonl"


def test_lines_are_json_and_for_the_owner_alone(path: Path) -> None:
    AuditLog(path).append([entry(1, detail='a\n"b"\u2028')])
    (line,) = path.read_bytes().splitlines()
    assert json.loads(line)["detail"] == 'a\n"b"\u2028'
    assert path.stat().st_mode & 0o777 == 0o600
    assert path.parent.stat().st_mode & 0o777 == 0o700


def test_pages_the_newest_first(path: Path) -> None:
    log = AuditLog(path)
    log.append(entry(n) for n in range(10))
    found, total = log.read(3, 2)
    assert [e.run for e in found] == ["run7", "run6", "run5"]
    assert total == 10


def test_filters(path: Path) -> None:
    log = AuditLog(path)
    log.append([entry(1), entry(2, user="bob"), entry(3, result="failed"), entry(4, user='x", "user": "bob')])
    assert [e.run for e in log.read(user="bob")[0]] == ["run2"]
    assert [e.run for e in log.read(result="failed")[0]] == ["run3"]
    assert log.read(user="bob", result="failed") == ([], 0)


def test_a_file_that_is_long_is_put_aside_and_the_oldest_goes(path: Path) -> None:
    log = AuditLog(path, max_bytes=1000, keep=2)
    for n in range(40):
        log.append([entry(n)])
    assert sorted(p.name for p in path.parent.iterdir()) == ["audit.jsonl", "audit.jsonl.1", "audit.jsonl.2"]
    assert all(p.stat().st_size < 1500 for p in path.parent.iterdir())
    found, total = log.read(100)
    assert [e.run for e in found] == [f"run{n}" for n in range(39, 39 - total, -1)]
    assert 8 < total < 20


def test_what_a_power_cut_left_spoils_nothing(path: Path) -> None:
    log = AuditLog(path)
    log.append([entry(1)])
    path.write_bytes(path.read_bytes() + b'{"time": "2026-11')
    log.append([entry(2)])
    assert [e.run for e in log.read()[0]] == ["run2", "run1"]


def test_lines_that_are_none_of_ours(path: Path) -> None:
    log = AuditLog(path)
    log.append([entry(1)])
    path.write_bytes(path.read_bytes() + b'nonsense\n[1]\n{"a": 1}\n{"time": 3}\n\xff}\n')
    assert [e.run for e in log.read()[0]] == ["run1"]


@pytest.fixture
def small_files() -> Iterator[None]:
    """No file may get longer than this: as on a full disk, but the system says so by another number."""
    import signal

    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    was = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (2000, before[1]))
    yield
    resource.setrlimit(resource.RLIMIT_FSIZE, before)
    signal.signal(signal.SIGXFSZ, was)


def test_what_does_not_fit_is_not_there_at_all(path: Path, small_files: None) -> None:
    log = AuditLog(path)
    log.append([entry(1)])
    with pytest.raises(OSError):
        log.append([entry(n) for n in range(20)])
    assert path.read_bytes().count(b"\n") == 1
    log.append([entry(2)])
    assert [e.run for e in log.read()[0]] == ["run2", "run1"]


def test_many_write_at_once(path: Path) -> None:
    log = AuditLog(path, max_bytes=20_000, keep=100)

    def write(writer: int) -> None:
        for n in range(20):
            log.append([entry(n, user=f"u{writer}"), entry(n, user=f"u{writer}")])

    threads = [threading.Thread(target=write, args=(n,)) for n in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    found, total = log.read(1000)
    assert total == len(found) == 8 * 20 * 2


def test_a_file_that_is_put_aside_by_another_gets_no_more_lines(path: Path) -> None:
    log = AuditLog(path)
    log.append([entry(1)])
    with path.open("rb") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        writer = threading.Thread(target=log.append, args=([entry(2)],))
        writer.start()
        writer.join(0.3)  # it has the file open, and waits
        path.rename(path.with_name("audit.jsonl.1"))
    writer.join()
    assert path.with_name("audit.jsonl.1").read_bytes().count(b"\n") == 1
    assert [e.run for e in log.read()[0]] == ["run2", "run1"]


# ---- one user's many sessions


def test_nobody_can_make_lines_about_others_disappear(path: Path) -> None:
    """Eve has sessions without end, and each is pruned."""
    log = AuditLog(path, max_bytes=20_000, keep=3)
    log.append([entry(1, detail="of ann"), entry(2, user="", result="finished"), entry(3, user="bob")])
    for n in range(10, 2000, 10):
        log.append(entry(n + k, user="eve", session_id="0" * 36) for k in range(10))
    log.append([entry(4, detail="later")])
    assert [e.run for e in log.read(user="ann")[0]] == ["run4", "run1"]
    assert [e.run for e in log.read(user="bob")[0]] == ["run3"]
    assert [e.run for e in log.read(result="finished")[0]] == ["run2"]
    hers = [int(e.run[3:]) for e in log.read(1000, user="eve")[0]]
    assert 100 < len(hers) < 500
    assert hers == list(range(2009 - 10, 1999 - len(hers), -1)), "of hers the newest are kept"
    files = sorted(path.parent.iterdir())
    assert [file.name for file in files] == ["audit.jsonl", *(f"audit.jsonl.{n}" for n in (1, 2, 3))]
    assert all(file.stat().st_size < 25_000 and file.stat().st_mode & 0o777 == 0o600 for file in files)


def test_shares_are_fair() -> None:
    lines = [json.dumps(asdict(entry(n, user=f"user{n % 4 if n % 4 < 2 else 2}"))).encode() for n in range(400)]
    size = len(lines[0]) + 1
    kept = fair_share(lines, 90 * size)
    by_user = Counter(json.loads(line)["user"] for line in kept)
    assert all(25 <= count <= 31 for count in by_user.values()) and len(by_user) == 3
    assert kept == [line for line in lines if line in set(kept)], "in their order"
    assert fair_share(lines, 10**9) == lines
    few = [*lines, json.dumps(asdict(entry(1000, user="rare"))).encode(), b"nonsense"]
    assert set(few[-2:]) <= set(fair_share(few, 20 * size))
    assert fair_share([], 10) == []


def interrupted(*args: object) -> None:
    raise InterruptedError


def test_a_rotation_that_was_interrupted_loses_nothing(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log = AuditLog(path, max_bytes=2000, keep=2)
    log.append([entry(1, user="bob")])
    numbers = iter(range(100, 10_000))
    while not (path.parent / "audit.jsonl.2").exists():
        log.append([entry(next(numbers))])
    for _ in range(3):
        with monkeypatch.context() as broken:
            broken.setattr(Path, "rename", interrupted)
            with pytest.raises(InterruptedError):
                for _ in range(100):
                    log.append([entry(next(numbers))])
        for _ in range(30):
            log.append([entry(next(numbers))])
        assert {e.run for e in log.read(user="bob")[0]} == {"run1"}
    for _ in range(40):
        log.append([entry(next(numbers))])
    found = [e.run for e in log.read(1000)[0]]
    assert len(found) == len(set(found)), "what was there twice is there once again"
    assert len(list(path.parent.iterdir())) == 3


def test_a_run_names_so_many_snapshots_and_no_more(path: Path) -> None:
    ids = tuple(str(uuid.uuid4()) for _ in range(30_000))

    async def run() -> None:
        journal = Journal(AuditLog(path), "schedule", "prune")
        await journal.begun("eve", ids, "snapshots")
        await journal.results(UserResult("eve", snapshots=ids), {})

    asyncio.run(run())
    assert path.stat().st_size < 1 << 20
    (begun,) = AuditLog(path).read(result="begun")[0]
    assert begun.detail.startswith(ids[0]) and begun.detail.endswith(" and 29,000 more")
    done, count = AuditLog(path).read(result="done")
    assert count == 1001 and done[0].detail == "and 29,000 more snapshots"


def test_runs_have_their_lines_inside(tmp_path: Path) -> None:
    log = AuditLog(tmp_path / "audit.jsonl", max_bytes=2000)
    for n in range(12):
        lines = [AuditEntry(f"t{n}", f"{n:02x}", "boss", "delete", "ann", result="begun")]
        lines += [
            AuditEntry(f"t{n}", f"{n:02x}", "boss", "delete", "ann" if i else "bob", f"s{n}-{i}", bytes=5)
            for i in range(3)
        ]
        log.append([*lines, AuditEntry(f"t{n}", f"{n:02x}", "boss", "delete", bytes=15, result="finished")])
    found, total = log.runs(5)
    assert [run.run for run in found] == ["0b", "0a", "09", "08", "07"] and total == 12
    first = found[0]
    assert [e.result for e in first.entries] == ["begun", "done", "done", "done", "finished"] and first.count == 5
    assert (first.users, first.bytes, first.finished, first.last.result) == (["ann", "bob"], 15, True, "finished")
    later, total = log.runs(5, 10)
    assert [run.run for run in later] == ["01", "00"] and total == 12
    bobs, total = log.runs(user="bob")
    assert total == 12 and {e.user for run in bobs for e in run.entries} == {"bob"} and bobs[0].bytes == 5
    assert log.runs(user="nobody") == ([], 0)


def test_a_long_run_shows_its_newest_lines(tmp_path: Path) -> None:
    log = AuditLog(tmp_path / "audit.jsonl")
    log.append(AuditEntry("t", "a1", "schedule", "prune", "ann", f"s{n}") for n in range(1200))
    ((run,), total) = log.runs()
    assert (total, run.count, len(run.entries), run.entries[-1].session_id) == (1, 1200, 500, "s1199")
    assert not run.finished
