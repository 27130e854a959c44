"""Which addresses are the internet's: every kind that is not, also in disguise."""

from __future__ import annotations

import pytest

from wasm_kernel.model.public_addresses import as_address, described, is_public

PUBLIC = ["8.8.8.8", "1.1.1.1", "2606:4700::1111", "::ffff:8.8.8.8", "64:ff9b::808:808", "2002:808:808::1"]
NOT_PUBLIC = [
    *("127.0.0.1", "127.255.255.254", "0.0.0.0", "10.0.0.1", "172.16.0.1", "192.168.1.1", "169.254.169.254"),
    *("100.64.0.1", "100.100.100.200", "192.0.0.192", "168.63.129.16", "198.18.0.1", "192.0.2.1", "203.0.113.9"),
    *("224.0.0.1", "239.255.255.250", "240.0.0.1", "255.255.255.255", "192.88.99.1"),
    *("::", "::1", "fe80::1", "fc00::1", "fd00:ec2::254", "ff02::1", "2001:db8::1", "3fff::1", "fec0::1"),
    *("::ffff:127.0.0.1", "::ffff:10.0.0.1", "::ffff:169.254.169.254", "::127.0.0.1", "64:ff9b::7f00:1"),
    *("64:ff9b::a9fe:a9fe", "2002:7f00:1::", "2002:a00:1::", "64:ff9b:1::1", "2001::1"),
    *("192.0.0.9", "ff0e::1", "4000::1", "5f00::1", "100::1", "::ffff:0:127.0.0.1"),
    "2001:0:4136:e378:8000:63bf:f7f7:f7f7",  # a tunnel (Teredo) to 8.8.8.8, by a server of somebody's
]


@pytest.mark.parametrize("text", PUBLIC)
def test_public_ones(text: str) -> None:
    address = as_address(text)
    assert address is not None
    assert is_public(address)


@pytest.mark.parametrize("text", NOT_PUBLIC)
def test_all_others(text: str) -> None:
    address = as_address(text)
    assert address is not None
    assert not is_public(address)
    assert described(address).startswith("an address of")


def test_one_spelling() -> None:
    assert str(as_address("::FFFF:10.0.0.1")) == "10.0.0.1"
    assert str(as_address("2606:4700:0:0::1111")) == "2606:4700::1111"


@pytest.mark.parametrize("text", ["fe80::1%eth0", "127.1", "0x7f.1", "2130706433", "010.0.0.1", "example.org", ""])
def test_no_addresses(text: str) -> None:
    assert as_address(text) is None


def test_what_people_are_told() -> None:
    for text, word in {
        "127.0.0.1": "machine",
        "169.254.169.254": "link",
        "10.0.0.1": "private",
        "224.0.0.1": "many",
    }.items():
        address = as_address(text)
        assert address is not None
        assert word in described(address)
