"""The README tells the truth: its quick start runs, its table of limits is complete, it stays short."""

from __future__ import annotations

import contextlib
import io
import re
from pathlib import Path

import pytest

from wasm_kernel import ExecutionPolicy

README = (Path(__file__).parents[1] / "README.md").read_text()


def test_the_quick_start_prints_what_it_says(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    code = "\n".join(re.findall(r"```python\n(.*?)```", README, re.DOTALL))
    said = re.findall(r"print\(.*\)\s+# (.*)", code)
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(compile(code.replace("timeout_seconds=10", "timeout_seconds=2"), "README.md", "exec"), {})
    assert printed.getvalue().replace("limit of 2 s", "limit of 10 s").splitlines() == said


def test_every_limit_is_in_the_table() -> None:
    for name in ExecutionPolicy.__dataclass_fields__:
        assert f"`{name}`" in README, f"{name} is not in the README"


def test_it_is_short() -> None:
    assert len(README.splitlines()) < 160
