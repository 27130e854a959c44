"""Which files `conftest.py` lets share a worker, or begin first."""

from __future__ import annotations

from itertools import chain
from pathlib import Path

from tests.conftest import LONGEST, SHARING

REPOSITORY = Path(__file__).parents[1]


def test_what_is_named_is_there() -> None:
    for name in chain(*SHARING.values(), set(LONGEST) - set(SHARING)):
        assert (REPOSITORY / name).exists(), name


def test_whatever_wants_the_hub_shares_it() -> None:
    for path in (REPOSITORY / "tests" / "hub").rglob("test_*.py"):
        name = path.relative_to(REPOSITORY).as_posix()
        assert (name in SHARING["JupyterHub"]) == ("hub: Hub" in path.read_text(encoding="utf-8")), name
