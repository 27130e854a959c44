"""Fetch wheels in pure Python for the guest with the user's own uv or pip, as they are configured.

The image's packages count as present: for each there is an empty *stub* wheel, and constraints that allow no other
version. Its local label (`+wasi`) makes it win over the real wheel. Requirements, stubs and constraints are passed in
a file, which adds to the user's own settings where an option would replace them.

No code of a package runs here. uv builds nothing when told so; pip does for addresses among a package's
dependencies, whatever it is told, so it runs in a process that cannot start others.

A wheel of 2 MB may unpack to gigabytes, and what its directory says of sizes may be a lie. So what is on the disk is
measured while it is written: downloads, uv's cache and the packages are all in folders of ours, and when they take more
than they may, the installer is killed and they go.
"""

from __future__ import annotations

import configparser
import contextlib
import errno
import importlib.util
import os
import re
import resource
import selectors
import shutil
import signal
import subprocess
import sys
import threading
import time
import zipfile
from collections.abc import Callable, Iterable
from pathlib import Path

from wasm_kernel.errors import PackageError
from wasm_kernel.host.disk import installer_errors
from wasm_kernel.host.disk.packages import installed, measure
from wasm_kernel.model.packages import GUEST_PYTHON, Package, key_of
from wasm_kernel.model.units import format_size

STUB_LABEL = "+wasi"
# Required by the metadata of packages that work without them in the guest, and compiled, or of no use there.
_PHANTOMS = {
    "jedi": "0.20.1",
    "pexpect": "4.9.0",
    "prompt-toolkit": "3.0.53",
    "psutil": "7.2.2",
    "pyzmq": "27.3.0",
    "tornado": "6.6.1",
    "widgetsnbextension": "4.0.16",
}
# Where pip's own code begins a process (for its user agent), it does without.
_PIP_ALONE = """
import runpy, sys
def refuse(event, arguments):
    if event in REFUSED:
        raise PermissionError(1, "no process may be started while packages are installed")
REFUSED = {"subprocess.Popen", "os.system", "os.exec", "os.posix_spawn", "os.spawn", "os.fork", "os.forkpty"}
sys.addaudithook(refuse)
sys.argv[0] = "pip"
runpy.run_module("pip", run_name="__main__", alter_sys=True)
"""
# pip says that there is no network only when it tries again.
_PIP_OPTIONS = [
    "install", "--retries", "1", "--no-input", "--no-color", "--no-compile", "--no-warn-conflicts",
    "--progress-bar", "off", "--only-binary", ":all:", "--platform", "any",
    "--python-version", GUEST_PYTHON, "--implementation", "py", "--abi", "none",
]  # fmt: skip
_UV_OPTIONS = [
    "pip", "install", "--only-binary", ":all:", "--python-version", GUEST_PYTHON,
    # Wheels for no platform, and markers that hold for wasm. The cache goes when the set is made, so links will do.
    "--python-platform", "wasm32-pyodide2024", "--link-mode", "hardlink",
]  # fmt: skip
_MOST_OUTPUT = 1 << 20
_MOST_MEMORY = 4 << 30  # a package's metadata is read into memory, whatever it unpacks to
_MOST_METADATA = 16 << 20  # bytes of a file of it; we read them, too
_LOOK_SECONDS = 0.02  # between looks at what was written
_MEASURE_SECONDS = 1.0
_SHOWN = re.compile(r"\s*(Collecting|Downloading|Resolved|Prepared|Installing collected) ")

OnLine = Callable[[str], None]


def fetch(
    requirements: list[str],
    pins: list[str],
    present: Iterable[Package],
    target: Path,
    work: Path,
    *,
    asked: list[str],
    most_bytes: int,
    on_line: OnLine = lambda line: None,
    cancel: threading.Event | None = None,
) -> None:
    """Install what is required, and what that needs, into an empty folder. `PackageError` says why it cannot be.

    Args:
        requirements: Plain requirements (`model.packages.plain`).
        pins: Requirements that hold for whatever is installed.
        present: What the guest has without it.
        target: The folder for the packages.
        work: An empty folder for files the installer needs; the caller deletes it.
        asked: Names of those that are new: what is wrong is said of these, not of what was installed before.
        most_bytes: What both folders may take while this goes on.
        on_line: Called with lines of the installer's that say how far it is.
        cancel: Ends it when set.
    """
    names = [re.split(r"[\[<>=!~ ]", r, maxsplit=1)[0] for r in requirements]
    file = _request_file(requirements, pins, present, {key_of(name) for name in names}, work)
    failure: PackageError | None = None
    for command in _commands(target, file):
        shutil.rmtree(target, ignore_errors=True)
        target.mkdir()
        bound = _Bound((target, work), most_bytes)
        output, status = _run(command, work, on_line, cancel, bound)
        if status == -signal.SIGXFSZ or (status and os.strerror(errno.EFBIG) in output):  # by `_limit`
            raise bound.excess()
        bound.measure()  # what was written last
        if status == 0:
            _tidy(target, asked)
            return
        said = installer_errors.explain(output, asked)
        # The other one may know of sources that this one does not; what it says is worth less if it just fails, too.
        if failure is None or said.cause not in ("installer", "network"):
            failure = said
        if failure.cause == "unknown" and _exists(failure, command, work, bound):
            failure = installer_errors.compiled(installer_errors.unknown_name(output), asked, output)
        if said.cause not in ("unknown", "network"):
            break
    raise failure or PackageError(
        "installer", "there is neither pip nor uv in this environment; install one of them with `pip install uv`"
    )


