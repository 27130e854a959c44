"""What a notebook's cells may not do without permission, and who can give it.

"Run All" on a stranger's notebook runs the stranger's text, so a cell says what its author wants, not what the person
at the notebook wants. What stays within the notebook's own session is done anyway: it can be undone, or affects nobody
else. What reaches beyond it needs a *grant*. The person gives one when asked, once per session; the configuration can
give some in advance, for where nobody can be asked; the administrator's rules can rule any of them out.

Within the session is everything about this session's own variables, files, packages, limits and snapshots, its own
deletion, a new session, and a fork, which only copies what the session has. Lists of other sessions may be *shown* to
the person; handing them to code needs a grant.

This module holds the table and the decision; it neither asks nor reads anything.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Collection, Iterable, Mapping, Sequence
from enum import Enum, auto

from wasm_kernel.errors import NotGranted

GRANTS: Mapping[str, str] = {
    "trust": "show outputs unsealed, scripts included",
    "attach": "continue in another of your sessions",
    "delete": "delete another of your sessions",
    "prune": "delete sessions that have not been used for a while",
    "export": "write files next to the notebook",
    "add": "copy files from the notebook's folder into the session",
    "mount": "read the notebook's folder, or one that the administrator shares, at /data",
    "list": "read the list of your other sessions",
    "network": "connect to the hosts that you allowed",
    "cluster": "run their workers on the Dask clusters that you allowed",
}
"""Every grant, and what a session's cells may do with it. A command that reaches further needs a line here."""

VERBS: Mapping[str, str | None] = {
    "prune": "prune",  # with --yes; and "list" for what a dry run hands to the code
    "pip": None,
    "session add": "add",
    "session allow": "network",  # a host that it does not have; listing needs nothing
    "session attach": "attach",
    "session cluster": "cluster",  # one that it was not allowed; off and listing need nothing
    "session delete": "delete",  # of another session
    "session deny": None,
    "session diff": None,
    "session download": None,
    "session export": "export",
    "session files": None,
    "session fork": "export",  # with --notebook, which writes a file
    "session grants": None,
    "session help": None,
    "session info": None,
    "session limits": None,
    "session list": "list",  # as in `s = %session list`
    "session log": None,
    "session mount": "mount",  # --off needs nothing
    "session new": None,
    "session redo": None,
    "session rename": None,
    "session reset": None,
    "session restore": None,
    "session revoke": None,
    "session secret": None,  # the person types it, or does not
    "session snapshot": None,
    "session snapshots": None,
    "session trust": "trust",  # on; off needs nothing
    "session undo": None,
    "session watch": None,
}
"""The grant each of the host's magics needs when it reaches beyond its session; None: it never does."""

EACH_TIME = frozenset({"network", "cluster"})
"""Grants that are asked for every time: what is allowed is kept by name, elsewhere."""

OURS = "[wasm-kernel]"  # the host's own questions begin with this
USUAL_WORD = "yes"
MOST_DETAILS = 12  # lines of a question; nobody reads more


class Decision(Enum):
    """What to do about something that needs a grant."""

    GRANTED = auto()
    ASK = auto()
    NOBODY_TO_ASK = auto()
    FORBIDDEN = auto()


def decide(name: str, *, allowed: bool, given: Collection[str], can_ask: bool) -> Decision:
    """Whether to do something that needs a grant.

    Args:
        name: The grant.
        allowed: Whether the administrator's rules permit it.
        given: The grants from the session and the configuration.
        can_ask: Whether the front end can put a question to a person.
    """
    if name not in GRANTS:
        raise KeyError(name)
    if not allowed:
        return Decision.FORBIDDEN
    if name in given:
        return Decision.GRANTED
    return Decision.ASK if can_ask else Decision.NOBODY_TO_ASK


def known(names: Iterable[str]) -> tuple[frozenset[str], list[str]]:
    """Split names of grants, as written in a setting, into those that exist and those that do not."""
    wanted = [name.strip() for name in names if name.strip()]
    return frozenset(wanted) & GRANTS.keys(), [name for name in wanted if name not in GRANTS]


def kept(found: object) -> dict[str, str]:
    """The grants in a session's metadata, with the time each was given. Anything else is ignored."""
    if not isinstance(found, dict):
        return {}
    return {name: when for name, when in found.items() if name in GRANTS and isinstance(when, str)}


def question(name: str, what: str, details: Sequence[str], word: str) -> str:
    """What the person is asked: what will be done, how long the answer holds, and which word to type.

    Args:
        name: The grant.
        what: What the cell wants to do.
        details: What exactly, one line each; only the first few are shown.
        word: The answer that allows it.
    """
    shown = [f"  {line}" for line in details[:MOST_DETAILS]]
    if len(details) > MOST_DETAILS:
        shown.append(f"  … and {len(details) - MOST_DETAILS} more")
    hint = "" if word == USUAL_WORD else " (a number, because the notebook's code has asked you questions too)"
    lines = [
        f"{OURS} This cell wants to {what}{':' if shown else '.'}",
        *shown,
        f"After that, this session's cells may always {GRANTS[name]}. To take that back: %session revoke {name}",
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
    """The guest's own prompt, labelled if it could be mistaken for one of ours."""
    letters = "".join(c for c in unicodedata.normalize("NFKD", prompt).casefold() if c.isalpha())
    return f"[asked by the notebook's code, not by the kernel] {prompt}" if "wasmkernel" in letters else prompt


def legible(text: str, most: int = 80) -> str:
    """Untrusted text for a question: one line, without characters that change how the rest looks."""
    plain = "".join(c if c.isprintable() else "\N{REPLACEMENT CHARACTER}" for c in text)
    return plain if len(plain) <= most else f"{plain[: most - 1]}…"
