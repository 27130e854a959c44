"""IPython's own test suite, run by pytest inside the guest: ``python -m tests.ipython_suite [-v] [FILE ...]``.

The tests come from the source distribution of the IPython the guest holds; they and the pure packages they need are
fetched once into the cache. Each test file runs in a sandbox of its own, so that a crash costs no other file, two at a
time. It is IPython's stock terminal shell that is tested, over our shims: the guest's own shell is put away first.

What no WebAssembly guest has (processes, threads, termios) fails here, so the suite is held to a number of passes.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from wasm_kernel import ExecutionPolicy
from wasm_kernel.host.image import image
from wasm_kernel.host.image.cache import Entry, build_lock
from wasm_kernel.host.runtime.sandbox import Sandbox
from wasm_kernel.sessions.sandboxes import ready_image

WANTED_PASSES = 2683
WORKERS = 2
FILE_SECONDS = 600.0

# Beside what the guest holds; --no-deps, so this is all of it.
TEST_PACKAGES = (
    "decorator==5.3.1",
    "iniconfig==2.3.1",
    "jedi==0.20.1",
    "parso==0.8.7",
    "pexpect==4.9.0",
    "pickleshare==0.7.5",
    "pluggy==1.7.0",
    "prompt-toolkit==3.0.53",
    "ptyprocess==0.7.0",
    "pytest==9.2.0",
    "pytest-asyncio==1.4.1.post1",
    "testpath==0.6.0",
    "wcwidth==0.9.4",
)

FOR_THE_GUEST = (
    "--no-deps", "--no-compile", "--only-binary", ":all:",
    "--python-version", "3.15", "--implementation", "py", "--abi", "none", "--platform", "any",
)  # fmt: skip

# The packages are mounted read-only as /packages: their bytecode has to be there before.
_COMPILE = """
import compileall, py_compile
compileall.compile_dir("/app", quiet=2, stripdir="/app", prependdir="/packages",
                       invalidation_mode=py_compile.PycInvalidationMode.UNCHECKED_HASH)
"""

# Each result is written at once, to a file: a crash of the guest keeps what came before it.
_RUN = """
def run_tests(name):
    import asyncio, builtins, json, os, sys
    import pytest
    from IPython.core.history import HistoryManager
    from IPython.core.interactiveshell import InteractiveShell
    from matplotlib_inline.backend_inline import configure_inline_support

    def read_line(prompt="", /):  # Python's own input(): the guest's asks the person at the notebook
        print(prompt, end="", flush=True)
        line = sys.stdin.readline()
        if not line:
            raise EOFError("EOF when reading a line")
        return line.removesuffix("\\n")

    # IPython's conftest makes a shell of its own; as far as it can tell there was never another.
    ours = InteractiveShell._instance
    ours.builtin_trap.deactivate()
    type(ours).clear_instance()
    HistoryManager._instances.clear()
    sys.displayhook = sys.__displayhook__
    for stream in (sys.stdout, sys.stderr):
        vars(stream).pop("write", None)  # the shell of the cell we are in listens there
    configure_inline_support.current_backend = "unset"
    builtins.input = read_line
    os.environ.pop("FORCE_COLOR", None)
    asyncio._set_running_loop(None)

    report = open("/app/report.jsonl", "w", buffering=1)

    class Report:
        outcomes = {}

        def pytest_collection_finish(self, session):
            print(json.dumps({"collected": len(session.items)}), file=report)

        def pytest_collectreport(self, report):
            if report.outcome != "passed":
                self.write(report.nodeid, report.outcome, report)

        def pytest_runtest_logreport(self, report):
            # One outcome per test: an error in its fixtures is a failure of it.
            if report.when == "call" or report.outcome != "passed":
                if self.outcomes.get(report.nodeid) != "failed":
                    self.outcomes[report.nodeid] = report.outcome
                    self.reason = report
            if report.when == "teardown":
                outcome = self.outcomes.pop(report.nodeid, "failed")
                self.write(report.nodeid, outcome, self.reason if outcome == "failed" else None)

        def write(self, test, outcome, reason=None):
            record = {"test": test, "outcome": outcome}
            if reason is not None:
                crash = getattr(reason.longrepr, "reprcrash", None)
                record["details"] = str(reason.longrepr)
                record["reason"] = crash.message if crash else record["details"].rpartition("\\n")[2]
            print(json.dumps(record), file=report)

    options = ["-q", "--no-header", "--no-summary", "-p", "no:cacheprovider"]
    status = pytest.main([*options, "tests/" + name], plugins=[Report()])
    print(json.dumps({"finished": status in (0, 1, 5)}), file=report)  # passed, some failed, nothing to run
"""


@dataclass
class FileReport:
    """How one test file went."""

    name: str
    seconds: float = 0.0
    outcomes: Counter[str] = field(default_factory=Counter)
    failures: list[dict[str, str]] = field(default_factory=list)
    trouble: str = ""  # why it did not run to its end

    def line(self) -> str:
        """One line of the table."""
        counts = "".join(f"{self.outcomes[kind]:8}" for kind in ("passed", "failed", "skipped"))
        return f"{self.name:36}{counts}{self.seconds:9.1f} s  {self.trouble}".rstrip()


# ---- what is fetched


def material() -> Path:
    """The folder with IPython's `tests` and the test packages (`packages`), fetched if it is not in the cache."""
    pinned = _ipython_pin()
    key = hashlib.sha256(json.dumps([pinned, TEST_PACKAGES, _COMPILE, image.parts().runtime.key]).encode())
    entry = Entry("ipython-suite", key.hexdigest()[:20])
    with build_lock(lambda state: None):
        if entry.manifest() is None:
            entry.build(lambda folder: _fetch(folder, pinned))
    return entry.path


