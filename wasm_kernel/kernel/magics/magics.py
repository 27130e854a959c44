"""The host's magics: %session, %prune, %pip. They run only if written in a cell that the user sent."""

from __future__ import annotations

import difflib
import re
import threading
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from typing import Any

from wasm_kernel.errors import ConfigurationError, SandboxError, WasmKernelError
from wasm_kernel.host.disk import reserve
from wasm_kernel.kernel.cells import MagicInCell
from wasm_kernel.kernel.magics.answers import Answer, Message, words_of
from wasm_kernel.kernel.magics.cluster import ClusterMagics
from wasm_kernel.kernel.magics.history import HistoryMagics
from wasm_kernel.kernel.magics.host import Host
from wasm_kernel.kernel.magics.network import NetworkMagics
from wasm_kernel.kernel.magics.notebook_files import NotebookFileMagics
from wasm_kernel.kernel.magics.permissions import PermissionMagics
from wasm_kernel.kernel.magics.pip import PipMagic
from wasm_kernel.kernel.magics.prune import PruneMagic
from wasm_kernel.kernel.magics.session import SessionMagics
from wasm_kernel.kernel.notebook_session import TO_FREE_SPACE
from wasm_kernel.model import limits
from wasm_kernel.model.grants import GRANTS
from wasm_kernel.model.outcome import SandboxResult
from wasm_kernel.model.records import is_session_id

Action = Callable[[list[str], Message], Awaitable[Answer]]
_PREFIX = "session_"
_GROUPS = (SessionMagics, HistoryMagics, PermissionMagics, NetworkMagics, ClusterMagics, NotebookFileMagics)
SUBCOMMANDS: dict[str, tuple[str, ...]] = {
    "session": tuple(sorted(n.removeprefix(_PREFIX) for g in _GROUPS for n in dir(g) if n.startswith(_PREFIX))),
    "prune": ("--older-than", "--max-sessions", "--dry-run", "--yes"),
    "pip": ("install", "list", "uninstall"),
}
_ARGUMENTS: dict[str, tuple[str, ...]] = {
    "watch": ("on", "off"),
    "cluster": ("off",),
    "trust": ("on", "off"),
    "revoke": tuple(GRANTS),
    "limits": tuple(f"{name}=" for name in limits.LIMITS),
    "delete": ("--yes",),
    "mount": ("--off",),
    "download": ("--zip",),
    "deny": ("--all",),
    "secret": ("--forget", "--header"),
}
_MOST_IDS = 1000
NO_SPACE = "this could not be done, because the disk is full"


class Magics:
    """The magics of one kernel."""

    def __init__(self, host: Host) -> None:
        self._host = host
        self._session = SessionMagics(host)
        self._prune, self._pip = PruneMagic(host), PipMagic(host)
        self._notebook_files = NotebookFileMagics(host)
        others = (HistoryMagics(host), PermissionMagics(host), NetworkMagics(host), ClusterMagics(host))
        groups = (self._session, *others, self._notebook_files)
        self._actions: dict[str, Action] = {
            name.removeprefix(_PREFIX): getattr(group, name)
            for group in groups
            for name in dir(group)
            if name.startswith(_PREFIX)
        }

    async def do(self, magic: MagicInCell, parent: Message, cancelled: threading.Event) -> Answer:
        """Run a magic. Raises what the user did wrong, or what the disk refused."""
        answer = await _explained(self._do(magic, parent, cancelled))
        if (afterwards := answer.afterwards) is None:
            return answer
        return replace(answer, afterwards=lambda: _explained(afterwards()))

    async def _do(self, magic: MagicInCell, parent: Message, cancelled: threading.Event) -> Answer:
        words = words_of(magic.line)
        if magic.name == "prune":
            return await self._prune.do(words, used=magic.used)
        if magic.name == "pip":
            return await self._pip.do(words, parent, cancelled)
        name, words = (words[0], words[1:]) if words else ("info", [])
        action = self._actions.get(name)
        if action is None:
            raise ConfigurationError(_no_such(name))
        if name == "list" and magic.used:
            await self._host.require("list", "read the names of all your sessions and their notebooks")
        self._notebook_files.cancelled = cancelled
        return await action(words, parent)

    def after_cell(self, result: SandboxResult) -> Answer:
        """What to show after a cell while the person watches which files change."""
        return self._session.changed_files(result) if self._session.watch else Answer()

    def prune_at_start(self, wanted: dict[str, Any]) -> None:
        """Prune as the configuration says. Runs on a thread, and never fails the kernel."""
        self._prune.at_start(wanted)

    def complete(self, code: str, position: int) -> Message | None:
        """Completions for a line with one of our magics; None elsewhere."""
        line = code[:position].rpartition("\n")[2]
        match = re.match(r"\s*+(?:[\w\s,.]++=\s*+)?%(session|prune|pip)\s+(.*)\Z", line)
        if match is None:
            return None
        *before, word = match[2].split(" ")
        first = [w for w in before if w]
        choices: Sequence[str] = SUBCOMMANDS[match[1]]
        if match[1] == "session" and first:
            choices = _ARGUMENTS.get(first[0], ())
            if first[0] in ("attach", "delete"):
                choices = [*choices, *self._known_ids()]
            if first[0] in ("deny", "secret"):
                choices = [*choices, *map(str, self._host.network_access.hosts)]
        found = sorted(c for c in choices if c.startswith(word))
        start = position - len(word)
        return {"status": "ok", "matches": found, "cursor_start": start, "cursor_end": position, "metadata": {}}

    def _known_ids(self) -> list[str]:
        try:
            return [p.name for p in self._host.current.place.root.iterdir() if is_session_id(p.name)][:_MOST_IDS]
        except OSError:
            return []


async def _explained(work: Awaitable[Answer]) -> Answer:
    try:
        return await work
    except WasmKernelError:
        raise
    except OSError as e:
        raise SandboxError(f"{NO_SPACE}. {TO_FREE_SPACE}" if reserve.is_full(e) else str(e)) from e


def _no_such(name: str) -> str:
    near = difflib.get_close_matches(name, SUBCOMMANDS["session"], 1)
    if near:
        return f"there is no %session {name}; did you mean {near[0]}? %session help lists the commands"
    return f"there is no %session {name}; the commands are {', '.join(SUBCOMMANDS['session'])}"
