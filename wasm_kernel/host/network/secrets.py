"""Secrets that a person typed for one host each: in this process's memory, and nowhere else.

The guest knows a placeholder, made from the secret's name. `SecretHeaders` puts the value in its place in the heads
of requests, on encrypted connections to that host. When the kernel ends, they are gone.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

from wasm_kernel.errors import ConfigurationError
from wasm_kernel.model.network_grants import HostGrant

AUTHORIZATION = "authorization"
MOST_SECRETS = 32
_LONGEST = 8192
_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_]{0,63}\Z")
_HEADER = re.compile(r"[a-z0-9!#$%&'*+.^_`|~-]{1,64}\Z")
_VALUE = re.compile(r"[\x21-\x7e]+\Z")
# Headers that say something else than who asks; servers give some of them back.
_NOT_FOR_SECRETS = frozenset(
    "host connection content-length transfer-encoding te trailer upgrade expect origin referer cookie range "
    "if-none-match if-match if-range if-modified-since user-agent accept accept-encoding accept-language "
    "content-type x-request-id x-correlation-id traceparent".split()
)


@dataclass(frozen=True)
class Secret:
    """One secret.

    Attributes:
        name: What the person calls it.
        host: The only host that gets it.
        header: The only header that it may stand in, in lower case.
        value: Never shown, not even by a debugger's look at this object.
        port: The only port of the host that gets it; 0: any that is allowed.
    """

    name: str
    host: str
    header: str
    value: bytes = field(repr=False)
    port: int = 0

    @property
    def where(self) -> str:
        """Where it goes, for a person."""
        return str(HostGrant(self.host, self.port))

    @property
    def placeholder(self) -> str:
        """What the guest has in place of it."""
        return placeholder(self.name)


def placeholder(name: str) -> str:
    """What stands for a secret in a guest; the same in every kernel, so that a notebook goes on."""
    return f"wasm-kernel-secret-{name}"


def check_name(name: str) -> None:
    """Refuse a name that cannot be a secret's."""
    if not _NAME.match(name):
        raise ConfigurationError(
            f"{name[:80]!r} is no name of a secret; use letters, digits and underscores, such as GITHUB_TOKEN"
        )


def checked_header(header: str) -> str:
    """The name of a header that may carry a secret, in lower case."""
    plain = header.strip().lower()
    if not _HEADER.match(plain) or plain in _NOT_FOR_SECRETS:
        raise ConfigurationError(f"{header[:80]!r} is no header for a secret; write Authorization, or X-API-Key")
    return plain


class SecretStore:
    """The secrets of one session, while its kernel runs."""

    def __init__(self) -> None:
        self._secrets: dict[str, Secret] = {}

    def __iter__(self) -> Iterator[Secret]:
        return iter(list(self._secrets.values()))

    def keep(self, name: str, host: str, header: str, value: str, *, port: int = 0) -> Secret:
        """Keep a secret, in place of one of the same name. `ConfigurationError` if it cannot be one."""
        check_name(name)
        if not _VALUE.match(value) or len(value) > _LONGEST:
            raise ConfigurationError(
                f"that cannot be a secret for a header: it must be 1 to {_LONGEST} printable characters without spaces"
            )
        if name not in self._secrets and len(self._secrets) >= MOST_SECRETS:
            raise ConfigurationError(f"there are {MOST_SECRETS} secrets already; forget one first")
        secret = self._secrets[name] = Secret(name, host, checked_header(header), value.encode(), port)
        return secret

    def forget(self, name: str) -> bool:
        """Forget a secret; whether there was one."""
        return self._secrets.pop(name, None) is not None

    def clear(self) -> None:
        """Forget all."""
        self._secrets.clear()

    def for_host(self, host: str, port: int) -> list[Secret]:
        """The secrets that requests to a host may carry."""
        return [secret for secret in self if secret.host == host and secret.port in (0, port)]
