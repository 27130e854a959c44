"""The administrator's rules about what notebooks may do beyond their session, and every way around them."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from tests.administrator.conftest import Start
from tests.administrator.environment import WITHOUT_RULES, Environment
from tests.sessions.helpers import make_session

pytestmark = pytest.mark.filterwarnings("ignore")
ALL = "trust,attach,delete,prune,export,list,add,mount"
UNSEALED = "c.WasmKernel.seal_outputs = False\nc.WasmKernel.grants = ['trust', 'prune']"


def _trusted(kernel: object) -> bool:
    return bool(ast.literal_eval(kernel.ok("s = %session info\nprint(s['trusted'])").stdout))  # type: ignore[attr-defined]


@pytest.mark.parametrize("rule", ["trust = false", "grants = []", 'grants = ["attach"]'])
def test_nobody_can_trust_outputs(fresh: Environment, start: Start, rule: str) -> None:
    before = start(WASM_KERNEL_SESSION="mine")
    before.ok("%session trust on", answers=("yes",))
    assert _trusted(before)
    before.stop()
    fresh.rule(rule)
    fresh.configure(UNSEALED)
    kernel = start(WASM_KERNEL_SESSION="mine", WASM_KERNEL_GRANTS=ALL)
    assert not _trusted(kernel), "neither by what was granted before, nor by the configuration"
    for code in ("%session trust on", "x = 1\n%session trust on"):
        said = kernel.run(code, answers=("yes",)).said
        assert "the administrator does not let cells show outputs unsealed" in said
        assert str(fresh.file) in said
    assert not _trusted(kernel)
    assert "forbidden by the administrator" in kernel.ok("%session grants").said
    kernel.stop()
    assert _trusted(start(WASM_KERNEL_SESSION="mine", **WITHOUT_RULES)), "it would be without the rule"


def test_a_rule_that_comes_while_a_kernel_runs_counts(fresh: Environment, start: Start, tmp_path: Path) -> None:
    kernel = start(WASM_KERNEL_GRANTS=ALL)
    kernel.ok("1")
    first = make_session(kernel.root, 48)
    kernel.ok("%prune --older-than 24h --yes")
    assert not (kernel.root / first).exists()
    second = make_session(kernel.root, 48)
    fresh.rule('grants = ["attach", "trust"]')
    assert "administrator" in kernel.run("%prune --older-than 24h --yes", answers=("yes",)).said
    assert (kernel.root / second).exists()
    kernel.ok("%session trust on")


def test_unsealed_by_the_configuration_where_no_rule_forbids_it(fresh: Environment, start: Start) -> None:
    fresh.configure(UNSEALED)
    kernel = start()
    assert _trusted(kernel)
    assert "WasmKernel.seal_outputs" in kernel.run("%session trust off").said


def test_only_the_administrators_folders_are_shown_at_data(fresh: Environment, start: Start, tmp_path: Path) -> None:
    shared, other = tmp_path / "shared", tmp_path / "other"
    for folder in (shared / "deep", other):
        folder.mkdir(parents=True)
        (folder / f"in {folder.name}").write_text("")
    look = "import os; print(os.listdir('/data'))"
    kernel = start(WASM_KERNEL_SESSION="mine", WASM_KERNEL_GRANTS="mount")
    assert "neither the notebook's folder" in kernel.run(f"%session mount {shared}").said
    fresh.rule(f'data_folders = ["{shared}"]')
    assert "only these folders at /data" in kernel.run(f"%session mount {other}").said
    assert str(shared) in kernel.run("%session mount").said, "nor its own folder, which is not in the list"
    kernel.ok(f"%session mount {shared}/deep")
    assert kernel.ok(look).stdout == "['in deep']\n"
    fresh.rule("data_folders = []")
    cell = kernel.ok(look)
    assert cell.stdout == "[]\n" and "deep is not shown at /data: the administrator" in cell.stderr, "also at once"
    assert kernel.ok(look).stderr == ""
    kernel.stop()
    kernel = start(WASM_KERNEL_SESSION="mine", WASM_KERNEL_GRANTS="mount")
    cell = kernel.ok(look)
    assert cell.stdout == "[]\n" and "deep is not shown at /data: the administrator" in cell.stderr
    kernel.stop()
    fresh.rule('grants = ["add"]')
    kernel = start(WASM_KERNEL_SESSION="mine", WASM_KERNEL_GRANTS="mount")
    assert kernel.ok(look).stdout == "[]\n"
    assert "the administrator does not let cells read" in kernel.run("%session mount", answers=("yes",)).said
