"""Add exports to a WebAssembly binary, by the names in its `name` section.

The runtime does not export what an interrupt needs (`PyErr_SetInterruptEx`). Its function indexes stand in the
custom `name` section; only the export section is rewritten, and the name section (14 MB) is dropped.
"""

from __future__ import annotations

from collections.abc import Iterator

_EXPORT_SECTION, _CUSTOM_SECTION, _FUNCTION_NAMES = 7, 0, 1


def add_exports(wasm: bytes, wanted: set[str]) -> bytes:
    """The module with the functions called ``wanted`` exported under their own names."""
    if wasm[:8] != b"\0asm\1\0\0\0":
        raise ValueError("not a WebAssembly 1 binary")
    found: dict[str, int] = {}
    for kind, body in _sections(wasm):
        if kind == _CUSTOM_SECTION and _is_name_section(body):
            found.update(_function_indexes(body, wanted))
    missing = wanted - found.keys()
    if missing:
        raise ValueError(f"the module names no function {', '.join(sorted(missing))}")
    out = bytearray(wasm[:8])
    for kind, body in _sections(wasm):
        if kind == _CUSTOM_SECTION and _is_name_section(body):
            continue
        new = bytes(body)
        if kind == _EXPORT_SECTION:
            count, start = _read(body, 0)
            extra = b"".join(
                _number(len(name)) + name.encode() + b"\0" + _number(index) for name, index in sorted(found.items())
            )
            new = _number(count + len(found)) + new[start:] + extra
        out += bytes([kind]) + _number(len(new)) + new
    return bytes(out)


def _sections(wasm: bytes) -> Iterator[tuple[int, memoryview]]:
    view, at = memoryview(wasm), 8
    while at < len(wasm):
        size, start = _read(view, at + 1)
        yield wasm[at], view[start : start + size]
        at = start + size


def _is_name_section(body: memoryview) -> bool:
    length, start = _read(body, 0)
    return bytes(body[start : start + length]) == b"name"


def _function_indexes(body: memoryview, wanted: set[str]) -> dict[str, int]:
    length, at = _read(body, 0)
    at += length
    found = {}
    while at < len(body):
        kind = body[at]
        size, at = _read(body, at + 1)
        end = at + size
        if kind == _FUNCTION_NAMES:
            count, at = _read(body, at)
            for _ in range(count):
                index, at = _read(body, at)
                length, at = _read(body, at)
                name = bytes(body[at : at + length]).decode(errors="replace")
                at += length
                if name in wanted:
                    found[name] = index
        at = end
    return found


def _read(data: memoryview, at: int) -> tuple[int, int]:
    """A LEB128 number and where it ends."""
    value = shift = 0
    while True:
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        shift += 7
        if not byte & 0x80:
            return value, at


def _number(value: int) -> bytes:
    out = bytearray()
    while True:
        byte, value = value & 0x7F, value >> 7
        if not value:
            out.append(byte)
            return bytes(out)
        out.append(byte | 0x80)
