"""Packed images: what comes out is what went in; what does not fit, or is damaged, is refused and leaves nothing.

The entries are small ones, made here, in a cache of the test's own. The hash of each file and the keys are checked
alike for real ones.
"""

from __future__ import annotations

import hashlib
import http.server
import io
import json
import tarfile
import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import zstandard

from wasm_kernel.errors import ConfigurationError, ImageError, ImageMissing
from wasm_kernel.host.image import cache, image, packing
from wasm_kernel.host.image.cache import Entry

NAMES = ("library", "site", "code", "filter", "base")
Change = Callable[[list[tuple[tarfile.TarInfo, bytes]]], None]


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[str], None]]:
    """Be another machine: one with a cache of its own."""
    kinds = {name: Entry(name, f"{name}-key") for name in NAMES}
    monkeypatch.setattr(image, "parts", lambda: replace(_real, **kinds))

    def be(name: str) -> None:
        monkeypatch.setenv("WASM_KERNEL_CACHE", str(tmp_path / name))

    be("here")
    yield be


_real = image.parts()


def build(*names: str) -> None:
    for name in names:

        def make(folder: Path, name: str = name) -> dict[str, Any]:
            (folder / "empty").mkdir()
            (folder / "deep" / "er").mkdir(parents=True)
            (folder / "deep" / "er" / "file.py").write_text(f"# {name}")
            (folder / f"{name}.mem").write_bytes(name.encode() * 1000)
            return {"fact": name}

        Entry(name, f"{name}-key").build(make)


@pytest.fixture
def packed(machine: Callable[[str], None], tmp_path: Path) -> Path:
    build(*NAMES)
    target = tmp_path / "image.tar.zst"
    packing.pack(target)
    machine("there")
    return target


def everything(folder: Path) -> dict[str, bytes | None]:
    return {
        str(path.relative_to(folder)): path.read_bytes() if path.is_file() else None
        for path in sorted(folder.rglob("*"))
        if path.name not in (cache.MANIFEST, cache.DIGESTS)
    }


def changed(pack: Path, change: Change) -> None:
    """Write a pack anew with other members, but whole as far as tar and zstd can tell."""
    members = []
    with zstandard.open(pack, "rb") as plain, tarfile.open(fileobj=plain, mode="r|") as tar:
        for info in tar:
            content = tar.extractfile(info) if info.isreg() else None
            members.append((info, content.read() if content else b""))
    change(members)
    with zstandard.open(pack, "wb") as plain, tarfile.open(fileobj=plain, mode="w|") as tar:
        for info, data in members:
            info.size = len(data)
            tar.addfile(info, io.BytesIO(data))


def index_of(members: list[tuple[tarfile.TarInfo, bytes]], change: Callable[[dict[str, Any]], None]) -> None:
    index = json.loads(members[0][1])
    change(index)
    members[0] = (members[0][0], json.dumps(index).encode())


def test_what_is_unpacked_is_what_was_packed(packed: Path, tmp_path: Path) -> None:
    digest = hashlib.sha256(packed.read_bytes()).hexdigest()
    made = packing.unpack(str(packed), sha256=digest.upper())
    assert [entry.kind for entry in made] == list(NAMES)
    for entry in made:
        there = tmp_path / "here" / entry.kind / entry.key
        assert everything(entry.path) == everything(there) and "empty" in everything(there)
        assert entry.verify() == []
        manifest = entry.manifest()
        assert manifest is not None and manifest["fact"] == entry.kind
    assert packing.unpack(str(packed)) == [], "it is there already"


def test_only_what_is_missing_is_taken(packed: Path) -> None:
    build("site", "base")
    assert [entry.kind for entry in packing.unpack(str(packed))] == ["library", "code", "filter"]


def test_what_is_not_built_is_not_packed(machine: Callable[[str], None], tmp_path: Path) -> None:
    build("library", "site")
    with pytest.raises(ImageMissing, match="image build"):
        packing.pack(tmp_path / "image.tar.zst")
    assert not (tmp_path / "image.tar.zst").exists()


def _swap_bytes(members: list[tuple[tarfile.TarInfo, bytes]]) -> None:
    at = next(n for n, (info, _) in enumerate(members) if info.name.endswith("code.mem"))
    members[at] = (members[at][0], members[at][1].replace(b"code", b"evil"))


def _add(name: str, kind: bytes = tarfile.REGTYPE, target: str = "") -> Change:
    def change(members: list[tuple[tarfile.TarInfo, bytes]]) -> None:
        info = tarfile.TarInfo(name)
        info.type, info.linkname = kind, target
        at = next(n for n, (info, _) in enumerate(members) if info.name.startswith("code/"))
        members.insert(at, (info, b"evil" if kind == tarfile.REGTYPE else b""))

    return change


