"""What users try to get more than the administrator allows. Each attempt gets its way where the rules are switched off."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.administrator.conftest import Start
from tests.administrator.environment import WITHOUT_RULES, Environment, RuledKernel
from tests.conformance.client import eventually
from tests.server.conftest import Server, Session, running
from tests.sessions.helpers import make_session
from wasm_kernel import (
    OutcomeKind,
    create_sandbox,
    create_session_sandbox,
    export_session,
    fork_session,
    get_session_sandbox,
    import_session,
)
from wasm_kernel.errors import ConfigurationError, NotAllowed
from wasm_kernel.host import administrator
from wasm_kernel.host.image import image
from wasm_kernel.host.image.build import Builder
from wasm_kernel.model.administrator import Rules
from wasm_kernel.model.policy import ExecutionPolicy
from wasm_kernel.sessions.packages import install_packages
from wasm_kernel.sessions.recorder import snapshot_store
from wasm_kernel.sessions.snapshots import create_snapshot, list_snapshots

pytestmark = pytest.mark.filterwarnings("ignore")
Rule = Callable[[str], Path]
MiB = 1 << 20

# ---- a kernel whose user has raised everything there is to raise

_RULES = """
memory = "400M"
timeout = "10m"
disk = "12M"
file = "1M"
files = 60
open = 20
output = "1k"
checkpoint_bytes = "1M"
pip = false
workspace_root = "{root}"
"""
_GREEDY = """
high = {"memory": "4G", "timeout": "off", "disk": "1T", "file": "1T", "files": 10**6, "open": 900, "output": "1G"}
c.WasmKernel.maxima = high
c.WasmKernel.limits = high
c.WasmKernel.allow_pip = True
c.WasmKernel.checkpoint_bytes = 1 << 40
c.WasmKernel.workspace_root = "ELSEWHERE"
"""


@dataclass
class Pair:
    """The same kernel twice: with the rules, and without."""

    ruled: RuledKernel
    free: RuledKernel
    elsewhere: Path


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pair]:
    place = tmp_path_factory.mktemp("pair")
    environment = Environment(place / "env")
    elsewhere = place / "elsewhere"
    environment.rule(_RULES.format(root=place / "ruled"))
    environment.configure(_GREEDY.replace("ELSEWHERE", str(elsewhere)))
    kernels = [environment.kernel(elsewhere), environment.kernel(elsewhere, **WITHOUT_RULES)]
    yield Pair(*kernels, elsewhere)
    for kernel in kernels:
        kernel.stop()


@pytest.mark.parametrize(
    "cell",
    [
        pytest.param("x = bytearray(300 << 20); len(x)", id="memory by the configuration"),
        pytest.param("%session limits memory=1G", id="memory by a magic"),
        pytest.param("%session limits timeout=off", id="time by a magic"),
        pytest.param("%session limits disk=20G files=1000 open=100", id="several by a magic"),
        pytest.param("open('a', 'wb').write(bytes(3 << 20))", id="one file"),
        pytest.param("for i in range(14): open(f'a{i}', 'wb').write(bytes(1 << 20))", id="disk"),
        pytest.param("for i in range(80): open(f'b{i}', 'w').close()", id="files"),
        pytest.param("c = [open('c', 'w') for i in range(40)]", id="open files"),
        pytest.param("%pip install numpy", id="packages"),
    ],
)
def test_a_cell(pair: Pair, cell: str) -> None:
    assert not pair.ruled.run(cell).ok
    pair.ruled.run("import os, shutil\nfor n in os.listdir(): os.unlink(n)\nx = c = None")
    free = pair.free.run(cell)
    assert free.ok, free.said


def test_output(pair: Pair) -> None:
    cell = "print('x' * 100_000)"
    assert len(pair.ruled.ok(cell).stdout) < 2000
    assert len(pair.free.ok(cell).stdout) > 100_000


def test_output_between_cells(pair: Pair) -> None:
    code = (
        "import asyncio\nasync def go():\n    for n in range(200):\n        await asyncio.sleep(0.005)\n"
        "        print('x' * 500)\n    print('done', file=__import__('sys').stderr)\ntask = asyncio.create_task(go())"
    )

    def printed(kernel: RuledKernel) -> int:
        kernel.others.clear()
        kernel.ok(code)
        kernel.wait_for("stream", "done")
        return sum(len(m["content"]["text"]) for m in kernel.others if m["msg_type"] == "stream")

    assert printed(pair.ruled) < 2000
    assert printed(pair.free) > 100_000


def test_where_sessions_are(pair: Pair) -> None:
    assert str(pair.elsewhere) not in pair.ruled.ok("%session").said
    assert str(pair.elsewhere) in pair.free.ok("%session").said


def test_space_of_checkpoints(pair: Pair) -> None:
    for kernel in (pair.ruled, pair.free):
        for _ in range(6):
            kernel.ok("import os; x = os.urandom(2 << 20)")
        kernel.ok("found = %session snapshots")
    assert int(pair.ruled.ok("len(found)").result or 0) <= 3
    assert int(pair.free.ok("len(found)").result or 0) >= 6


def test_what_went_gives_its_space_back(fresh: Environment, start: Start) -> None:
    fresh.rule('checkpoint_bytes = "4M"')
    kernel, free = start(), start(fresh.folder.parent / "free", **WITHOUT_RULES)

    def stored(of: RuledKernel) -> int:
        return snapshot_store(of.root).stored_bytes()

    for _ in range(10):
        for one in (kernel, free):
            one.ok("import os; x = os.urandom(4 << 20)")
    for one in (kernel, free):
        one.ok("%session snapshots")  # waits until they are written
    assert eventually(lambda: stored(kernel) < 25 * MiB), stored(kernel)
    assert stored(free) > 40 * MiB


def test_a_limit_is_explained(pair: Pair) -> None:
    said = pair.ruled.run("x = bytearray(300 << 20)").said
    assert said.count("the most that the administrator allows") == 1 and "→" not in said
    assert "400.0 MB" in pair.ruled.ok("%session limits").said
    assert "the administrator allows" in pair.ruled.run("%session limits memory=1G").said


# ---- other ways of a kernel's


def test_time(fresh: Environment, start: Start) -> None:
    fresh.rule('timeout = "1s"')
    fresh.configure("c.WasmKernel.limits = {'timeout': 'off'}")
    cell = "import time; time.sleep(1.6)"
    assert "TimeoutError" in start().run(cell).said
    assert start(**WITHOUT_RULES).run(cell).ok


def test_a_configuration_that_is_dropped_as_a_whole(fresh: Environment, start: Start) -> None:
    """A value of the wrong kind makes the kernel start without its configuration, maxima among it."""
    fresh.rule('memory = "1G"')
    fresh.configure("c.WasmKernel.checkpoint_count = 'many'; c.WasmKernel.maxima = {'disk': '1G'}")
    kernel = start()
    assert not kernel.run("%session limits memory=2G").ok
    assert not kernel.run("%session limits disk=2G").ok
    assert start(**WITHOUT_RULES).run("%session limits memory=2G").ok


def test_the_lower_of_rule_and_setting_counts(fresh: Environment, start: Start) -> None:
    fresh.rule('memory = "1G"\ndisk = "10G"')
    fresh.configure("c.WasmKernel.maxima = {'memory': '2G', 'disk': '5G'}")
    kernel = start()
    assert not kernel.run("%session limits memory=1.5G").ok
    assert not kernel.run("%session limits disk=6G").ok
    assert kernel.run("%session limits disk=4G memory=900M").ok


def test_a_program_as_configuration_is_not_run_where_users_configuration_does_not_count(
    fresh: Environment, start: Start, tmp_path: Path
) -> None:
    mark = tmp_path / "it ran"
    for name in ("jupyter_wasm_kernel_config.py", "jupyter_config.py"):
        fresh.configure(f"open({str(mark)!r}, 'w')\nc.WasmKernel.limits = {{'memory': '400M'}}", name)
    fresh.rule("user_configuration = false")
    assert "2.0 GB" in start().ok("%session limits").said
    assert not mark.exists()
    start(**WITHOUT_RULES).ok("1")
    assert mark.exists()


def test_no_configuration_is_read_from_the_folder_of_a_notebook(monkeypatch: pytest.MonkeyPatch) -> None:
    from jupyter_core.application import JupyterApp

    from wasm_kernel.apps.kernel_app import WasmKernelApp

    there = property(lambda self: [str(Path.cwd()), "/etc/jupyter"])
    monkeypatch.setattr(JupyterApp, "config_file_paths", there)  # as it was in earlier releases
    assert WasmKernelApp().config_file_paths == ["/etc/jupyter"]


def test_nothing_runs_under_a_damaged_file(fresh: Environment, start: Start) -> None:
    fresh.rule('pip = false\nmemory = "lots"\n')
    kernel = start()
    for cell in ("print('it ran')", "%session new", "%session limits memory=2G"):
        done = kernel.run(cell)
        assert not done.ok
        assert "it ran" not in done.stdout
        assert f"{fresh.file}" in done.said
        assert "line 2" in done.said
    fresh.rule("pip = false")
    assert start().run("1").ok


# ---- sessions


@pytest.fixture
def ruled_root(tmp_path: Path) -> Path:
    root = tmp_path / "ruled"
    root.mkdir()
    return root


def test_number_of_sessions(fresh: Environment, start: Start, ruled_root: Path) -> None:
    fresh.rule(f'sessions = 2\nworkspace_root = "{ruled_root}"')
    mine = make_session(ruled_root)
    first = start()
    first.ok("1")
    refused = first.run("%session new")
    assert "allows at most 2" in refused.said
    assert first.run("1 + 1").result == "2", "it stays where it is"

    second = start()  # a third session
    said = second.run("1").said
    for step in ("%prune", "%session delete", "%session list"):
        assert step in said
    assert mine in second.ok("%session list").said, "what is named works without a session"
    third = start(ruled_root.parent / "elsewhere", WASM_KERNEL_SESSION="another-one")
    assert not third.run("1").ok
    fourth = start(WASM_KERNEL_SESSION=mine)
    assert fourth.run("6 * 7").result == "42", "one that is there opens"
    fourth.stop()
    assert second.run(f"%session delete {mine} --yes", answers=("yes",)).ok
    assert second.run("1 + 1").result == "2"
    assert start(**WITHOUT_RULES).run("1").ok


def test_no_way_of_the_library_makes_more(rule: Rule, ruled_root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    one = make_session(ruled_root, files={"a": "x"})
    archive = export_session(one, ruled_root.parent / "one.zip", ruled_root)
    snapshot = create_snapshot(one, ruled_root).snapshot_id
    ways: list[Callable[[], object]] = [
        lambda: create_session_sandbox(workspace_root=ruled_root)[1].close(),
        lambda: create_session_sandbox(workspace_root=ruled_root, snapshot_id=snapshot)[1].close(),
        lambda: get_session_sandbox("of-this-name", workspace_root=ruled_root).close(),
        lambda: import_session(archive, ruled_root),
        lambda: fork_session(one, ruled_root, snapshot_id=snapshot),
    ]
    rule(f'sessions = 1\nworkspace_root = "{ruled_root}"')
    for way in ways:
        with pytest.raises(NotAllowed, match="allows at most 1 "):
            way()
    assert [p.name for p in ruled_root.iterdir() if p.name[0] != "."] == [one]
    get_session_sandbox(one, workspace_root=ruled_root).close()
    monkeypatch.setattr(administrator, "rules", Rules)
    for way in ways:
        way()


@pytest.mark.parametrize("ruled", [True, False])
def test_many_at_once(rule: Rule, ruled_root: Path, ruled: bool) -> None:
    if ruled:
        rule(f'sessions = 3\nworkspace_root = "{ruled_root}"')
    from wasm_kernel.sessions.catalog import create_session_folder
    from wasm_kernel.sessions.log import SandboxLogger

    begin = threading.Barrier(12)

    def make() -> None:
        begin.wait()
        try:
            create_session_folder(ruled_root, SandboxLogger(level="error"))[2].release()
        except NotAllowed:
            pass

    threads = [threading.Thread(target=make) for _ in range(12)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len([p for p in ruled_root.iterdir() if p.name[0] != "."]) == (3 if ruled else 12)


# ---- snapshots


def test_space_of_snapshots(fresh: Environment, start: Start, ruled_root: Path) -> None:
    most = 16 * MiB
    fresh.rule(f'snapshot_bytes = {most}\nworkspace_root = "{ruled_root}"')
    fresh.configure("c.WasmKernel.checkpoint_bytes = 1 << 40")
    ruled, free = start(), start(**WITHOUT_RULES)
    for n in range(8):
        for kernel in (ruled, free):
            kernel.ok("import os; x = os.urandom(3 << 20)")
            kernel.ok(f"%session snapshot s{n}") if kernel is free else kernel.run(f"%session snapshot s{n}")
        assert snapshot_store(ruled_root).stored_bytes() <= most
    said = ruled.run("%session snapshot more").said
    assert "allows 16.0 MB of snapshots" in said
    assert "%prune" in said
    assert snapshot_store(free.root).stored_bytes() > most
    assert {s.label for s in list_snapshots(ruled_root) if s.label} >= {"s0"}, "what a person took is not thrown away"


def test_number_of_snapshots(fresh: Environment, start: Start, ruled_root: Path) -> None:
    fresh.rule(f'snapshots = 6\nworkspace_root = "{ruled_root}"')
    ruled, free = start(), start(**WITHOUT_RULES)
    for n in range(12):
        for kernel in (ruled, free):
            kernel.ok(f"n = {n}")
            kernel.ok("%session snapshots")  # waits until they are written
        assert len(list_snapshots(ruled_root)) <= 6
    assert len(list_snapshots(free.root)) > 6
    assert ruled.ok("%session undo").ok, "the newest are there: the oldest went"
    assert ruled.run("n").result == "10"


def test_snapshots_of_the_library(rule: Rule, ruled_root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    one = make_session(ruled_root, files={"a": "x"})
    rule(f'snapshots = 2\nworkspace_root = "{ruled_root}"')
    for _ in range(2):
        create_snapshot(one, ruled_root)
    with pytest.raises(NotAllowed, match="2 snapshots"):
        create_snapshot(one, ruled_root)
    monkeypatch.setattr(administrator, "rules", Rules)
    create_snapshot(one, ruled_root)


# ---- the library


def test_a_policy_of_a_program(fresh: Environment, tmp_path: Path) -> None:
    fresh.rule('memory = "1G"\ntimeout = "5s"')
    program = f"""
