"""Exported snapshots made to harm: each is refused with a clear error, and nothing of it is left behind."""

from __future__ import annotations

import json
import struct
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import zstandard
from blake3 import blake3

from tests.sessions.helpers import leftovers
from wasm_kernel import (
    SandboxError,
    WasmKernelError,
    collect_snapshots,
    create_session_sandbox,
    create_snapshot,
    export_snapshot,
    get_session_sandbox,
    import_snapshot,
    list_snapshots,
    prune_sessions,
    restore_snapshot,
)
from wasm_kernel.errors import BadSnapshot
from wasm_kernel.host.image import image
from wasm_kernel.model.names import STATE_FOLDER
from wasm_kernel.model.records import is_uuid

MAGIC = b"wasm-kernel snapshot 1\n"
LENGTHS = struct.Struct("<II")
PIECE = struct.Struct("<32sI")
MEMORY = 1 << 16


class Parts:
    """An exported snapshot taken apart, to be put together again with something wrong in it."""

    def __init__(self, path: Path) -> None:
        data = zstandard.ZstdDecompressor().decompressobj().decompress(path.read_bytes())
        assert data.startswith(MAGIC)
        at = len(MAGIC) + LENGTHS.size
        head, body = LENGTHS.unpack_from(data, len(MAGIC))
        self.head: dict[str, Any] = json.loads(data[at : at + head])
        self.body = data[at + head : at + head + body]
        (length,) = struct.unpack_from("<I", self.body)
        self.text: dict[str, Any] = json.loads(self.body[4 : 4 + length])
        self.table = self.body[4 + length :]
        self.pieces: list[tuple[bytes, bytes]] = []
        at += head + body
        while at < len(data):
            name, size = PIECE.unpack_from(data, at)
            at += PIECE.size
            self.pieces.append((name, data[at : at + size]))
            at += size

    def joined(self, head: bytes | None = None, text: bytes | None = None) -> bytes:
        head = json.dumps(self.head).encode() if head is None else head
        text = json.dumps(self.text).encode() if text is None else text
        body = struct.pack("<I", len(text)) + text + self.table
        pieces = b"".join(PIECE.pack(name, len(data)) + data for name, data in self.pieces)
        return MAGIC + LENGTHS.pack(len(head), len(body)) + head + body + pieces

    def add_file(
        self, path: bytes, kind: str = "file", size: int = 0, target: bytes = b"", chunks: bytes = b""
    ) -> None:
        self.text["files"].append(["app", path.hex(), kind, size, 0, target.hex(), chunks.hex()])

    def add_descriptor(self, path: bytes, **changes: int) -> None:
        fields = {"fd": 9, "mount": 4, "lookup": 1, "oflags": 0, "fdflags": 0, "rights": 2, "offset": 0} | changes
        f = list(fields.values())
        self.text["descriptors"].append([f[0], f[1], path.hex(), *f[2:]])


