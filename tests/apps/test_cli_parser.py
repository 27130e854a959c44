"""The parsers: quick to make, and every command they name is there."""

from __future__ import annotations

import ast
from importlib import import_module
from pathlib import Path

import pytest

from tests.sessions.helpers import run_python
from wasm_kernel import apps
from wasm_kernel.apps import cli_sessions, cli_snapshots
from wasm_kernel.apps.cli_parser import imported_when_run


def named_commands() -> list[tuple[str, str]]:
    """Module and name of every command that is imported when it runs."""
    found = []
    for module in (cli_sessions, cli_snapshots):
        for node in ast.walk(ast.parse(Path(str(module.__file__)).read_text())):
            if isinstance(node, ast.Call) and ast.unparse(node.func) == imported_when_run.__name__:
                found.append(tuple(ast.literal_eval(argument) for argument in node.args))
    return found  # type: ignore[return-value]


@pytest.mark.parametrize(("module", "name"), named_commands())
def test_every_command_is_there(module: str, name: str) -> None:
    command = getattr(import_module(f"{apps.__name__}.{module}"), name)
    assert command.__doc__


def test_there_are_commands() -> None:
    assert len(named_commands()) == 9 + 10


def test_help_waits_for_nothing() -> None:
    """What sessions need (wasmtime, the store) takes longer to import than all the rest."""
    code = """
import contextlib, sys
from wasm_kernel.apps.cli import main
for words in ([], ["sessions"], ["prune"], ["snapshots", "import"]):
    with contextlib.suppress(SystemExit):
        main([*words, "--help"])
print("\\n" + " ".join(name for name in sys.modules if name.startswith(("wasm_kernel.", "wasmtime", "zstandard"))))
"""
    modules = run_python(code).splitlines()[-1].split()
    assert "wasm_kernel.apps.cli" in modules
    assert not [name for name in modules if name.startswith(("wasm_kernel.sessions", "wasmtime", "zstandard"))]
