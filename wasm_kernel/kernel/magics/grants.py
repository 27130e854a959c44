"""The grants of this kernel's session: which it has, and asking the person for others.

What needs a grant, and the decision, is in `model.grants`. A grant that a person gives is kept in the session's
metadata, which the guest can neither see nor write. A session that is copied, imported or attached
elsewhere starts without any.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime

from wasm_kernel.errors import Interrupted, NotAllowed, NotGranted
from wasm_kernel.host import administrator
from wasm_kernel.host.disk.records import read_record
from wasm_kernel.kernel.questions import Person, Questions
from wasm_kernel.model import grants
from wasm_kernel.model.grants import Decision
from wasm_kernel.model.records import BadRecord, format_time
from wasm_kernel.sessions.session import LiveSession

SETTING, VARIABLE = "WasmKernel.grants", "WASM_KERNEL_GRANTS"


class Grants:
    """What this kernel's notebook may do beyond its session.

    Attributes:
        configured: The grants given in advance.
        problems: What is wrong with the configured grants, for a person to read.
    """

    def __init__(self, questions: Questions, setting: Iterable[str], environ: Mapping[str, str]) -> None:
        self._questions = questions
        self._live: LiveSession | None = None
        self._kept: dict[str, str] = {}
        self._refused_in = ""  # the request whose cell was last refused a grant
        self.problems: list[str] = []
        self.configured: frozenset[str] = frozenset()
        for source, names in ((SETTING, setting), (VARIABLE, environ.get(VARIABLE, "").split(","))):
            found, unknown = grants.known(names)
            self.configured |= found
            if unknown:
                written = ", ".join(repr(name) for name in unknown)
                self.problems.append(
                    f"{source}: there is no grant {written}; the grants are {', '.join(grants.GRANTS)}"
                )

    def moved_in(self, live: LiveSession) -> None:
        """The kernel has opened a session: use the grants it has."""
        self._live = live
        try:
            record = read_record(live.folder)
        except BadRecord:
            record = None
        self._kept = grants.kept(record.extra.get("grants")) if record is not None else {}

    def given(self) -> dict[str, str]:
        """The grants in force, each with the time it was given; empty for those of the configuration."""
        found = {**dict.fromkeys(sorted(self.configured), ""), **self._kept}
        return {name: when for name, when in found.items() if not forbidden(name)}

    @property
    def trusted(self) -> bool:
        """Whether the session's outputs are shown unsealed."""
        return "trust" in self._kept and not forbidden("trust")

    async def require(self, name: str, what: str, details: Sequence[str], person: Person | None) -> None:
        """Return if the notebook has a grant, or if the person gives it now; raise otherwise.

        Args:
            name: The grant.
            what: What will be done, completing "This cell wants to".
            details: What it will be done to.
            person: Who can be asked; None: nobody.
        """
        source = forbidden(name)
        match grants.decide(name, allowed=not source, given=self.given(), can_ask=person is not None):
            case Decision.GRANTED:
                return
            case Decision.FORBIDDEN:
                raise NotAllowed(f"the administrator does not let cells {grants.GRANTS[name]} ({source})")
            case Decision.NOBODY_TO_ASK:
                raise grants.nobody_to_ask(name, what)
            case Decision.ASK:
                assert person is not None
                await self._ask(name, what, details, person)

    async def _ask(self, name: str, what: str, details: Sequence[str], person: Person) -> None:
        cell = person.request["header"]["msg_id"]
        if self._refused_in == cell:  # or a loop could ask until the person gives in
            raise NotGranted("this cell has already been refused a permission; run it again to be asked again")
        # A person whom the guest has made type "yes" again and again would type it once more without looking.
        word = str(secrets.randbelow(9000) + 1000) if self._questions.guest_has_asked else grants.USUAL_WORD
        typed = await self._questions.ask_for_host(person, grants.question(name, what, details, word))
        if typed is None:
            raise Interrupted("nobody answered; nothing was done")
        if typed.strip().casefold() != word:
            self._refused_in = cell
            raise NotGranted("refused; nothing was done")
        if name not in grants.EACH_TIME:
            self.keep(name)

    def keep(self, name: str) -> None:
        """Store a grant."""
        self._write({**self._kept, name: format_time(datetime.now(UTC))})

    def revoke(self, name: str) -> None:
        """Take a grant back; those of the configuration stay."""
        self._write({known: when for known, when in self._kept.items() if known != name})

    def _write(self, kept: dict[str, str]) -> None:
        self._kept = kept
        if self._live is not None:
            self._live.note(grants=kept)


def forbidden(name: str) -> str:
    """The administrator's file that rules out a grant; empty: none does. An unusable file rules out all of them."""
    try:
        return administrator.rules().forbids(name)
    except NotAllowed as e:
        return str(e)
