"""Grants of a session: asked for, kept, taken back, forbidden. A person who answers at once stands in for a front end."""

from __future__ import annotations

import asyncio
import re
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.sessions.helpers import make_session
from wasm_kernel.errors import Interrupted, NotAllowed, NotGranted
from wasm_kernel.host.disk.records import read_record, write_record
from wasm_kernel.kernel.magics.grants import Grants
from wasm_kernel.kernel.magics.magics import SUBCOMMANDS
from wasm_kernel.kernel.questions import Person
from wasm_kernel.model.grants import GRANTS, VERBS


class Answering:
    """Instead of `Questions`: somebody who types the same each time; None: the cell was interrupted."""

    def __init__(self, *answers: str | None) -> None:
        self.answers, self.prompts = list(answers), list[str]()
        self.guest_has_asked = False

    async def ask_for_host(self, person: Person, prompt: str) -> str | None:
        self.prompts.append(prompt)
        return self.answers.pop(0)


class Live:
    """As much of a `LiveSession` as grants need."""

    def __init__(self, root: Path) -> None:
        self.folder = root / make_session(root)

    def note(self, **extra: Any) -> None:
        record = read_record(self.folder)
        write_record(self.folder, record.touched(record.updated_at, **extra), sync=False)


def cell(name: str = "a cell") -> Person:
    return Person({"header": {"msg_id": name}}, b"", lambda: True)


def require(granted: Grants, name: str = "prune", person: Person | None = None, what: str = "do it") -> None:
    asyncio.run(granted.require(name, what, ["to this"], person))


def make(*answers: str | None, setting: tuple[str, ...] = (), **environ: str) -> tuple[Grants, Answering]:
    questions = Answering(*answers)
    return Grants(questions, setting, environ), questions  # type: ignore[arg-type]


def test_every_magic_says_what_it_needs() -> None:
    there = {f"session {name}" for name in SUBCOMMANDS["session"]} | {"prune", "pip"}
    assert there == set(VERBS), "a new verb needs a line in model/grants.py: does it reach beyond its session?"


def test_yes_is_kept_with_the_session_and_nothing_is_asked_again(tmp_path: Path) -> None:
    granted, questions = make(" Yes ")
    live: Any = Live(tmp_path)
    granted.moved_in(live)
    require(granted, person=cell())
    require(granted, person=cell("the next"))
    require(granted, person=None)
    assert len(questions.prompts) == 1
    assert "do it:\n  to this\n" in questions.prompts[0]
    later, questions = make()
    later.moved_in(live)
    require(later)
    assert list(later.given()) == ["prune"]
    with pytest.raises(NotGranted):
        require(later, "attach")
    later.revoke("prune")
    again, _ = make()
    again.moved_in(live)
    with pytest.raises(NotGranted):
        require(again)


@pytest.mark.parametrize("typed", ["", "no", "y", "yes!", "ok", "oui", "4711", "\x04", "[wasm-kernel] yes"])
def test_anything_else_refuses(tmp_path: Path, typed: str) -> None:
    granted, _ = make(typed)
    live: Any = Live(tmp_path)
    granted.moved_in(live)
    with pytest.raises(NotGranted, match="nothing was done"):
        require(granted, person=cell())
    assert granted.given() == {}
    assert not read_record(live.folder).extra.get("grants")


def test_an_interrupt_is_one() -> None:
    granted, _ = make(None)
    with pytest.raises(Interrupted):
        require(granted, person=cell())
    assert granted.given() == {}


def test_a_cell_that_was_refused_does_not_ask_again() -> None:
    granted, questions = make("no", "yes")
    for name in ("prune", "attach", "prune"):
        with pytest.raises(NotGranted):
            require(granted, name, cell())
    assert len(questions.prompts) == 1
    require(granted, person=cell("run again"))
    assert len(questions.prompts) == 2


def test_after_a_question_of_the_guests_yes_is_not_enough() -> None:
    granted, questions = make("yes")
    questions.guest_has_asked = True
    with pytest.raises(NotGranted):
        require(granted, person=cell())
    number = re.search(r"Type (\d{4}) to allow", questions.prompts[0])
    assert number
    assert "Type yes" not in questions.prompts[0]


def test_that_number_is_another_each_time() -> None:
    granted, questions = make(*["no"] * 20)
    questions.guest_has_asked = True
    for n in range(20):
        with pytest.raises(NotGranted):
            require(granted, person=cell(str(n)))
    assert len({re.search(r"Type (\d{4})", p)[1] for p in questions.prompts}) > 10  # type: ignore[index]


def test_what_the_configuration_gives() -> None:
    granted, questions = make(setting=("prune",), WASM_KERNEL_GRANTS="attach, trust")
    for name in ("prune", "attach", "trust"):
        require(granted, name)
    assert questions.prompts == []
    assert not granted.trusted, "it may be trusted, but was not"
    with pytest.raises(NotGranted, match="WASM_KERNEL_GRANTS=export"):
        require(granted, "export")


def test_unknown_names_are_told_and_grant_nothing() -> None:
    granted, _ = make(setting=("everything",), WASM_KERNEL_GRANTS="prune,atach")
    assert granted.configured == {"prune"}
    assert "WasmKernel.grants: there is no grant 'everything'" in granted.problems[0]
    assert "WASM_KERNEL_GRANTS: there is no grant 'atach'; the grants are trust, attach" in granted.problems[1]


@pytest.mark.parametrize("rule", ['grants = ["attach"]', "trust = false\ngrants = []", "nonsense"])
def test_the_administrator_takes_away(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, rule: str) -> None:
    live: Any = Live(tmp_path)
    granted, questions = make("yes", setting=tuple(GRANTS))
    granted.moved_in(live)
    granted.keep("trust")
    assert granted.trusted
    file = tmp_path / "etc" / "wasm-kernel" / "administrator.toml"
    file.parent.mkdir(parents=True)
    file.write_text(rule)
    file.chmod(0o644)
    monkeypatch.setattr(sys, "prefix", str(tmp_path))
    for name in ("trust", "prune"):
        with pytest.raises(NotAllowed, match=re.escape(str(file))):
            require(granted, name, cell())
    assert questions.prompts == []
    assert not granted.trusted
    assert set(granted.given()) <= {"attach"}


def test_metadata_that_is_none_grants_nothing(tmp_path: Path) -> None:
    live: Any = Live(tmp_path)
    (live.folder / ".metadata.json").write_text("{")
    granted, _ = make()
    granted.moved_in(live)
    assert granted.given() == {}
