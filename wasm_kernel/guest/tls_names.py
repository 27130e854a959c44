"""Names of the module `ssl` that say something and do nothing: what libraries import, set and compare."""

import enum
import os
from collections import namedtuple


class Purpose(enum.Enum):
    SERVER_AUTH, CLIENT_AUTH = "1.3.6.1.5.5.7.3.1", "1.3.6.1.5.5.7.3.2"


class TLSVersion(enum.IntEnum):
    MINIMUM_SUPPORTED, SSLv3, TLSv1, TLSv1_1, TLSv1_2, TLSv1_3, MAXIMUM_SUPPORTED = -2, 768, 769, 770, 771, 772, -1


class VerifyMode(enum.IntEnum):
    CERT_NONE, CERT_OPTIONAL, CERT_REQUIRED = range(3)


class VerifyFlags(enum.IntFlag):
    VERIFY_DEFAULT, VERIFY_CRL_CHECK_LEAF, VERIFY_CRL_CHECK_CHAIN, VERIFY_X509_STRICT = 0, 4, 12, 32
    VERIFY_ALLOW_PROXY_CERTS, VERIFY_X509_TRUSTED_FIRST, VERIFY_X509_PARTIAL_CHAIN = 0x40, 0x8000, 0x80000


class Options(enum.IntFlag):
    OP_NO_SSLv2, OP_SINGLE_DH_USE, OP_SINGLE_ECDH_USE = 0, 0, 0
    OP_LEGACY_SERVER_CONNECT, OP_ENABLE_KTLS, OP_IGNORE_UNEXPECTED_EOF = 0x4, 0x8, 0x80
    OP_NO_TICKET, OP_NO_COMPRESSION, OP_ENABLE_MIDDLEBOX_COMPAT = 0x4000, 0x20000, 0x100000
    OP_CIPHER_SERVER_PREFERENCE, OP_NO_SSLv3, OP_NO_TLSv1, OP_NO_TLSv1_2 = 0x400000, 0x2000000, 0x4000000, 0x8000000
    OP_NO_TLSv1_1, OP_NO_TLSv1_3, OP_NO_RENEGOTIATION, OP_ALL = 0x10000000, 0x20000000, 0x40000000, 0x80000050


class SSLErrorNumber(enum.IntEnum):
    SSL_ERROR_SSL, SSL_ERROR_WANT_READ, SSL_ERROR_WANT_WRITE, SSL_ERROR_WANT_X509_LOOKUP = 1, 2, 3, 4
    SSL_ERROR_SYSCALL, SSL_ERROR_ZERO_RETURN, SSL_ERROR_WANT_CONNECT, SSL_ERROR_EOF = 5, 6, 7, 8
    SSL_ERROR_INVALID_ERROR_CODE = 10


class AlertDescription(enum.IntEnum):
    ALERT_DESCRIPTION_CLOSE_NOTIFY, ALERT_DESCRIPTION_HANDSHAKE_FAILURE, ALERT_DESCRIPTION_BAD_CERTIFICATE = 0, 40, 42
    ALERT_DESCRIPTION_UNRECOGNIZED_NAME, ALERT_DESCRIPTION_INTERNAL_ERROR = 112, 80


class SSLSession:
    """None is ever made: sessions of TLS are the host's."""


DefaultVerifyPaths = namedtuple(
    "DefaultVerifyPaths",
    "cafile capath openssl_cafile_env openssl_cafile openssl_capath_env openssl_capath",
)


def get_default_verify_paths():
    """Nowhere: the host has the list of authorities."""
    return DefaultVerifyPaths(None, None, "SSL_CERT_FILE", "", "SSL_CERT_DIR", "")


def get_protocol_name(protocol_code):
    return {2: "PROTOCOL_TLS", 16: "PROTOCOL_TLS_CLIENT", 17: "PROTOCOL_TLS_SERVER"}.get(protocol_code, "<unknown>")


def RAND_bytes(n):
    """Random bytes."""
    return os.urandom(n)


def RAND_status():
    return True


def RAND_add(data, entropy):
    """There is enough already."""


CLASSES = (
    *(Purpose, TLSVersion, VerifyMode, VerifyFlags, Options, SSLErrorNumber, AlertDescription, SSLSession),
    *(DefaultVerifyPaths, get_default_verify_paths, get_protocol_name, RAND_bytes, RAND_status, RAND_add),
)
CONSTANTS = {
    name: value
    for kind in (VerifyMode, VerifyFlags, Options, SSLErrorNumber, AlertDescription)
    for name, value in kind.__members__.items()
}
