"""Users' workspaces in folders that are reachable from here: where they are, and work in them."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any
from urllib.parse import quote

from wasm_kernel.errors import ConfigurationError
from wasm_kernel.hub.census import HubUser
from wasm_kernel.hub.jobs import JOBS


class Homes:
    """Work in homes."""

    def __init__(self, template: str, archive: Path | None) -> None:
        self._template, self._archive = template, archive

    async def do(self, user: HubUser, job: str, **arguments: Any) -> dict[str, Any]:
        """Do a job in the user's workspace."""
        root = Path(self._template.replace("{username}", folder_name(user.name)))
        if not root.is_dir():
            return {"root": str(root)} if job == "look" else {"problem": "there is no workspace"}
        if arguments.pop("archive", False) and self._archive is not None:
            arguments["archive_to"] = str(self._archive / folder_name(user.name))
        found = await asyncio.to_thread(JOBS[job], root, **arguments)
        return {**found, "root": str(root)}


def folder_name(user: str) -> str:
    """A user's name as one component of a path, escaped as the hub does it in addresses."""
    name = quote(user, safe="@~")
    if name in ("", ".", ".."):
        raise ConfigurationError(f"the user {user!r} has a name that no folder can have")
    return name
