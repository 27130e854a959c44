"""The module `ssl` of the guest: TLS is the host's, which checks certificates by its own list of authorities.

Contexts remember what is set and none of it makes the check weaker: CERT_NONE, check_hostname = False and authorities
of one's own have no effect. A socket that is wrapped stays a socket of the host's, on which the host agrees on TLS. An
`SSLObject`, for libraries that move the encrypted bytes themselves, writes a mark that the socket below understands
(`sockets.TLS_MARK`), and after that hands plain bytes through.
"""

import json
import socket
import types

from . import sockets, tls_names
from .tls_names import Purpose, TLSVersion, VerifyMode


class SSLError(OSError):
    """As in ssl."""

    library = reason = None


class SSLZeroReturnError(SSLError):
    """The other end has closed the connection."""


class SSLWantReadError(SSLError):
    """More has to be received first."""


class SSLWantWriteError(SSLError):
    """More has to be sent first."""


class SSLSyscallError(SSLError):
    """The system failed."""


class SSLEOFError(SSLError):
    """The connection ended without goodbye."""


class SSLCertVerificationError(SSLError, ValueError):
    """The host does not trust the other end."""

    verify_code, verify_message = 0, ""


class SSLContext:
    """What is set is remembered; what is checked is the host's."""

    sni_callback = keylog_filename = None
    post_handshake_auth = hostname_checks_common_name = False
    security_level = 2

    def __init__(self, protocol=None, *args, **kwargs):
        self.protocol, self.check_hostname, self.verify_mode = protocol, True, VerifyMode.CERT_REQUIRED
        self.options = self.verify_flags = 0
        self.minimum_version, self.maximum_version = TLSVersion.TLSv1_2, TLSVersion.MAXIMUM_SUPPORTED
        self.protocols = []
        self.sslsocket_class, self.sslobject_class = SSLSocket, SSLObject

    def set_alpn_protocols(self, protocols):
        self.protocols = [p.decode() if isinstance(p, bytes) else p for p in protocols][:8]

    def load_cert_chain(self, *args, **kwargs):
        raise SSLError("the sandbox has no certificates of its own: a client cannot show one")

    def wrap_socket(
        self,
        sock,
        server_side=False,
        do_handshake_on_connect=True,
        suppress_ragged_eofs=True,
        server_hostname=None,
        session=None,
    ):
        if server_side:
            raise SSLError("the sandbox has only outgoing connections")
        return self.sslsocket_class._wrapped(sock, self, _text(server_hostname), do_handshake_on_connect)

    def wrap_bio(self, incoming, outgoing, server_side=False, server_hostname=None, session=None):
        if server_side:
            raise SSLError("the sandbox has only outgoing connections")
        return self.sslobject_class(incoming, outgoing, self, _text(server_hostname))

    def cert_store_stats(self):
        return {"x509": 0, "crl": 0, "x509_ca": 0}

    def get_ca_certs(self, binary_form=False):
        return []

    get_ciphers = get_ca_certs

    def _nothing(self, *args, **kwargs):
        """It is the host's to decide."""

    load_verify_locations = load_default_certs = set_default_verify_paths = set_ciphers = _nothing
    set_servername_callback = set_ecdh_curve = load_dh_params = set_npn_protocols = _nothing
    set_ciphersuites = set_groups = set_client_sigalgs = set_server_sigalgs = _nothing


class _Agreed:
    """What is known of the other end once TLS is agreed on: as the host told it."""

    _known = None

    def getpeercert(self, binary_form=False):
        if self._known is None:
            raise ValueError("handshake not done yet")
        if binary_form:
            import base64

            return base64.b64decode(self._known.get("certificate", "")) or None
        return _tuples(self._known.get("peer") or {})

    def version(self):
        return (self._known or {}).get("version")

    def cipher(self):
        return tuple((self._known or {}).get("cipher") or ()) or None

    def shared_ciphers(self):
        return None

    def selected_alpn_protocol(self):
        return (self._known or {}).get("alpn")

    def compression(self):
        return None

    selected_npn_protocol = compression

    def pending(self):
        return 0

    def get_channel_binding(self, kind="tls-unique"):
        return None

    def verify_client_post_handshake(self):
        raise SSLError("the sandbox has no certificates of its own")

    session, session_reused, server_side = None, False, False


