"""Files below a folder that somebody else changes meanwhile: what is refused, what is followed, what is never touched."""

from __future__ import annotations

import contextlib
import os
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.sessions.helpers import deepen, run_python, tree
from wasm_kernel.errors import PathRefused
from wasm_kernel.host.files.folder import BLOCK, Folder, blocks_of, components
from wasm_kernel.host.files.new_file import TEMPORARY
from wasm_kernel.host.files.workspace_survey import survey

MiB = 1 << 20


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """A folder with a few files; beside it is another one, which must not be touched."""
    place = tmp_path / "place"
    (place / "d" / "e").mkdir(parents=True)
    (place / "f.txt").write_bytes(b"top")
    (place / "d" / "g.txt").write_bytes(b"in d")
    (place / "d" / "e" / "h.txt").write_bytes(b"in e")
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "secret").write_bytes(b"secret")
    return place


def read(place: Path, path: str) -> bytes:
    with Folder(place) as folder, folder.open(path) as file:
        return file.read()


def write(place: Path, path: str, data: bytes = b"new", *, overwrite: bool = True) -> int:
    with Folder(place) as folder:
        return folder.write(path, blocks_of(data), overwrite=overwrite)


def remove(place: Path, path: str, *, recursive: bool = True) -> None:
    with Folder(place) as folder:
        folder.remove(path, recursive=recursive)


def names(place: Path, *, recursive: bool = True) -> list[str]:
    with Folder(place) as folder:
        return [item.path for item in folder.items(recursive=recursive)]


# ---- paths

BAD_PATHS = [
    "",
    ".",
    "./",
    "/",
    "..",
    "../outside/secret",
    "d/../../outside/secret",
    "d/..",
    "./../place/f.txt",
    "/etc/passwd",
    "//etc/passwd",
    "f.txt\0",
    "d\0/g.txt",
    "d\\g.txt",
    "..\\outside",
    "C:\\f.txt",
    ".metadata.json",
    "./.metadata.json",
    "d/.metadata.json",
    ".metadata.json/x",
    ".METADATA.json",
    ".metadata.json.123456",
    ".metadata.j\u017fon",
    ".METADATA.J\u017fON/x",
    ".meta\u200bdata.json",
    ".metadata\uff0ejson",
    ".m\u00e9tadata.json",
    "\ufeff.metadata.json",
    ".wasm-kernel",
    "d/.WASM-\u212aernel/locks",
    ".wa\u017fm-kernel",
    f"{TEMPORARY}00",
    "a" * 4097,
    "a/" * 2049,
    "é" * 2049,
]


@pytest.mark.parametrize("path", BAD_PATHS, ids=lambda p: repr(p[:24]))
@pytest.mark.parametrize("act", [read, write, remove])
def test_a_path_that_could_leave_is_refused(place: Path, act: Callable[[Path, str], object], path: str) -> None:
    (place / ".metadata.json").write_bytes(b"{}")
    before = tree(place.parent)
    with pytest.raises(PathRefused, match="path") as caught:
        act(place, path)
    assert isinstance(caught.value, ValueError)
    assert len(str(caught.value)) < 9000
    assert tree(place.parent) == before


def test_what_is_the_hosts_is_not_listed_however_it_is_spelt(place: Path) -> None:
    before = names(place), survey(place)
    for folder in (place, place / "d"):
        for name in (
            ".metadata.j\u017fon",
            ".Metadata.json.x",
            ".meta\u200bdata.json",
            "x\\.metadata.json",
            ".wasm-kernel",
        ):
            (folder / name).write_bytes(b"hidden")
        (folder / ".WASM-\u212aERNEL").mkdir()
        (folder / ".WASM-\u212aERNEL" / "f").write_bytes(b"hidden")
    assert (names(place), survey(place)) == before


