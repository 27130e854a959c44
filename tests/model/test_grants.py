"""Which grants there are, what is decided about them, and what a person is asked."""

from __future__ import annotations

import itertools
import re

import pytest

from wasm_kernel.errors import NotGranted
from wasm_kernel.model.grants import (
    GRANTS,
    VERBS,
    Decision,
    decide,
    kept,
    known,
    legible,
    marked,
    nobody_to_ask,
    question,
)


@pytest.mark.parametrize(
    ("allowed", "given", "can_ask", "decision"),
    [
        (False, True, True, Decision.FORBIDDEN),
        (False, True, False, Decision.FORBIDDEN),
        (False, False, True, Decision.FORBIDDEN),
        (False, False, False, Decision.FORBIDDEN),
        (True, True, True, Decision.GRANTED),
        (True, True, False, Decision.GRANTED),
        (True, False, True, Decision.ASK),
        (True, False, False, Decision.NOBODY_TO_ASK),
    ],
)
def test_what_is_decided(allowed: bool, given: bool, can_ask: bool, decision: Decision) -> None:
    for name, other in itertools.permutations(GRANTS, 2):
        found = decide(name, allowed=allowed, given={name} if given else {other}, can_ask=can_ask)
        assert found is decision, "another grant is no reason"


def test_a_grant_that_nobody_knows_is_a_mistake_of_ours() -> None:
    with pytest.raises(KeyError):
        decide("everything", allowed=True, given=["everything"], can_ask=True)


def test_every_verb_needs_a_grant_that_there_is_and_every_grant_has_a_verb() -> None:
    assert {grant for grant in VERBS.values() if grant is not None} == set(GRANTS)


def test_names_as_people_write_them() -> None:
    assert known(["prune", " attach", "", "trust "]) == ({"prune", "attach", "trust"}, [])
    assert known(["prune", "everything", "*"]) == ({"prune"}, ["everything", "*"])
    assert known([""]) == (frozenset(), [])


@pytest.mark.parametrize("found", [None, [], "trust", {"root": "2026"}, {"trust": True}, {"trust": None}, 1])
def test_what_is_no_grant_in_metadata_grants_nothing(found: object) -> None:
    assert kept(found) == {}


def test_what_was_kept_comes_back() -> None:
    assert kept({"trust": "2026-11-18T00:00:00Z", "other": "x"}) == {"trust": "2026-11-18T00:00:00Z"}


def test_a_question_names_what_will_be_done_and_how_long_the_answer_holds() -> None:
    text = question("prune", "delete 2 sessions, 3.0 GB", ["one 'Thesis'", "two"], "yes")
    assert text.startswith("[wasm-kernel] ")
    for part in ("delete 2 sessions, 3.0 GB:", "one 'Thesis'", "two", "%session revoke prune", "Type yes", "refuse"):
        assert part in text
    many = question("prune", "delete 99 sessions", [f"session {n}" for n in range(99)], "4711")
    assert "session 3" in many
    assert "session 98" not in many
    assert "87 more" in many
    assert "Type 4711" in many


def test_a_refusal_names_the_setting() -> None:
    error = nobody_to_ask("attach", "go on elsewhere")
    assert isinstance(error, NotGranted)
    assert 'WasmKernel.grants = ["attach"]' in str(error)
    assert "WASM_KERNEL_GRANTS=attach" in str(error)


@pytest.mark.parametrize(
    "prompt",
    [
        "[wasm-kernel] Type yes: ",
        "\n\n[WASM-Kernel] Type yes",
        "[ｗａｓｍ-ｋｅｒｎｅｌ] Type yes",
        "[wa\u200bsm-ker\u2060nel]",
        "[w\u0301asm - kernel]",
        "\x1b[1m[wasm‑kernel]\x1b[0m",
    ],
)
def test_a_prompt_that_looks_like_ours_is_told_apart(prompt: str) -> None:
    assert marked(prompt).startswith("[asked by the notebook's code, not by the kernel] ")
    assert marked(prompt).endswith(prompt)


@pytest.mark.parametrize("prompt", ["", "Name? ", "wasm? ", "Which kernel? "])
def test_other_prompts_stay_as_they_are(prompt: str) -> None:
    assert marked(prompt) == prompt


def test_texts_of_others_cannot_change_a_question() -> None:
    hostile = "nice\nType yes to go on\r\x1b[2J\u202egnp.x\u200b" + "x" * 500
    shown = legible(hostile)
    assert re.search(r"[\n\r\x1b\u202e\u200b]", shown) is None
    assert len(shown) == 80
    assert legible("Zoë's Thesis ☃") == "Zoë's Thesis ☃"
