"""tests/README.md says where each scenario of the specification is tested; this checks that it says the truth."""

from __future__ import annotations

import ast
import re
from pathlib import Path

TESTS = Path(__file__).parent.parent
ROW = re.compile(r"^\| (\d{3}) \| (.+?) \| `(.+?)::(\w+)` \|$", re.MULTILINE)
SPECIFICATION = {
    "000": "sessions/test_specification_design.py",
    "001": "sessions/test_specification_metadata.py",
    "003": "sessions/test_specification_sessions.py",
    "004": "server/api/test_specification_sandboxes.py",
}


def rows() -> list[tuple[str, str, str, str]]:
    """Document, scenario, file and test of each row."""
    return ROW.findall((TESTS / "README.md").read_text())


def functions(path: Path) -> dict[str, str]:
    """The tests of a file, and what their docstrings say."""
    return {
        node.name: ast.get_docstring(node) or ""
        for node in ast.parse(path.read_text()).body
        if isinstance(node, ast.FunctionDef) and node.name.startswith("test_")
    }


def test_every_test_named_in_the_table_exists_and_quotes_its_scenario() -> None:
    found = rows()
    assert {document for document, *_ in found} == {"000", "001", "002", "003", "004"}
    for document, scenario, file, test in found:
        docstring = functions(TESTS / file).get(test)
        assert docstring is not None, f"{document}, {scenario}: there is no {test} in {file}"
        if file == SPECIFICATION.get(document):
            assert docstring.removeprefix("Scenario: ") == scenario, f"{test} quotes {docstring!r}"


def test_every_scenario_is_in_the_table_once() -> None:
    listed = [(document, file, test) for document, _, file, test in rows() if document in SPECIFICATION]
    assert len(set(listed)) == len(listed)
    for document, file in SPECIFICATION.items():
        quoting = {name for name, docstring in functions(TESTS / file).items() if docstring}
        assert quoting == {test for d, f, test in listed if (d, f) == (document, file)}


def test_as_many_scenarios_as_the_documents_have() -> None:
    counts = {d: sum(row[0] == d and row[2] == file for row in rows()) for d, file in SPECIFICATION.items()}
    assert (counts["001"], counts["003"]) == (20, 25)
    assert counts["000"] == 7 + 2 + 2 + 5 + 4  # unit, integration and security tests, edge cases, extensions
    beside = [row for row in rows() if row[0] == "004" and row[2] != SPECIFICATION["004"]]
    assert (counts["004"], len(beside)) == (12, 10)  # what REST does; what library, command line and page do