def _drop(name: str) -> Change:
    return lambda members: members.remove(next(m for m in members if m[0].name.endswith(name)))


@pytest.mark.parametrize(
    "change",
    [
        pytest.param(_swap_bytes, id="other bytes"),
        pytest.param(_add("code/code-key/more"), id="a file it does not name"),
        pytest.param(_add("code/code-key/../../../escaped"), id="a name that leads out"),
        pytest.param(_add("/escaped/code/x"), id="an absolute name"),
        pytest.param(_add("code/code-key/link", tarfile.SYMTYPE, "/etc/passwd"), id="a link"),
        pytest.param(_add("code/code-key/pipe", tarfile.FIFOTYPE), id="a pipe"),
        pytest.param(_add("other/key/file"), id="an entry it does not name"),
        pytest.param(_drop("file.py"), id="a file is missing"),
        pytest.param(lambda members: members.__delitem__(slice(-3, None)), id="the end is missing"),
        pytest.param(lambda members: members.pop(0), id="no index"),
        pytest.param(lambda members: index_of(members, lambda i: i.update(format=2)), id="a later format"),
        pytest.param(lambda members: index_of(members, lambda i: i.update(entries=[1])), id="an index of nonsense"),
    ],
)
def test_what_is_not_as_it_was_packed_is_refused(packed: Path, tmp_path: Path, change: Change) -> None:
    changed(packed, change)
    with pytest.raises(ImageError, match=r"image\.tar\.zst is (damaged|not an image packed)"):
        packing.unpack(str(packed))
    assert not any(entry.path.exists() for entry in image.parts().all()), "the next build would go on from it"
    assert not list(tmp_path.rglob("escaped")) and not list((tmp_path / "there").rglob("building-*"))


@pytest.mark.parametrize("keep", [0.0, 0.1, 0.5, 0.99])
def test_a_file_that_was_cut_is_refused(packed: Path, keep: float) -> None:
    whole = packed.read_bytes()
    packed.write_bytes(whole[: int(len(whole) * keep)])
    with pytest.raises(ImageError):
        packing.unpack(str(packed))
    assert not any(entry.path.exists() for entry in image.parts().all())


def test_another_hash_is_refused_before_anything_is_read(packed: Path) -> None:
    with pytest.raises(ImageError, match="its SHA-256 is"):
        packing.unpack(str(packed), sha256="0" * 64)
    with pytest.raises(ConfigurationError, match="'12' is not a SHA-256"):
        packing.unpack(str(packed), sha256="12")
    assert not [entry for entry in image.parts().all() if entry.path.exists()]


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"cpu": "Linux x86_64 avx9"}, r"another kind of CPU \(\+avx9"),
        ({"wasmtime": "1.2.3"}, r"compiled by wasmtime 1\.2\.3, not \d"),
        ({}, "the image of another version of wasm-kernel"),
    ],
)
def test_an_image_for_other_machines_says_why(packed: Path, change: dict[str, str], said: str) -> None:
    def other(index: dict[str, Any]) -> None:
        index.update(change)
        index["entries"][0]["key"] = "another"

    changed(packed, lambda members: index_of(members, other))
    with pytest.raises(ImageError, match=f"does not fit here: it is .*{said}.*image build"):
        packing.unpack(str(packed))


def test_an_address_needs_a_hash(packed: Path) -> None:
    class Quiet(http.server.SimpleHTTPRequestHandler):
        def __init__(self, *args: Any) -> None:
            super().__init__(*args, directory=str(packed.parent))

        def log_message(self, *args: Any) -> None:
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Quiet) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        address = f"http://127.0.0.1:{server.server_port}/{packed.name}"
        with pytest.raises(
            ConfigurationError, match="machine code on this machine: add --sha256, or --image-sha256 for `install`"
        ):
            packing.unpack(address)
        with pytest.raises(ImageError, match="could not be fetched"):
            packing.unpack(f"{address}.not", sha256="0" * 64)
        with pytest.raises(ImageError, match="is not what it should be"):
            packing.unpack(address, sha256="0" * 64)
        assert len(packing.unpack(address, sha256=hashlib.sha256(packed.read_bytes()).hexdigest())) == len(NAMES)
        server.shutdown()
    with pytest.raises(ConfigurationError, match="neither a file nor an https address"):
        packing.unpack("ftp://example.org/x", sha256="0" * 64)
