"""A WebAssembly module that can be read and changed: functions by name, their bodies, types and exports.

    module = WasmModule(data)
    index = module.function_index("PyErr_SetInterruptEx")   # by the name section, else by the exports
    module.replace_body(index, body)                        # a body is its locals and its code, without its size
    helper = module.append_function(module.add_type(FunctionType(b"\\x7f", b"")), body)
    data = module.to_bytes()

What exists keeps its index: replaced bodies take the old ones' places, and new types, functions and exports come after
the old ones, so that the table, the data and the memory stay valid. Sections that nobody changed are copied byte for
byte. The code itself is not looked into: `wasmtime` validates the result when it compiles it.

Whatever does not fit its section is a `BadModule`. The runtime has 89,000 functions in 100 MB and is read and written
in about a second, which is why nothing here copies a section before it has to.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

from wasm_kernel.host.image.leb128 import BadNumber, read_unsigned, unsigned
from wasm_kernel.host.image.section_reader import BadModule, SectionReader

_HEADER = b"\0asm\1\0\0\0"
_CUSTOM, _TYPES, _IMPORTS, _FUNCTIONS, _GLOBALS, _EXPORTS, _CODE = 0, 1, 2, 3, 6, 7, 10
_FUNCTION, _TABLE, _MEMORY, _GLOBAL, _TAG = range(5)  # what an import or an export is
_FUNCTION_FORM = 0x60
_FUNCTION_NAMES = 1  # the subsection of the name section
_HAS_MAXIMUM = 1  # a flag of a table's or memory's limits
_I32_CONST, _I64_CONST, _END = 0x41, 0x42, 0x0B  # what the globals of a compiled program begin with


@dataclass(frozen=True)
class FunctionType:
    """What a function takes and gives, one byte per value as in the binary format (0x7F is i32, 0x7B is v128)."""

    parameters: bytes
    results: bytes


@dataclass(frozen=True)
class ImportedFunction:
    """A function that the module imports; these have the first indexes."""

    module: str
    name: str
    type_index: int


@dataclass(frozen=True)
class _Section:
    kind: int
    start: int
    end: int


class WasmModule:
    """A module, and the changes made to it."""

    def __init__(self, data: bytes) -> None:
        if data[: len(_HEADER)] != _HEADER:
            raise BadModule("not a WebAssembly 1 binary")
        self._data = data
        self._view = memoryview(data)
        self._sections = list(self._read_sections())
        self.imports: tuple[ImportedFunction, ...] = tuple(self._read_imports())
        self.types: list[FunctionType] = list(self._read_types())
        self._type_indexes = list(self._read_type_indexes())
        self._bodies = list(self._read_bodies())
        if len(self._bodies) != len(self._type_indexes):
            raise BadModule(f"{len(self._type_indexes)} functions are declared, {len(self._bodies)} have a body")
        self._old_types, self._old_functions = len(self.types), len(self._bodies)
        self._replaced: dict[int, bytes] = {}
        self._appended: list[bytes] = []
        self._new_exports: dict[str, tuple[int, int]] = {}  # kind and index

    # ---- what is there

    @property
    def function_count(self) -> int:
        """How many functions there are, imported and appended ones included: the next index."""
        return len(self.imports) + len(self._type_indexes)

    def function_index(self, name: str) -> int:
        """The function with this name; `BadModule` if there is none, or more than one."""
        found = self.function_names.get(name, ())
        if len(found) != 1:
            raise BadModule(f"the module has {len(found) or 'no'} functions called {name}")
        return found[0]

    @cached_property
    def function_names(self) -> dict[str, tuple[int, ...]]:
        """Name to indexes: what the name section says or, in a module without one, the exports. Names can be shared."""
        names: dict[str, tuple[int, ...]] = {}
        section = self._name_section()
        pairs = self._read_names(section) if section else ((n, i) for n, (k, i) in self.exports.items() if k == 0)
        for name, index in pairs:
            names[name] = (*names.get(name, ()), index)
        return names

    @cached_property
    def exports(self) -> dict[str, tuple[int, int]]:
        """Name to kind (0 is a function) and index, as the module came."""
        found = {}
        for section in self._of(_EXPORTS):
            reader = self._reader(section)
            for _ in range(reader.number()):
                name = reader.text()
                found[name] = (reader.byte(), reader.number())
            reader.finish()
        return found

    def type_index(self, index: int) -> int:
        """The type of a function, as an index into `types`."""
        if 0 <= index < len(self.imports):
            return self.imports[index].type_index
        return self._type_indexes[self._own(index)]

    def function_type(self, index: int) -> FunctionType:
        """What a function takes and gives."""
        return self.types[self.type_index(index)]

    def body(self, index: int) -> bytes:
        """A function's locals and code, as they are now."""
        own = self._own(index)
        if own >= self._old_functions:
            return self._appended[own - self._old_functions]
        if own in self._replaced:
            return self._replaced[own]
        _, start, end = self._bodies[own]
        return self._data[start:end]

    def body_offset(self, index: int) -> int:
        """Where a function's body begins in the code section as the module came: relocations count from there."""
        _, start, _ = self._bodies[self._own(index)]
        return start - next(self._of(_CODE)).start

    def custom_section(self, name: str) -> bytes:
        """What a custom section holds after its name; nothing if there is no such section."""
        for section in self._of(_CUSTOM):
            reader = self._reader(section)
            if reader.text() == name:
                return reader.take(section.end - reader.at)
        return b""

    # ---- changes

    def replace_body(self, index: int, body: bytes) -> None:
        """Give a function other locals and other code; its type stays."""
        own = self._own(index)
        if own >= self._old_functions:
            self._appended[own - self._old_functions] = body
        else:
            self._replaced[own] = body

    def add_type(self, wanted: FunctionType) -> int:
        """The index of this type, which is appended if the module does not have it."""
        if wanted not in self.types:
            self.types.append(wanted)
        return self.types.index(wanted)

    def append_function(self, type_index: int, body: bytes) -> int:
        """Add a function after all others; its index."""
        if not 0 <= type_index < len(self.types):
            raise BadModule(f"there is no type {type_index}: the module has {len(self.types)}")
        self._type_indexes.append(type_index)
        self._appended.append(body)
        return self.function_count - 1

    def export_function(self, name: str, index: int) -> None:
        """Export a function under this name."""
        if not 0 <= index < self.function_count:
            raise BadModule(f"there is no function {index}: the module has {self.function_count}")
        self._export(name, _FUNCTION, index)

    def export_mutable_global(self, name: str) -> None:
        """Export the one global that can change; `BadModule` if there is none, or more than one."""
        mutable = [index for index, changes in enumerate(self._read_globals()) if changes]
        if len(mutable) != 1:
            raise BadModule(f"the module has {len(mutable)} mutable globals; exactly one is expected")
        self._export(name, _GLOBAL, mutable[0])

    def _export(self, name: str, kind: int, index: int) -> None:
        if name in self.exports or name in self._new_exports:
            raise BadModule(f"the module already exports {name}")
        self._new_exports[name] = kind, index

    def to_bytes(self, *, names: bool = True) -> bytes:
        """The module with all changes; without its name section if ``names`` is false."""
        changed = {_TYPES: self._types, _FUNCTIONS: self._functions, _EXPORTS: self._all_exports, _CODE: self._code}
        self._check_sections()
        out: list[bytes | memoryview] = [_HEADER]
        for section in self._sections:
            if not names and self._is_name_section(section):
                continue
            parts = (
                changed[section.kind](section) if section.kind in changed else [self._view[section.start : section.end]]
            )
            out += [bytes([section.kind]), unsigned(sum(map(len, parts))), *parts]
        return b"".join(out)

    def _check_sections(self) -> None:
        """New entries need a section to stand in; the runtime has them all, so none is made here."""
        grown = {_TYPES: self.types[self._old_types :], _CODE: self._appended, _EXPORTS: self._new_exports}
        for kind, new in grown.items():
            if new and not any(self._of(kind)):
                raise BadModule(f"the module has no section {kind} to add to")

    # ---- sections as they are written

    def _types(self, section: _Section) -> list[bytes | memoryview]:
        new = (
            bytes([_FUNCTION_FORM]) + b"".join(unsigned(len(values)) + values for values in (t.parameters, t.results))
            for t in self.types[self._old_types :]
        )
        return self._grown(section, list(new))

    def _functions(self, section: _Section) -> list[bytes | memoryview]:
        return self._grown(section, [unsigned(index) for index in self._type_indexes[self._old_functions :]])

    def _all_exports(self, section: _Section) -> list[bytes | memoryview]:
        new = [
            unsigned(len(name.encode())) + name.encode() + bytes([kind]) + unsigned(index)
            for name, (kind, index) in sorted(self._new_exports.items())
        ]
        return self._grown(section, new)

    def _grown(self, section: _Section, new: list[bytes]) -> list[bytes | memoryview]:
        """A section that is a list, with more at its end."""
        count, start = read_unsigned(self._view, section.start)
        return [unsigned(count + len(new)), self._view[start : section.end], *new]

    def _code(self, section: _Section) -> list[bytes | memoryview]:
        _, at = read_unsigned(self._view, section.start)
        parts: list[bytes | memoryview] = [unsigned(len(self._type_indexes))]
        for own in sorted(self._replaced):
            before, _, end = self._bodies[own]
            parts += [self._view[at:before], unsigned(len(self._replaced[own])), self._replaced[own]]
            at = end
        parts.append(self._view[at : section.end])
        for body in self._appended:
            parts += [unsigned(len(body)), body]
        return parts

    # ---- reading

    def _own(self, index: int) -> int:
        own = index - len(self.imports)
        if not 0 <= own < len(self._type_indexes):
            raise BadModule(
                f"there is no function {index} with a body: they are {len(self.imports)} to {self.function_count - 1}"
            )
        return own

    def _reader(self, section: _Section) -> SectionReader:
        return SectionReader(self._view, section.start, section.end)

    def _of(self, kind: int) -> Iterator[_Section]:
        return (section for section in self._sections if section.kind == kind)

    def _read_sections(self) -> Iterator[_Section]:
        at, seen = len(_HEADER), set()
        while at < len(self._data):
            kind = self._data[at]
            if kind != _CUSTOM and kind in seen:
                raise BadModule(f"the module has two sections {kind}")
            seen.add(kind)
            try:
                size, start = read_unsigned(self._data, at + 1)
            except BadNumber as e:
                raise BadModule(str(e)) from None
            if start + size > len(self._data):
                raise BadModule(f"section {kind} at byte {at} is longer than the module")
            yield _Section(kind, start, start + size)
            at = start + size

    def _read_imports(self) -> Iterator[ImportedFunction]:
        for section in self._of(_IMPORTS):
            reader = self._reader(section)
            for _ in range(reader.number()):
                module, name, kind = reader.text(), reader.text(), reader.byte()
                if kind == _FUNCTION:
                    yield ImportedFunction(module, name, reader.number())
                elif kind in (_TABLE, _MEMORY):
                    reader.skip(1 if kind == _TABLE else 0)
                    for _ in range(2 if reader.number() & _HAS_MAXIMUM else 1):
                        reader.number()
                elif kind == _GLOBAL:
                    reader.skip(2)
                elif kind == _TAG:
                    reader.skip(1)
                    reader.number()
                else:
                    raise BadModule(f"an import of kind {kind}")
            reader.finish()

    def _read_types(self) -> Iterator[FunctionType]:
        for section in self._of(_TYPES):
            reader = self._reader(section)
            for _ in range(reader.number()):
                if (form := reader.byte()) != _FUNCTION_FORM:
                    raise BadModule(f"a type of form {form:#x}: only functions are known here")
                yield FunctionType(reader.take(reader.number()), reader.take(reader.number()))
            reader.finish()

    def _read_type_indexes(self) -> Iterator[int]:
        for section in self._of(_FUNCTIONS):
            reader = self._reader(section)
            for _ in range(reader.number()):
                if (index := reader.number()) >= len(self.types):
                    raise BadModule(f"a function of type {index}: the module has {len(self.types)} types")
                yield index
            reader.finish()

    def _read_globals(self) -> Iterator[bool]:
        """Of each global, whether it can change."""
        for section in self._of(_IMPORTS):
            reader = self._reader(section)
            if len(self.imports) != reader.number():
                raise BadModule("the module imports more than functions")
        for section in self._of(_GLOBALS):
            reader = self._reader(section)
            for _ in range(reader.number()):
                reader.skip(1)
                changes = reader.byte()
                if reader.byte() not in (_I32_CONST, _I64_CONST):
                    raise BadModule("a global that does not begin with a number")
                while reader.byte() & 0x80:
                    pass
                if reader.byte() != _END:
                    raise BadModule("a global that begins with more than a number")
                yield bool(changes)
            reader.finish()

    def _read_bodies(self) -> Iterator[tuple[int, int, int]]:
        """Of each function with a body: where its size is, where the body begins, where it ends."""
        for section in self._of(_CODE):
            reader = self._reader(section)
            for _ in range(reader.number()):
                before = reader.at
                size = reader.number()
                yield before, reader.at, reader.skip(size)
            reader.finish()

    def _is_name_section(self, section: _Section) -> bool:
        return section.kind == _CUSTOM and self._reader(section).text() == "name"

    def _name_section(self) -> _Section | None:
        return next((section for section in self._sections if self._is_name_section(section)), None)

    def _read_names(self, section: _Section) -> Iterator[tuple[str, int]]:
        reader = self._reader(section)
        reader.text()
        while reader.at < section.end:
            kind, size = reader.byte(), reader.number()
            part = SectionReader(self._view, reader.at, reader.skip(size))
            if kind == _FUNCTION_NAMES:
                for _ in range(part.number()):
                    index = part.number()
                    yield part.text(), index
                part.finish()
