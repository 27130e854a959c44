"""The first values of NumPy's files. Runs in the process of `contents`.

Numbers are taken from their places by their type, which the header names. Nothing is unpickled: an array of Python
objects is a pickle, and is not read.
"""

from __future__ import annotations

import ast
import math
import re
import struct
import zipfile
import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import IO, Any

from wasm_kernel.kernel.files.preview_parts import COLUMNS, ROWS, NotThat, Preview, short, table_html
from wasm_kernel.model.units import counted

_MAGIC = b"\x93NUMPY"
_HEADER = 10_000  # bytes; NumPy itself reads no longer ones
_DIMENSIONS = 64
_FIELDS = 1000
_ITEM = 64 << 10  # bytes of one value
_MEMBERS = 200
_TYPE = re.compile(r"([<>|=]?)([?bBiufcSUmMV])([0-9]{0,7})(\[[0-9A-Za-z]{1,12}\])?\Z")
_STRUCT = {
    "i": {1: "b", 2: "h", 4: "i", 8: "q"},
    "u": {1: "B", 2: "H", 4: "I", 8: "Q"},
    "f": {2: "e", 4: "f", 8: "d"},
}
_NAMES = {"i": "int", "u": "uint", "f": "float", "c": "complex", "S": "bytes", "U": "str", "V": "void"}
_NOT_AN_ARRAY = "not an array of NumPy's"


@dataclass(frozen=True)
class Scalar:
    """How one value is stored: the name of its type, its bytes, and what it says."""

    name: str
    size: int
    text: Callable[[bytes], str]


@dataclass(frozen=True)
class Header:
    """What is in a file: fields (one without a name, if it is a plain array), shape, order, and where values begin."""

    fields: list[tuple[str, Scalar]]
    shape: tuple[int, ...]
    fortran: bool
    begin: int

    @property
    def size(self) -> int:
        """Bytes of an element."""
        return sum(scalar.size for _, scalar in self.fields)

    @property
    def kind(self) -> str:
        """The name of its type."""
        if len(self.fields) == 1 and not self.fields[0][0]:
            return self.fields[0][1].name
        return counted(sum(bool(name) for name, _ in self.fields), "field")

    def describe(self) -> str:
        """``float64, 3 × 4``"""
        return f"{self.kind}, {' × '.join(f'{n:,}' for n in self.shape) or 'one value'}"


def show_array(file: IO[bytes], size: int) -> Preview:
    """The first values of a .npy file: of one with more than two dimensions, the first table in it."""
    header = read_header(file)
    rows, columns = [1, 1, *header.shape][-2:] if len(header.shape) != 1 else (header.shape[0], 1)
    said = header.describe()
    if 0 in header.shape:
        return f"{said}, empty", ""
    if len(header.shape) > 2:
        said += f"; [{'0, ' * (len(header.shape) - 2)}:, :]"
    steps = _steps(header)
    if header.begin + header.size * math.prod(header.shape) > size:
        raise NotThat("the file ends before the array does")
    fields = [name for name, _ in header.fields]
    body = []
    for row in range(min(rows, ROWS)):
        line: list[str] = []
        for column in range(min(columns, COLUMNS)):
            file.seek(header.begin + row * steps[0] + column * steps[1])
            line += _texts(header, file.read(header.size))
        body.append([row, *line, *(["…"] * (columns > COLUMNS))])
    if rows > ROWS or columns > COLUMNS:
        said += ", the beginning"
    named = [short(name) for name in fields if name]
    heads = named if named else ["value"] if len(header.shape) < 2 else list(range(min(columns, COLUMNS)))
    repeated = named and columns > 1
    head = ["", *(heads * min(columns, COLUMNS) if repeated else heads), *(["…"] * (columns > COLUMNS))]
    return said, table_html(head, body)


def show_arrays(file: IO[bytes]) -> Preview:
    """What is in a .npz file: names, types and shapes."""
    try:
        with zipfile.ZipFile(file) as archive:
            members = archive.infolist()
            rows = []
            for member in members[:_MEMBERS]:
                described = "packed in a way that NumPy does not"
                if member.compress_type in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
                    try:
                        with archive.open(member) as part:
                            described = read_header(part).describe()
                    except NotThat as e:
                        described = str(e)
                rows.append((short(member.filename.removesuffix(".npy")), described))
    except (zipfile.BadZipFile, zlib.error, RuntimeError, EOFError, OSError, ValueError):
        raise NotThat("not an archive of NumPy's") from None
    return counted(len(members), "array"), table_html(("name", "type and shape"), rows)


