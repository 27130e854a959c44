"""Addresses of Dask schedulers: as people write them, and which of them an administrator allows.

    tcp://scheduler:8786        in the clear: anybody on the way can read it, and act as the scheduler
    tls://scheduler:8786        encrypted, and both ends prove who they are, by what Dask's configuration says
    tls://*.cluster.example     as a rule: every host below that name, on the usual port

This module decides; it neither resolves nor connects.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from wasm_kernel.errors import ConfigurationError
from wasm_kernel.model.network_grants import normalised
from wasm_kernel.model.public_addresses import as_address

USUAL_PORT = 8786
MOST = 50  # that one session remembers
_HOW = "write tcp://HOST:PORT or tls://HOST:PORT, such as tls://scheduler.example.org:8786"
_FORM = re.compile(r"(tcp|tls)://(\[[0-9A-Fa-f:.]+\]|[^\[\]/:@?#\s]+)(?::([0-9]{1,5}))?/?\Z")


@dataclass(frozen=True, order=True)
class ClusterAddress:
    """Where a scheduler is. ``host``: in lower case and ASCII; with ``*.`` before it: all below it, in a rule."""

    scheme: str
    host: str
    port: int

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{self.scheme}://{host}:{self.port}"

    def within(self, rule: ClusterAddress) -> bool:
        """Whether a rule covers it."""
        if (self.scheme, self.port) != (rule.scheme, rule.port):
            return False
        return self.host == rule.host or (rule.host.startswith("*.") and self.host.endswith(rule.host[1:]))


def parse(text: str, *, rule: bool = False) -> ClusterAddress:
    """An address as people write it; `ConfigurationError` quotes what cannot be one. ``rule``: may name a domain."""
    written = text.strip()
    found = _FORM.match(written)
    if found is None:
        raise ConfigurationError(f"{written[:300]!r} is no address of a Dask scheduler; {_HOW}")
    scheme, host, digits = found[1], found[2].strip("[]"), found[3]
    below = rule and host.startswith("*.")
    try:
        plain = normalised(host[2:] if below else host)
    except ValueError as e:
        raise ConfigurationError(f"{written[:300]!r} is no address of a Dask scheduler: {e}; {_HOW}") from None
    if below and (as_address(plain) is not None or "." not in plain):
        raise ConfigurationError(f"{written!r} is too much: after *. comes a domain of at least two parts")
    port = int(digits) if digits else USUAL_PORT
    if not 1 <= port <= 65535:
        raise ConfigurationError(f"{written[:300]!r}: a port is a number from 1 to 65535; {_HOW}")
    return ClusterAddress(scheme, f"*.{plain}" if below else plain, port)


def parse_rules(texts: Iterable[str]) -> frozenset[ClusterAddress]:
    """Several of them, as rules."""
    return frozenset(parse(text, rule=True) for text in texts)


def kept(found: object) -> frozenset[ClusterAddress]:
    """The addresses in a session's metadata. Anything else is ignored."""
    addresses = set()
    for text in found[:MOST] if isinstance(found, list) else []:
        try:
            addresses.add(parse(text) if isinstance(text, str) else None)
        except ConfigurationError:
            continue
    return frozenset(address for address in addresses if address is not None)


def common(one: frozenset[ClusterAddress], other: frozenset[ClusterAddress]) -> frozenset[ClusterAddress]:
    """What both cover: of two rules, the narrower."""
    return frozenset(
        rule for mine, yours in ((one, other), (other, one)) for rule in mine if any(map(rule.within, yours))
    )


def listed(addresses: Iterable[ClusterAddress]) -> str:
    """Addresses in one line, for a person."""
    return ", ".join(map(str, sorted(addresses)))
