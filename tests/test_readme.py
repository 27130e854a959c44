"""The documents tell the truth: examples run and print what they say, tables are complete, links lead somewhere."""

from __future__ import annotations

import ast
import contextlib
import io
import re
import tomllib
from pathlib import Path
from typing import Any

import pytest
from traitlets import HasTraits

from wasm_kernel import ExecutionPolicy
from wasm_kernel.guest.host_help import HELP
from wasm_kernel.kernel.kernel import WasmKernel
from wasm_kernel.model import limits
from wasm_kernel.model.grants import GRANTS, VERBS
from wasm_kernel.server.extension import WasmKernelExtension

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
README = (ROOT / "README.md").read_text()
DESIGN = (ROOT / "DESIGN.md").read_text()
DOCUMENTS = [*ROOT.glob("*.md"), *DOCS.glob("*.md"), ROOT / "examples" / "README.md", ROOT / "tests" / "README.md"]


def rows(document: Path) -> list[list[str]]:
    """The cells of every row of every table, without the back-ticks around names."""
    lines = [line for line in document.read_text().splitlines() if line.startswith("| ")]
    return [[cell.replace("\\|", "|").strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]] for line in lines]


def names(cell: str) -> list[str]:
    """What stands in back-ticks."""
    return re.findall(r"`([^`]+)`", cell)


# ---- examples


@pytest.mark.parametrize("document", [ROOT / "README.md", DOCS / "library.md"], ids=lambda path: path.name)
def test_examples_print_what_they_say(document: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    code = "\n".join(re.findall(r"```python\n(.*?)```", document.read_text(), re.DOTALL))
    said = re.findall(r"print\(.*\)\s+# (.*)", code)
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(compile(code.replace("timeout_seconds=10", "timeout_seconds=2"), document.name, "exec"), {})
    assert printed.getvalue().replace("limit of 2 s", "limit of 10 s").splitlines() == said


# ---- tables


def test_every_limit_is_documented_with_its_default() -> None:
    table = {names(row[0])[0]: row for row in rows(DOCS / "limits.md") if len(row) == 5 and names(row[0])}
    assert table.keys() == limits.LIMITS.keys()
    policy = ExecutionPolicy()
    for name, (_, fields, _, default, _) in table.items():
        assert tuple(names(fields)) == limits.LIMITS[name].fields, name
        if name == "workers":  # depends on the machine
            assert default == "as many as the processors"
            continue
        assert limits.number(name, default) == limits.current(policy, name), name


def test_every_field_of_a_policy_is_documented() -> None:
    documented = {name for row in rows(DOCS / "limits.md") for cell in row[:2] for name in names(cell)}
    missing = ExecutionPolicy.__dataclass_fields__.keys() - documented
    assert not missing


def test_every_magic_is_documented_as_its_help_writes_it() -> None:
    documented = {name for row in rows(DOCS / "magics.md") for name in names(row[0]) if name.startswith("%")}
    text = "\n".join(HELP.values())
    usage = {part for line in text.splitlines() for part in re.split(r" {3,}", line) if part.startswith("%")}
    for part in usage - {"%session"}:
        assert any(f"{part} ".startswith(f"{name} ") for name in documented - {"%session"}), part
    for name in documented:
        assert any(f"{part} ".startswith(f"{name} ") for part in usage), name
    assert {name[1:] for line in documented for name in re.findall(r"^%session [a-z]+", line)} == {
        verb for verb in VERBS if verb.startswith("session ")
    }


def test_every_grant_is_documented() -> None:
    assert {names(row[0])[0] for row in rows(DOCS / "magics.md") if names(row[0])} >= GRANTS.keys()


@pytest.mark.parametrize(
    "document, owner", [("settings.md", WasmKernel), ("rest.md", WasmKernelExtension)], ids=["kernel", "extension"]
)
def test_every_setting_is_documented_with_its_default(document: str, owner: type[HasTraits]) -> None:
    text = (DOCS / document).read_text().partition(f"| `c.{owner.__name__}.` |")[2].partition("\n\n")[0]
    table = {row[0].strip("` "): row[1].strip() for row in (line[1:].split("|") for line in text.splitlines()[2:])}
    settings = owner.class_own_traits(config=True)
    assert table.keys() == settings.keys()
    for name, trait in settings.items():
        if not table[name].startswith("the kernel's"):
            assert _value(table[name]) == (trait.default() or None), name


def _value(text: str) -> Any:
    if not text:
        return None
    if text.endswith("GiB"):
        return int(text.split()[0]) << 30
    return ast.literal_eval(text.strip("`"))


def test_every_dependency_has_its_reason() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    wanted = [*project["dependencies"], *(r for extra in project["optional-dependencies"].values() for r in extra)]
    reasons = DESIGN.partition("Why each dependency")[2]
    for requirement in wanted:
        name = re.match(r"[\w-]+", requirement)
        assert name is not None
        assert re.search(rf"\b{name[0]}\b", reasons, re.IGNORECASE), f"{name[0]} has no reason in DESIGN.md"


def test_every_package_is_in_the_tree_of_the_design() -> None:
    tree = DESIGN.partition("## 2. ")[2].partition("\n## 3. ")[0]
    for package in (ROOT / "wasm_kernel").rglob("__init__.py"):
        folder = package.parent.relative_to(ROOT / "wasm_kernel")
        if folder.parts:
            assert f"{folder.name}/" in tree, f"{folder} is not in section 2 of DESIGN.md"


# ---- looks


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_links_lead_somewhere(document: Path) -> None:
    for target in re.findall(r"\]\(([^)\s]+)\)", document.read_text()):
        if "://" in target:
            continue
        path, _, heading = target.partition("#")
        found = (document.parent / path) if path else document
        assert found.exists(), target
        if heading:
            headings = re.findall(r"^#+ (.*)$", found.read_text(), re.MULTILINE)
            assert heading in {re.sub(r"[^\w -]", "", h).lower().replace(" ", "-") for h in headings}, target


def test_every_document_is_in_the_index() -> None:
    index = (DOCS / "README.md").read_text()
    for document in DOCS.glob("*.md"):
        assert document.name == "README.md" or f"]({document.name})" in index, document.name


def test_the_readme_is_short_and_its_picture_small() -> None:
    assert len(README.splitlines()) <= 110
    assert (DOCS / "images" / "undo.png").stat().st_size < 200_000
