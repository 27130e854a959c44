"""Which addresses belong to the public internet, and not to the machine itself, its network or its cloud.

A name is what a guest may ask for; whoever owns the name decides which address it has, and can change that at any
moment. So the address is judged, too. An address that carries another one inside (IPv4 in IPv6, in several spellings)
is what that one is.
"""

from __future__ import annotations

from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address

Address = IPv4Address | IPv6Address

_GLOBAL_V6 = IPv6Network("2000::/3")  # all that is given out so far
_DOCUMENTATION_V6 = IPv6Network("3fff::/20")
_NAT64 = IPv6Network("64:ff9b::/96")
_NOT_FOR_GUESTS = (  # that Python, or some of its releases, count among the public ones
    IPv4Network("192.0.0.0/24"),  # of protocols; a cloud has its metadata there
    IPv4Network("192.88.99.0/24"),  # relays of 6to4, given up
    IPv4Network("168.63.129.16/32"),  # a cloud's service for its machines
)


def as_address(text: str) -> Address | None:
    """The address that a text spells, IPv4 within IPv6 as IPv4; None if it is none, as with a zone (``%eth0``)."""
    try:
        found = ip_address(text)
    except ValueError:
        return None
    if isinstance(found, IPv6Address):
        if found.scope_id is not None:
            return None
        return found.ipv4_mapped or found
    return found


def is_public(address: Address) -> bool:
    """Whether anybody on the internet could reach what is at an address."""
    if isinstance(address, IPv6Address):
        inner = _inside(address)
        if inner is not None:
            return is_public(inner)
        return address in _GLOBAL_V6 and address.is_global and address not in _DOCUMENTATION_V6
    if any(address in network for network in _NOT_FOR_GUESTS):
        return False
    return address.is_global and not address.is_multicast and not address.is_reserved


def _inside(address: IPv6Address) -> IPv4Address | None:
    """The IPv4 address that an IPv6 one leads to; None if it leads to none."""
    if address in _NAT64:
        return IPv4Address(int(address) & 0xFFFFFFFF)
    return address.ipv4_mapped or address.sixtofour


def described(address: Address) -> str:
    """What kind of address it is, for a person: completes "it is"."""
    if isinstance(address, IPv6Address):
        inner = _inside(address)
        if inner is not None and not is_public(inner):
            return described(inner)
    if address.is_loopback or address.is_unspecified:
        return "an address of this machine"
    if address.is_link_local:
        return "an address of this machine's own link, where clouds keep credentials"
    if address.is_multicast:
        return "an address of many machines"
    return "an address of a private network"