@pytest.fixture(scope="module")
def exported(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One good export."""
    folder = tmp_path_factory.mktemp("exported")
    session_id, sandbox = create_session_sandbox(workspace_root=folder / "root")
    with sandbox:
        sandbox.execute("x = 5; open('f', 'w').write('content'); h = open('f')")
        taken = create_snapshot(session_id, folder / "root")
    return export_snapshot(taken.snapshot_id, folder / "good", folder / "root")


@pytest.fixture(scope="module")
def whole(exported: Path) -> bytes:
    return zstandard.ZstdDecompressor().decompressobj().decompress(exported.read_bytes())


@pytest.fixture
def refused(tmp_path: Path) -> Iterator[Callable[..., str]]:
    """Import bytes that must be refused; why they were."""
    root = tmp_path / "workspace"

    def refused(data: bytes, *, packed: bool = False) -> str:
        path = tmp_path / "hostile"
        path.write_bytes(data if packed else zstandard.ZstdCompressor(level=1).compress(data))
        with pytest.raises(WasmKernelError) as caught:
            import_snapshot(path, root)
        assert isinstance(caught.value, BadSnapshot)
        return str(caught.value)

    yield refused
    assert [p.name for p in root.iterdir() if is_uuid(p.name)] == []
    assert list_snapshots(root) == []
    prune_sessions(24, root)
    collect_snapshots(root)
    assert leftovers(root) == []
    state = root / STATE_FOLDER / "snapshots"
    for place in ("packs", "new", "manifests"):
        assert not (state / place).is_dir() or list((state / place).iterdir()) == []
    assert sorted(p.name for p in tmp_path.iterdir()) == ["hostile", "workspace"]


Refused = Callable[..., str]


def test_the_good_one_is_good(exported: Path, tmp_path: Path) -> None:
    """Else the others would be refused for another reason."""
    path = tmp_path / "again"
    path.write_bytes(zstandard.ZstdCompressor(level=1).compress(Parts(exported).joined()))
    session_id, snapshot = import_snapshot(path, tmp_path / "root")
    assert snapshot.session_id == session_id
    with get_session_sandbox(session_id, workspace_root=tmp_path / "root", resume=True) as sandbox:
        assert sandbox.execute("print(x, h.read())").stdout == "5 content\n"


def test_not_an_export(refused: Refused, whole: bytes) -> None:
    for data in (b"", b"x", b"PK\x03\x04" + bytes(100), whole, zstandard.ZstdCompressor().compress(b"")):
        assert "not an exported snapshot" in refused(data, packed=True)
    assert "not an exported snapshot" in refused(b"wasm-kernel snapshot 2\n" + whole[len(MAGIC) :])


def test_cut_short_anywhere(refused: Refused, whole: bytes, exported: Path) -> None:
    head, body = LENGTHS.unpack_from(whole, len(MAGIC))
    start = len(MAGIC) + LENGTHS.size
    regions = [3, len(MAGIC), start - 3, start, start + head // 2, start + head, start + head + 2]
    regions += [start + head + body // 2, start + head + body - 1, start + head + body, start + head + body + 7]
    regions += [start + head + body + PIECE.size, len(whole) // 2, len(whole) - 1]
    for length in regions:
        refused(whole[:length])
    packed = exported.read_bytes()
    for length in (1, 5, 100, len(packed) // 2, len(packed) - 1):
        refused(packed[:length], packed=True)


@pytest.mark.parametrize("lengths", [(0xFFFFFFFF, 10), (10, 0xFFFFFFFF), (2 << 20, 10), (0, 0), (1, 1)])
def test_absurd_lengths(refused: Refused, whole: bytes, lengths: tuple[int, int]) -> None:
    refused(MAGIC + LENGTHS.pack(*lengths) + whole[len(MAGIC) + LENGTHS.size :])


def test_a_chunk_as_long_as_it_likes(refused: Refused, exported: Path) -> None:
    parts = Parts(exported)
    name, _ = parts.pieces.pop()
    refused(parts.joined() + PIECE.pack(name, 0xFFFFFFFF) + bytes(100))
    refused(parts.joined() + PIECE.pack(name, 5 << 20) + bytes(5 << 20))


def test_bombs(refused: Refused, exported: Path) -> None:
    """A few kilobytes that would become terabytes."""
    data = b"\1" * (1 << 20)
    name = blake3(data).digest()
    parts = Parts(exported)
    parts.pieces.append((name, data))
    parts.add_file(b"bomb", size=100_000 << 20, chunks=name * 100_000)
    assert "room" in refused(parts.joined())
    parts = Parts(exported)
    parts.pieces.append((name, data))
    for n in range(6000):
        parts.add_file(b"bomb%d" % n, size=1 << 20, chunks=name)
    assert "room" in refused(parts.joined())
    parts = Parts(exported)
    for n in range(150_000):
        parts.add_file(b"f%d" % n)
    assert "room" in refused(parts.joined())
    zeros = zstandard.ZstdCompressor(level=1).compressobj()
    packed = zeros.compress(MAGIC + LENGTHS.pack(1 << 20, 64 << 20))
    for _ in range(300):
        packed += zeros.compress(bytes(1 << 20))
    refused(packed + zeros.flush(), packed=True)


HOSTILE_PATHS = [
    b"../escape",
    b"a/../../escape",
    b"/etc/passwd",
    b"/",
    b"",
    b".",
    b"..",
    b"a//b",
    b"a/",
    b".metadata.json",
    b".METADATA.json",
    b".metadata.json.0123456789ab",
    b"d/.metadata.json",
    ".metadata.j\u017fon".encode(),
    b".wasm-kernel/locks",
    b"nul\0byte",
    b"x" * 300,
    b"d/" * 3000 + b"f",
]


@pytest.mark.parametrize("path", HOSTILE_PATHS, ids=lambda p: repr(p[:30]))
def test_hostile_paths(refused: Refused, exported: Path, path: bytes) -> None:
    for kind in ("file", "folder", "link"):
        parts = Parts(exported)
        parts.add_file(path, kind, target=b"f" if kind == "link" else b"")
        refused(parts.joined())


@pytest.mark.parametrize(
    "path", [p for p in HOSTILE_PATHS if p not in (b".", b"a//b", b"a/") and len(p) < 4096], ids=lambda p: repr(p[:30])
)
def test_hostile_paths_of_open_files(refused: Refused, exported: Path, path: bytes) -> None:
    parts = Parts(exported)
    parts.add_descriptor(path)
    refused(parts.joined())


@pytest.mark.parametrize(
    "changes",
    [{"fd": 0}, {"fd": 2}, {"fd": 5000}, {"fd": -1}, {"mount": 0}, {"mount": 2}, {"mount": 255}, {"rights": 1 << 64},
     {"offset": -1}, {"oflags": 1 << 40}, {"fdflags": 99}, {"lookup": 7}],
    ids=str,
)  # fmt: skip
def test_hostile_numbers_of_open_files(refused: Refused, exported: Path, changes: dict[str, int]) -> None:
    parts = Parts(exported)
    parts.add_descriptor(b"f", **changes)
    refused(parts.joined())


def test_open_files_that_may_be_asked_for_harm_nobody(exported: Path, tmp_path: Path) -> None:
    """All that the checks let pass: other mounts, every right, every flag, the highest number."""
    for n, changes in enumerate(
        (
            {"fd": 2047},
            {"mount": 31},
            {"oflags": 15, "rights": (1 << 63) - 1},
            {"fdflags": 31},
            {"offset": (1 << 63) - 1},
        )
    ):
        parts = Parts(exported)
        parts.add_descriptor(b"f", **changes)
        parts.add_descriptor(b"../f"[3:], fd=10)
        path = tmp_path / f"odd{n}"
        path.write_bytes(zstandard.ZstdCompressor(level=1).compress(parts.joined()))
        session_id, _ = import_snapshot(path, tmp_path / "root")
        with get_session_sandbox(session_id, workspace_root=tmp_path / "root", resume=True) as sandbox:
            assert sandbox.execute("print(x, h.read(), open('f').read())").stdout == "5 content content\n", changes
            found = sandbox.execute("import os; print(os.path.exists('.metadata.json'), os.listdir('/app'))").stdout
            assert found == "False ['f']\n"


def test_links_that_lead_out_are_not_made(exported: Path, tmp_path: Path) -> None:
    for n, target in enumerate((b"/etc/passwd", b"../..", b"a/../../..", b".metadata.json")):
        parts = Parts(exported)
        parts.add_file(b"link", "link", target=target)
        path = tmp_path / f"link{n}"
        path.write_bytes(zstandard.ZstdCompressor(level=1).compress(parts.joined()))
        session_id, _ = import_snapshot(path, tmp_path / "root")
        assert not (tmp_path / "root" / session_id / "link").is_symlink()


def test_files_in_each_others_way(refused: Refused, exported: Path) -> None:
    parts = Parts(exported)
    parts.add_file(b"f/inside")
    assert "cannot be created" in refused(parts.joined())


def test_chunks_that_are_not_what_they_say(refused: Refused, exported: Path) -> None:
    parts = Parts(exported)
    name, data = parts.pieces[0]
    parts.pieces[0] = (name, bytes(len(data)))
    refused(parts.joined())
    parts.pieces[0] = (name, data[:-1])
    refused(parts.joined())
    parts.pieces[0] = (b"\1" * 32, data)
    refused(parts.joined())
    parts.pieces[0] = (name, data)
    extra = b"extra"
    parts.pieces.append((blake3(extra).digest(), extra))
    assert "does not name" in refused(parts.joined())
    parts.pieces[-1] = parts.pieces[0]
    assert "does not name" in refused(parts.joined()), "twice the same"
    del parts.pieces[-1], parts.pieces[3]
    assert "missing" in refused(parts.joined())


def test_a_chunk_of_memory_of_another_size(refused: Refused, exported: Path) -> None:
    parts = Parts(exported)
    odd = b"odd"
    parts.table += struct.pack("<IB", 3000, 1) + blake3(odd).digest()
    parts.pieces.append((blake3(odd).digest(), odd))
    refused(parts.joined())


def test_a_file_whose_parts_are_of_another_size(refused: Refused, exported: Path) -> None:
    data = b"short"
    name = blake3(data).digest()
    for size, chunks in ((5, name * 2), (1 << 20, name), (0, name), (3 << 20, name), (4 << 30, b"")):
        parts = Parts(exported)
        parts.pieces.append((name, data))
        parts.add_file(b"g", size=size, chunks=chunks)
        refused(parts.joined())
    parts = Parts(exported)
    parts.add_file(b"g", size=1, chunks=name[:-1])
    refused(parts.joined())


@pytest.mark.parametrize("size", [0, 1, MEMORY, 100, (1 << 32) + MEMORY, -MEMORY, "64k", None, 1.5, True])
def test_memory_of_another_size(refused: Refused, exported: Path, size: Any) -> None:
    parts = Parts(exported)
    parts.head["memory_bytes"] = size
    refused(parts.joined())


def test_less_memory_than_the_image_has(exported: Path, tmp_path: Path) -> None:
    """It can be imported, as nothing is run then; it cannot be opened."""
    parts = Parts(exported)
    parts.table = b""
    kept = {bytes.fromhex(f[6]) for f in parts.text["files"]}
    parts.pieces = [(name, data) for name, data in parts.pieces if name in kept]
    parts.head["memory_bytes"] = 0
    path = tmp_path / "small"
    path.write_bytes(zstandard.ZstdCompressor(level=1).compress(parts.joined()))
    session_id, _ = import_snapshot(path, tmp_path / "root")
    with pytest.raises(BadSnapshot, match="less memory"):
        get_session_sandbox(session_id, workspace_root=tmp_path / "root", resume=True)


def _peak() -> int:
    """The most memory this process had, in bytes, files it mapped and unnamed ones included."""
    (line,) = (line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("VmHWM"))
    return int(line.split()[1]) << 10


def test_more_memory_than_the_limit_is_refused_before_it_is_read(exported: Path, tmp_path: Path) -> None:
    """One chunk, named for all of 3 GiB: a few kilobytes of file."""
    data = b"\1" * MEMORY
    name = blake3(data).digest()
    parts = Parts(exported)
    parts.head["memory_bytes"] = 3 << 30
    parts.table = b"".join(struct.pack("<IB", number, 1) + name for number in range((3 << 30) // MEMORY))
    kept = {bytes.fromhex(f[6]) for f in parts.text["files"]}
    parts.pieces = [(n, d) for n, d in parts.pieces if n in kept] + [(name, data)]
    path = tmp_path / "large"
    path.write_bytes(zstandard.ZstdCompressor(level=9).compress(parts.joined()))
    assert path.stat().st_size < 500_000
    session_id, snapshot = import_snapshot(path, tmp_path / "root")
    Path("/proc/self/clear_refs").write_text("5")
    before = _peak()
    with pytest.raises(SandboxError, match="3.0 GB of memory, but the limit is 2.0 GB"):
        get_session_sandbox(session_id, workspace_root=tmp_path / "root", resume=True)
    with pytest.raises(SandboxError, match="raise it with %session limits memory=… in a notebook"):
        restore_snapshot(snapshot.snapshot_id, tmp_path / "root")
    assert _peak() - before < 300 << 20


def test_lists_without_end_are_refused_before_they_are_read(refused: Refused, exported: Path) -> None:
    for unit in (b"[],", b"{},", b'["app","61","file",0,0,"",""],'):
        parts = Parts(exported)
        parts.table = b""
        text = b'{"descriptors": [], "clock_ns": 1, "entry": 1, "files": [' + unit * ((60 << 20) // len(unit)) + b"0]}"
        Path("/proc/self/clear_refs").write_text("5")
        before = _peak()
        assert "files" in refused(parts.joined(text=text))
        assert _peak() - before < 400 << 20


@pytest.mark.parametrize("entry", [1, 4096, (1 << 32) - 1])
def test_an_entry_that_leads_nowhere(exported: Path, tmp_path: Path, entry: int) -> None:
    """The guest crashes; the host does not."""
    parts = Parts(exported)
    parts.text["entry"] = entry
    path = tmp_path / "entry"
    path.write_bytes(zstandard.ZstdCompressor(level=1).compress(parts.joined()))
    session_id, _ = import_snapshot(path, tmp_path / "root")
    with get_session_sandbox(session_id, workspace_root=tmp_path / "root", resume=True) as sandbox:
        assert not sandbox.execute("print(x)").success


def test_table_numbers_out_of_range(refused: Refused, exported: Path) -> None:
    name = Parts(exported).pieces[0][0]
    for entry in (
        struct.pack("<IB", 0xFFFFFFFF, 1) + name,
        struct.pack("<IB", 60_000, 1) + name,
        struct.pack("<IB", 5, 0),
        struct.pack("<IB", 5, 2) + name * 2,
        struct.pack("<IB", 5, 255) + name * 255,
        struct.pack("<IB", 5, 16) + name * 15,
        b"\0",
    ):
        parts = Parts(exported)
        parts.table += entry
        refused(parts.joined())


DEEP = b"[" * 200_000


@pytest.mark.parametrize(
    "text",
    [b"", b"null", b"[]", b"{", b"\xff\xfe", DEEP, b'{"files": ' + DEEP, b'{"files": [], "descriptors": []}',
     b'{"files": {}, "descriptors": [], "clock_ns": 1, "entry": 1}',
     b'{"files": [[]], "descriptors": [], "clock_ns": 1, "entry": 1}',
     b'{"files": [["app","zz","file",0,0,"",""]], "descriptors": [], "clock_ns": 1, "entry": 1}',
     b'{"files": [["etc","61","file",0,0,"",""]], "descriptors": [], "clock_ns": 1, "entry": 1}',
     b'{"files": [["app","61","device",0,0,"",""]], "descriptors": [], "clock_ns": 1, "entry": 1}',
     b'{"files": [["app","61","file",-1,0,"",""]], "descriptors": [], "clock_ns": 1, "entry": 1}',
     b'{"files": [["app","61","file",0,1e999,"",""]], "descriptors": [], "clock_ns": 1, "entry": 1}',
     b'{"files": [["app","61","file",0,' + b"9" * 5000 + b',"",""]], "descriptors": [], "clock_ns": 1, "entry": 1}',
     b'{"files": [], "descriptors": [], "clock_ns": -1, "entry": 1}',
     b'{"files": [], "descriptors": [], "clock_ns": 1, "entry": 99999999999}',
     b'{"files": [], "descriptors": [[]], "clock_ns": 1, "entry": 1}'],
    ids=lambda t: repr(t[:40]),
)  # fmt: skip
def test_manifests_that_are_none(refused: Refused, exported: Path, text: bytes) -> None:
    parts = Parts(exported)
    parts.pieces = []
    parts.table = b""
    refused(parts.joined(text=text))


@pytest.mark.parametrize(
    ("name", "value"),
    [("snapshot_id", "../x"), ("session_id", "../../x"), ("session_id", ""), ("session_id", 5), ("trigger", "cron"),
     ("created_at", "yesterday"), ("created_at", None), ("label", ["x"]), ("label", "x" * 500), ("parent", "../x"),
     ("execution_count", -1), ("execution_count", True), ("image_key", 5), ("file_count", 1 << 62), ("stored_bytes", "x")],
    ids=str,
)  # fmt: skip
def test_heads_that_are_none(refused: Refused, exported: Path, name: str, value: Any) -> None:
    parts = Parts(exported)
    parts.head[name] = value
    refused(parts.joined())
    del parts.head[name]
    refused(parts.joined())


def test_deep_heads(refused: Refused, exported: Path) -> None:
    parts = Parts(exported)
    for head in (b"", b"[]", DEEP, b'{"metadata": ' + DEEP):
        refused(parts.joined(head=head))


def test_another_image(refused: Refused, exported: Path) -> None:
    """What it needs is said, and how to have it."""
    parts = Parts(exported)
    parts.head["image_key"] = "0123456789abcdef0123"
    said = refused(parts.joined())
    assert "0123456789abcdef0123" in said
    assert "wasm-kernel image build" in said


def test_another_build_of_the_image(refused: Refused, exported: Path) -> None:
    """Its objects lie elsewhere in memory, so pages of the one make no sense in the other."""
    parts = Parts(exported)
    inputs, _, build = str(parts.head["image_key"]).partition("-")
    assert f"{inputs}-{build}" == image.load().key and build
    parts.head["image_key"] = f"{inputs}-{build[::-1]}"
    said = refused(parts.joined())
    assert "another build of the same image" in said and build in said and "wasm-kernel image pack" in said


@pytest.mark.parametrize(
    "key", ["", "..", "../../../../tmp/x", "/tmp/x", "0123456789abcdef012/", "é" * 20, f"{20 * '0'}-../../../tmp/"]
)
def test_an_image_whose_key_leads_elsewhere(refused: Refused, exported: Path, key: str) -> None:
    """A base memory that a guest wrote to its workspace must not be found by a path."""
    parts = Parts(exported)
    parts.head["image_key"] = key
    assert "no image" in refused(parts.joined())


def test_odd_metadata_is_not_taken_over(exported: Path, tmp_path: Path) -> None:
    parts = Parts(exported)
    parts.head["metadata"] = {"number": 0, "restored": "x", "reseed": False, "cell": "<script>" * 1000}
    parts.head["label"] = "\x1b[31m"
    parts.text["variables"] = {"x" * 10_000: ["int", 0, "x" * 10_000], "bad": 5, "y": [1, 2, 3]}
    path = tmp_path / "odd"
    path.write_bytes(zstandard.ZstdCompressor(level=1).compress(parts.joined()))
    _, snapshot = import_snapshot(path, tmp_path / "root")
    assert set(snapshot.metadata) == {"forked_from", "reseed"}
    assert snapshot.label.startswith("forked from")
