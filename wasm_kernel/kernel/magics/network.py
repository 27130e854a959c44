"""`%session` commands for the network: allow, deny, secret."""

from __future__ import annotations

from collections.abc import Iterable

from wasm_kernel.errors import ConfigurationError
from wasm_kernel.host.network import secrets
from wasm_kernel.kernel.magics.answers import Answer, Message, none, say, table
from wasm_kernel.kernel.magics.host import Group
from wasm_kernel.kernel.render import code
from wasm_kernel.model import network_grants
from wasm_kernel.model.grants import MOST_DETAILS, OURS
from wasm_kernel.model.network_grants import MOST_HOSTS, HostGrant
from wasm_kernel.model.public_addresses import as_address, described, is_public

_SECRET = "%session secret NAME [HOST] [--header HEADER], or %session secret --forget NAME"


class NetworkMagics(Group):
    """Where cells may connect to, and what the host adds to their requests."""

    async def session_allow(self, words: list[str], parent: Message) -> Answer:
        """Let cells connect to hosts; without any, list those that they may connect to."""
        await self._host.ready(parent)
        access = self._host.network_access
        if not words:
            return self._listed()
        wanted = network_grants.parse_all(words)
        access.refused(wanted)
        new = wanted - access.hosts - access.configured
        if len(access.hosts | new) > MOST_HOSTS:
            raise ConfigurationError(
                f"a session may have {MOST_HOSTS} hosts at most; take some back: %session deny HOST"
            )
        if len(new) > MOST_DETAILS:  # a stranger's cell could hide one behind the others
            raise ConfigurationError(
                f"{len(new)} hosts are more than one question shows; allow {MOST_DETAILS} at once at most"
            )
        if new:
            details = [_described(grant) for grant in sorted(new)]
            await self._host.require("network", "connect to the network, and may send there all that it has", details)
            access.allow(new)
        hosts = network_grants.listed(wanted)
        return say(f"Cells may connect to {hosts}. To take that back: `%session deny {' '.join(words)}`", sorted(words))

    async def session_deny(self, words: list[str], parent: Message) -> Answer:
        """Take hosts back that cells may connect to."""
        await self._host.ready(parent)
        access = self._host.network_access
        if not words:
            raise ConfigurationError("%session deny HOST …: name the hosts to take back, or write --all")
        if words == ["--all"]:
            gone = access.hosts
        else:
            gone = network_grants.parse_all(words)
            _check_known(gone, access.hosts, access.configured)
        access.deny(gone)
        left = ", ".join(access.in_force) or "nowhere"
        return say(f"Taken back. Cells may now connect to: {left}.", access.in_force)

    async def session_secret(self, words: list[str], parent: Message) -> Answer:
        """Ask for a secret that the host puts into requests to one host; without a name, list the secrets."""
        sandbox = (await self._host.ready(parent)).sandbox
        kept = sandbox.network.secrets
        if not words:
            rows = [(s.name, s.where, s.header.title(), code(s.placeholder)) for s in kept]
            return table([s.name for s in kept], ("secret", "goes to", "in the header", "stands in cells as"), rows)
        if words[0] == "--forget":
            none(words[2:], "%session secret --forget")
            if len(words) != 2 or not kept.forget(words[1]):
                raise ConfigurationError(f"there is no such secret; {_SECRET}")
            return say(f"Forgotten: {words[1]}", words[1])
        header = secrets.AUTHORIZATION
        if "--header" in words:
            at = words.index("--header")
            if len(words) < at + 2:
                raise ConfigurationError(_SECRET)
            header, words = words[at + 1], [*words[:at], *words[at + 2 :]]
        if not words:
            raise ConfigurationError(f"what is the secret called? {_SECRET}")
        none(words[2:], "%session secret")
        name, header = words[0], secrets.checked_header(header)
        secrets.check_name(name)
        host = self._host_for(words[1:])
        value = await self._host.ask_secret(
            f"{OURS} Type the secret {name}. It is sent to {host} only, encrypted, in the header {header.title()}, "
            "and cells never see it. Leave it empty to refuse: "
        )
        made = kept.keep(name, host.name, header, value, port=host.port)
        text = (
            f"{name} is kept until this kernel ends. In requests to https://{host}, write `{made.placeholder}` in its "
            f"place: the host puts it into the header {header.title()}."
        )
        return say(text, made.placeholder)

    def _host_for(self, words: list[str]) -> HostGrant:
        """The one host that a secret is for; with its port, if one was said."""
        access = self._host.network_access
        allowed = [network_grants.parse(text) for text in access.in_force]
        if not words:
            single = [grant for grant in allowed if not grant.name.startswith("*.")]
            if len(allowed) != 1 or not single:
                raise ConfigurationError(f"which host is it for? {_SECRET}")
            return single[0]
        wanted = network_grants.parse(words[0])
        covers = wanted.within if wanted.port else wanted.covered_by
        if wanted.name.startswith("*.") or not any(map(covers, allowed)):
            raise ConfigurationError(
                f"{words[0]!r} is no single host that cells may connect to; first: %session allow {words[0]}"
            )
        return wanted

    def _listed(self) -> Answer:
        access = self._host.network_access
        in_force = access.in_force
        rows = []
        for grant in sorted(access.hosts | access.configured):
            by = "you" if grant in access.hosts else "the configuration"
            state = "" if str(grant) in in_force else "forbidden by the administrator"
            ports = str(grant.port) if grant.port else "80, 443"
            rows.append((grant.name, ports, by, state))
        if not rows:
            return say("Cells may connect to no host. To allow one: `%session allow HOST`", [])
        return table(in_force, ("host", "ports", "allowed by", ""), rows)


def _described(grant: HostGrant) -> str:
    """A host for a question: what exactly is allowed."""
    ports = f"port {grant.port}" if grant.port else "ports 80 and 443"
    if grant.name.startswith("*."):
        return f"all hosts below {grant.name.removeprefix('*.')}, {ports}"
    address = as_address(grant.name)
    kind = f" ({described(address)})" if address is not None and not is_public(address) else ""
    return f"{grant.name}, {ports}{kind}"


def _check_known(gone: Iterable[HostGrant], hosts: frozenset[HostGrant], configured: frozenset[HostGrant]) -> None:
    for grant in gone:
        if grant in configured and grant not in hosts:
            raise ConfigurationError(f"{grant} is allowed by the configuration; remove it from WasmKernel.network")
        if grant not in hosts:
            allowed = network_grants.listed(hosts) or "none"
            raise ConfigurationError(f"{grant} was not allowed; the hosts that you allowed are: {allowed}")
