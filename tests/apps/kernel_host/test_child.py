"""A kernel from the host is what its requester would have started: nothing of the host's is seen in it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.administrator.environment import Environment
from tests.apps.kernel_host.conftest import HostKernel, Place
from tests.conformance.client import eventually
from wasm_kernel.apps.kernel_host import address, protocol, starting

pytestmark = pytest.mark.filterwarnings("ignore")
# Runs in the kernel's process, early: whatever it finds out is written beside the settings.
_SETTINGS = """
import json, locale, os, random, resource, signal, sys, tempfile, time, uuid
from pathlib import Path

def status(*names):
    lines = dict(line.partition(":\\t")[::2] for line in Path("/proc/self/status").read_text().splitlines())
    lines["SigIgn"] = f"{int(lines['SigIgn'], 16) & ~(0b11 << 31):x}"  # 32 and 33 are the C library's own
    return {name: lines.get(name) for name in names}

def name(descriptor):
    try:
        return os.readlink(f"/proc/self/fd/{descriptor}").split(":[")[0]
    except OSError:
        return ""

def streams():
    return [[s.encoding, s.errors, s.line_buffering, s.write_through, s.fileno(), s.isatty()] for s in (sys.stdin, sys.stdout, sys.stderr)]

_LATER = ("socket", "/proc/", "anon_inode", "base.mem", ".cwasm")  # what every kernel has, sooner or later
stat = Path("/proc/self/stat").read_text().rpartition(")")[2].split()
found = {
    "environ": {k: v for k, v in os.environ.items() if k not in ("FACTS", "WASM_KERNEL_HOST")},
    "environ of C": {k: v for k, v in ((n, os.getenv(n)) for n in os.environ) if k not in ("FACTS", "WASM_KERNEL_HOST")},
    "cwd": os.getcwd(),
    "umask": oct((lambda m: (os.umask(m), m)[1])(os.umask(0))),
    "limits": {n: resource.getrlimit(getattr(resource, n)) for n in dir(resource) if n.startswith("RLIMIT_")},
    "descriptors": sorted(f"{name(d)}" for d in os.listdir("/proc/self/fd") if name(d) and not any(word in name(d) for word in _LATER)),
    "streams": streams(),
    "standard descriptors": [name(d) for d in (0, 1, 2)],
    "status": status("SigBlk", "SigIgn", "Uid", "Gid", "Groups", "CapEff", "NoNewPrivs", "Seccomp", "Umask", "Cpus_allowed"),
    "caught": [int(s) for s in signal.valid_signals() if s not in (4, 7, 8, 11) and callable(signal.getsignal(s))],
    "leads its session and group": [os.getsid(0) == os.getpid(), os.getpgid(0) == os.getpid()],
    "nice": stat[16],
    "terminal": stat[4],
    "oom_score_adj": Path("/proc/self/oom_score_adj").read_text(),
    "cgroup": Path("/proc/self/cgroup").read_text(),
    "argv": sys.argv[1:3:2],
    "flags": str(sys.flags),
    "path": sys.path,
    "encoding": [locale.getpreferredencoding(), sys.getfilesystemencoding()],
    "time zone": time.tzname,
    "temporary": tempfile.gettempdir(),
    "prefix": [sys.prefix, sys.executable],
    "own": [random.random(), str(uuid.uuid4()), next(tempfile._get_candidate_names()), os.urandom(8).hex(), os.getpid()],
}
Path(os.environ["FACTS"]).write_text(json.dumps(found))
"""
# Starts kernels with the provisioner of the kernelspec, or as other clients do; the process has what the shell gave it.
_REQUESTER = """
import json, os, sys
from jupyter_client.manager import KernelManager

def life(facts, by_provisioner, **more):
    manager = KernelManager(kernel_name="wasm")
    if not by_provisioner:
        manager.kernel_spec.metadata.pop("kernel_provisioner")
    manager.start_kernel(env={**os.environ, "FACTS": facts, **more}, stderr=open("log", "w"))
    client = manager.blocking_client()
    client.start_channels()
    client.wait_for_ready(timeout=60)
    kind = type(manager.provisioner.process).__name__
    client.stop_channels()
    manager.shutdown_kernel(now=True)
    return kind

