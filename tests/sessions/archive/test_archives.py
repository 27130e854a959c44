"""Export and import: what goes in comes out, and an archive from elsewhere can do no harm."""

from __future__ import annotations

import contextlib
import fcntl
import io
import itertools
import json
import os
import stat
import tarfile
import tracemalloc
import zipfile
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pytest
import zstandard
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.sessions.conftest import Opened
from tests.sessions.helpers import (
    HOLD,
    Log,
    deepen,
    leftovers,
    make_legacy,
    make_session,
    metadata,
    other_process,
    run_python,
    set_age,
    tree,
)
from wasm_kernel import (
    BadArchive,
    ConfigurationError,
    archive_sessions,
    delete_session_workspace,
    export_session,
    import_session,
    list_session_files,
    prune_sessions,
)
from wasm_kernel.host.disk.locks import SessionLock, is_live, lock_session
from wasm_kernel.host.disk.records import read_record
from wasm_kernel.sessions.housekeeping import planning

FORMATS = ("zip", "tar.zst")
FILES = {
    "a.txt": b"text",
    "d/e/f.bin": bytes(range(256)) * 5000,
    "empty": b"",
    "ü 🙂": b"x",
    "-rf": b"y",
    "d/.hidden": b"z",
}


def contents(folder: Path) -> dict[str, bytes | str | None]:
    """A session's files without its metadata."""
    return {name: data for name, data in tree(folder).items() if name != ".metadata.json"}


def expect_nothing_new(root: Path, before: Iterable[str]) -> None:
    """No session was made, nor anything left of one."""
    assert sorted(p.name for p in root.iterdir() if p.name != ".wasm-kernel") == sorted(before)
    assert leftovers(root) == []


# ---- there and back


@pytest.mark.parametrize("suffix", FORMATS)
def test_what_is_exported_comes_back(root: Path, tmp_path: Path, log: Log, suffix: str) -> None:
    session_id = make_session(root, hours=5, files=FILES, notebook="n.ipynb", execution_count=7, odd={"now": [1]})
    (root / session_id / "empty folder" / "deeper").mkdir(parents=True)
    (root / session_id / "link").symlink_to("a.txt")
    target = export_session(session_id, tmp_path / f"out.{suffix}", root, logger=log.logger)
    assert target == tmp_path / f"out.{suffix}"
    assert sorted(os.listdir(tmp_path)) == [f"out.{suffix}", "workspace"], "no temporary file stays"
    assert log.event("session.exported")["session_id"] == session_id
    new_id = import_session(target, root, logger=log.logger)
    assert new_id != session_id
    expected = contents(root / session_id)
    del expected["link"]  # links are left out
    assert contents(root / new_id) == expected
    found = metadata(root, new_id)
    assert found["session_id"] == new_id
    assert (found["notebook"], found["execution_count"], found["odd"]) == ("n.ipynb", 7, {"now": [1]})
    assert found["imported_from"] == session_id
    assert found["created_at"] > metadata(root, session_id)["updated_at"], "it begins its life now"
    assert log.event("session.imported")["session_id"] == new_id
    assert not is_live(root, new_id)


names = st.text(
    st.characters(codec="utf-8", exclude_characters="/\0\\", exclude_categories=("Cs",)), min_size=1, max_size=12
).filter(lambda n: n not in (".", "..") and not n.lower().startswith(".metadata.json"))


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(files=st.dictionaries(names, st.binary(max_size=300), max_size=6), suffix=st.sampled_from(FORMATS))
def test_any_files_come_back(tmp_path: Path, files: dict[str, bytes], suffix: str) -> None:
    root = tmp_path / "any"
    session_id = make_session(root, files={name: data for name, data in files.items() if len(name.encode()) < 255})
    new_id = import_session(export_session(session_id, tmp_path / f"any.{suffix}", root), root)
    assert contents(root / new_id) == contents(root / session_id)