def test_an_absolute_path_into_the_folder_is_refused_too(place: Path) -> None:
    for act in (read, write, remove):
        with pytest.raises(PathRefused):
            act(place, str(place / "f.txt"))
    with pytest.raises(PathRefused), Folder(place) as folder:
        folder.open(b"f.txt")  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("path", "parts"),
    [
        ("a", ["a"]),
        ("a/b", ["a", "b"]),
        ("./a//b/", ["a", "b"]),
        ("...", ["..."]),
        ("..a/b..", ["..a", "b.."]),
        (".hidden", [".hidden"]),
        (".metadata", [".metadata"]),
        ("metadata.json", ["metadata.json"]),
        ("~", ["~"]),
        ("a b\n", ["a b\n"]),
        ("\udcff", ["\udcff"]),
        (Path("a/b"), ["a", "b"]),
    ],
)
def test_what_is_a_path(path: str, parts: list[str]) -> None:
    assert components(path) == parts


def test_unusual_names_work(place: Path) -> None:
    for name in ("a b", "ü\u0301🙂", "-rf", "~", "*", "new\nline", "\udcff", "a" * 255, "..."):
        assert write(place, name, name.encode("utf-8", "surrogateescape")) > 0
        assert read(place, name) == name.encode("utf-8", "surrogateescape")
        assert name in names(place)
        remove(place, name)
        assert name not in names(place)
    with pytest.raises(OSError, match="too long"):
        write(place, "a" * 256)


