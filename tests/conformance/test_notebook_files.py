"""Files beside the notebook: copied into its session, shown to it at /data, and named when a cell misses them."""

from __future__ import annotations

import ast
import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.conformance.client import Cell, Kernel
from wasm_kernel import export_session, fork_session, import_session
from wasm_kernel.host.disk.records import read_record
from wasm_kernel.kernel.outputs import PRIVATE

pytestmark = pytest.mark.filterwarnings("ignore")
Start = Callable[..., Kernel]
YES = ("yes",)
LOOK = "import os; print(sorted(os.listdir('/data')))"


@pytest.fixture
def beside(tmp_path: Path) -> Path:
    return make_folder(tmp_path)


def make_folder(tmp_path: Path) -> Path:
    """A notebook's folder."""
    folder = tmp_path / "my project"
    (folder / "data" / ".git").mkdir(parents=True)
    (folder / "cities.csv").write_text("city\nBern\n")
    for name in ("a.csv", "b.csv", "notes.txt", ".hidden", ".git/config"):
        (folder / "data" / name).write_text(name)
    (folder / ".env").write_text("secret")
    (folder / "link.csv").symlink_to("cities.csv")
    (folder / "linked").symlink_to("data")
    (tmp_path / "outside.csv").write_text("secret")
    (folder / "out.csv").symlink_to(tmp_path / "outside.csv")
    return folder


@pytest.fixture
def start(beside: Path, tmp_path: Path) -> Iterator[Start]:
    """Start kernels in the notebook's folder."""
    running: list[Kernel] = []

    def start(**env: str) -> Kernel:
        running.append(Kernel(tmp_path / "sessions", cwd=beside, WASM_KERNEL_SESSION="mine", **env))
        return running[-1]

    yield start
    for kernel in running:
        kernel.stop()


def files_of(kernel: Kernel) -> set[str]:
    """What the session has, as the guest sees it."""
    walk = "import os; print({os.path.relpath(os.path.join(d, n), '/app') for d, _, names in os.walk('/app') for n in names})"
    return set(ast.literal_eval(kernel.ok(walk).stdout.replace("set()", "()")))


def stop(kernel: Kernel) -> None:
    """Close it as a front end does."""
    kernel.client.stop_channels()
    kernel.manager.shutdown_kernel(now=False)


# ---- %session add


def test_files_and_folders_are_copied_to_the_same_paths(start: Start) -> None:
    kernel = start()
    running = kernel.start("%session add cities.csv 'data/*.csv'", allow_stdin=True)
    prompt = kernel.client.get_stdin_msg(timeout=30)["content"]["prompt"]
    assert "wants to copy from" in prompt and "my project into this session" in prompt
    assert all(line in prompt for line in ("cities.csv (10 B)", "data/a.csv (5 B)", "data/b.csv (5 B)"))
    kernel.client.input("yes")
    cell = kernel.finish(running)
    assert "Copied into this session: /app/cities.csv, /app/data/a.csv, /app/data/b.csv (3 files, 20 B)" in cell.said
    assert kernel.ok("import pandas as pd; print(pd.read_csv('cities.csv').city[0])").stdout == "Bern\n"
    assert files_of(kernel) == {"cities.csv", "data/a.csv", "data/b.csv"}
    kernel.ok("%session add data")  # allowed already
    assert files_of(kernel) == {"cities.csv", "data/a.csv", "data/b.csv", "data/notes.txt"}


@pytest.mark.parametrize(
    ("what", "why"),
    [
        ("../outside.csv", "must not go up"),
        ("data/../../outside.csv", "must not go up"),
        ("/etc/hostname", "relative to its folder"),
        (".env", "begin with a dot"),
        ("data/.git/config", "begin with a dot"),
        ("data/.h*", "begin with a dot|nothing beside the notebook matches"),
        ("link.csv", "links are not followed"),
        ("out.csv", "links are not followed"),
        ("linked/a.csv", "no folder, such as a link"),
        ("nothing.csv", "there is no 'nothing.csv' beside the notebook"),
        ("*.parquet", "nothing beside the notebook matches"),
        ("", "give files or folders"),
    ],
)
def test_what_is_not_given_to_sessions(shared: Kernel, what: str, why: str) -> None:
    cell = shared.run(f"%session add {what}")
    assert not cell.ok and any(part in cell.said for part in why.split("|")), cell.said
    assert files_of(shared) == set()


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kernel]:
    """A kernel whose notebook may copy, beside a folder of its own."""
    tmp_path = tmp_path_factory.mktemp("shared")
    kernel = Kernel(tmp_path / "sessions", cwd=make_folder(tmp_path), WASM_KERNEL_GRANTS="add")
    yield kernel
    kernel.stop()


