"""Which hosts a guest may connect to: names as people write them, and the decision.

    api.github.com          ports 80 and 443 of that host
    db.internal:5432        one port of it
    *.data.gov.uk           all hosts below that name, at any depth; not data.gov.uk itself
    10.1.2.3:5432, [::1]:80 an address

Three parties have a say, as with limits: the administrator's rules bound what may be granted at all, the
configuration (or the program that makes a sandbox) grants hosts in advance, the person grants others. A name that
leads to an address that is not public (`public_addresses`) is let through only if that address, too, is granted:
written out, with its port.

This module decides; it neither resolves nor connects.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from wasm_kernel.errors import ConfigurationError
from wasm_kernel.model.public_addresses import Address, as_address

USUAL_PORTS = (80, 443)
MOST_HOSTS = 200  # that one session, or one setting, names
_LONGEST_NAME = 253
_LABEL = re.compile(r"(?!-)[a-z0-9_-]{1,63}(?<!-)\Z")
_NUMERIC = re.compile(r"(0x[0-9a-f]*|[0-9]+)\Z")  # a C library takes a name that ends so for an address
_HOW = "write HOST, HOST:PORT or *.DOMAIN, such as api.github.com, db.internal:5432 or *.data.gov.uk"
_LOOPBACK = ("127.0.0.1", "::1")


@dataclass(frozen=True, order=True)
class HostGrant:
    """One host, or all hosts below a name.

    Attributes:
        name: In lower case and ASCII; ``*.`` before it means all below it. Or an address, as Python spells it.
        port: The only port; 0: the usual ones, 80 and 443.
    """

    name: str
    port: int = 0

    def __str__(self) -> str:
        return with_port(self.name, self.port) if self.port else self.name

    def covers(self, name: str, port: int) -> bool:
        """Whether this lets a guest connect to a host, by a name that `normalised` has made."""
        return self._has_port(port) and self._has_name(name)

    def within(self, other: HostGrant) -> bool:
        """Whether another one covers all that this does."""
        ports = (self.port,) if self.port else USUAL_PORTS
        if not all(other._has_port(port) for port in ports):
            return False
        return self.name == other.name or other._has_name(self.name.removeprefix("*."), below=self.name[0] == "*")

    def covered_by(self, other: HostGrant) -> bool:
        """Whether another one lets a guest connect to this host at all, on any port."""
        return self.name == other.name or other._has_name(self.name)

    def _has_port(self, port: int) -> bool:
        return port == self.port if self.port else port in USUAL_PORTS

    def _has_name(self, name: str, *, below: bool = False) -> bool:
        if self.name.startswith("*."):
            return name.endswith(self.name[1:]) or (below and name == self.name[2:])
        return not below and name == self.name


@dataclass(frozen=True)
class Reach:
    """Where a guest may connect to.

    Attributes:
        granted: By the person, the configuration or a program.
        most: What may be granted at all; None: there is no such rule.
    """

    granted: frozenset[HostGrant] = frozenset()
    most: frozenset[HostGrant] | None = None

    def allows(self, name: str, port: int) -> bool:
        """Whether a guest may ask for a host, by its name or address."""
        granted = any(grant.covers(name, port) for grant in self.granted)
        return granted and (self.most is None or any(rule.covers(name, port) for rule in self.most))

    def names(self, name: str) -> bool:
        """Whether a guest may ask for a host, on any port."""
        wanted = HostGrant(name)
        return any(map(wanted.covered_by, self.granted)) and (
            self.most is None or any(map(wanted.covered_by, self.most))
        )

    def names_address(self, address: Address, name: str, port: int) -> bool:
        """Whether an address that is not public is granted by itself. ``localhost`` is the loopback's own name."""
        if name == "localhost" and str(address) in _LOOPBACK and self.allows(name, port):
            return True
        return self.allows(str(address), port)


