"""The first values of NumPy's files; headers made to do harm; and that nothing is ever unpickled."""

from __future__ import annotations

import io
import os
import pickle
import re
import struct
import zipfile
from html import unescape
from pathlib import Path

import pytest

from wasm_kernel.kernel.files.array_preview import show_array, show_arrays
from wasm_kernel.kernel.files.preview_parts import NotThat


def array(descr: object, shape: tuple[int, ...], data: bytes, *, fortran: bool = False, version: int = 1) -> bytes:
    """As `numpy.save` writes it."""
    header = repr({"descr": descr, "fortran_order": fortran, "shape": shape}).encode() + b"\n"
    length = struct.pack("<H" if version == 1 else "<I", len(header))
    return b"\x93NUMPY" + bytes((version, 0)) + length + header + data


def show(data: bytes) -> tuple[str, list[list[str]]]:
    said, markup = show_array(io.BytesIO(data), len(data))
    return said, [
        [unescape(cell) for cell in re.findall(r"<t[hd]>(.*?)</t[hd]>", line)] for line in markup.split("<tr>")[1:]
    ]


def test_shapes_and_orders() -> None:
    six = struct.pack("<6d", 0, 1, 2, 3, 4, 5.5)
    said, table = show(array("<f8", (2, 3), six))
    assert said == "float64, 2 × 3"
    assert table == [["", "0", "1", "2"], ["0", "0", "1", "2"], ["1", "3", "4", "5.5"]]
    assert show(array("<f8", (2, 3), six, fortran=True))[1][1:] == [["0", "0", "2", "4"], ["1", "1", "3", "5.5"]]
    assert show(array("<f8", (6,), six, version=3))[1][:2] == [["", "value"], ["0", "0"]]
    assert show(array("<f8", (), six[40:], version=2)) == ("float64, one value", [["", "value"], ["0", "5.5"]])
    said, table = show(array(">i2", (3, 2, 1), struct.pack(">6h", *range(6))))
    assert said == "int16, 3 × 2 × 1; [0, :, :]" and [line[1] for line in table[1:]] == ["0", "1"]
    said, table = show(array("<i2", (3, 2, 1), struct.pack("<6h", *range(6)), fortran=True))
    assert [line[1] for line in table[1:]] == ["0", "3"]
    said, table = show(array("|u1", (100, 100), bytes(range(100)) * 100))
    assert said == "uint8, 100 × 100, the beginning"
    assert len(table) == 51 and table[50][:3] == ["49", "0", "1"] and table[0][-2:] == ["19", "…"]
    assert show(array("<f8", (0, 3), b""))[0] == "float64, 0 × 3, empty"


@pytest.mark.parametrize(
    ("descr", "data", "said", "text"),
    [
        ("|b1", b"\1", "bool, 1", "True"),
        ("<f2", struct.pack("<e", 1.5), "float16, 1", "1.5"),
        ("<c16", struct.pack("<dd", 1, -2), "complex128, 1", "1-2j"),
        ("<U3", "größe"[:3].encode("utf-32-le"), "str, 3, 1", "grö"),
        ("|S4", b"<b>\0", "bytes, 4, 1", "<b>"),
        ("<M8[D]", struct.pack("<q", 19000), "datetime64[D], 1", "2022-01-08"),
        ("<M8[ns]", struct.pack("<q", -(1 << 63)), "datetime64[ns], 1", "NaT"),
        ("<M8[ns]", struct.pack("<q", 1_700_000_000_000_000_000), "datetime64[ns], 1", "2023-11-14 22:13:20"),
        ("<M8[s]", struct.pack("<q", 1 << 62), "datetime64[s], 1", str(1 << 62)),
        ("<f8", struct.pack("<d", float("nan")), "float64, 1", "nan"),
    ],
)
def test_types(descr: str, data: bytes, said: str, text: str) -> None:
    assert show(array(descr, (1,), data)) == (said, [["", "value"], ["0", text]])


def test_records() -> None:
    descr = [("name", "|S3"), ("", "|V1"), (("A title", "n"), "<i4")]
    said, table = show(array(descr, (2,), b"Ann\0" + struct.pack("<i", 1) + b"Bob\0" + struct.pack("<i", 2)))
    assert said == "2 fields, 2"
    assert table == [["", "name", "n"], ["0", "Ann", "1"], ["1", "Bob", "2"]]


class Harm:
    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[object, ...]:
        return os.mkdir, (str(self.path),)


def test_objects_are_never_loaded(tmp_path: Path) -> None:
    harm = pickle.dumps([Harm(tmp_path / "done")])
    for descr in ("|O", "O", "|O8", [("a", "|O")]):
        with pytest.raises(NotThat):
            show(array(descr, (1,), harm))
    assert not (tmp_path / "done").exists()


@pytest.mark.parametrize(
    "data",
    [
        b"", b"\x93NUMPY\1\0", b"\x93NUMPY\x09\0" + bytes(100), b"\x93NUMPY\2\0\xff\xff\xff\xff{}",
        b"\x93NUMPY\1\0\x10\0__import__('os')", array("<f8", (1 << 40,), b""), array("<f8", (-1,), b"x" * 8),
        array("<f8", (True,), b"x" * 8), array("<f8", (1,) * 65, b"x" * 8), array("<f8" * 99, (1,), b"x"),
        array("<U9999999", (1,), b"x"), array("<f3", (1,), b"xxx"), array([("a", "<f8", (3,))], (1,), b"x" * 24),
        array([], (1,), b""), array({"a": 1}, (1,), b""), array("<f8", (2,), b"x" * 15), array("<f8", (1 << 70,), b""),
        b"\x93NUMPY\1\0\x20\x27" + b"(" * 10_000, b"\x93NUMPY\1\0\x20\x27" + b"-" * 10_000,
    ],
)  # fmt: skip
def test_headers_that_lie(data: bytes) -> None:
    with pytest.raises(NotThat):
        show(data)


def test_archives_of_arrays() -> None:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("weights.npy", array("<f4", (3, 4), bytes(48)))
        archive.writestr("<b>.npy", array("|O", (1,), b""))
        archive.writestr("bomb.npy", bytes(64 << 20))
    out.seek(0)
    said, markup = show_arrays(out)
    assert said == "3 arrays"
    assert "<td>weights</td><td>float32, 3 × 4</td>" in markup
    assert "<td>&lt;b&gt;</td><td>it holds Python objects" in markup
    with pytest.raises(NotThat):
        show_arrays(io.BytesIO(b"PK\3\4 nothing"))