def _ipython_pin() -> str:
    """IPython's requirement in the guest's lock, hashes included: one of them is the source distribution's."""
    found = re.search(r"^ipython==(?:.*\\\n)*.*\n", image.lock_text(), re.MULTILINE)
    assert found, "ipython is not in the guest's lock"
    return found[0]


def _fetch(folder: Path, pinned: str) -> dict[str, Any]:
    print("fetching IPython's tests and the packages they need ...", flush=True)
    with tempfile.TemporaryDirectory() as place:
        requirements = Path(place) / "requirements.txt"
        requirements.write_text(pinned)
        pip("download", "--no-deps", "--no-binary", "ipython", "--require-hashes", "-d", place, "-r", str(requirements))
        (archive,) = Path(place).glob("ipython-*.tar.gz")
        with tarfile.open(archive) as source:
            source.extractall(place, filter="data")
        unpacked = Path(place) / archive.name.removesuffix(".tar.gz")
        (folder / "source").mkdir()
        for name in ("tests", "conftest.py", "pyproject.toml"):
            shutil.move(unpacked / name, folder / "source" / name)
    packages = folder / "packages"
    pip("install", "--target", str(packages), *FOR_THE_GUEST, *TEST_PACKAGES)
    shutil.rmtree(packages / "bin", ignore_errors=True)
    compile_packages(packages)
    return {}


def compile_packages(packages: Path) -> None:
    """Put the guest's bytecode beside the modules of a folder that guests will see as /packages."""
    sandbox = Sandbox(image.load(), packages, ExecutionPolicy())
    try:
        result = sandbox.execute(_COMPILE)
        assert result.success, result.error
    finally:
        sandbox.close()


def pip(*arguments: str) -> None:
    command = [sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check", *arguments]
    done = subprocess.run(
        command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )
    if done.returncode:
        raise SystemExit(f"pip {arguments[0]} failed; check the network and `pip config list`\n{done.stdout[-3000:]}")


# ---- running


def run_file(source: Path, packages: Path, name: str) -> FileReport:
    """Run one test file in a sandbox of its own."""
    report = FileReport(name)
    started = time.monotonic()
    with tempfile.TemporaryDirectory() as place:
        workspace = Path(place) / "app"
        shutil.copytree(source, workspace)
        sandbox = Sandbox(image.load(), workspace, ExecutionPolicy(timeout_seconds=FILE_SECONDS), packages)
        try:
            result = sandbox.execute(f"{_RUN}\nrun_tests({name!r})\n", options={"silent": True})
        finally:
            sandbox.close()
        collected, finished, ran = 0, False, 0
        for record in read_records(workspace / "report.jsonl"):
            collected = record.get("collected", collected)
            finished = record.get("finished", finished)
            if "outcome" in record:
                ran += 1
                report.outcomes[record["outcome"]] += 1
                if record["outcome"] == "failed":
                    report.failures.append(record)
    if not finished:
        report.outcomes["failed"] += max(collected - ran, 0 if report.failures else 1)
        report.trouble = result.outcome.message.partition(";")[0] or "pytest did not run it"
        tail = result.stdout[-3000:] + result.stderr[-3000:]
        report.failures.append({"test": name, "reason": f"stopped after {ran} of {collected}", "details": tail})
    report.seconds = time.monotonic() - started
    return report


def read_records(path: Path) -> Iterator[dict[str, Any]]:
    """The complete lines of a report; the guest may have died while it wrote one."""
    if not path.is_file():
        return
    for line in path.read_text(errors="replace").splitlines():
        try:
            yield json.loads(line)
        except ValueError:
            return


def main() -> int:
    """Run the suite, print a table, and return the exit status."""
    parser = argparse.ArgumentParser(prog="python -m tests.ipython_suite", description=__doc__.partition("\n")[0])
    parser.add_argument(
        "files", nargs="*", metavar="FILE", help="only these test files; then no pass count is required"
    )
    parser.add_argument("-v", action="count", default=0, dest="verbosity", help="say why tests failed; -vv: tracebacks")
    options = parser.parse_args()
    started = time.monotonic()
    ready_image()
    here = material()
    names = options.files or sorted(p.name for p in (here / "source" / "tests").glob("test_*.py"))
    total: Counter[str] = Counter()
    print(f"{'file':36}  passed  failed skipped")
    with ThreadPoolExecutor(WORKERS) as pool:
        running = [pool.submit(run_file, here / "source", here / "packages", name) for name in names]
        for done in as_completed(running):
            report = done.result()
            total += report.outcomes
            print(report.line(), flush=True)
            for failure in report.failures if options.verbosity else ():
                reason = failure["details"] if options.verbosity > 1 else failure["reason"].partition("\n")[0]
                print(f"    {failure['test']}: {reason}", flush=True)
    enough = bool(options.files) or total["passed"] >= WANTED_PASSES
    print(
        f"{len(names)} files in {time.monotonic() - started:.0f} s" + ("" if enough else f"; {WANTED_PASSES} must pass")
    )
    print(f"{total['passed']} passed, {total['failed']} failed, {total['skipped']} skipped")
    return 0 if enough else 1


if __name__ == "__main__":
    sys.exit(main())
