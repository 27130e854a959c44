"""DESIGN.md and CONTRIBUTING.md name modules, functions and classes: each of them is there."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "wasm_kernel"
DOCUMENTS = {name: (ROOT / name).read_text() for name in ("DESIGN.md", "CONTRIBUTING.md")}
_FILE = r"[\w/]*\w\.(?:py|wat|js|html|yaml)\b"
_OF_OTHERS = {"asyncio", "gc", "inspect", "ipykernel", "os", "queue", "sys", "tarfile"}  # modules
_NO_PYTHON = {"memory.copy", "vm.max_map_count"}  # an instruction, a setting of Linux


def _source_files() -> set[str]:
    folders = (PACKAGE, ROOT / "tests", ROOT / "bench")
    return {f"/{path.relative_to(ROOT)}" for folder in folders for path in folder.rglob("*.*") if path.is_file()}


def _tree() -> Iterator[tuple[Path, str]]:
    """The lines of the tree in section 2 of DESIGN.md, each with the folder that it is about."""
    text = DOCUMENTS["DESIGN.md"].partition("## 2. ")[2].split("```")[1]
    outer = folder = PACKAGE
    for line in text.strip().splitlines():
        if name := re.match(r"(\w+)/ ", line):
            outer = folder = PACKAGE / name[1]
        elif name := re.match(r" {2}(\w+)/ ", line):
            folder = outer / name[1]
        elif line[0] != " ":  # a module of the package itself
            folder = PACKAGE
        yield folder, line


def test_every_module_of_the_tree_is_in_its_folder() -> None:
    count = 0
    for folder, line in _tree():
        text = re.sub(r"(\w+)(\.\w+) and (\.\w+)", r"\1\2 and \1\3", line)  # "interposer.wat and .py"
        for name in re.findall(rf"(?<![\w*]){_FILE}", text):
            assert (folder / name).is_file() or (PACKAGE / name).is_file(), f"{folder.relative_to(ROOT)} has no {name}"
            count += 1
    assert count > 150


@pytest.mark.parametrize("document", DOCUMENTS)
def test_every_module_is_there(document: str) -> None:
    there = _source_files()
    for name in set(re.findall(rf"(?<![\w*/.]){_FILE}", DOCUMENTS[document])):
        assert any(path.endswith(f"/{name}") for path in there), f"{document} names {name}"


@pytest.mark.parametrize("document", DOCUMENTS)
def test_every_folder_is_there(document: str) -> None:
    folders = {path.parent for path in PACKAGE.rglob("*.*") if "__pycache__" not in path.parts}
    for name in set(re.findall(r"`(\w+(?:/\w+)*)/`", DOCUMENTS[document])):
        if not (ROOT / name).is_dir():
            assert any(f"/{folder}".endswith(f"/{name}") for folder in folders), f"{document} names {name}/"


@pytest.mark.parametrize("document", DOCUMENTS)
def test_every_function_and_class_is_there(document: str) -> None:
    """Names with dots, such as `SessionRuntime.execute`: each part is a folder, a module, or defined somewhere."""
    code = "\n".join(path.read_text() for path in PACKAGE.rglob("*.py"))
    defined = set(re.findall(r"\b(?:def|class) (\w+)|\bself\.(\w+)|^ *(\w+)(?=: | = )", code, re.MULTILINE))
    known = {part for found in defined for part in found} | {path.stem for path in PACKAGE.rglob("*")}
    text = re.sub(r"(?s)```.*?```", "", DOCUMENTS[document])
    for name in set(re.findall(r"`([A-Za-z_]\w*(?:\.\w+)+)(?:\(\))?`", text)) - _NO_PYTHON:
        parts = name.split(".")
        if parts[0] not in _OF_OTHERS and not re.fullmatch(f"{_FILE}|.*\\.(?:md|toml|mem)", name):
            assert known.issuperset(parts), f"{document} names {name}"
