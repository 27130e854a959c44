"""What can be a secret, and for which header."""

from __future__ import annotations

import pytest

from wasm_kernel.errors import ConfigurationError
from wasm_kernel.host.network import secrets
from wasm_kernel.host.network.secrets import SecretStore, checked_header


@pytest.fixture
def kept() -> SecretStore:
    return SecretStore()


@pytest.mark.parametrize("value", ["", " ", "a b", "a\r\nHost: evil.example", "a\0", "a\x7f", "ä", "x" * 8193])
def test_values_that_a_header_cannot_carry(kept: SecretStore, value: str) -> None:
    with pytest.raises(ConfigurationError, match="printable characters") as error:
        kept.keep("T", "a.org", "authorization", value)
    assert len(value) < 2 or value not in str(error.value)
    assert list(kept) == []


@pytest.mark.parametrize("name", ["", "9x", "a b", "a\n", "a-b", "ä", "x" * 65])
def test_names(kept: SecretStore, name: str) -> None:
    with pytest.raises(ConfigurationError, match="no name of a secret"):
        kept.keep(name, "a.org", "authorization", "value")


@pytest.mark.parametrize(
    "header", ["", "Host", "ORIGIN", "cookie", "Transfer-Encoding", "X Y", "X:Y", "X\r\nY", "ä", "x" * 65]
)
def test_headers_that_are_for_something_else(header: str) -> None:
    with pytest.raises(ConfigurationError, match="no header for a secret"):
        checked_header(header)


def test_as_many_as_there_may_be(kept: SecretStore) -> None:
    for n in range(secrets.MOST_SECRETS):
        kept.keep(f"T{n}", "a.org", "authorization", "value")
    with pytest.raises(ConfigurationError, match="forget one first"):
        kept.keep("more", "a.org", "authorization", "value")
    assert kept.keep("T0", "b.org", "X-API-Key", "other").where == "b.org"
    assert len(list(kept)) == secrets.MOST_SECRETS


def test_a_value_is_not_shown(kept: SecretStore) -> None:
    assert "s3cr3t" not in repr(kept.keep("T", "a.org", "authorization", "s3cr3t"))