@pytest.mark.parametrize("suffix", FORMATS)
def test_every_file_the_guest_can_make_is_exported(sessions: Opened, root: Path, tmp_path: Path, suffix: str) -> None:
    """archive_sessions deletes afterwards: a file left out would be lost."""
    session_id, sandbox = sessions.create()
    result = sandbox.execute(
        "import os\nnames = ['back\\\\slash', 'new\\nline', 'a' * 255, ' ', 'x:y', '*?', 'ü', '...', '.m']\n"
        "for n in names: open(n, 'w').write(n)\n"
        "os.makedirs('d/' * 300); open('d/' * 300 + 'deep', 'w').write('deep')"
    )
    assert result.success, result.error
    sandbox.close()
    before = contents(root / session_id)
    assert len(before) > 300
    new_id = import_session(export_session(session_id, tmp_path / f"out.{suffix}", root), root)
    assert contents(root / new_id).keys() == before.keys()
    assert contents(root / new_id) == before


def test_names_that_are_no_utf8_are_exported(root: Path, tmp_path: Path) -> None:
    """Two names that differ only in such bytes are two files."""
    for suffix in FORMATS:
        session_id = make_session(root)
        for name, data in ((b"\xff", b"1"), (b"\xfe", b"2")):
            (root / session_id / os.fsdecode(name)).write_bytes(data)
        new_id = import_session(export_session(session_id, tmp_path / f"out.{suffix}", root), root)
        assert sorted(data for data in contents(root / new_id).values() if isinstance(data, bytes)) == [b"1", b"2"]


@pytest.mark.parametrize("suffix", FORMATS)
def test_private_characters_are_not_taken_for_such_bytes(root: Path, tmp_path: Path, suffix: str) -> None:
    names = ["\uf780", "\uf7ff\uf7fe", "\udc80\uf780\udcff", "\udce2\udc82x", "ü\udcff"]
    session_id = make_session(root, files={name: b"%d" % number for number, name in enumerate(names)})
    new_id = import_session(export_session(session_id, tmp_path / f"out.{suffix}", root), root)
    assert contents(root / new_id) == contents(root / session_id)


@pytest.mark.parametrize("suffix", FORMATS)
def test_what_no_path_reaches_is_neither_left_out_nor_deleted(root: Path, tmp_path: Path, suffix: str) -> None:
    session_id = make_session(root, hours=200, files={"f": "x"})
    deepen(root / session_id, 2500)
    try:
        with pytest.raises(OSError, match="4096"):
            export_session(session_id, tmp_path / f"out.{suffix}", root)
        done = archive_sessions(168, tmp_path / "archive", root)
        assert list(done.errors) == [session_id]
        assert "4096" in done.errors[session_id]
        assert (root / session_id / "d").is_dir()
        assert sorted(os.listdir(tmp_path)) == ["archive", "workspace"]
        assert os.listdir(tmp_path / "archive") == []
    finally:  # pytest could not
        delete_session_workspace(session_id, root)


def test_a_tree_deeper_than_the_stack_comes_back(root: Path, tmp_path: Path) -> None:
    session_id = make_session(root)
    deepen(root / session_id, 1100)
    deep = export_session(session_id, tmp_path / "out.tar.zst", root)
    delete_session_workspace(session_id, root)
    new_id = import_session(deep, root)
    try:
        assert [len(path) for path in list_session_files(new_id, root)] == [2 * 1100 + len("bottom")]
    finally:  # pytest could not
        delete_session_workspace(new_id, root)


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_what_cannot_be_read_is_not_deleted(root: Path, tmp_path: Path) -> None:
    session_id = make_session(root, hours=200, files={"d/f": "x"})
    (root / session_id / "d").chmod(0)
    assert list(archive_sessions(168, tmp_path / "archive", root).errors) == [session_id]
    (root / session_id / "d").chmod(0o700)
    assert contents(root / session_id) == {"d": None, "d/f": b"x"}


def test_sessions_without_metadata_can_be_exported_too(root: Path, tmp_path: Path) -> None:
    legacy = make_legacy(root, {"a": "x"})
    new_id = import_session(export_session(legacy, tmp_path / "out.zip", root), root)
    assert contents(root / new_id) == {"a": b"x"}
    assert metadata(root, new_id)["session_id"] == new_id
    assert not (root / legacy / ".metadata.json").exists()