print(json.dumps([
    life("usual", True, WASM_KERNEL_HOST="0"), life("provisioner", True, WASM_KERNEL_HOST=""),
    life("again", True, WASM_KERNEL_HOST=""), life("launcher", False, WASM_KERNEL_HOST=""),
]))
"""
_SHELL = """
ulimit -S -n 300; ulimit -c 0; ulimit -v unlimited
umask 027
echo 321 > /proc/self/oom_score_adj
trap '' USR2
exec taskset 1 nice -n 3 ionice -c 2 -n 6 "$@"
"""


@pytest.fixture
def facts(host: Place, tmp_path: Path) -> dict[str, Any]:
    """What kernels find that one requester, whose standing is unusual, started in several ways."""
    settings, folder = tmp_path / "settings", tmp_path / "folder"
    settings.mkdir()
    folder.mkdir()
    (settings / "jupyter_wasm_kernel_config.py").write_text(_SETTINGS)
    environ = {
        **host.environ, "JUPYTER_CONFIG_DIR": str(settings), "TMPDIR": str(folder), "TZ": "Asia/Tokyo", "SECRET": "of a notebook",
        "BYTES": "\udcff",
    }  # fmt: skip
    done = subprocess.run(
        ["bash", "-c", _SHELL, "sh", sys.executable, "-c", _REQUESTER],
        env=environ,
        cwd=folder,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == ["Popen", "HostedProcess", "HostedProcess", "Popen"]
    return {name: json.loads((folder / name).read_text()) for name in ("usual", "provisioner", "again", "launcher")}


def test_a_kernel_is_what_its_requester_would_have_started(facts: dict[str, Any]) -> None:
    usual = facts["usual"]
    assert usual["limits"]["RLIMIT_NOFILE"][0] == 300  # what the shell said holds
    assert (usual["umask"], usual["nice"], usual["oom_score_adj"]) == ("0o27", str(os.nice(0) + 3), "321\n")
    assert usual["time zone"] == ["JST", "JST"]
    for way in ("provisioner", "launcher"):
        for what, value in usual.items():
            if what != "own":
                assert facts[way][what] == value, (way, what)


def test_each_kernel_has_random_numbers_of_its_own(facts: dict[str, Any]) -> None:
    for numbers in zip(*(kernel["own"] for kernel in facts.values()), strict=True):
        assert len(set(numbers)) == len(numbers)


def test_guests_have_random_numbers_of_their_own(host: Place, start: Callable[..., HostKernel]) -> None:
    code = "import random, numpy, uuid, tempfile; print(random.random(), numpy.random.rand(), uuid.uuid4(), tempfile.mktemp())"
    said = [start().ok(code).stdout.split() for _ in range(2)]
    assert not set(said[0]) & set(said[1])


def test_the_hosts_own_environment_holds_no_more_than_it_needs(place: Place) -> None:
    (place.folder / "inherited").touch()
    inherited = os.open(place.folder / "inherited", os.O_RDONLY)
    os.set_inheritable(inherited, True)
    pid = place.start(SECRET="of a notebook", JUPYTERHUB_API_TOKEN="secret", LANG="C.UTF-8")
    os.close(inherited)
    assert not any("inherited" in str(link.readlink()) for link in Path(f"/proc/{pid}/fd").iterdir())
    held = Path(f"/proc/{pid}/environ").read_text()
    assert "LANG=C.UTF-8" in held
    assert "secret" not in held.lower()
    assert os.readlink(f"/proc/{pid}/cwd") == "/"


_RECORDER = """
import os
asked = set()
of = type(os.environ)
def __getitem__(self, name, real=of.__getitem__):
    asked.add(name)
    return real(self, name)