def test_what_does_not_fit_is_refused_before_anything_is_copied_or_asked(start: Start, beside: Path) -> None:
    (beside / "large.bin").write_bytes(b"x" * 3_000_000)
    (beside / "many").mkdir()
    for n in range(30):
        (beside / "many" / str(n)).touch()
    kernel = start()
    kernel.ok("%session limits disk=2M file=1G files=20")
    said = kernel.run("%session add cities.csv large.bin").said
    assert "the files have 2.9 MB, and this session's disk limit leaves" in said and "%session mount" in said
    assert "limits files=" in kernel.run("%session add many").said
    kernel.ok("%session limits disk=1G file=1M")
    assert "'large.bin' has 2.9 MB, and a file of this session may have" in kernel.run("%session add large.bin").said
    assert files_of(kernel) == set()


# ---- FileNotFoundError


def hints(cell: Cell) -> list[str]:
    for shown in cell.of("display_data"):
        assert PRIVATE in shown["metadata"], "a widget that captures outputs must not hand it to the guest"
    return [shown["data"]["text/plain"] for shown in cell.of("display_data")]


@pytest.mark.parametrize(
    ("code", "command"),
    [
        ("open('cities.csv')", "%session add cities.csv"),
        ("import pandas as pd; pd.read_csv('./data/a.csv')", "%session add data/a.csv"),
        ("import numpy as np; np.loadtxt('data/a.csv')", "%session add data/a.csv"),
        ("open('/app/data/my file.txt')", "%session add 'data/my file.txt'"),
        ("import os; os.listdir('data')", "%session add data"),
        ("from pathlib import Path; Path('cities.csv').read_text()", "%session add cities.csv"),
    ],
)
def test_a_file_beside_the_notebook_is_named_with_what_to_type(shared: Kernel, code: str, command: str) -> None:
    (Path(os.readlink(f"/proc/{shared.pid}/cwd")) / "data" / "my file.txt").touch()
    (line,) = hints(shared.run(code))
    assert line.endswith(f"is beside the notebook, but not in its session. To copy it there: {command}"), line


@pytest.mark.parametrize(
    "code",
    [
        "open('nothing.csv')",
        "open('.env')",
        "open('../outside.csv')",
        "open('link.csv')",
        "open('out.csv')",
        "open('linked/a.csv')",
        "open('/etc/hostname')",
        "open('')",
        "raise FileNotFoundError('cities.csv ' * 1000)",
        "raise FileNotFoundError(2, 'No such file or directory', 'cities.csv\\n')",
        "raise OSError('No such file or directory: \\'cities.csv\\'')",
        "try: open('cities.csv')\nexcept OSError: pass",
        "for name in ('cities.csv', 'data'):\n    try: open(name)\n    except OSError as e: get_ipython().showtraceback()",
    ],
)
def test_nothing_is_said_of_other_files_nor_of_more_than_one(shared: Kernel, code: str) -> None:
    assert hints(shared.run(code)) == []


def test_the_guest_does_not_learn_what_is_there(shared: Kernel) -> None:
    """What it can see of its own error, and of the cell before, is the same for a file that is there and one that is not."""
    see = (
        "import sys, gc\nerror = sys.last_value\n"
        "print(error.args, error.__notes__ if hasattr(error, '__notes__') else None, Out, In[-2][:5], len(_oh))"
    )
    seen = []
    for name in ("cities.csv", "absent.csv"):
        shared.run(f"open({name!r})")
        seen.append(shared.ok(see).stdout.replace(name, "NAME"))
    assert seen[0] == seen[1]


