"""Hosts as people write them, what they cover, and what a rule covers of them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wasm_kernel.errors import ConfigurationError
from wasm_kernel.model import network_grants
from wasm_kernel.model.network_grants import (
    HostGrant,
    Reach,
    common,
    kept,
    listed,
    normalised,
    parse,
    parse_all,
    to_allow,
)
from wasm_kernel.model.public_addresses import as_address


@pytest.mark.parametrize(
    ("written", "grant"),
    [
        ("api.github.com", HostGrant("api.github.com")),
        ("API.GitHub.com.", HostGrant("api.github.com")),
        ("db.internal:5432", HostGrant("db.internal", 5432)),
        ("*.data.gov.uk:443", HostGrant("*.data.gov.uk", 443)),
        ("bücher.example", HostGrant("xn--bcher-kva.example")),
        ("127.0.0.1:5432", HostGrant("127.0.0.1", 5432)),
        ("[::1]:8080", HostGrant("::1", 8080)),
        ("[::1]", HostGrant("::1")),
        ("2606:4700::1111", HostGrant("2606:4700::1111")),
        ("::ffff:10.0.0.1", HostGrant("10.0.0.1")),
        ("localhost:8888", HostGrant("localhost", 8888)),
    ],
)
def test_hosts_as_written(written: str, grant: HostGrant) -> None:
    assert parse(written) == grant
    assert parse(str(grant)) == grant


@pytest.mark.parametrize(
    "written",
    [
        *("", "*", "*.", "*.com", "*.*.com", "a.*.com", "*api.com", "https://x.org", "x.org/path", "x.org:", "x.org:0"),
        *("x.org:65536", "x.org:http", "x.org:-1", "a b.org", "-a.org", "a-.org", "a..org", "x" * 64 + ".org"),
        *("127.1", "0x7f.0.0.1", "2130706433", "10.0.0", "[::1", "::1]:80", "*.127.0.0.1", "fe80::1%eth0", "a\n.org"),
        *("x.org,y.org", "user@x.org", "x.org:4:4", "x.org?y", "x.org#y", "x" * 5000),
        ".".join(["x" * 50] * 5),
    ],
)
def test_what_is_no_host_is_quoted(written: str) -> None:
    with pytest.raises(ConfigurationError) as error:
        parse(written)
    assert repr(written.strip()[:300])[:40] in str(error.value)
    assert "HOST:PORT" in str(error.value)


def test_what_is_covered() -> None:
    usual, one, below = parse("a.org"), parse("a.org:22"), parse("*.a.org")
    assert usual.covers("a.org", 80)
    assert usual.covers("a.org", 443)
    assert not usual.covers("a.org", 22)
    assert not usual.covers("b.a.org", 443)
    assert one.covers("a.org", 22)
    assert not one.covers("a.org", 443)
    assert below.covers("x.y.a.org", 443)
    assert not below.covers("a.org", 443)
    assert not below.covers("evila.org", 443)


@pytest.mark.parametrize(
    "name",
    [
        *("gov.uk", "gov.uk.", "GOV.UK", "gov.uk.evil", "a.gov.uk.evil.com", "evilgov.uk", "a.govxuk", "a.gov.uk.x"),
        *(".gov.uk", "*.gov.uk", "a..gov.uk", "a.gov.uk..", "a.gov.uk\0.evil", "a.gov.uk%2eevil", "evil/a.gov.uk"),
        *(
            "a@gov.uk",
            "evil#.gov.uk",
            "evil:80.gov.uk",
            "a.gov\u3002evil",
            "xn--.gov.uk.xn--evil",
            "\u2488.gov.u\u212ax",
        ),
    ],
)
def test_names_that_only_look_as_if_they_were_covered(name: str) -> None:
    try:
        assert not parse("*.gov.uk").covers(normalised(name), 443)
    except ValueError:
        pass  # refused before


@pytest.mark.parametrize(
    "name",
    [
        *("0x7f.1", "127.1", "127.0.1", "2130706433", "0177.0.0.1", "017700000001", "0x7f000001", "127.0.0.1."),
        *(
            "0",
            "00",
            "0x",
            "1.2.3.0x4",
            "127.0.0.01",
            "\uff11\uff12\uff17.0.0.1",
            "\u2460\u2461\u2466.1",
            "a.1",
            "::1%lo",
        ),
        *("[::1]", "::ffff:127.0.0.1%1", "127\u30020\u30020\u30021", "a.0x1f"),
    ],
)
def test_spellings_of_addresses_are_no_names(name: str) -> None:
    """What a C library would take for an address is one in full, or refused."""
    with pytest.raises(ValueError, match="name"):
        normalised(name)


def test_what_is_within_a_rule() -> None:
    rule = parse("*.a.org")
    for inside in ("b.a.org", "b.a.org:443", "*.b.a.org", "*.a.org", "*.a.org:80"):
        assert parse(inside).within(rule), inside
    for outside in ("a.org", "b.a.org:22", "*.org.uk", "evila.org", "*.a.org:8443"):
        assert not parse(outside).within(rule), outside
    assert not parse("a.org").within(parse("a.org:443"))
    assert parse("a.org:443").within(parse("a.org"))


def test_two_rules_the_narrower_counts() -> None:
    one, other = parse_all(["*.a.org", "b.org"]), parse_all(["x.a.org", "c.org", "b.org:443"])
    assert common(one, other) == common(other, one) == parse_all(["x.a.org", "b.org:443"])
    assert common(one, frozenset()) == frozenset()


def test_reach() -> None:
    reach = Reach(parse_all(["a.org", "10.0.0.1:5432", "localhost:8000"]), None)
    assert reach.allows("a.org", 443)
    assert not reach.allows("b.org", 443)
    assert Reach(reach.granted, parse_all(["b.org"])).allows("a.org", 443) is False
    private, loopback = as_address("10.0.0.1"), as_address("127.0.0.1")
    assert private is not None
    assert loopback is not None
    assert reach.names_address(private, "a.org", 5432)
    assert not reach.names_address(private, "a.org", 443)
    assert reach.names_address(loopback, "localhost", 8000)
    assert not reach.names_address(private, "localhost", 8000)
    assert not reach.names_address(loopback, "a.org", 443)
    assert not reach.names_address(loopback, "localhost", 8001)
    assert reach.names("a.org")
    assert not Reach(reach.granted, parse_all(["b.org"])).names("a.org")
    assert not reach.names("b.org")


def test_what_to_type() -> None:
    assert to_allow("a.org", 443) == to_allow("a.org", 80) == "a.org"
    assert to_allow("a.org", 5432) == "a.org:5432"
    assert to_allow("::1", 5432) == "[::1]:5432"
    assert listed(parse_all(["b.org:22", "*.a.org", "c.org"])) == "*.a.org, b.org:22, c.org"


def test_metadata_is_read_with_care() -> None:
    assert kept(["a.org", 3, "no host", None, "b.org:22"]) == parse_all(["a.org", "b.org:22"])
    assert len(kept([f"h{n}.org" for n in range(300)])) == network_grants.MOST_HOSTS
    assert kept("a.org") == kept(None) == kept({"a.org": 1}) == frozenset()
    with pytest.raises(ConfigurationError, match="too many"):
        parse_all(f"h{n}.org" for n in range(network_grants.MOST_HOSTS + 1))


@given(st.text(max_size=60))
def test_any_text_is_a_host_or_refused(text: str) -> None:
    try:
        found = normalised(text)
    except ValueError:
        return
    assert found == found.lower()
    assert normalised(found) == found
    assert found.isascii()