class SSLSocket(_Agreed, sockets.Socket):
    """A socket on which the host speaks TLS."""

    def __init__(self, *args, **kwargs):
        raise TypeError(
            "SSLSocket does not have a public constructor. Instances are returned by SSLContext.wrap_socket()."
        )

    @classmethod
    def _wrapped(cls, sock, context, server_hostname, at_once):
        if isinstance(sock, SSLSocket):
            raise SSLError("the sandbox does not encrypt what is encrypted already")
        if not isinstance(sock, sockets.Socket):
            raise ValueError("only sockets of the sandbox can be encrypted")
        self = cls.__new__(cls)
        sockets.Socket.__init__(self, sock.family, sock.type, sock.proto)
        self._timeout, self._options, self._peer = sock._timeout, sock._options, sock._peer
        self._adopt(sock._connection)
        sock.detach()
        self.context, self.server_hostname, self._at_once = context, server_hostname, at_once
        self.do_handshake_on_connect = at_once
        if self._connection is not None and at_once:
            if self._timeout == 0.0:
                raise ValueError("do_handshake_on_connect should not be specified for non-blocking sockets")
            self._or_close(self.do_handshake)
        return self

    def _or_close(self, step):
        try:
            step()
        except BaseException:
            self.close()
            raise

    def connect(self, address):
        super().connect(address)
        if self._at_once:
            self._or_close(self.do_handshake)

    def do_handshake(self, block=False):
        """Have the host agree on TLS."""
        self._check_connected()
        if not self._agreeing:
            host = self.server_hostname or ""
            wish = {"host": host, "protocols": self.context.protocols}
            sockets.connections.call("tls", connection=self._connection, **wish)
            self._agreeing = True
        try:
            self._known = self._finished()
        except sockets.NotYet:
            if self._timeout == 0.0:
                raise SSLWantReadError(2, "the handshake is not done yet") from None
            raise TimeoutError("the handshake operation timed out") from None
        finally:
            self._agreeing = self._known is None and self._timeout == 0.0

    def recv(self, size=1024, flags=0):
        if self._agreeing:
            self.do_handshake()
        return self._again(super().recv, size, flags)

    def send(self, data, flags=0):
        if self._agreeing:
            self.do_handshake()
        return self._again(super().send, data, flags)

    @staticmethod
    def _again(action, *args):
        try:
            return action(*args)
        except BlockingIOError:
            raise SSLWantReadError(2, "The operation did not complete (read)") from None

    def read(self, size=1024, buffer=None):
        return self.recv(size) if buffer is None else self.recv_into(buffer, size)

    write = send

    def unwrap(self):
        raise SSLError("a connection that is encrypted stays so")

    @property
    def _sslobj(self):
        """What some libraries look at for the other end's certificate and protocol."""
        return self if self._known is not None else None


class MemoryBIO:
    """Bytes on their way between an `SSLObject` and whoever moves them."""

    def __init__(self):
        self._data, self._ended = bytearray(), False

    def read(self, size=-1):
        size = len(self._data) if size is None or size < 0 else size
        data = bytes(self._data[:size])
        del self._data[:size]
        return data

    def write(self, data):
        self._data += data
        return len(data)

    def write_eof(self):
        self._ended = True

    @property
    def pending(self):
        return len(self._data)

    @property
    def eof(self):
        return self._ended and not self._data


class SSLObject(_Agreed):
    """TLS for libraries that move the bytes themselves: they move plain ones, once the host has agreed on TLS."""

    def __init__(self, incoming, outgoing, context, server_hostname):
        self._incoming, self._outgoing, self._asked = incoming, outgoing, False
        self.context, self.server_hostname = context, server_hostname

    def do_handshake(self):
        if not self._asked:
            self._asked = True
            wish = {"host": self.server_hostname or "", "protocols": self.context.protocols}
            self._outgoing.write(sockets.TLS_MARK + json.dumps(wish).encode())
            raise SSLWantReadError(2, "The operation did not complete (read)")
        data = self._incoming._data
        end = data.find(b"\n")
        if end < 0:
            if self._incoming.eof:
                raise SSLEOFError(8, "the connection ended during the handshake")
            raise SSLWantReadError(2, "The operation did not complete (read)")
        told = json.loads(self._incoming.read(end + 1)[len(sockets.TLS_MARK) :])
        if "error" in told:
            raise sockets.connections.error("certificate" if told["certificate"] else "tls", told["error"])
        self._known = told

    def read(self, size=1024, buffer=None):
        if not self._incoming.pending:
            if self._incoming.eof:
                return b"" if buffer is None else 0
            raise SSLWantReadError(2, "The operation did not complete (read)")
        data = self._incoming.read(size)
        if buffer is None:
            return data
        buffer[: len(data)] = data
        return len(data)

    def write(self, data):
        return self._outgoing.write(bytes(data))

    def unwrap(self):
        pass

    def pending(self):
        return self._incoming.pending