def test_a_live_session_can_be_exported(sessions: Opened, root: Path, tmp_path: Path) -> None:
    session_id, sandbox = sessions.create()
    sandbox.execute("open('f', 'w').write('x')")
    assert contents(root / import_session(export_session(session_id, tmp_path / "o.zip", root), root)) == {"f": b"x"}


GROW = """
import os, sys, time
handle = os.open(sys.argv[1], os.O_RDWR)
print("ready", flush=True)
for step in range(250):  # 1 GB of nothing, faster than it can be packed
    os.ftruncate(handle, (step + 1) << 22)
    time.sleep(0.001)
"""


@pytest.mark.parametrize("suffix", FORMATS)
def test_a_file_that_grows_does_not_hold_an_export_up(root: Path, tmp_path: Path, suffix: str) -> None:
    """A guest can write faster than we compress."""
    session_id = make_session(root, files={"log": b"x" * 100})
    with other_process(GROW, root / session_id / "log"):
        target = export_session(session_id, tmp_path / f"out.{suffix}", root)
    new_id = import_session(target, root)
    assert (root / new_id / "log").stat().st_size < 500 << 20


def test_a_target_inside_the_session_ends(root: Path) -> None:
    session_id = make_session(root, files={"f": b"x" * 1000})
    code = """
import resource, signal, sys
from wasm_kernel import export_session
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (64 << 20, 64 << 20))
try:
    export_session(sys.argv[2], f"{sys.argv[1]}/{sys.argv[2]}/backup.zip", sys.argv[1])
    print("done")
except ValueError as e:
    print("refused")
except OSError as e:
    print("it exported what it was writing:", e)
"""
    assert run_python(code, root, session_id) in ("done\n", "refused\n")


@pytest.mark.parametrize("name", ["out.tar", "out.tar.gz", "out", "out.ZIP.exe", ".zst"])
def test_an_unknown_format_is_refused(root: Path, tmp_path: Path, name: str) -> None:
    session_id = make_session(root)
    with pytest.raises(ConfigurationError, match="zip"):
        export_session(session_id, tmp_path / name, root)
    (tmp_path / name).write_bytes(b"x")
    with pytest.raises(ConfigurationError, match="zip"):
        import_session(tmp_path / name, root)
    expect_nothing_new(root, [session_id])


def test_what_cannot_be_exported_leaves_nothing(root: Path, tmp_path: Path) -> None:
    (root / "linked").symlink_to(tmp_path)
    for session_id in ("no-such-session", "linked"):
        with pytest.raises(FileNotFoundError):
            export_session(session_id, tmp_path / "out.zip", root)
    with pytest.raises(ValueError, match="session_id"):
        export_session("../x", tmp_path / "out.zip", root)
    session_id = make_session(root)
    with pytest.raises(OSError):
        export_session(session_id, tmp_path / "missing" / "out.zip", root)
    (tmp_path / "folder.zip").mkdir()
    with pytest.raises(OSError):
        export_session(session_id, tmp_path / "folder.zip", root)
    assert sorted(os.listdir(tmp_path)) == ["folder.zip", "workspace"]