# ---- %session mount


def test_the_notebooks_folder_is_shown_read_only_and_stays(start: Start, beside: Path) -> None:
    kernel = start()
    kernel.ok("x = 1")
    running = kernel.start("%session mount", allow_stdin=True)
    prompt = kernel.client.get_stdin_msg(timeout=30)["content"]["prompt"]
    assert f"wants to read everything in {beside}, at /data" in prompt
    kernel.client.input("yes")
    assert "is at /data now, read-only" in kernel.finish(running).said.replace("`", "")
    assert kernel.ok(LOOK).stdout == "['cities.csv', 'data', 'link.csv', 'linked', 'out.csv']\n"
    assert kernel.ok("import pandas as pd; print(pd.read_csv('/data/cities.csv').city[0], x)").stdout == "Bern 1\n"
    assert not kernel.run("open('/data/new', 'w')").ok and not (beside / "new").exists()
    assert f"{beside}, read-only" in kernel.ok("%session").said
    kernel.ok("%session undo")
    assert "cities.csv" in kernel.ok(LOOK).stdout, "undo does not touch it"
    stop(kernel)
    kernel = start()
    assert "cities.csv" in kernel.ok(f"{LOOK}; print(x)").stdout, "it stays with the session"
    kernel.ok("%session mount data")
    assert kernel.ok(LOOK).stdout == "['a.csv', 'b.csv', 'notes.txt']\n"
    assert "no longer at /data" in kernel.ok("%session mount --off").said.replace("`", "")
    assert kernel.ok(LOOK).stdout == "[]\n"
    stop(kernel)
    assert start().ok(LOOK).stdout == "[]\n"


def test_it_ends_when_the_permission_is_taken_back(start: Start) -> None:
    kernel = start()
    kernel.ok("%session mount", answers=YES)
    kernel.ok("%session revoke mount")
    assert kernel.ok(LOOK).stdout == "[]\n"
    assert not kernel.run("%session mount", answers=("no",)).ok


def test_copies_of_the_session_begin_without_it(start: Start, tmp_path: Path) -> None:
    kernel = start()
    kernel.ok("%session mount", answers=YES)
    kernel.ok("x = 1")
    kernel.ok("%session snapshot here")
    kernel.ok("%session new")
    assert kernel.ok(LOOK).stdout == "[]\n"
    kernel.ok("%session attach mine", answers=YES)
    assert kernel.ok(LOOK).stdout == "[]\n", "it was given to another notebook"
    kernel.ok("%session mount", answers=YES)
    stop(kernel)
    root = tmp_path / "sessions"
    assert read_record(root / "mine").extra["data_folder"]
    export_session("mine", tmp_path / "export.zip", root)
    copies = [import_session(tmp_path / "export.zip", root), fork_session("mine", workspace_root=root)]
    for copy in copies:
        session_id = copy if isinstance(copy, str) else copy.session_id
        assert not read_record(root / session_id).extra.get("data_folder")


@pytest.mark.parametrize("what", ["/etc", "..", "../..", "data/../..", "linked/../.."])
def test_no_other_folder_is_shown(shared: Kernel, what: str) -> None:
    cell = shared.run(f"%session mount {what}", answers=YES)
    assert not cell.ok and "neither the notebook's folder" in cell.said, cell.said
    assert shared.ok(LOOK).stdout == "[]\n"


def test_hidden_folders_and_the_sessions_own_are_not_shown(start: Start, beside: Path, tmp_path: Path) -> None:
    kernel = start()
    assert not kernel.run("%session mount data/.git", answers=YES).ok
    assert not kernel.run("%session mount cities.csv", answers=YES).ok
    assert not kernel.run("%session mount nothing", answers=YES).ok
    stop(kernel)
    inside = Kernel(beside / "sessions", cwd=beside)
    try:
        assert "your sessions" in inside.run("%session mount", answers=YES).said
        assert inside.ok(LOOK).stdout == "[]\n"
        inside.ok("%session mount data", answers=YES)
    finally:
        inside.stop()