def _request_file(
    requirements: list[str], pins: list[str], present: Iterable[Package], asked: set[str], work: Path
) -> Path:
    stubs = work / "stubs"
    stubs.mkdir()
    found = {key_of(p.name): p.version for p in present}
    found = {**{name: version for name, version in _PHANTOMS.items() if name not in asked}, **found}
    for name, version in found.items():
        _write_stub(stubs, name.replace("-", "_"), version + STUB_LABEL)
    constraints = [*(f"{name}=={version}{STUB_LABEL}" for name, version in found.items()), *pins]
    (work / "constraints.txt").write_text("".join(f"{line}\n" for line in constraints))
    file = work / "requirements.txt"
    file.write_text("".join(f"{line}\n" for line in ["--find-links stubs", "-c constraints.txt", *requirements]))
    return file


def _write_stub(folder: Path, name: str, version: str) -> None:
    info = f"{name}-{version}.dist-info"
    with zipfile.ZipFile(folder / f"{name}-{version}-py3-none-any.whl", "w") as wheel:
        wheel.writestr(f"{info}/METADATA", f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")
        wheel.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        wheel.writestr(f"{info}/RECORD", "".join(f"{info}/{file},,\n" for file in ("METADATA", "WHEEL", "RECORD")))


# ---- which installer


def find_uv() -> str | None:
    """uv's program, from its package in this environment or on PATH."""
    with contextlib.suppress(ImportError, OSError):
        return str(importlib.import_module("uv").find_uv_bin())
    return shutil.which("uv")


def _commands(target: Path, file: Path) -> list[list[str]]:
    """What to try: uv resolves faster, and by the guest's markers. It does not know where pip was told to look."""
    commands = []
    uv = find_uv()
    if uv and uv_knows_where():
        commands.append([uv, *_UV_OPTIONS, "--python", sys.executable, "--target", str(target), "-r", file.name])
    if importlib.util.find_spec("pip") is not None:
        commands.append([*_pip(), *_PIP_OPTIONS, "--target", str(target), "-r", file.name])
    return commands


def uv_knows_where() -> bool:
    """Whether uv would ask the registry that the user wants to be asked: some told only pip which one that is."""
    return _uv_has_its_index() or not _pip_has_its_index()


def _pip() -> list[str]:
    return [sys.executable, "-P", "-c", _PIP_ALONE]


def _uv_has_its_index() -> bool:
    named = ("UV_DEFAULT_INDEX", "UV_INDEX", "UV_INDEX_URL", "UV_CONFIG_FILE")
    files = [Path.home() / ".config/uv/uv.toml", Path("/etc/uv/uv.toml")]
    return any(os.environ.get(name) for name in named) or any(file.is_file() for file in files)


def _pip_has_its_index() -> bool:
    """Whether pip is configured to use a registry of its own; then the public one must not be asked instead."""
    if os.environ.get("PIP_INDEX_URL") or os.environ.get("PIP_NO_INDEX"):
        return True
    home = Path.home()
    files: list[str | Path] = [
        "/etc/pip.conf", "/etc/xdg/pip/pip.conf", "/Library/Application Support/pip/pip.conf",
        home / "Library/Application Support/pip/pip.conf", home / ".config/pip/pip.conf", home / ".pip/pip.conf",
        Path(sys.prefix) / "pip.conf", os.environ.get("PIP_CONFIG_FILE", os.devnull),
    ]  # fmt: skip
    found = configparser.RawConfigParser(strict=False)
    with contextlib.suppress(configparser.Error, UnicodeDecodeError):
        found.read(files)
    return any(found.has_option(part, key) for part in ("global", "install") for key in ("index-url", "no-index"))


def _exists(failure: PackageError, command: list[str], work: Path, bound: _Bound) -> bool:
    """Whether a package exists, though not for the guest: pip says the same in both cases."""
    name = installer_errors.unknown_name(failure.details)
    if command[0] != sys.executable or not name:
        return False
    return _run([*_pip(), "index", "versions", "--no-input", name], work, lambda line: None, None, bound)[1] == 0


# ---- running it


class _Bound:
    """What a process may write below some folders. It is told apart from what it writes elsewhere by measuring, which
    takes a while; so that is done only when it may have written too much, and now and then for files without bytes."""

    def __init__(self, folders: tuple[Path, ...], most: int) -> None:
        self._folders, self.most = folders, most
        self._left, self._written, self._due = most, 0, 0.0

    def look(self, process: int) -> None:
        """`PackageError` if there is too much by now."""
        now = time.monotonic()
        written = _written_by(process)
        if now >= self._due or written - self._written > self._left:
            self.measure()
            self._written = written
            self._due = time.monotonic() + max(_MEASURE_SECONDS, 10 * (time.monotonic() - now))

    def measure(self) -> None:
        """Count what is there now; `PackageError` if that is too much."""
        size, _ = measure(*self._folders)
        self._left = self.most - size
        if self._left <= 0:
            raise self.excess()

    def excess(self) -> PackageError:
        """The error that says so, for a person."""
        limit = format_size(self.most)
        return PackageError("disk", f"the session's packages would take more than {limit}; nothing was changed")


def _written_by(process: int) -> int:
    """Bytes that a process has written so far, anywhere; 0 where the system does not say."""
    try:
        found = re.search(rb"^wchar: (\d+)$", Path(f"/proc/{process}/io").read_bytes(), re.MULTILINE)
    except OSError:
        return 0
    return int(found[1]) if found else 0


def _run(
    command: list[str], work: Path, on_line: OnLine, cancel: threading.Event | None, bound: _Bound
) -> tuple[str, int]:
    """Run an installer in a folder of ours, where no file of a guest's can configure it; its output and status."""
    temporary = work / "tmp"
    temporary.mkdir(exist_ok=True)
    settings = {
        "TMPDIR": str(temporary), "NO_COLOR": "1", "UV_NO_PROGRESS": "1", "PIP_DISABLE_PIP_VERSION_CHECK": "1",
        "PIP_USER": "0", "PIP_REQUIRE_VIRTUALENV": "0", "PYTHONDONTWRITEBYTECODE": "1",
        # uv unpacks there; what it left when it was killed would stay in the user's own.
        "UV_CACHE_DIR": str(work / "cache"),
    }  # fmt: skip
    process = subprocess.Popen(
        command,
        cwd=work,
        env={**os.environ, **settings},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        start_new_session=True,
    )
    try:
        assert process.stdout is not None
        _limit(process.pid, bound.most)
        output = _follow(process.stdout.fileno(), on_line, cancel, lambda: bound.look(process.pid))
        return output, process.wait()
    finally:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        if process.stdout:
            process.stdout.close()


def _limit(process: int, most_bytes: int) -> None:
    """Let no file of a process grow beyond a bound, nor its memory, where the system can do that."""
    if sys.platform == "linux":
        for what, most in ((resource.RLIMIT_FSIZE, most_bytes), (resource.RLIMIT_DATA, _MOST_MEMORY)):
            with contextlib.suppress(OSError, ValueError):  # it has ended, or is bounded more strictly already
                resource.prlimit(process, what, (most, most))


def _follow(pipe: int, on_line: OnLine, cancel: threading.Event | None, look: Callable[[], None]) -> str:
    lines: list[str] = []
    kept, rest = 0, b""
    with selectors.DefaultSelector() as selector:
        selector.register(pipe, selectors.EVENT_READ)
        while True:
            if cancel is not None and cancel.is_set():
                raise PackageError("cancelled", "the installation was cancelled; nothing was changed")
            look()
            if not selector.select(_LOOK_SECONDS):
                continue
            data = os.read(pipe, 1 << 16)
            *whole, rest = (rest + data).split(b"\n") if data else (rest, b"")
            for line in (raw.decode("utf-8", "replace").rstrip() for raw in whole):
                lines.append(line)
                kept += len(line)
                if _SHOWN.match(line) and STUB_LABEL not in line:
                    on_line(line.strip())
            while kept > _MOST_OUTPUT and lines:
                kept -= len(lines.pop(0))
            if not data:
                return "\n".join(lines)


def _tidy(target: Path, asked: list[str]) -> None:
    """Leave only what a guest can import; `PackageError` if something compiled came in after all."""
    shutil.rmtree(target / "bin", ignore_errors=True)  # programs, with the host's paths in them
    for file in target.glob("*.dist-info/*"):
        if file.lstat().st_size > _MOST_METADATA:
            size = format_size(file.lstat().st_size)
            raise PackageError("installer", f"a package has {size} of metadata in {file.name}; no real one has so much")
    for distribution in installed(target):
        folder = Path(str(distribution._path))  # type: ignore[attr-defined]
        if distribution.version.endswith(STUB_LABEL):
            shutil.rmtree(folder)
            continue
        tags = re.findall(r"^Tag:\s*(\S+)", distribution.read_text("WHEEL") or "", re.MULTILINE)
        if any(not tag.endswith("-none-any") for tag in tags):
            raise installer_errors.compiled(distribution.metadata["Name"], asked, "")
        for name in ("direct_url.json", "uv_cache.json"):  # where the wheel was on the host
            (folder / name).unlink(missing_ok=True)
