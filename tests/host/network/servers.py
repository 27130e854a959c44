"""Real servers on this machine for tests of the network: HTTP, HTTPS, and ones that do not behave."""

from __future__ import annotations

import contextlib
import datetime
import http.server
import ipaddress
import json
import socket
import ssl
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID


@dataclass
class Server:
    """A server that runs."""

    port: int
    requests: list[tuple[str, dict[str, str], bytes]] = field(default_factory=list)


class _Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    found: Server

    def do_GET(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        self.found.requests.append((self.path, {k.lower(): v for k, v in self.headers.items()}, body))
        path = self.path.partition("?")[0]
        if path == "/forever":
            self.send_response(200)
            self.end_headers()
            with contextlib.suppress(OSError):
                while True:
                    self.wfile.write(b"x" * 65536)
            self.close_connection = True
            return
        if path == "/slow":
            time.sleep(20)
        if path.startswith("/redirect/"):
            self.send_response(302)
            self.send_header("Location", path.removeprefix("/redirect/").replace("!", "/"))
            self.send_header("Content-Length", "0")
            self.end_headers()
            return
        answer = (
            b"city,people\nBern,134\nLima,9751\n"
            if path.endswith(".csv")
            else json.dumps({"path": self.path, "body": body.decode(), "host": self.headers.get("Host")}).encode()
        )
        self.send_response(200)
        self.send_header("Content-Length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)

    do_POST = do_GET

    def log_message(self, *args: Any) -> None:
        pass


@contextlib.contextmanager
def http_server(context: ssl.SSLContext | None = None) -> Iterator[Server]:
    """A server of HTTP, or of HTTPS."""
    found = Server(0)
    handler = type("Handler", (_Handler,), {"found": found})
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
    server.daemon_threads = True
    if context is not None:
        server.socket = context.wrap_socket(server.socket, server_side=True, do_handshake_on_connect=False)
    found.port = server.server_address[1]
    thread = threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True)
    thread.start()
    try:
        yield found
    finally:
        server.shutdown()
        server.server_close()
        thread.join(5)


@contextlib.contextmanager
def raw_server(serve: Callable[[socket.socket], None]) -> Iterator[Server]:
    """A server that does as it is told with each connection."""
    listener = socket.create_server(("127.0.0.1", 0))
    found = Server(listener.getsockname()[1])

    def one(sock: socket.socket) -> None:
        with contextlib.suppress(OSError), sock:
            serve(sock)

    def accept() -> None:
        with contextlib.suppress(OSError):
            while True:
                threading.Thread(target=one, args=(listener.accept()[0],), daemon=True).start()

    threading.Thread(target=accept, daemon=True).start()
    try:
        yield found
    finally:
        listener.shutdown(socket.SHUT_RDWR)
        listener.close()


@dataclass(frozen=True)
class Authority:
    """A certificate authority of the tests', and a server's certificate from it."""

    file: Path
    context: ssl.SSLContext


def make_authority(folder: Path, *names: str) -> Authority:
    """An authority, and a context for a server with these names."""
    now = datetime.datetime.now(datetime.UTC)
    root_key, key = ec.generate_private_key(ec.SECP256R1()), ec.generate_private_key(ec.SECP256R1())
    root_name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "tests of wasm-kernel")])

    def certificate(name: x509.Name, public: Any, ca: bool) -> x509.CertificateBuilder:
        return (
            x509.CertificateBuilder()
            .subject_name(name)
            .issuer_name(root_name)
            .public_key(public)
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - datetime.timedelta(days=1))
            .not_valid_after(now + datetime.timedelta(days=2))
            .add_extension(x509.BasicConstraints(ca=ca, path_length=None), critical=True)
            .add_extension(x509.SubjectKeyIdentifier.from_public_key(public), critical=False)
            .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(root_key.public_key()), critical=False)
        )

    usage = x509.KeyUsage(False, False, False, False, False, True, True, False, False)
    root = (
        certificate(root_name, root_key.public_key(), True)
        .add_extension(usage, critical=True)
        .sign(root_key, hashes.SHA256())
    )
    found: list[x509.GeneralName] = []
    for name in names:
        try:
            found.append(x509.IPAddress(ipaddress.ip_address(name)))
        except ValueError:
            found.append(x509.DNSName(name))
    own = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, names[0])])
    leaf = (
        certificate(own, key.public_key(), False)
        .add_extension(x509.SubjectAlternativeName(found), critical=False)
        .add_extension(
            x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH]), critical=False
        )
        .sign(root_key, hashes.SHA256())
    )
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "authority.pem").write_bytes(root.public_bytes(serialization.Encoding.PEM))
    (folder / "server.pem").write_bytes(leaf.public_bytes(serialization.Encoding.PEM))
    (folder / "server.key").write_bytes(
        key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    )
    (folder / "server.key").chmod(0o600)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(folder / "server.pem", folder / "server.key")
    context.set_alpn_protocols(["http/1.1"])
    return Authority(folder / "authority.pem", context)