def test_a_folder_must_be_one(place: Path, tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(place)
    for bad in (tmp_path / "link", place / "f.txt", tmp_path / "missing"):
        with pytest.raises(OSError):
            Folder(bad)


# ---- links


def test_links_that_stay_below_are_followed(place: Path) -> None:
    (place / "to_file").symlink_to("d/g.txt")
    (place / "to_folder").symlink_to("d")
    (place / "d" / "near").symlink_to("e/h.txt")
    (place / "chain").symlink_to("to_folder")
    (place / "here").symlink_to(".")
    assert read(place, "to_file") == b"in d"
    assert read(place, "to_folder/g.txt") == b"in d"
    assert read(place, "chain/e/h.txt") == b"in e"
    assert read(place, "chain/near") == b"in e"
    assert read(place, "here/here/f.txt") == b"top"
    write(place, "chain/written.txt", b"through links")
    assert (place / "d" / "written.txt").read_bytes() == b"through links"
    remove(place, "chain/written.txt")
    assert not (place / "d" / "written.txt").exists()


@pytest.mark.parametrize(
    "target",
    ["{outside}", "../outside", "d/../../outside", "/", "..", "d/..", ".metadata.json", "d\\..", "/proc/self/root"],
)
def test_links_that_may_leave_are_refused(place: Path, tmp_path: Path, target: str) -> None:
    (place / ".metadata.json").write_bytes(b"{}")
    outside = tmp_path / "outside"
    os.symlink(target.format(outside=outside), place / "out")
    os.symlink(target.format(outside=outside) + "/secret", place / "out_file")
    before = tree(outside)
    for act in (read, write, remove):
        with pytest.raises(PathRefused, match="link"):
            act(place, "out/secret")
    for act in (read, write):
        with pytest.raises(PathRefused):
            act(place, "out_file")
    assert [n for n in names(place) if n.startswith("out")] == ["out", "out_file"], "listed, not followed"
    assert tree(outside) == before
    remove(place, "out")  # the link, not what it points to
    remove(place, "out_file")
    assert tree(outside) == before
    assert not os.path.lexists(place / "out")


def test_links_in_circles_are_refused(place: Path) -> None:
    (place / "a").symlink_to("b")
    (place / "b").symlink_to("a")
    (place / "self").symlink_to("self/x")
    for path in ("a", "a/x", "self", "self/y"):
        with pytest.raises(PathRefused):
            read(place, path)
    assert names(place).count("a") == 1


def test_a_link_is_not_written_through_or_replaced(place: Path) -> None:
    (place / "link").symlink_to("f.txt")
    (place / "dangling").symlink_to("nothing")
    for name in ("link", "dangling"):
        with pytest.raises(PathRefused, match="link"):
            write(place, name)
    assert (place / "f.txt").read_bytes() == b"top"
    assert not (place / "nothing").exists()
    with pytest.raises(FileNotFoundError):
        read(place, "dangling")


# ---- what is not a file


def test_devices_pipes_and_sockets_are_refused_at_once(place: Path) -> None:
    os.mkfifo(place / "fifo")
    with socket.socket(socket.AF_UNIX) as sock, contextlib.chdir(place):
        sock.bind("socket")
    special = ["fifo", "socket"]
    if os.geteuid() == 0:
        with contextlib.suppress(OSError):  # not in every container
            os.mknod(place / "zero", 0o600 | 0o020000, os.makedev(1, 5))
            special.append("zero")
    started = time.monotonic()
    for name in special:
        with pytest.raises((PathRefused, OSError)):
            read(place, name)
        with pytest.raises(PathRefused):
            write(place, name)
    assert time.monotonic() - started < 30, "a FIFO held us up"
    with Folder(place) as folder:
        kinds = {item.path: item.kind for item in folder.items()}
    assert {kinds[name] for name in special} == {"other"}
    for name in special:
        remove(place, name)
        assert not (place / name).exists()


def test_a_folder_is_not_a_file_nor_a_file_a_folder(place: Path) -> None:
    with pytest.raises(PathRefused, match="folder"):
        read(place, "d")
    with pytest.raises(PathRefused, match="folder"):
        write(place, "d")
    for act in (read, write, remove):
        with pytest.raises(NotADirectoryError):
            act(place, "f.txt/x")
    with pytest.raises(FileNotFoundError):
        read(place, "missing")
    with pytest.raises(FileNotFoundError):
        remove(place, "missing/x")


# ---- listing


def test_listing(place: Path) -> None:
    (place / ".metadata.json").write_bytes(b"{}")
    (place / "d" / f"{TEMPORARY}00").write_bytes(b"half")
    (place / "link").symlink_to("../outside")
    assert names(place) == ["d", "d/e", "d/e/h.txt", "d/g.txt", "f.txt", "link"]
    assert names(place, recursive=False) == ["d", "f.txt", "link"]
    os.utime(place / "f.txt", ns=(5, 1_700_000_000_123_456_789))
    with Folder(place) as folder:
        found = {item.path: item for item in folder.items()}
    assert (found["f.txt"].kind, found["f.txt"].size) == ("file", 3)
    assert found["f.txt"].modified_ns == 1_700_000_000_123_456_789
    assert (found["d"].kind, found["d"].size) == ("folder", 0)
    assert found["link"].kind == "link"


def test_a_tree_deeper_than_the_stack_is_deleted(place: Path) -> None:
    (place / "deep").mkdir()
    try:
        deepen(place / "deep", 3000)
        assert len(names(place)) > 100
        remove(place, "deep")
        assert not (place / "deep").exists()
    finally:  # pytest could not
        subprocess.run(["rm", "-rf", place / "deep"], check=True)


# ---- writing


def test_writing_makes_folders_and_replaces_whole_files(place: Path) -> None:
    assert write(place, "x/y/z.txt", b"12345") == 5
    assert (place / "x" / "y" / "z.txt").read_bytes() == b"12345"
    assert write(place, "f.txt", b"") == 0
    assert (place / "f.txt").read_bytes() == b""
    with pytest.raises(FileExistsError):
        write(place, "f.txt", b"again", overwrite=False)
    assert (place / "f.txt").read_bytes() == b""


def test_data_comes_as_bytes_text_files_or_blocks(place: Path, tmp_path: Path) -> None:
    (tmp_path / "source").write_bytes(b"from a file")
    with Folder(place) as folder, (tmp_path / "source").open("rb") as source:
        for data, expected in (
            (b"bytes", b"bytes"),
            (bytearray(b"array"), b"array"),
            (memoryview(b"view"), b"view"),
            ("täxt", "täxt".encode()),
            (source, b"from a file"),
            ([b"a", b"", b"b"], b"ab"),
            ((block for block in (b"c", b"d")), b"cd"),
        ):
            assert folder.write("data", blocks_of(data)) == len(expected)
            assert (place / "data").read_bytes() == expected
    assert max(len(block) for block in blocks_of(bytes(5 * MiB))) <= BLOCK


def test_a_failure_in_the_middle_leaves_the_old_file(place: Path) -> None:
    def blocks() -> Iterator[bytes]:
        yield b"half"
        yield bytes(3 * MiB)
        assert (place / "f.txt").read_bytes() == b"top", "the old file is there while the new one comes"
        raise ConnectionResetError("the upload broke off")

    with Folder(place) as folder:
        for path in ("f.txt", "d/new.txt"):
            with pytest.raises(ConnectionResetError):
                folder.write(path, blocks())
        with pytest.raises(TypeError):
            folder.write("f.txt", iter(["no bytes"]))  # type: ignore[list-item]
    assert tree(place) == {
        "d": None,
        "d/e": None,
        "d/e/h.txt": b"in e",
        "d/g.txt": b"in d",
        "f.txt": b"top",
    }, "no half file, no temporary one"


def test_readers_see_the_old_or_the_new_file_but_no_half_one(place: Path) -> None:
    sizes = [1000, 3 * MiB, 500_000]
    write(place, "f.txt", b"\0" * 1000)
    code = """
import sys, time
from pathlib import Path
from wasm_kernel.host.files.folder import Folder, blocks_of
print("ready", flush=True)
end = time.monotonic() + 1.0
with Folder(Path(sys.argv[1])) as folder:
    n = 0
    while time.monotonic() < end:
        n += 1
        folder.write("f.txt", blocks_of(bytes([n % 250]) * [1000, 3 << 20, 500_000][n % 3]))
"""
    with subprocess.Popen([sys.executable, "-c", code, str(place)], stdout=subprocess.PIPE) as writer:
        assert writer.stdout is not None
        writer.stdout.readline()
        seen = set()
        while writer.poll() is None:
            data = read(place, "f.txt")
            assert len(data) in sizes
            assert data == data[:1] * len(data)
            seen.add(data[:1])
    assert len(seen) > 3
    assert not [n for n in os.listdir(place) if n.startswith(".metadata")]


def test_two_writers_without_overwrite_cannot_both_win(place: Path) -> None:
    """Found out by letting the second write its file while the first one's stream is still coming."""

    def blocks() -> Iterator[bytes]:
        yield b"first"
        write(place, "new.txt", b"second", overwrite=False)

    with Folder(place) as folder, pytest.raises(FileExistsError):
        folder.write("new.txt", blocks(), overwrite=False)
    assert (place / "new.txt").read_bytes() == b"second"


# ---- deleting


def test_deleting(place: Path) -> None:
    with pytest.raises(OSError, match="recursive"):
        remove(place, "d", recursive=False)
    assert (place / "d" / "e" / "h.txt").exists()
    remove(place, "d/e/h.txt", recursive=False)
    remove(place, "d/e", recursive=False)
    remove(place, "d", recursive=True)
    assert names(place) == ["f.txt"]


def test_deleting_a_tree_does_not_follow_links_in_it(place: Path, tmp_path: Path) -> None:
    before = tree(tmp_path / "outside")
    (place / "d" / "out").symlink_to(tmp_path / "outside")
    (place / "d" / "e" / "out").symlink_to("../../../outside")
    remove(place, "d")
    assert tree(tmp_path / "outside") == before


# ---- memory


def test_a_2_gb_file_is_read_and_a_large_one_written_in_constant_memory(place: Path) -> None:
    with (place / "large").open("wb") as file:
        file.truncate(2 << 30)
        file.seek((2 << 30) - 3)
        file.write(b"end")
    code = """
import resource, sys
from pathlib import Path
from wasm_kernel.host.files.folder import BLOCK, Folder
def peak(): return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
with Folder(Path(sys.argv[1])) as folder:
    before, size, tail = peak(), 0, b""
    with folder.open("large") as file:
        while block := file.read(BLOCK):
            size += len(block)
            tail = block[-3:]
    print(size, tail, peak() - before < 64)
    print(folder.write("written", (bytes(BLOCK) for _ in range(160))), peak() - before < 64)
"""
    assert run_python(code, place).split("\n") == [f"{2 << 30} b'end' True", f"{160 * MiB} True", ""]
    assert (place / "written").stat().st_size == 160 * MiB


# ---- races

SWAP = """
import os, sys, time
from pathlib import Path
place, outside = Path(sys.argv[1]), sys.argv[2]
os.chdir(place)
os.makedirs("d/e")
for n in ("d/g.txt", "d/e/h.txt"): Path(n).write_bytes(b"inside")
print("ready", flush=True)
n = 0
while True:
    n += 1
    try:
        if n % 3 == 0:  # a folder becomes a link to outside, and a folder again
            os.rename("d", "aside"); os.symlink(outside, "d"); os.unlink("d"); os.rename("aside", "d")
        elif n % 3 == 1:  # likewise, further down
            os.rename("d/e", "d/aside"); os.symlink(outside, "d/e"); os.unlink("d/e"); os.rename("d/aside", "d/e")
        else:  # a file becomes a link to a file outside
            os.symlink(outside + "/g.txt", "d/link"); os.rename("d/link", "d/g.txt")
            Path("d/new").write_bytes(b"inside"); os.rename("d/new", "d/g.txt")
    except OSError:  # the other side deleted something
        try:
            for name in ("d", "d/e", "d/link"):
                if os.path.islink(name): os.unlink(name)
            os.makedirs("d/e", exist_ok=True)
            Path("d/e/h.txt").write_bytes(b"inside")
        except OSError:
            pass
"""


@pytest.fixture
def swapped(tmp_path: Path) -> Iterator[tuple[Path, Path]]:
    """A folder in which folders and files are swapped for links to another, as fast as can be; both."""
    place, outside = tmp_path / "place", tmp_path / "outside"
    place.mkdir()
    (outside / "e").mkdir(parents=True)
    for name in ("g.txt", "h.txt", "e/h.txt", "e/g.txt", "only_outside"):
        (outside / name).write_bytes(b"SECRET")
    with subprocess.Popen([sys.executable, "-c", SWAP, place, outside], stdout=subprocess.PIPE) as swapper:
        try:
            assert swapper.stdout is not None
            assert swapper.stdout.readline() == b"ready\n"
            yield place, outside
        finally:
            swapper.kill()


def test_nothing_outside_is_touched_while_folders_are_swapped_for_links(swapped: tuple[Path, Path]) -> None:
    place, outside = swapped
    before = tree(outside)
    done = dict.fromkeys(("read", "write", "list", "delete"), 0)
    rounds = 0
    end = time.monotonic() + 3.0
    with Folder(place) as folder:
        while time.monotonic() < end:
            for path in ("d/g.txt", "d/e/h.txt", "d/h.txt"):
                with contextlib.suppress(OSError, PathRefused):
                    with folder.open(path) as file:
                        assert file.read() in (b"inside", b"by the host", b"")
                    done["read"] += 1
            for path in ("d/g.txt", "d/e/made.txt", "d/f/made.txt"):
                with contextlib.suppress(OSError, PathRefused):
                    folder.write(path, [b"by the host"])
                    done["write"] += 1
            with contextlib.suppress(OSError):
                assert not [i.path for i in folder.items() if "only_outside" in i.path]
                done["list"] += 1
            if (rounds := rounds + 1) % 4 == 0:
                for path in ("d/g.txt", "d/e/h.txt", "d/f", "d/e", "d"):
                    with contextlib.suppress(OSError, PathRefused):
                        folder.remove(path, recursive=True)
                        done["delete"] += 1
            assert tree(outside) == before
    assert min(done.values()) > 20, done


def test_the_race_is_real(swapped: tuple[Path, Path]) -> None:
    """Opened by its path, a file outside is read soon: the test above would notice."""
    place, _ = swapped
    end = time.monotonic() + 20
    while time.monotonic() < end:
        with contextlib.suppress(OSError):
            if (place / "d" / "g.txt").read_bytes() == b"SECRET":
                return
    pytest.fail("20 s of racing and no plain open() got out: the test above shows nothing")
