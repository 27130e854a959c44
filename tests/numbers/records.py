"""What the programs answer natively, as recorded in `recorded.json`, and what they answer in a guest."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.numbers.native import HERE, PACKAGES, stem
from wasm_kernel import ExecutionPolicy, create_sandbox

RECORD = HERE / "recorded.json"
Answers = dict[str, dict[str, Any]]  # file, program, answer

_VERSIONS = f"""
import importlib.metadata, json
versions = {{name: importlib.metadata.version(name) for name in {PACKAGES!r}}}
with open("versions.json", "w") as file:
    json.dump(versions, file)
"""
_ANSWER = """
with open("programs.py") as file, open("answers.json", "w") as told:
    json.dump(answers(file.read()), told)
"""


def program_files(kind: str = "*") -> list[Path]:
    """The files of programs: `expressions` or `programs`, or both."""
    return sorted(HERE.glob(f"{kind}/*.py"))


def read() -> dict[str, Any]:
    """The record: `python`, `packages` and `answers`."""
    found: dict[str, Any] = json.loads(RECORD.read_text())
    return found


def write(python: str, packages: dict[str, str], answers: Answers) -> None:
    """Write a record, a line for each program, so that changes can be read."""
    lines = [json.dumps({"python": python, "packages": packages})[:-1] + ', "answers": {']
    for file in sorted(answers):
        programs = [f" {json.dumps(program)}: {json.dumps(answer)}" for program, answer in answers[file].items()]
        lines += [f"{json.dumps(file)}: {{", ",\n".join(programs), "},"]
    lines[-1] = "}}}"
    RECORD.write_text("\n".join(lines) + "\n")


@contextmanager
def guest(workspace: Path) -> Iterator[Callable[[str], None]]:
    """A function that runs code in a guest, and takes no failure."""
    with create_sandbox(policy=ExecutionPolicy(timeout_seconds=600.0), workspace=workspace) as sandbox:

        def run(code: str) -> None:
            result = sandbox.execute(code)
            assert result.success, (result.outcome, result.stderr, result.error and result.error.value)

        yield run


def guest_versions(workspace: Path) -> dict[str, str]:
    """The versions of a guest's packages."""
    with guest(workspace) as run:
        run(_VERSIONS)
    found: dict[str, str] = json.loads((workspace / "versions.json").read_text())
    return found


def guest_answers(workspace: Path) -> Answers:
    """What a guest answers to all files: one guest, as it were cells of one notebook."""
    found: Answers = {}
    with guest(workspace) as run:
        run("import numpy, pandas\n" + (HERE / "answers.py").read_text().partition("\nif __name__")[0])
        for file in program_files():
            (workspace / "programs.py").write_text(file.read_text())
            run(_ANSWER)
            found[stem(file)] = json.loads((workspace / "answers.json").read_text())
    return found