def _text(name):
    return name.decode() if isinstance(name, (bytes, bytearray)) else name


def _tuples(value):
    if isinstance(value, dict):
        return {name: _tuples(item) for name, item in value.items()}
    return tuple(map(_tuples, value)) if isinstance(value, list) else value


def create_default_context(purpose=Purpose.SERVER_AUTH, *, cafile=None, capath=None, cadata=None):
    """A context; which authorities count is the host's to decide."""
    return SSLContext(16)


def _unverified(*args, **kwargs):
    context = SSLContext(16)
    context.check_hostname, context.verify_mode = False, VerifyMode.CERT_NONE
    return context


def get_server_certificate(addr, ssl_version=None, ca_certs=None, timeout=None):
    """The certificate of a server, as PEM."""
    sock = socket.create_connection(addr, timeout or socket.getdefaulttimeout())
    with SSLContext().wrap_socket(sock, server_hostname=addr[0]) as secured:
        return DER_cert_to_PEM_cert(secured.getpeercert(True))


def DER_cert_to_PEM_cert(der):
    import base64
    import textwrap

    lines = textwrap.wrap(base64.standard_b64encode(der).decode("ascii"), 64)
    return "\n".join(["-----BEGIN CERTIFICATE-----", *lines, "-----END CERTIFICATE-----", ""])


def PEM_cert_to_DER_cert(pem):
    import base64

    return base64.decodebytes("".join(pem.strip().splitlines()[1:-1]).encode("ascii"))


def cert_time_to_seconds(text):
    """When a certificate begins or ends to be valid, in seconds since 1970."""
    import calendar
    import time

    return calendar.timegm(time.strptime(text, "%b %d %H:%M:%S %Y GMT"))


def module():
    """The module that ``import ssl`` gives."""
    made = types.ModuleType("ssl", "TLS of the sandbox's host, which checks certificates itself.")
    public = (
        *(SSLError, SSLZeroReturnError, SSLWantReadError, SSLWantWriteError, SSLSyscallError, SSLEOFError),
        *(SSLCertVerificationError, SSLContext, SSLSocket, SSLObject, MemoryBIO, *tls_names.CLASSES),
        *(create_default_context, get_server_certificate, DER_cert_to_PEM_cert, PEM_cert_to_DER_cert),
        cert_time_to_seconds,
    )
    for item in public:
        setattr(made, item.__name__, item)
        item.__module__ = "ssl"  # as tracebacks and pickles name it
    made.CertificateError = SSLCertVerificationError
    made._create_default_https_context = create_default_context
    made._create_unverified_context = made._create_stdlib_context = _unverified
    made.HAS_SNI = made.HAS_ALPN = made.HAS_TLSv1_2 = made.HAS_TLSv1_3 = True
    made.HAS_NPN = made.HAS_NEVER_CHECK_COMMON_NAME = False
    made.OPENSSL_VERSION, made.OPENSSL_VERSION_INFO = "OpenSSL 3.0.0 (of the sandbox's host)", (3, 0, 0, 0, 0)
    made.OPENSSL_VERSION_NUMBER, made.SOCK_STREAM = 0x30000000, socket.SOCK_STREAM
    vars(made).update(tls_names.CONSTANTS)
    made.socket_error = OSError
    made.PROTOCOL_TLS = made.PROTOCOL_SSLv23 = 2
    made.PROTOCOL_TLS_CLIENT, made.PROTOCOL_TLS_SERVER = 16, 17
    made.CHANNEL_BINDING_TYPES = []
    made.match_hostname = lambda *args: None

    def constant(name):  # what is not in `tls_names`
        if name.isupper() or name.startswith(("PROTOCOL_", "OP_", "VERIFY_", "ALERT_", "HAS_")):
            return 0
        raise AttributeError(f"module 'ssl' has no attribute {name!r}")

    made.__getattr__ = constant
    return made