def read_header(file: IO[bytes]) -> Header:
    """The header of an array; `NotThat` if it is none, or one of Python objects."""
    start = file.read(12)
    if len(start) < 12 or start[:6] != _MAGIC or start[6] not in (1, 2, 3):
        raise NotThat(_NOT_AN_ARRAY)
    length, rest = (
        (int.from_bytes(start[8:10], "little"), start[10:])
        if start[6] == 1
        else (
            int.from_bytes(start[8:12], "little"),
            b"",
        )
    )
    if length > _HEADER:
        raise NotThat("its header is too long")
    text = (rest + file.read(length - len(rest))).decode("utf-8" if start[6] == 3 else "latin-1", "replace")
    try:
        told = ast.literal_eval(text.strip())  # a display of constants, as NumPy reads it; no names, no calls
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        raise NotThat(_NOT_AN_ARRAY) from None
    if not isinstance(told, dict):
        raise NotThat(_NOT_AN_ARRAY)
    shape = told.get("shape")
    if (
        not isinstance(shape, tuple)
        or len(shape) > _DIMENSIONS
        or not all(type(n) is int and 0 <= n < 1 << 48 for n in shape)
    ):
        raise NotThat("its shape is not one")
    return Header(
        _fields(told.get("descr")), shape, told.get("fortran_order") is True, (10 if start[6] == 1 else 12) + length
    )


def _fields(told: Any) -> list[tuple[str, Scalar]]:
    if isinstance(told, str):
        return [("", _scalar(told))]
    if not isinstance(told, list) or not 0 < len(told) <= _FIELDS:
        raise NotThat("its type is not known")
    found = []
    for each in told:
        if not (isinstance(each, tuple) and len(each) == 2 and isinstance(each[1], str)):
            raise NotThat("its fields hold arrays or records")
        name = each[0][-1] if isinstance(each[0], tuple) and each[0] else each[0]
        found.append((str(name), _scalar(each[1])))
    return found


def _scalar(told: str) -> Scalar:
    """How values of a type are stored, as NumPy names it: ``<f8``."""
    if told.endswith("O"):
        raise NotThat("it holds Python objects, which are never loaded here")
    match = _TYPE.match(told)
    if match is None:
        raise NotThat(f"its type is not known: {told[:40]}")
    order, kind, digits, unit = match.groups()
    order = ">" if order == ">" else "<"
    size = int(digits) if digits else 1
    if kind in "?bB":
        return Scalar(
            "bool" if kind != "B" else "uint8", 1, lambda data: str(bool(data[0]) if kind != "B" else data[0])
        )
    if size > _ITEM // 4:
        raise NotThat("its values are too large")
    if kind == "U":
        return Scalar(f"str, {size}", 4 * size, lambda data: _characters(data, order))
    if kind == "S":
        return Scalar(f"bytes, {size}", size, lambda data: data.rstrip(b"\0").decode("latin-1"))
    if kind == "V":
        return Scalar(f"void{8 * size}", size, bytes.hex)
    if kind in "mM" and size == 8:
        return Scalar(
            f"{'datetime' if kind == 'M' else 'timedelta'}64{unit or ''}", 8, lambda data: _moment(data, order, unit)
        )
    if kind == "c" and size in (8, 16):
        return Scalar(f"complex{8 * size}", size, lambda data: _complex(data, order))
    code = _STRUCT.get(kind, {}).get(size)
    if code is None:
        raise NotThat(f"its type is not known: {told[:40]}")
    return Scalar(f"{_NAMES[kind]}{8 * size}", size, lambda data: _plain(struct.unpack(order + code, data)[0]))


def _plain(value: float) -> str:
    return f"{value:.8g}" if isinstance(value, float) else str(value)


def _complex(data: bytes, order: str) -> str:
    real, imaginary = struct.unpack(order + ("ff" if len(data) == 8 else "dd"), data)
    return f"{real:.8g}{imaginary:+.8g}j"


def _moment(data: bytes, order: str, unit: str | None) -> str:
    """A date as a number of its units, unless they are days or finer ones down to nanoseconds."""
    (value,) = struct.unpack(order + "q", data)
    if value == -(1 << 63):
        return "NaT"
    seconds = {"[D]": 86400, "[h]": 3600, "[m]": 60, "[s]": 1, "[ms]": 1e-3, "[us]": 1e-6, "[ns]": 1e-9}.get(unit or "")
    if seconds is None:
        return str(value)
    try:
        then = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(seconds=value * seconds)
    except OverflowError:
        return str(value)
    return f"{then:%Y-%m-%d}" if unit == "[D]" else f"{then:%Y-%m-%d %H:%M:%S}"


def _characters(data: bytes, order: str) -> str:
    return data.decode("utf-32-le" if order == "<" else "utf-32-be", "replace").rstrip("\0")


def _texts(header: Header, data: bytes) -> list[str]:
    """One element as texts, one for each field with a name; padding has none."""
    if len(data) < header.size:
        raise NotThat("the file ends before the array does")
    found, at = [], 0
    plain = len(header.fields) == 1
    for name, scalar in header.fields:
        if name or plain:
            found.append(short(scalar.text(data[at : at + scalar.size])))
        at += scalar.size
    return found


def _steps(header: Header) -> Sequence[int]:
    """Bytes from one row to the next, and from one column to the next, of the last two dimensions."""
    shape = header.shape
    if len(shape) < 2:
        return header.size, 0
    if header.fortran:
        above = header.size * math.prod(shape[:-2])
        return above, above * shape[-2]
    return header.size * shape[-1], header.size
