"""What the text of a notebook may not do by itself, and who lets it.

"Run All" on a stranger's notebook runs the stranger's text, so the text of a cell is its author's wish, not the
person's. What stays within the notebook's own session is done all the same: it can be undone, or concerns nobody
else. What reaches beyond it needs a *grant*. The person gives one when asked, once per session; the configuration can
give some in advance, for where nobody can be asked; the administrator's rules can take any of them away.

What counts as within: everything about this session's own variables, files, packages, limits and snapshots, its own
deletion, a new session, and a fork, which only copies what the session has. Lists of other sessions may be *shown*,
to the person; handing them to the code needs a grant.

Nothing here asks or reads anything: it is the table, and the decision.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Collection, Iterable, Mapping, Sequence
from enum import Enum, auto

from wasm_kernel.errors import NotGranted

GRANTS: Mapping[str, str] = {
    "trust": "show outputs as they are, with scripts in them",
    "attach": "go on in another of your sessions",
    "delete": "delete another of your sessions",
    "prune": "delete sessions that were not used for a while",
    "export": "write files beside the notebook",
    "list": "read which other sessions you have",
}
"""Every grant, and what a session's cells may do with it. A verb that reaches further than these needs a line here."""

VERBS: Mapping[str, str | None] = {
    "prune": "prune",  # with --yes; and "list" for what a dry run hands to the code
    "pip": None,
    "session attach": "attach",
    "session delete": "delete",  # of another session
    "session diff": None,
    "session download": None,
    "session export": "export",
    "session files": None,
    "session fork": "export",  # with --notebook, which writes a file
    "session grants": None,
    "session info": None,
    "session limits": None,
    "session list": "list",  # as in `s = %session list`
    "session log": None,
    "session new": None,
    "session redo": None,
    "session rename": None,
    "session reset": None,
    "session restore": None,
    "session revoke": None,
    "session snapshot": None,
    "session snapshots": None,
    "session trust": "trust",  # on; off needs nothing
    "session undo": None,
    "session watch": None,
}
"""The grant that each of the host's magics needs as soon as it reaches beyond its session; None: it never does."""

OURS = "[wasm-kernel]"  # how the host's own questions begin
USUAL_WORD = "yes"
_MOST_DETAILS = 12  # lines of a question: more than a person reads helps nobody


class Decision(Enum):
    """What becomes of something that needs a grant."""

    GRANTED = auto()
    ASK = auto()
    NOBODY_TO_ASK = auto()
    FORBIDDEN = auto()


def decide(name: str, *, allowed: bool, given: Collection[str], can_ask: bool) -> Decision:
    """Whether to do something that needs a grant.

    Args:
        name: The grant.
        allowed: Whether the administrator's rules leave it to be given.
        given: Those that the session has, or the configuration gives.
        can_ask: Whether the front end passes questions on to a person.
    """
    if name not in GRANTS:
        raise KeyError(name)
    if not allowed:
        return Decision.FORBIDDEN
    if name in given:
        return Decision.GRANTED
    return Decision.ASK if can_ask else Decision.NOBODY_TO_ASK


def known(names: Iterable[str]) -> tuple[frozenset[str], list[str]]:
    """Names of grants as somebody wrote them: those that there are, and those that there are not."""
    wanted = [name.strip() for name in names if name.strip()]
    return frozenset(wanted) & GRANTS.keys(), [name for name in wanted if name not in GRANTS]


def kept(found: object) -> dict[str, str]:
    """The grants in a session's metadata, with the time each was given. What is no grant is ignored."""
    if not isinstance(found, dict):
        return {}
    return {name: when for name, when in found.items() if name in GRANTS and isinstance(when, str)}


def question(name: str, what: str, details: Sequence[str], word: str) -> str:
    """What the person is asked: what will be done, how long the answer holds, and which word to type.

    Args:
        name: The grant.
        what: What the cell wants to do.
        details: What exactly, a line each; a few of many.
        word: What allows it.
    """
    shown = [f"  {line}" for line in details[:_MOST_DETAILS]]
    if len(details) > _MOST_DETAILS:
        shown.append(f"  … and {len(details) - _MOST_DETAILS} more")
    hint = "" if word == USUAL_WORD else " (a number, because the notebook's code has asked you something, too)"
    lines = [
        f"{OURS} The text of this cell wants to {what}{':' if shown else '.'}",
        *shown,
        f"From then on this session's cells may {GRANTS[name]}. To take that back: %session revoke {name}",
        f"Type {word} to allow it{hint}, anything else to refuse: ",
    ]
    return "\n".join(lines)


def nobody_to_ask(name: str, what: str) -> NotGranted:
    """The refusal where no person can be asked."""
    return NotGranted(
        f"this cell wants to {what}. A person has to allow that, and nobody can be asked here. To allow it in advance, "
        f'set WasmKernel.grants = ["{name}"] in the configuration, or WASM_KERNEL_GRANTS={name} in its environment'
    )


def marked(prompt: str) -> str:
    """A prompt of the guest's own; one that looks like ours is told apart."""
    letters = "".join(c for c in unicodedata.normalize("NFKD", prompt).casefold() if c.isalpha())
    return f"[asked by the notebook's code, not by the kernel] {prompt}" if "wasmkernel" in letters else prompt


def legible(text: str, most: int = 80) -> str:
    """Somebody's text as part of a question: on one line, and with nothing in it that changes how the rest looks."""
    plain = "".join(c if c.isprintable() else "\N{REPLACEMENT CHARACTER}" for c in text)
    return plain if len(plain) <= most else f"{plain[: most - 1]}…"
