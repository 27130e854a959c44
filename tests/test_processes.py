"""What `processes.py` promises to every test."""

from __future__ import annotations

import subprocess
import sys

import psutil
import pytest

from tests import processes

SLEEP = [sys.executable, "-c", "import time; time.sleep(1000)"]
ORPHAN = (
    "import subprocess, sys; "
    "print(subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(1000)'], stdout=subprocess.DEVNULL).pid)"
)


@pytest.fixture(autouse=True)
def _impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(processes, "GRACE", 0.5)


def test_a_child_that_is_left_behind_is_named_and_killed() -> None:
    with pytest.raises(AssertionError, match=r"time\.sleep\(1000\)"), processes.none_left():
        child = subprocess.Popen(SLEEP)
    assert not psutil.pid_exists(child.pid)


@pytest.mark.skipif(sys.platform != "linux", reason="orphans are adopted on Linux only")
def test_so_is_an_orphan() -> None:
    with pytest.raises(AssertionError, match="were left behind"), processes.none_left():
        pid = int(subprocess.run([sys.executable, "-c", ORPHAN], stdout=subprocess.PIPE, check=True).stdout)
    assert not psutil.pid_exists(pid)


def test_what_ends_in_time_or_was_there_before_is_no_fault(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(processes, "GRACE", 60.0)  # for a process that begins and ends, however busy the machine
    with subprocess.Popen(SLEEP) as before:
        with processes.none_left():
            soon = subprocess.Popen([sys.executable, "-c", ""])
        assert before.poll() is None
        before.kill()
    assert not psutil.pid_exists(soon.pid)


def test_nor_is_one_that_takes_the_place_of_another() -> None:
    first = subprocess.Popen(SLEEP)
    with processes.none_left():
        first.kill()
        first.wait()
        second = subprocess.Popen(SLEEP)
    assert second.poll() is None
    with pytest.raises(AssertionError, match="were left behind"), processes.none_left():
        subprocess.Popen(SLEEP)
    assert second.poll() is None
    second.kill()
    second.wait()


def test_nor_is_one_that_is_shared() -> None:
    with pytest.raises(AssertionError, match="were left behind"), processes.none_left():
        with processes.shared("sleep(1000)"), processes.none_left():
            second = subprocess.Popen(SLEEP)
        assert second.poll() is None


def test_children_listen_to_interrupts_also_in_a_background_job() -> None:
    code = (
        "import signal, subprocess, sys; from tests import processes; "
        "child = [sys.executable, '-c', 'import signal; print(signal.getsignal(2).__name__)']; "
        "signal.signal(signal.SIGINT, signal.SIG_IGN); processes.listen_to_interrupts(); "
        "subprocess.run(child, check=True)"
    )
    done = subprocess.run([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True, check=True)
    assert done.stdout == "default_int_handler\n"
