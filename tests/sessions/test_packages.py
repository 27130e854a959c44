"""Packages of a session: installed by the host, seen by the guest, gone with the session."""

from __future__ import annotations

import os
import sys
import threading
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.conformance.client import eventually
from tests.sessions.conftest import Opened
from tests.sessions.helpers import make_session, other_process, set_age
from wasm_kernel import delete_session_workspace, prune_sessions
from wasm_kernel.errors import PackageError
from wasm_kernel.host.disk import installer, installer_errors
from wasm_kernel.host.disk.packages import measure
from wasm_kernel.model.names import STATE_FOLDER
from wasm_kernel.sessions import packages
from wasm_kernel.sessions.packages import install_packages, list_packages, uninstall_packages


@pytest.fixture(scope="module")
def shelf(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of wheels that stands in for a registry where a test needs exactly these."""
    folder = tmp_path_factory.mktemp("shelf")
    for version in ("1.0", "2.0"):
        make_wheel(folder, "wk-apple", version, requires=["wk-core", "numpy>=2"])
    make_wheel(folder, "wk-core", "1.0")
    make_wheel(folder, "wk-pear", "1.0", requires=["wk-core"])
    make_wheel(folder, "wk-old-numpy", "1.0", requires=["numpy<2"])
    here = f"cp{sys.version_info.major}{sys.version_info.minor}"
    make_wheel(folder, "wk-native", "1.0", tag=f"{here}-{here}-manylinux_2_28_x86_64")
    make_wheel(folder, "wk-above-native", "1.0", requires=["wk-native"])
    return folder


def make_wheel(
    folder: Path, name: str, version: str, requires: list[str] | None = None, tag: str = "py3-none-any"
) -> None:
    module = name.replace("-", "_")
    info = f"{module}-{version}.dist-info"
    files = {
        f"{module}/__init__.py": f"version = {version!r}\n",
        f"{module}/late.py": f"version = {version!r}\n",
        f"{info}/METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n"
        + "".join(f"Requires-Dist: {r}\n" for r in requires or []),
        f"{info}/WHEEL": f"Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: {tag}\n",
    }
    with zipfile.ZipFile(folder / f"{module}-{version}-{tag}.whl", "w") as wheel:
        for path, text in files.items():
            wheel.writestr(path, text)
        wheel.writestr(f"{info}/RECORD", "".join(f"{path},,\n" for path in [*files, f"{info}/RECORD"]))


@pytest.fixture(params=["uv", "pip"])
def each_installer(request: pytest.FixtureRequest, shelf: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """uv and pip in turn, both told of the shelf only."""
    use_shelf(shelf, monkeypatch)
    use_only(str(request.param), monkeypatch)
    return str(request.param)


@pytest.fixture
def quick(shelf: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The shelf, with whichever installer is there."""
    use_shelf(shelf, monkeypatch)


def use_only(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """One installer. Otherwise pip would do what uv fails to do, and nobody would notice that uv was never tried."""
    commands = installer._commands

    def only(*args: Any) -> list[list[str]]:
        found = [command for command in commands(*args) if ("uv" in Path(command[0]).name) == (name == "uv")]
        assert found, f"{name} is not here; it is in the development group of pyproject.toml"
        return found

    monkeypatch.setattr(installer, "_commands", only)


def use_shelf(shelf: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("PIP_FIND_LINKS", "UV_FIND_LINKS"):
        monkeypatch.setenv(name, str(shelf))
    for name in ("PIP_NO_INDEX", "UV_NO_INDEX"):
        monkeypatch.setenv(name, "1")
    monkeypatch.setattr(installer, "_uv_has_its_index", lambda: True)


def refusal(action: Callable[[], object]) -> PackageError:
    with pytest.raises(PackageError) as caught:
        action()
    assert "\n" not in str(caught.value)
    return caught.value


def own(root: Path, session_id: str) -> dict[str, str]:
    return {p.name: p.version for p in list_packages(session_id, root) if not p.built_in}


# ---- the real registry


def test_a_package_of_the_registry_reaches_a_running_guest(sessions: Opened) -> None:
    session_id, sandbox = sessions.create()
    assert sandbox.execute("import cowsay").error is not None
    said: list[str] = []
    done = install_packages(session_id, ["cowsay", "seaborn"], sessions.root, on_progress=said.append)
    assert [p.name for p in done.added] == ["cowsay"]  # seaborn, and the numpy it needs, are in the image
    assert [p.name for p in done.present] == ["seaborn"]
    assert said
    result = sandbox.execute(
        "import cowsay; print(cowsay.__file__, cowsay.__spec__.cached, '' in __import__('sys').path)"
    )
    path, cached, own_folder_first = result.stdout.split()
    assert path.startswith("/packages/set-")
    assert own_folder_first == "True"
    assert sandbox.execute(f"print(__import__('os').path.exists({cached!r}))").stdout == "True\n"
    assert sandbox.execute("import sys; sys.path[-1] == '/packages/' + cowsay.__file__.split('/')[2]").success


def test_compiled_packages_are_refused_with_an_alternative(root: Path) -> None:
    session_id = make_session(root)
    error = refusal(lambda: install_packages(session_id, ["psycopg2"], root))
    assert error.cause == "compiled"
    assert "psycopg2" in str(error)
    assert "pg8000" in str(error)
    error = refusal(lambda: install_packages(session_id, ["no-such-package-zzzq"], root))
    assert (error.cause, "no-such-package-zzzq" in str(error)) == ("unknown", True)
    assert own(root, session_id) == {}


def test_what_was_installed_before_is_not_blamed(each_installer: str, root: Path) -> None:
    session_id = make_session(root)
    install_packages(session_id, ["wk-core"], root)
    for wanted in ("wk-native", "wk-above-native", "wk-old-numpy", "wk-nowhere"):
        error = refusal(lambda wanted=wanted: install_packages(session_id, [wanted], root))  # type: ignore[misc]
        assert wanted in str(error)
        assert "wk-core" not in str(error)
    assert own(root, session_id) == {"wk-core": "1.0"}


# ---- both installers, from a shelf


def test_install_list_upgrade_uninstall(each_installer: str, sessions: Opened) -> None:
    session_id, sandbox = sessions.create()
    root = sessions.root
    done = install_packages(session_id, ["wk-apple<2"], root)
    assert {str(p) for p in done.added} == {"wk-apple 1.0", "wk-core 1.0"}
    assert own(root, session_id) == {"wk-apple": "1.0", "wk-core": "1.0"}
    assert [p.name for p in list_packages(session_id, root) if p.requested] == ["wk-apple"]
    assert sandbox.execute("import wk_apple; print(wk_apple.version)").stdout == "1.0\n"

    assert str(install_packages(session_id, ["wk_apple"], root)) == "Already installed: wk-apple 1.0"
    done = install_packages(session_id, ["wk.pear"], root)
    assert [str(p) for p in done.added] == ["wk-pear 1.0"]
    assert own(root, session_id)["wk-apple"] == "1.0"  # what is there keeps its version

    done = install_packages(session_id, ["wk-apple"], root, upgrade=True)
    assert [(str(a), str(b)) for a, b in done.updated] == [("wk-apple 1.0", "wk-apple 2.0")]
    assert done.notes
    # What is imported goes on with the files it began with; what is not comes from the new set.
    assert sandbox.execute("import wk_apple.late; print(wk_apple.late.version)").stdout == "1.0\n"
    sandbox.reset()
    assert sandbox.execute("import wk_apple; print(wk_apple.version)").stdout == "2.0\n"

    done = uninstall_packages(session_id, ["WK-Apple"], root)
    assert [str(p) for p in done.removed] == ["wk-apple 2.0"]
    sandbox.reset()
    assert sandbox.execute("import wk_pear, wk_core").success
    assert sandbox.execute("import wk_apple").error is not None
    sandbox.close()
    with sessions.get(session_id) as again:
        assert again.execute("import wk_pear").success
        sets = os.listdir(root / STATE_FOLDER / "packages" / session_id)
    assert len(sets) == 2  # the set in use and the link: older ones went when it was opened


@pytest.mark.parametrize(
    ("wanted", "cause", "words"),
    [
        ("wk-native", "compiled", ["wk-native"]),
        ("wk-above-native", "compiled", ["wk-above-native", "wk-native"]),
        ("wk-old-numpy", "conflict", ["wk-old-numpy", "numpy 2"]),
        ("wk-pear==7", "unknown", ["wk-pear==7"]),
        ("numpy==1.26", "conflict", ["numpy 2", "part of the sandbox"]),
        ("wk-nowhere", "unknown", ["wk-nowhere"]),
    ],
)
def test_what_cannot_be_installed(each_installer: str, root: Path, wanted: str, cause: str, words: list[str]) -> None:
    session_id = make_session(root)
    error = refusal(lambda: install_packages(session_id, [wanted], root))
    assert error.cause == cause, (str(error), error.details)
    assert all(word in str(error) for word in words), str(error)
    assert own(root, session_id) == {}
    assert not list((root / STATE_FOLDER).glob("installing/*"))


def test_no_code_of_a_package_runs_here(
    root: Path, tmp_path: Path, shelf: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """pip would build what a dependency's address leads to, whatever `--only-binary` says."""
    source = tmp_path / "wk_evil"
    source.mkdir()
    marker = tmp_path / "ran"
    (source / "setup.py").write_text(
        f"open({str(marker)!r}, 'w')\nfrom setuptools import setup\nsetup(name='wk-evil')\n"
    )
    (source / "pyproject.toml").write_text(
        "[build-system]\nrequires = []\nbuild-backend = 'backend'\nbackend-path = ['.']\n"
    )
    (source / "backend.py").write_text(f"open({str(marker)!r}, 'w')\n")
    hostile = tmp_path / "hostile"
    hostile.mkdir()
    make_wheel(hostile, "wk-bait", "1.0", requires=[f"wk-evil @ {source.as_uri()}"])
    use_shelf(hostile, monkeypatch)
    session_id = make_session(root)
    for name in ("uv", "pip"):
        with monkeypatch.context() as patch:
            use_only(name, patch)
            refusal(lambda: install_packages(session_id, ["wk-bait"], root))
        assert not marker.exists()
    # Without the guard it does run: the test would notice.
    use_only("pip", monkeypatch)
    monkeypatch.setattr(installer, "_pip", lambda: [sys.executable, "-P", "-m", "pip"])
    refusal(lambda: install_packages(session_id, ["wk-bait"], root))
    assert marker.exists()


# ---- what a notebook may ask for


@pytest.mark.parametrize(
    "text",
    [
        "--index-url x", "-r file", "-e .", "git+https://example.org/x", "https://example.org/x.whl", "file:///etc/passwd",
        "./folder", "/etc", "~/x", "x.whl", "x @ file:///x", "x@https://e.org/x.whl", "x --hash=sha256:0", "x\n--pre", "",
        "x===${HOME}", "${HOME}", "x #", "x y", "\\\\share\\x", "x" * 400, "-", "x;", "x\x00",
    ],
)  # fmt: skip
def test_anything_but_names_with_versions_is_refused(root: Path, text: str) -> None:
    session_id = make_session(root)
    assert refusal(lambda: install_packages(session_id, [text], root)).cause == "requirement"
    assert refusal(lambda: uninstall_packages(session_id, [text], root)).cause == "requirement"


def test_markers_are_those_of_the_guest(root: Path, quick: None) -> None:
    session_id = make_session(root)
    wanted = ["wk-nowhere; python_version < '3.15'", "wk-core; platform_machine == 'wasm32'"]
    assert [p.name for p in install_packages(session_id, wanted, root).added] == ["wk-core"]


@pytest.mark.parametrize(
    ("output", "cause"),
    [
        ("error: Failed to fetch: `x`\n  cause: error sending request for url\n  cause: dns error", "network"),
        ("WARNING: Retrying ... NewConnectionError('...')\nERROR: No matching distribution found for x", "network"),
        ("error: Failed to install\n  cause: No space left on device (os error 28)", "disk"),
        ("ERROR: Could not install packages due to an OSError: [Errno 28] No space left on device", "disk"),
        ("something else", "installer"),
    ],
)
def test_what_installers_say_becomes_a_sentence(output: str, cause: str) -> None:
    assert installer_errors.explain(output, ["x"]).cause == cause


def test_no_secret_of_the_configuration_is_told() -> None:
    error = installer_errors.explain("error: index https://user:secret@example.org/simple is odd", ["x"])
    assert "secret" not in str(error) + error.details


def test_no_network_is_said(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("HTTPS_PROXY", "HTTP_PROXY", "ALL_PROXY", "https_proxy", "http_proxy", "all_proxy"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    for name, value in {
        "UV_NO_CACHE": "1",
        "UV_HTTP_RETRIES": "0",
        "PIP_RETRIES": "0",
        "PIP_NO_CACHE_DIR": "1",
    }.items():
        monkeypatch.setenv(name, value)
    monkeypatch.delenv("PIP_FIND_LINKS", raising=False)
    monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)
    assert refusal(lambda: install_packages(make_session(root), ["humanize"], root)).cause == "network"


# ---- whole or not at all, one at a time, gone with the session

_INSTALL_AND_STOP = """
import sys, time
from wasm_kernel.host.disk import installer
installer._uv_has_its_index = lambda: True
from wasm_kernel.sessions.packages import install_packages
def said(line):
    if line.startswith("Compiling"):
        print("ready", flush=True)
        time.sleep(60)
install_packages(sys.argv[2], ["wk-apple==2.0"], sys.argv[1], on_progress=said)
"""


def test_a_killed_install_leaves_the_old_set(sessions: Opened, quick: None) -> None:
    session_id, sandbox = sessions.create()
    root = sessions.root
    install_packages(session_id, ["wk-apple==1.0"], root)
    with other_process(_INSTALL_AND_STOP, root, session_id) as process:
        process.kill()
        process.wait()
    assert os.listdir(root / STATE_FOLDER / "installing")
    assert own(root, session_id) == {"wk-apple": "1.0", "wk-core": "1.0"}
    assert sandbox.execute("import wk_apple; print(wk_apple.version)").stdout == "1.0\n"
    install_packages(session_id, ["wk-pear"], root)  # its lock went with it
    prune_sessions(24, root)
    assert not os.listdir(root / STATE_FOLDER / "installing")
    assert set(own(root, session_id)) == {"wk-apple", "wk-core", "wk-pear"}


def test_two_installs_wait_for_each_other_and_one_can_be_cancelled(root: Path, quick: None) -> None:
    session_id = make_session(root)
    with other_process(_INSTALL_AND_STOP, root, session_id) as process:
        said: list[str] = []
        cancel = threading.Event()
        caught: list[PackageError] = []

        def give_up() -> None:
            caught.append(refusal(lambda: install_packages(session_id, ["wk-core"], root, cancel=cancel)))

        def wait() -> None:
            install_packages(session_id, ["wk-pear"], root, on_progress=said.append)

        threads = [threading.Thread(target=work) for work in (give_up, wait)]
        for thread in threads:
            thread.start()
        assert eventually(lambda: said), "the other waits"
        cancel.set()
        threads[0].join(60)
        assert caught[0].cause == "cancelled"
        assert threads[1].is_alive()
        process.kill()
        threads[1].join(60)
    assert said[0].startswith("Waiting")
    assert set(own(root, session_id)) == {"wk-pear", "wk-core"}


def test_cancelling_stops_the_installer(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    session_id = make_session(root)
    monkeypatch.setattr(installer, "_commands", lambda target, file: [["sleep", "1000"]])
    cancel = threading.Event()
    threading.Timer(0.3, cancel.set).start()
    assert refusal(lambda: install_packages(session_id, ["wk-core"], root, cancel=cancel)).cause == "cancelled"


def test_packages_go_with_their_session(root: Path, quick: None) -> None:
    gone, kept, pruned = (make_session(root) for _ in range(3))
    for session_id in (gone, kept, pruned):
        install_packages(session_id, ["wk-core"], root)
    place = root / STATE_FOLDER / "packages"
    (place / "11111111-1111-4111-8111-111111111111" / "set-1").mkdir(parents=True)  # its session went by other means
    delete_session_workspace(gone, root)
    set_age(root, pruned, 1000)
    result = prune_sessions(24, root)
    assert result.deleted_sessions == [pruned]
    assert os.listdir(place) == [kept]
    assert not os.listdir(root / STATE_FOLDER / "trash")
    with pytest.raises(FileNotFoundError):
        install_packages(gone, ["wk-core"], root)
    assert os.listdir(place) == [kept]


def test_packages_do_not_count_as_the_guests_files(sessions: Opened, quick: None, shelf: Path) -> None:
    from wasm_kernel import ExecutionPolicy

    make_wheel(shelf, "wk-big", "1.0")
    with zipfile.ZipFile(shelf / "wk_big-1.0-py3-none-any.whl", "a") as wheel:
        wheel.writestr("wk_big/data.bin", os.urandom(3 << 20))
    session_id, sandbox = sessions.create(policy=ExecutionPolicy(workspace_bytes=2 << 20))
    install_packages(session_id, ["wk-big"], sessions.root)
    result = sandbox.execute("import wk_big; open('x', 'wb').write(b'x' * 1_500_000)")
    assert result.success, result.error
    assert result.files_created == ["x"]
    assert not sandbox.execute("open('y', 'wb').write(b'x' * 1_500_000)").success


def test_the_installer_takes_no_settings_from_where_the_caller_stands(
    root: Path, quick: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The folder may be a guest's: neither its uv.toml nor its modules count."""
    here = tmp_path / "here"
    here.mkdir()
    (here / "uv.toml").write_text("this is no setting")
    (here / "pip.py").write_text("raise SystemExit('mine')")
    (here / "zipfile.py").write_text("raise SystemExit('mine')")
    monkeypatch.chdir(here)
    session_id = make_session(root)
    for name, package in (("uv", "wk-core"), ("pip", "wk-pear")):
        with monkeypatch.context() as patch:
            use_only(name, patch)
            install_packages(session_id, [package], root)


# ---- wheels made to harm

MB = 1 << 20
BOUND = 48 * MB


@pytest.fixture
def bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(packages, "_MOST_BYTES", BOUND)


class Disk:
    """The most that is on the disk below a folder while something goes on."""

    def __init__(self, *folders: Path) -> None:
        self._folders, self.most = folders, 0
        self._end = threading.Event()
        self._watcher = threading.Thread(target=self._watch)

    def _watch(self) -> None:
        while not self._end.wait(0.01):
            self.most = max(self.most, measure(*self._folders)[0])

    def __enter__(self) -> Disk:
        self._watcher.start()
        return self

    def __exit__(self, *exc: object) -> None:
        self._end.set()
        self._watcher.join()


def bomb(shelf: Path, how: str) -> None:
    """A wheel of 2 MB at most that unpacks to far more."""
    make_wheel(shelf, "wk-bomb", "1.0")
    path = shelf / "wk_bomb-1.0-py3-none-any.whl"
    with zipfile.ZipFile(path, "a", zipfile.ZIP_DEFLATED) as wheel:
        if how == "many files":
            for number in range(20_000):
                wheel.writestr(f"wk_bomb/{number}", b"")
        else:
            sizes = [600] if how != "some files" else [20] * 30
            for number, size in enumerate(sizes):
                inside = "wk_bomb-1.0.dist-info/more" if how == "metadata" else f"wk_bomb/{number}.bin"
                with wheel.open(inside, "w", force_zip64=True) as file:
                    for _ in range(size):
                        file.write(bytes(MB))
    if how == "a lie":
        data = bytearray(path.read_bytes())
        entry = data.rindex(b"wk_bomb/0.bin") - 46  # in the directory at the end
        assert data[entry : entry + 4] == b"PK\x01\x02"
        data[entry + 24 : entry + 28] = (5).to_bytes(4, "little")
        path.write_bytes(data)
    assert path.stat().st_size < 3 * MB


@pytest.mark.usefixtures("bounded")
@pytest.mark.parametrize("how", ["one file", "some files", "many files", "a lie", "metadata"])
def test_a_wheel_that_unpacks_to_too_much_is_stopped_at_the_bound(
    each_installer: str, shelf: Path, root: Path, how: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """2 MB once wrote 2.56 GB before anybody looked."""
    for name in ("PIP_CACHE_DIR", "UV_CACHE_DIR"):
        monkeypatch.setenv(name, str(tmp_path / "cache"))
    session_id = make_session(root)
    bomb(shelf, how)
    try:
        with Disk(root, tmp_path / "cache") as disk:
            error = refusal(lambda: install_packages(session_id, ["wk-bomb"], root))
    finally:
        (shelf / "wk_bomb-1.0-py3-none-any.whl").unlink()
    assert disk.most < 3 * BOUND, f"{disk.most:,}"
    if how != "a lie":  # whose installer may notice first
        assert error.cause == "disk"
        assert "48.0 MB" in str(error)
    assert own(root, session_id) == {}
    assert list((root / STATE_FOLDER / "installing").iterdir()) == []
    assert measure(tmp_path / "cache")[0] < MB, "nothing is left of it"
    install_packages(session_id, ["wk-core"], root)
    assert own(root, session_id) == {"wk-core": "1.0"}


def test_metadata_of_any_length_is_not_read(each_installer: str, shelf: Path, root: Path) -> None:
    session_id = make_session(root)
    make_wheel(shelf, "wk-talkative", "1.0", requires=["wk-core\n\n" + "x" * (20 * MB)])
    try:
        error = refusal(lambda: install_packages(session_id, ["wk-talkative"], root))
    finally:
        (shelf / "wk_talkative-1.0-py3-none-any.whl").unlink()
    assert error.cause in ("installer", "conflict"), error
    assert own(root, session_id) == {}
