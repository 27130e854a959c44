"""`%session` commands for permissions: trust, grants."""

from __future__ import annotations

import asyncio

from wasm_kernel.errors import ConfigurationError
from wasm_kernel.kernel.magics.answers import Answer, Message, none, one, say, table
from wasm_kernel.kernel.magics.grants import SETTING, VARIABLE, forbidden
from wasm_kernel.kernel.magics.host import Group
from wasm_kernel.model.grants import GRANTS


class PermissionMagics(Group):
    """What a session's cells may do, and what their outputs may contain."""

    async def session_trust(self, words: list[str], parent: Message) -> Answer:
        """Show outputs unsealed, or seal them again."""
        if words not in (["on"], ["off"]):
            raise ConfigurationError("%session trust: write on or off")
        await self._host.ready(parent)
        if words == ["on"]:
            await self._host.require(
                "trust", "show its outputs unsealed: scripts in them then act in your browser as you"
            )
            self._host.granted.keep("trust")
            self._host.trust_outputs(True)
            return say(
                "This session is trusted: outputs are shown unsealed from now on. Run earlier cells again to see "
                "theirs. To seal them again: `%session trust off`",
                "on",
            )
        self._host.granted.revoke("trust")
        self._host.trust_outputs(False)
        if self._host.outputs_trusted:
            raise ConfigurationError("the configuration shows outputs unsealed (WasmKernel.seal_outputs = False)")
        return say("Outputs are sealed from now on. Run earlier cells again to seal theirs.", "off")

    async def session_grants(self, words: list[str], parent: Message) -> Answer:
        """List what this session's cells may do beyond the session."""
        none(words, "%session grants")
        await self._host.ready(parent)
        given = self._host.granted.given()
        rows = []
        for name, meaning in GRANTS.items():
            when = given.get(name)
            source = forbidden(name)
            state = "forbidden by the administrator" if source else "asks first" if when is None else "allowed"
            since = "by the configuration" if when == "" else (when or "")[:16].replace("T", " ")
            rows.append((name, state, since, meaning))
        return table(list(given), ("grant", "", "since (UTC)", "allows cells to"), rows)

    async def session_revoke(self, words: list[str], parent: Message) -> Answer:
        """Take a grant back."""
        name = one(words, "%session revoke NAME")
        if name not in GRANTS:
            raise ConfigurationError(f"there is no grant {name!r}; the grants are {', '.join(GRANTS)}")
        await self._host.ready(parent)
        self._host.granted.revoke(name)
        if name == "trust":
            self._host.trust_outputs(False)
        if name == "network":
            self._host.network_access.deny(self._host.network_access.hosts)
        if name == "cluster":
            await asyncio.to_thread(self._host.cluster_access.revoke)
        if name in self._host.granted.given():
            raise ConfigurationError(f"{name!r} is given by the configuration; remove it from {SETTING} or {VARIABLE}")
        taken = say(f"Taken back: you will be asked before this session's cells may {GRANTS[name]}.", name)
        if name != "mount" or self._host.data_folder.shown is None:
            return taken

        async def unmount() -> Answer:
            await self._host.data_folder.show(None)
            return taken

        return Answer(afterwards=unmount, last=False)