def test_an_existing_archive_is_replaced_whole(root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    session_id = make_session(root, files={"f": "x"})
    target = export_session(session_id, tmp_path / "out.zip", root)
    before = target.read_bytes()

    def fail(handle: int) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", fail)
        with pytest.raises(OSError, match="No space"):
            export_session(session_id, target, root)
    assert target.read_bytes() == before
    assert sorted(os.listdir(tmp_path)) == ["out.zip", "workspace"]


# ---- hostile archives

Member = tuple[str, bytes | None]


def make_zip(path: Path, members: Iterable[Member], modes: dict[str, int] | None = None) -> Path:
    import warnings

    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive, warnings.catch_warnings():
        warnings.simplefilter("ignore")  # duplicate names
        for name, data in members:
            info = zipfile.ZipInfo(name)
            info.compress_type = zipfile.ZIP_DEFLATED
            info.external_attr = (modes or {}).get(name, 0o644) << 16
            archive.writestr(info, data or b"")
    return path


def make_tar(path: Path, members: Iterable[Member | tarfile.TarInfo]) -> Path:
    plain = io.BytesIO()
    with tarfile.open(fileobj=plain, mode="w", format=tarfile.PAX_FORMAT) as archive:
        for member in members:
            if isinstance(member, tarfile.TarInfo):
                archive.addfile(member)
                continue
            info = tarfile.TarInfo(member[0])
            if member[1] is None:
                info.type = tarfile.DIRTYPE
            info.size = len(member[1] or b"")
            archive.addfile(info, io.BytesIO(member[1] or b""))
    path.write_bytes(zstandard.ZstdCompressor().compress(plain.getvalue()))
    return path


def make(path: Path, suffix: str, members: list[Member]) -> Path:
    return (make_zip if suffix == "zip" else make_tar)(path.with_name(f"{path.name}.{suffix}"), members)


HOSTILE: dict[str, list[Member]] = {
    "up": [("files/../../escaped", b"x")],
    "up in the middle": [("files/a/../../../escaped", b"x")],
    "up from the top": [("../escaped", b"x")],
    "absolute": [("/tmp/escaped", b"x")],
    "absolute below files": [("files//tmp/escaped", b"x")],
    "up as a folder": [("files/../../escaped/", None)],
    "outside files": [("elsewhere/f", b"x")],
    "metadata": [("files/.metadata.json", b"{}")],
    "metadata further down": [("files/d/.metadata.json", b"{}")],
    "metadata spelled otherwise": [("files/.MetaData.json", b"{}")],
    "temporary metadata": [("files/.metadata.json.0123456789ab", b"{}")],
    "metadata as a folder": [("files/.metadata.json/x", b"{}")],
    "backslashes": [("files/..\\..\\escaped", b"x")],
    "a name twice": [("files/f", b"first"), ("files/f", b"second")],
    "a name twice, spelled otherwise": [("files/f", b"first"), ("files/./f", b"second")],
    "a file and a folder": [("files/f", b"x"), ("files/f/g", b"y")],
    "a folder and a file": [("files/f/g", b"x"), ("files/f", b"y")],
    "a file as a folder": [("files/f", b"x"), ("files/f/", None)],
    "a name too long": [("files/" + "a" * 256, b"x")],
    "a path too long": [("files/" + "a/" * 2500 + "f", b"x")],
    "no name": [("files/ok", b"x"), ("files//", b"")],
    "metadata that is no JSON": [("session.json", b"{"), ("files/f", b"x")],
    "metadata that is nested too deep": [("session.json", b"[" * 200_000), ("files/f", b"x")],
}


@pytest.mark.parametrize("suffix", FORMATS)
@pytest.mark.parametrize("what", HOSTILE)
def test_a_hostile_archive_is_refused_and_writes_nothing(root: Path, tmp_path: Path, suffix: str, what: str) -> None:
    archive = make(tmp_path / "hostile", suffix, [("files/first", b"1"), *HOSTILE[what]])
    before = tree(tmp_path)
    if what == "backslashes":  # harmless here: a name like any other, which a guest can make
        with contextlib.suppress(BadArchive):
            assert contents(root / import_session(archive, root)).keys() == {"first", "..\\..\\escaped"}
        assert not (tmp_path / "escaped").exists()
        return
    if what == "no name":
        new_id = import_session(archive, root)  # a folder of that name is the workspace itself: harmless
        assert contents(root / new_id) == {"first": b"1", "ok": b"x"}
        return
    with pytest.raises(BadArchive, match="hostile|session.json"):
        import_session(archive, root)
    expect_nothing_new(root, [])
    after = {name: data for name, data in tree(tmp_path).items() if not name.startswith("workspace/.wasm-kernel")}
    assert after == before
    assert not Path("/tmp/escaped").exists()


def test_nul_in_a_name_ends_it_or_is_refused(root: Path, tmp_path: Path) -> None:
    info = tarfile.TarInfo("files/f")
    info.pax_headers = {"path": "files/f\0/../../escaped"}
    archive = make_tar(tmp_path / "nul.tar.zst", [info])
    try:
        new_id = import_session(archive, root)
    except BadArchive:
        expect_nothing_new(root, [])
    else:
        assert contents(root / new_id).keys() <= {"f"}


@pytest.mark.parametrize("kind", ["link", "hard link", "FIFO", "character device", "block device"])
def test_links_and_devices_in_a_tar_are_refused(root: Path, tmp_path: Path, kind: str) -> None:
    info = tarfile.TarInfo("files/special")
    info.type = {
        "link": tarfile.SYMTYPE,
        "hard link": tarfile.LNKTYPE,
        "FIFO": tarfile.FIFOTYPE,
        "character device": tarfile.CHRTYPE,
        "block device": tarfile.BLKTYPE,
    }[kind]
    info.linkname = "../../escaped" if kind == "link" else "/etc/passwd"
    archive = make_tar(tmp_path / "special.tar.zst", [("files/first", b"1"), info, ("files/special/f", b"through it")])
    with pytest.raises(BadArchive, match="ordinary"):
        import_session(archive, root)
    expect_nothing_new(root, [])


@pytest.mark.parametrize("kind", [stat.S_IFLNK, stat.S_IFIFO, stat.S_IFCHR, stat.S_IFBLK, stat.S_IFSOCK])
def test_links_and_devices_in_a_zip_are_refused(root: Path, tmp_path: Path, kind: int) -> None:
    archive = make_zip(tmp_path / "special.zip", [("files/special", b"/etc/passwd")], {"files/special": kind | 0o777})
    with pytest.raises(BadArchive, match="ordinary"):
        import_session(archive, root)
    expect_nothing_new(root, [])


def test_modes_of_an_archive_are_not_taken_over(root: Path, tmp_path: Path) -> None:
    info = tarfile.TarInfo("files/f")
    info.mode, info.uid, info.gid = 0o6777, 12345, 12345
    new_ids = [
        import_session(make_tar(tmp_path / "modes.tar.zst", [info]), root),
        import_session(make_zip(tmp_path / "modes.zip", [("files/f", b"")], {"files/f": stat.S_IFREG | 0o6777}), root),
    ]
    for new_id in new_ids:
        found = (root / new_id / "f").stat()
        assert found.st_mode & 0o6000 == 0
        assert found.st_uid == os.geteuid()


@pytest.mark.parametrize("suffix", FORMATS)
def test_bombs_are_stopped_by_their_limits(root: Path, tmp_path: Path, suffix: str) -> None:
    large = make(tmp_path / "large", suffix, [(f"files/{n}", bytes(1 << 20)) for n in range(20)])
    assert large.stat().st_size < 1 << 18, "it is small as long as it is packed"
    with pytest.raises(BadArchive, match="max_bytes"):
        import_session(large, root, max_bytes=10 << 20)
    many = make(tmp_path / "many", suffix, [(f"files/{n}", b"") for n in range(200)])
    with pytest.raises(BadArchive, match="max_files"):
        import_session(many, root, max_files=199)
    folders = make(tmp_path / "folders", suffix, [(f"files/{n}/", None) for n in range(200)])
    with pytest.raises(BadArchive, match="max_files"):
        import_session(folders, root, max_files=199)
    expect_nothing_new(root, [])
    assert len(list_session_files(import_session(large, root, max_bytes=20 << 20), root)) == 20
    assert len(list_session_files(import_session(many, root, max_files=200), root)) == 200


def test_folders_nobody_listed_count_too(root: Path, tmp_path: Path) -> None:
    """One member can make hundreds of folders."""
    members: list[Member] = [(f"files/{n}/" + "a/" * 300 + "f", b"") for n in range(10)]
    archive = make_zip(tmp_path / "deep.zip", members)
    with pytest.raises(BadArchive, match="max_files"):
        import_session(archive, root, max_files=2000)


def make_header_bomb(path: Path, byte: bytes, size: int) -> Path:
    """A tar that consists of one extended header."""
    header = tarfile.TarInfo("pax")
    header.type, header.size = tarfile.XHDTYPE, size
    packer = zstandard.ZstdCompressor().compressobj()
    with path.open("wb") as file:
        file.write(packer.compress(header.tobuf(tarfile.USTAR_FORMAT)))
        for start in range(0, size, 1 << 20):
            file.write(packer.compress(byte * min(1 << 20, size - start)))
        file.write(packer.compress(bytes(10240)) + packer.flush())
    return path


def test_a_header_that_is_a_bomb(root: Path, tmp_path: Path) -> None:
    """tarfile reads a whole extended header into memory, however large it says it is."""
    archive = make_header_bomb(tmp_path / "bomb.tar.zst", b"x", 96 << 20)
    assert archive.stat().st_size < 1 << 18
    tracemalloc.start()
    try:
        with pytest.raises(BadArchive):
            import_session(archive, root, max_bytes=1 << 20)
        assert tracemalloc.get_traced_memory()[1] < 48 << 20
    finally:
        tracemalloc.stop()


def test_a_header_that_takes_for_ever(root: Path, tmp_path: Path) -> None:
    """tarfile looks through an extended header in quadratic time (CVE-2024-6232, in Pythons we support)."""
    archive = make_header_bomb(tmp_path / "slow.tar.zst", b"0", 200_000)
    code = "import sys, wasm_kernel as w\ntry: w.import_session(*sys.argv[1:])\nexcept w.BadArchive: print('refused')"
    assert run_python(code, archive, root, timeout=60) == "refused\n"


@pytest.mark.parametrize(
    "header",
    [b"0 path=x\n", b"-9 path=x\n", b"9 path=x\n" * 3 + b"-27 a=b\n", b"99 path=x\n", b"path", b"11 size=-1\n"],
)
def test_an_extended_header_that_is_wrong(root: Path, tmp_path: Path, header: bytes) -> None:
    extended = tarfile.TarInfo("pax")
    extended.type, extended.size = tarfile.XHDTYPE, len(header)
    plain = extended.tobuf(tarfile.USTAR_FORMAT) + header.ljust(512, b"\0")
    plain += tarfile.TarInfo("files/f").tobuf(tarfile.USTAR_FORMAT) + bytes(10240)
    (tmp_path / "wrong.tar.zst").write_bytes(zstandard.ZstdCompressor().compress(plain))
    with pytest.raises(BadArchive, match="wrong.tar.zst"):
        import_session(tmp_path / "wrong.tar.zst", root)
    expect_nothing_new(root, [])


def test_metadata_from_an_archive_stays_readable(root: Path, tmp_path: Path) -> None:
    """What an archive says of itself must not make a session whose metadata cannot be read: it could not be pruned."""
    fields: list[dict[str, Any]] = [
        {"session_id": "x", "filler": "€" * 300_000},
        {"session_id": ["no", "id"], "created_at": 5, "updated_at": {}, "version": "2"},
        {"self": 1, "now": 2, "extra": 3},
        {"imported_from": {}, "execution_count": "many", "version": 99},
    ]
    for number, found in enumerate(fields):
        archive = make_zip(
            tmp_path / f"{number}.zip", [("session.json", json.dumps(found, ensure_ascii=False).encode())]
        )
        try:
            new_id = import_session(archive, root)
        except BadArchive:
            continue
        record = read_record(root / new_id)
        assert record is not None
        assert record.session_id == new_id
        assert record.version == 1
    assert prune_sessions(0, root).skipped_sessions == []
    expect_nothing_new(root, [])


# ---- damage


def every_byte_damaged(path: Path, step: int, damage: Callable[[bytes, int], bytes]) -> Iterable[Path]:
    whole = path.read_bytes()
    damaged = path.with_name(f"damaged{''.join(path.suffixes)}")
    for position in itertools.chain(range(0, len(whole), step), range(max(0, len(whole) - 40), len(whole))):
        damaged.write_bytes(damage(whole, position))
        yield damaged


def cut(whole: bytes, position: int) -> bytes:
    return whole[:position]


def flip(whole: bytes, position: int) -> bytes:
    return whole[:position] + bytes([whole[position] ^ 0x10]) + whole[position + 1 :]


@pytest.mark.parametrize("damage", [cut, flip])
@pytest.mark.parametrize("suffix", FORMATS)
def test_a_damaged_archive_is_refused_or_comes_back_whole(
    root: Path, tmp_path: Path, suffix: str, damage: Callable[[bytes, int], bytes]
) -> None:
    """Damage may hit a field that does not matter, but files are never lost or changed without a word."""
    session_id = make_session(root, files={f"d{n}/f{n}": bytes([n]) * 50 * n for n in range(12)}, notebook="n.ipynb")
    whole = export_session(session_id, tmp_path / f"out.{suffix}", root)
    expected = contents(root / session_id)
    refused = 0
    for damaged in every_byte_damaged(whole, max(1, whole.stat().st_size // 150), damage):
        try:
            new_id = import_session(damaged, root)
        except BadArchive:
            refused += 1
            continue
        assert contents(root / new_id) == expected
    assert refused > 20
    assert leftovers(root) == []


@pytest.mark.parametrize("suffix", FORMATS)
@pytest.mark.parametrize(
    "data", [b"", b"nonsense", b"PK\x03\x04", zstandard.ZstdCompressor().compress(b""), bytes(2000)]
)
def test_what_is_no_archive_is_refused(root: Path, tmp_path: Path, suffix: str, data: bytes) -> None:
    path = tmp_path / f"no.{suffix}"
    path.write_bytes(data)
    with pytest.raises(BadArchive):
        import_session(path, root)
    expect_nothing_new(root, [])


def test_a_missing_archive(root: Path, tmp_path: Path) -> None:
    for suffix in FORMATS:
        with pytest.raises(FileNotFoundError):
            import_session(tmp_path / f"missing.{suffix}", root)
    expect_nothing_new(root, [])


def test_zips_of_kinds_we_do_not_make_are_refused(root: Path, tmp_path: Path) -> None:
    """Encrypted ones, ones packed by a method Python does not know, names that are no text."""
    whole = make_zip(tmp_path / "z.zip", [("files/some_name", b"x" * 100)]).read_bytes()
    local, central = whole.index(b"PK\x03\x04"), whole.index(b"PK\x01\x02")

    def changed(at_local: int, at_central: int, value: bytes) -> bytes:
        data = bytearray(whole)
        data[local + at_local : local + at_local + len(value)] = value
        data[central + at_central : central + at_central + len(value)] = value
        return bytes(data)

    not_utf8 = changed(6, 8, b"\x00\x08").replace(b"some_name", b"so\xff\xfe_name"[:9])
    for number, data in enumerate((changed(6, 8, b"\x01\x00"), changed(8, 10, b"\x63\x00"), not_utf8)):
        path = tmp_path / f"kind{number}.zip"
        path.write_bytes(data)
        with pytest.raises(BadArchive):
            import_session(path, root)
    expect_nothing_new(root, [])


# ---- archive what is old


def test_archiving_leaves_live_young_and_undated_sessions(root: Path, tmp_path: Path, log: Log) -> None:
    old = [make_session(root, hours=200 + n, files={"f": f"{n}"}) for n in range(3)]
    live, young, legacy = make_session(root, hours=500), make_session(root, hours=1), make_legacy(root, {"a": "x"})
    with other_process(HOLD, root, live):
        dry = archive_sessions(168, tmp_path / "archive", root, dry_run=True)
        done = archive_sessions(168, tmp_path / "archive", root, logger=log.logger)
    assert done.archived == dry.archived == {i: tmp_path / "archive" / f"{i}.tar.zst" for i in old}
    assert done.live_sessions == dry.live_sessions == [live]
    assert done.errors == {}
    assert {p.name for p in root.iterdir() if p.name != ".wasm-kernel"} == {live, young, legacy}
    assert sorted(os.listdir(tmp_path / "archive")) == sorted(f"{i}.tar.zst" for i in old)
    assert {event["session_id"] for event in log.events("session.exported")} == set(old)
    for number, session_id in enumerate(old):
        assert contents(root / import_session(done.archived[session_id], root)) == {"f": str(number).encode()}


def test_a_session_that_cannot_be_archived_is_not_deleted(
    root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ids = [make_session(root, hours=200 + n, files={"f": "x"}) for n in range(3)]
    (tmp_path / "archive" / f"{ids[1]}.tar.zst").mkdir(parents=True)  # something is in its way
    done = archive_sessions(168, tmp_path / "archive", root)
    assert set(done.archived) == {ids[0], ids[2]}
    assert list(done.errors) == [ids[1]]
    assert contents(root / ids[1]) == {"f": b"x"}
    (tmp_path / "file").write_text("x")
    done = archive_sessions(168, tmp_path / "file", root)
    assert list(done.errors) == [ids[1]]
    assert contents(root / ids[1]) == {"f": b"x"}
    with pytest.raises(FileNotFoundError):
        archive_sessions(168, tmp_path / "archive", tmp_path / "missing")


def test_nobody_can_open_a_session_between_its_archiving_and_its_deletion(
    root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is done in it then would be in neither place."""
    session_id = make_session(root, hours=200, files={"f": "x"})
    real = SessionLock.release
    written = []

    def release(self: SessionLock) -> None:
        real(self)
        if (root / session_id).is_dir() and not written:  # the session can be had now, as by another process
            lock = lock_session(root, session_id)
            (root / session_id / "late").write_text("work")
            written.append("late")
            real(lock)

    monkeypatch.setattr(SessionLock, "release", release)
    archive_sessions(168, tmp_path / "archive", root)
    assert not written, "work was lost"


def test_a_session_used_after_the_plan_is_not_archived(
    root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    session_id = make_session(root, hours=200, files={"f": "x"})

    def plan(*args: Any, **options: Any) -> Any:
        decided = real(*args, **options)
        set_age(root, session_id, 0)
        return decided

    real = planning.plan_prune
    monkeypatch.setattr(planning, "plan_prune", plan)
    done = archive_sessions(168, tmp_path / "archive", root)
    assert (done.archived, done.changed_sessions) == ({}, [session_id])
    assert contents(root / session_id) == {"f": b"x"}


def test_an_archive_is_not_put_into_a_session(root: Path) -> None:
    session_id = make_session(root, hours=200, files={"f": "x"})
    with pytest.raises(ConfigurationError, match="inside"):
        export_session(session_id, root / session_id / "out.zip", root)
    assert list(archive_sessions(168, root / session_id, root).errors) == [session_id]
    assert contents(root / session_id) == {"f": b"x"}


def test_only_the_dead_are_swept(root: Path, tmp_path: Path) -> None:
    session_id = make_session(root)
    dead, alive = (tmp_path / f".a.zip.part-{digit * 16}" for digit in "01")
    others = [tmp_path / name for name in (".a.zip.part", "a.zip.part-" + "0" * 16, ".a.txt.part-" + "0" * 16)]
    for path in (dead, alive, *others):
        path.write_bytes(b"x")
    with alive.open() as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        export_session(session_id, tmp_path / "b.zip", root)
        assert not dead.exists()
        assert all(path.exists() for path in (alive, *others))
    export_session(session_id, tmp_path / "b.zip", root)
    assert not alive.exists()


def test_what_a_killed_archiver_left_is_swept_by_the_next(root: Path, tmp_path: Path) -> None:
    session_id = make_session(root, hours=200, files={"f": os.urandom(30_000_000)})
    code = """
import sys
from wasm_kernel import archive_sessions
print("ready", flush=True)
archive_sessions(168, sys.argv[1], sys.argv[2])
"""
    place = tmp_path / "archive"
    with other_process(code, place, root):
        while not place.is_dir() or not os.listdir(place):
            pass
    assert os.listdir(place), "it was killed too late: nothing is shown"
    assert (root / session_id).is_dir()
    done = archive_sessions(168, place, root)
    assert list(done.archived) == [session_id]
    assert os.listdir(place) == [f"{session_id}.tar.zst"]