from wasm_kernel import *
policy = ExecutionPolicy(memory_bytes=3 << 30)
for make in (create_sandbox, lambda **kw: create_session_sandbox(workspace_root={str(tmp_path)!r}, policy=kw["policy"])[1]):
    try:
        print("refused" if make(policy=policy, workspace={str(tmp_path / "w")!r}) is None else "made")
    except ValueError as e:
        print("refused", e)
with create_sandbox(workspace={str(tmp_path / "w")!r}) as sandbox:
    print(sandbox.policy.memory_bytes >> 20, sandbox.policy.timeout_seconds)
"""
    done = fresh.run(program)
    assert done.stdout.count("refused memory is 3.0 GB; the administrator allows 1.0 GB at most") == 2, done
    assert str(fresh.file) in done.stdout
    assert done.stdout.endswith("1024 5.0\n")
    assert fresh.run(program, **WITHOUT_RULES).stdout == "made\nmade\n2048 None\n"


def test_a_program_on_the_command_line(fresh: Environment) -> None:
    fresh.rule('memory = "1G"\ntimeout = "1s"')
    command = "import sys; from wasm_kernel.apps.cli import main; sys.exit(main(['run', '-c', {!r}, *{!r}]))"
    asked = command.format("1", ["--memory", "3G"])
    done = fresh.run(asked)
    assert done.returncode == 2
    assert "memory is '3G'; the administrator allows 1.0 GB at most" in " ".join(done.stderr.split())
    unasked = command.format("import time; time.sleep(1.6)", [])
    assert "TimeoutError" in fresh.run(unasked).stderr
    for attempt in (asked, unasked):
        assert fresh.run(attempt, **WITHOUT_RULES).returncode == 0


@pytest.mark.metered
def test_fuel(rule: Rule, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rule("fuel = 1_000_000_000")
    work = "for i in range(10**7): pass"
    with pytest.raises(ConfigurationError, match="fuel is .*allows 1,000,000,000"):
        create_sandbox(policy=ExecutionPolicy(fuel_budget=10**12), workspace=tmp_path / "a")
    with create_sandbox(workspace=tmp_path / "a") as sandbox:
        assert sandbox.execute(work).outcome.kind is OutcomeKind.FUEL_LIMIT
    monkeypatch.setattr(administrator, "rules", Rules)
    with create_sandbox(workspace=tmp_path / "a") as sandbox:
        assert sandbox.execute(work).success


def test_a_policy_changed_later(rule: Rule, tmp_path: Path) -> None:
    rule('memory = "1G"')
    session_id, sandbox = create_session_sandbox(workspace_root=tmp_path / "sessions")
    try:
        assert sandbox.policy.memory_bytes == 1 << 30
        again = get_session_sandbox(
            session_id, workspace_root=tmp_path / "sessions", policy=ExecutionPolicy(memory_bytes=1 << 30)
        )
        again.close()
        with pytest.raises(ConfigurationError, match="allows 1.0 GB"):
            sandbox._live.change_policy(ExecutionPolicy(memory_bytes=3 << 30))  # type: ignore[attr-defined]
    finally:
        sandbox.close()


def test_an_archive_larger_than_a_session_may_be(rule: Rule, ruled_root: Path) -> None:
    one = make_session(ruled_root, files={"a": "x" * 100_000, "b": "y"})
    archive = export_session(one, ruled_root.parent / "one.zip", ruled_root)
    for line in ('disk = "50k"', "files = 1"):
        rule(line)
        with pytest.raises(ConfigurationError):
            import_session(archive, ruled_root)
    rule("")
    import_session(archive, ruled_root)


def test_packages_of_the_library(rule: Rule, ruled_root: Path) -> None:
    one = make_session(ruled_root)
    file = rule("pip = false")
    with pytest.raises(NotAllowed, match=str(file)):
        install_packages(one, ["numpy"], ruled_root)
    rule("pip = true")
    install_packages(one, ["numpy"], ruled_root)


# ---- the image


def test_another_image_than_the_pinned_one(rule: Rule, monkeypatch: pytest.MonkeyPatch) -> None:
    file = rule('image = "0123456789abcdef"')
    for use in (image.load, Builder):
        with pytest.raises(NotAllowed) as caught:
            use()
        assert f"{file} allows only 0123456789abcdef" in str(caught.value)
        assert f"image = '{image.parts().base.key}'" in str(caught.value)
    rule(f'image = "{image.parts().base.key}"')
    image.load()
    rule('image = "0123456789abcdef"')
    monkeypatch.setattr(administrator, "rules", Rules)
    image.load()


def test_a_kernel_says_what_the_administrator_has_to_do(fresh: Environment, start: Start) -> None:
    fresh.rule('image = "0123456789abcdef"')
    said = start().run("1").said
    assert "The administrator has to install the version that was pinned, or write" in said
    assert start(**WITHOUT_RULES).run("1").ok


def test_a_cache_of_the_users_own(rule: Rule, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from wasm_kernel.host.image.cache import cache_root

    rule(f'image_cache = "{tmp_path}/theirs"')
    monkeypatch.setenv("WASM_KERNEL_CACHE", str(tmp_path / "mine"))
    assert cache_root() == tmp_path / "theirs"
    monkeypatch.setattr(administrator, "rules", Rules)
    assert cache_root() == tmp_path / "mine"


# ---- over HTTP


@contextmanager
def _server(environment: Environment, home: Path, monkeypatch: pytest.MonkeyPatch, **env: str) -> Iterator[Server]:
    monkeypatch.setattr(sys, "executable", str(environment.python))
    for name, value in env.items():
        monkeypatch.setenv(name, value)
    greedy = "c.WasmKernel.maxima = c.WasmKernel.limits = {'disk': '1T', 'memory': '4G'}\n"
    with running(home, greedy) as server:
        yield server


@pytest.mark.parametrize("ruled", [True, False])
def test_a_server(fresh: Environment, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ruled: bool) -> None:
    root = tmp_path / "workspace"
    fresh.rule(f'disk = "1M"\nmemory = "1G"\nsessions = 1\nworkspace_root = "{root}"')
    with _server(fresh, tmp_path, monkeypatch, **({} if ruled else WITHOUT_RULES)) as server:
        api = "wasm-kernel/api/v0/sandboxes"
        json = {"Content-Type": "application/json"}
        high = server.request("POST", api, body='{"limits": {"memory": 2147483648}}', headers=json)
        one = make_session(root)
        put = Session(server, one).put("a", bytes(2 * MiB))
        more = server.request("POST", api, body="{}", headers=json)
        statuses = (high.status, put.status, more.status)
        assert statuses == ((400, 413, 403) if ruled else (201, 201, 201)), (high, put, more)


def test_a_server_with_a_damaged_file_serves_no_sessions(
    fresh: Environment, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fresh.rule("memory = ")
    with _server(fresh, tmp_path, monkeypatch) as server:
        one = make_session(tmp_path / "workspace")
        assert Session(server, one).put("a", b"x").status == 404
        assert "administrator.toml" in server.log.read_text()
