"""The proxies of the host's environment: ``https_proxy``, ``http_proxy``, ``all_proxy``, ``no_proxy``.

A proxy is asked for a tunnel (CONNECT) to the name, whatever goes through it. The guest neither sees that there is
one, nor its credentials.
"""

from __future__ import annotations

import base64
import socket
import urllib.parse
from collections.abc import Mapping
from dataclasses import dataclass, field

from wasm_kernel.host.network.faults import Fault, Kind
from wasm_kernel.model.public_addresses import as_address

_MOST_ANSWER = 16 << 10


@dataclass(frozen=True)
class Proxy:
    """Where it is, and what it wants to know of us."""

    host: str
    port: int
    credentials: str = field(default="", repr=False)


def proxy_for(name: str, port: int) -> Proxy | None:
    """The proxy that the environment names for a host; None: it is reached directly."""
    from urllib.request import getproxies_environment

    found = getproxies_environment()
    url = found.get("http" if port == 80 else "https") or found.get("all")
    if not url or _bypassed(name, port, found):
        return None
    parts = urllib.parse.urlsplit(url if "://" in url else f"http://{url}")
    if parts.scheme != "http" or not parts.hostname:
        raise Fault(Kind.UNREACHABLE, f"the proxy for {name}:{port} is none that speaks HTTP: {parts.scheme}://…")
    secret = ""
    if parts.username is not None:
        pair = f"{urllib.parse.unquote(parts.username)}:{urllib.parse.unquote(parts.password or '')}"
        secret = base64.b64encode(pair.encode()).decode()
    return Proxy(parts.hostname, parts.port or 80, secret)


def _bypassed(name: str, port: int, found: Mapping[str, str]) -> bool:
    """Whether ``no_proxy`` names a host, or it is this machine: for a proxy that would be another one."""
    from urllib.request import proxy_bypass_environment  # type: ignore[attr-defined]

    address = as_address(name)
    if name == "localhost" or (address is not None and address.is_loopback):
        return True
    return bool(proxy_bypass_environment(f"{name}:{port}", found))


def tunnel(sock: socket.socket, proxy: Proxy, name: str, port: int) -> None:
    """Ask for a tunnel to a host, on a connection to the proxy. Blocks. Raises `Fault`."""
    target = f"[{name}]:{port}" if ":" in name else f"{name}:{port}"
    lines = [f"CONNECT {target} HTTP/1.1", f"Host: {target}"]
    if proxy.credentials:
        lines.append(f"Proxy-Authorization: Basic {proxy.credentials}")
    sock.sendall("\r\n".join([*lines, "", ""]).encode())
    answer = b""
    while b"\r\n\r\n" not in answer:
        # A byte at a time: what follows belongs to the guest.
        more = sock.recv(1) if len(answer) < _MOST_ANSWER else b""
        if not more:
            raise Fault(Kind.UNREACHABLE, f"the proxy gave no answer for {target}")
        answer += more
    status = answer.split(b"\r\n", 1)[0].split(b" ", 2)
    if len(status) < 2 or status[1] != b"200":
        said = status[1].decode("ascii", "replace")[:3] if len(status) > 1 else "nothing"
        raise Fault(Kind.UNREACHABLE, f"the proxy does not connect to {target}: it answered {said}")
