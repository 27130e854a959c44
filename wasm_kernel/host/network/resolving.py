"""The one place where names become addresses, and addresses are judged. What is returned here is what is dialled.

A name can have another address at the next look-up, so there is none: `addresses` looks once, and its caller connects
to the addresses it got. Every address of a name is judged; the first bad one refuses the name, so that it does not
depend on which of them answers first.
"""

from __future__ import annotations

import socket
from collections.abc import Callable

from wasm_kernel.host.network.faults import Fault, Kind
from wasm_kernel.model.network_grants import Reach, to_allow
from wasm_kernel.model.public_addresses import Address, as_address, described, is_public

Found = list[tuple[str, int]]  # address, family
_MOST = 16  # addresses of one name that are tried

look_up: Callable[..., list[tuple[int, int, int, str, tuple[object, ...]]]] = socket.getaddrinfo  # type: ignore[assignment]


def addresses(name: str, port: int, reach: Reach, allow: Callable[[str], str]) -> Found:
    """The addresses to dial for a name that is granted. Blocks. Raises `Fault`, or what the system says.

    ``allow``: what a person has to do to grant a host, as the end of a sentence.
    """
    found: Found = []
    for family, _, _, _, place in look_up(name, port, type=socket.SOCK_STREAM):
        address = as_address(str(place[0]).partition("%")[0]) if family in (socket.AF_INET, socket.AF_INET6) else None
        if address is None:
            continue
        judge(address, name, port, reach, allow)
        found.append((str(address), socket.AF_INET if address.version == 4 else socket.AF_INET6))
    if not found:
        raise Fault(Kind.NAME, f"the name of {name}:{port} has no address")
    return list(dict.fromkeys(found))[:_MOST]


def judge(address: Address, name: str, port: int, reach: Reach, allow: Callable[[str], str]) -> None:
    """Refuse an address that is not public, or this machine's own, unless it is granted by itself."""
    own = str(address) in _own_addresses()
    if (own or not is_public(address)) and not reach.names_address(address, name, port):
        what = "an address of this machine" if own else described(address)
        called = f"{name} is {address}, {what}" if str(address) != name else f"{address} is {what}"
        how = allow(to_allow(str(address), port))
        raise Fault(Kind.PERMISSION, f"{called}, which has to be allowed by itself: {how}")


def _own_addresses() -> frozenset[str]:
    """The addresses of this machine: a public one leads behind its firewall from here."""
    import psutil

    found = (as_address(a.address) for every in psutil.net_if_addrs().values() for a in every)
    return frozenset(str(address) for address in found if address is not None)
