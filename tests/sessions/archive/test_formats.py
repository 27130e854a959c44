"""The formats of archives, in memory: what is written is read, byte by byte, and what is cut or odd is refused."""

from __future__ import annotations

import io
import tarfile
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest
import zstandard

from wasm_kernel.errors import BadArchive, ConfigurationError
from wasm_kernel.sessions.archive.formats import FORMATS, Format, format_of
from wasm_kernel.sessions.archive.members import blamed_on
from wasm_kernel.sessions.archive.tar_format import read_tar
from wasm_kernel.sessions.archive.zip_format import read_zip

NAME = Path("it")
MEMBERS = {
    "session.json": b"{}",
    "files/": b"",
    "files/empty": b"",
    "files/a/": b"",
    "files/a/b.bin": bytes(range(256)) * 40,
    "files/" + "long/" * 60 + "name": b"x",
    "files/\udcff\udc80 no utf-8": b"y",
    "files/private \uf7ff": b"z",
    "files/日本 🐍": b"w",
}


@pytest.fixture(params=FORMATS.values(), ids=FORMATS)
def kind(request: pytest.FixtureRequest) -> Format:
    return request.param  # type: ignore[no-any-return]


def written(kind: Format, members: dict[str, bytes]) -> bytes:
    file = io.BytesIO()
    with kind.write(file) as add:
        for name, data in members.items():
            add(name, io.BytesIO(data), len(data))
    return file.getvalue()


def read(kind: Format, data: bytes) -> dict[str, bytes]:
    return {name: b"".join(blocks(of)) for name, of in kind.read(io.BytesIO(data), NAME)}


def blocks(of: object) -> Iterator[bytes]:
    while block := of(1000):  # type: ignore[operator]
        yield block


def test_what_is_written_is_read(kind: Format) -> None:
    assert read(kind, written(kind, MEMBERS)) == MEMBERS


def test_a_file_that_shrinks_or_grows_meanwhile(kind: Format) -> None:
    """Its size was taken before it was read, and the guest may still write."""
    for data, size in ((b"abc", 5), (b"abcdefgh", 5)):
        file = io.BytesIO()
        with kind.write(file) as add:
            add("files/f", io.BytesIO(data), size)
            add("files/g", io.BytesIO(b"next"), 4)
        found = read(kind, file.getvalue())
        assert found["files/f"].rstrip(b"\0") == data[:5]
        assert found["files/g"] == b"next"


def test_every_cut_is_noticed(kind: Format) -> None:
    data = written(kind, {"session.json": b"{}", "files/a": b"x" * 3000})
    for end in range(0, len(data), 7):
        with pytest.raises(BadArchive):
            read(kind, data[:end])


def test_the_format_is_in_the_name() -> None:
    assert format_of(Path("/x/a.b.zip")) is FORMATS[".zip"]
    assert format_of(Path("monday.tar.zst")) is FORMATS[".tar.zst"]
    for name in ("a.tar", "a.zip.gz", "zip", "a.ZIP"):
        with pytest.raises(ConfigurationError, match=r"must end in \.zip or \.tar\.zst"):
            format_of(Path(name))


@pytest.mark.parametrize(
    "error", [zipfile.BadZipFile("x"), zstandard.ZstdError("x"), EOFError("x"), OSError("x"), ValueError("x")]
)
def test_whatever_goes_wrong_is_the_archives_fault(error: Exception) -> None:
    with pytest.raises(BadArchive, match="it is damaged, or not an archive: x"), blamed_on(NAME):
        raise error
    with pytest.raises(BadArchive, match="^mine$"), blamed_on(NAME):
        raise BadArchive("mine")


# ---- tar


def packed(data: bytes) -> io.BytesIO:
    return io.BytesIO(zstandard.ZstdCompressor().compress(data))


def tar(*members: tarfile.TarInfo) -> bytes:
    file = io.BytesIO()
    with tarfile.open(fileobj=file, mode="w", format=tarfile.PAX_FORMAT) as archive:
        for info in members:
            archive.addfile(info, io.BytesIO(bytes(info.size)))
    return file.getvalue()


@pytest.mark.parametrize("kind", [tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.FIFOTYPE, tarfile.CHRTYPE, b"V"])
def test_members_of_a_tar_that_are_no_ordinary_files(kind: bytes) -> None:
    info = tarfile.TarInfo("files/x")
    info.type, info.linkname = kind, "/etc/passwd"
    with pytest.raises(BadArchive, match="not an ordinary file"):
        list(read_tar(packed(tar(info)), NAME))


def test_what_follows_the_end_of_a_tar() -> None:
    whole = tar(tarfile.TarInfo("files/x"))
    assert [name for name, _ in read_tar(packed(whole + bytes(1000)), NAME)] == ["files/x"]
    for more in (b"hidden", bytes(2 << 20)):
        with pytest.raises(BadArchive, match="continues after its end"):
            list(read_tar(packed(whole + more), NAME))


# ---- zip


def test_a_zip_whose_list_is_longer_than_it_says() -> None:
    data = bytearray(written(FORMATS[".zip"], {"files/a": b"1", "files/b": b"2"}))
    end = data.rindex(b"PK\5\6")
    data[end + 10 : end + 12] = b"\x01\x00"
    with pytest.raises(BadArchive):
        list(read_zip(io.BytesIO(bytes(data)), NAME))