def parse(text: str) -> HostGrant:
    """A host as people write it; `ConfigurationError` quotes what cannot be one."""
    written = text.strip()
    name, port = _split(written)
    below = name.startswith("*.")
    try:
        plain = normalised(name[2:] if below else name)
    except ValueError as e:
        raise ConfigurationError(f"{written[:300]!r} is no host: {e}; {_HOW}") from None
    if below:
        if as_address(plain) is not None or "." not in plain:
            raise ConfigurationError(f"{written!r} is too much: after *. comes a domain of at least two parts; {_HOW}")
        plain = f"*.{plain}"
    return HostGrant(plain, port)


def parse_all(texts: Iterable[str]) -> frozenset[HostGrant]:
    """Several of them."""
    found = frozenset(map(parse, texts))
    if len(found) > MOST_HOSTS:
        raise ConfigurationError(f"{len(found)} hosts are too many; {MOST_HOSTS} can be named at most")
    return found


def common(one: frozenset[HostGrant], other: frozenset[HostGrant]) -> frozenset[HostGrant]:
    """What both cover: of two rules, the narrower."""
    return frozenset(
        grant for mine, yours in ((one, other), (other, one)) for grant in mine if any(map(grant.within, yours))
    )


def kept(found: object) -> frozenset[HostGrant]:
    """The hosts in a session's metadata. Anything else is ignored."""
    grants = set()
    for text in found[:MOST_HOSTS] if isinstance(found, list) else []:
        try:
            grants.add(parse(text) if isinstance(text, str) else None)
        except ConfigurationError:
            continue
    return frozenset(grant for grant in grants if grant is not None)


def _split(written: str) -> tuple[str, int]:
    if "://" in written or "/" in written:
        raise ConfigurationError(f"{written[:300]!r} is an address of a page; {_HOW}")
    bracketed = re.fullmatch(r"\[([^\[\]]*)\](?::([0-9]{1,5}))?", written)
    if bracketed:
        return bracketed[1], _port(written, bracketed[2])
    if written.count(":") > 1:  # an IPv6 address without a port
        return written, 0
    name, colon, port = written.partition(":")
    if colon and not re.fullmatch("[0-9]{1,5}", port):
        raise ConfigurationError(f"{written[:300]!r}: a port is a number from 1 to 65535; {_HOW}")
    return name, _port(written, port)


def _port(written: str, digits: str | None) -> int:
    if not digits:
        return 0
    if not 1 <= int(digits) <= 65535:
        raise ConfigurationError(f"{written[:300]!r}: a port is a number from 1 to 65535; {_HOW}")
    return int(digits)


def normalised(name: str) -> str:
    """A name in lower case and ASCII, without a dot at its end, or an address in one spelling.

    `ValueError` if it is neither: also where a C library would take it for an address, as it does ``127.1``.
    """
    if len(name) > 4 * _LONGEST_NAME:
        raise ValueError("it is too long")
    address = as_address(name)
    if address is not None:
        return str(address)
    plain = name.removesuffix(".").lower()
    if not plain.isascii():
        try:
            plain = plain.encode("idna").decode().lower()
        except UnicodeError:
            raise ValueError("it is no name of a host") from None
    labels = plain.split(".")
    if not plain or len(plain) > _LONGEST_NAME or not all(map(_LABEL.match, labels)):
        raise ValueError("it is no name of a host")
    if _NUMERIC.match(labels[-1]):
        raise ValueError("it is neither a name nor an address in full")
    return plain


def to_allow(name: str, port: int) -> str:
    """What a person would write to grant a host and port."""
    return name if port in USUAL_PORTS else with_port(name, port)


def with_port(name: str, port: int) -> str:
    """A host and port as people write them."""
    return f"[{name}]:{port}" if ":" in name else f"{name}:{port}"


def listed(grants: Iterable[HostGrant]) -> str:
    """Hosts in one line, for a person."""
    return ", ".join(str(grant) for grant in sorted(grants, key=lambda grant: (grant.name.removeprefix("*."), grant)))