of.__getitem__ = __getitem__
of.__contains__ = lambda self, name: (asked.add(name), self.encodekey(name) in self._data)[1]
from wasm_kernel.apps.kernel_host import host_process
from wasm_kernel.apps.kernel_host.preload import preload
preload()
print(*sorted(asked), sep="\\n")
"""


@pytest.mark.parametrize("more", [{}, {"JUPYTER_PLATFORM_DIRS": "1"}], ids=["usual", "platform"])
def test_variables_that_modules_read_when_imported_name_the_host(more: dict[str, str]) -> None:
    done = subprocess.run(
        [sys.executable, "-P", "-c", _RECORDER], env={**os.environ, **more}, capture_output=True, text=True
    )
    asked = done.stdout.split()
    assert "HOME" in asked, done.stderr
    assert address.fixed(dict.fromkeys(asked, "")).keys() == set(asked)


def test_a_requester_that_has_fewer_rights_gets_no_kernel_from_the_host(host: Place, tmp_path: Path) -> None:
    limited = "import ctypes; ctypes.CDLL(None).prctl(38, 1, 0, 0, 0)\n" + _REQUESTER  # no new privileges
    folder = tmp_path / "folder"
    folder.mkdir()
    done = subprocess.run([sys.executable, "-c", limited], env=host.environ, cwd=folder, capture_output=True, text=True)
    assert json.loads(done.stdout) == ["Popen"] * 4, done.stderr


def test_a_kernel_is_in_the_cgroup_of_its_requester(host: Place, tmp_path: Path) -> None:
    group = _cgroup()
    try:
        enter = f"open('{group}/cgroup.procs', 'w').write('0')\n"
        show = _REQUESTER.replace(
            "    client.stop_channels()",
            "    print(open(f'/proc/{manager.provisioner.process.pid}/cgroup').read(), file=sys.stderr)",
        )
        done = subprocess.run(
            [sys.executable, "-c", enter + show], env=host.environ, cwd=tmp_path, capture_output=True, text=True
        )
        assert json.loads(done.stdout) == ["Popen", "HostedProcess", "HostedProcess", "Popen"], done.stderr
        assert done.stderr.count(group.name) >= 4
    finally:
        group.rmdir()


def _cgroup() -> Path:
    for folder in ("/sys/fs/cgroup/unified", "/sys/fs/cgroup/pids", "/sys/fs/cgroup"):
        group = Path(folder, f"wasm-kernel-test-{os.getpid()}")
        try:
            group.mkdir()
            if (group / "cgroup.procs").exists():
                return group
            group.rmdir()
        except OSError:
            continue
    pytest.skip("no cgroup can be made here")


def test_the_administrators_rules_hold(place: Place, tmp_path: Path) -> None:
    environment = Environment(tmp_path / "env")
    place.environ = {**environment.environ(**place.environ), "WASM_KERNEL_HOST": ""}
    code = "import os\nfrom wasm_kernel.apps.kernel_host.starting import start_aside\nstart_aside(os.environ)"
    assert subprocess.run([environment.python, "-P", "-c", code], env=place.environ).returncode == 0
    key = address.key(str(environment.python), place.environ)
    socket = Path(address.socket_path(place.environ, key))
    assert eventually(lambda: protocol.connect(str(socket)) is not None), place.said
    environment.rule('memory = "600M"\n')  # the host runs already
    kernel = environment.kernel(Path(place.environ.pop("WASM_KERNEL_WORKSPACE")), **place.environ)
    try:
        assert type(kernel.manager.provisioner.process).__name__ == "HostedProcess"
        assert kernel.run("b = bytearray(700_000_000)").reply["ename"] == "MemoryError"
    finally:
        kernel.stop()


def test_what_cannot_be_understood_is_the_usual_time() -> None:
    assert starting.idle_seconds({}) == starting.idle_seconds({starting.IDLE: "soon"}) == 1800
    assert starting.idle_seconds({starting.IDLE: "2m"}) == 120
