"""What goes wrong with a connection, as the guest learns it: a kind, which it has an exception for, and a sentence."""

from __future__ import annotations

import socket
import ssl
from enum import Enum


class Kind(Enum):
    """Which exception the guest raises: `guest.sockets` has the other half of this table."""

    PERMISSION = "permission"
    NAME = "name"
    REFUSED = "refused"
    RESET = "reset"
    TIMEOUT = "timeout"
    UNREACHABLE = "unreachable"
    CERTIFICATE = "certificate"
    TLS = "tls"
    LIMIT = "limit"
    FAILED = "failed"


class Fault(Exception):
    """Something about a connection that cannot be done. Never leaves this package, but for the guest."""

    def __init__(self, kind: Kind, text: str) -> None:
        super().__init__(text)
        self.kind, self.text = kind, text


def fault_of(error: BaseException, where: str) -> Fault:
    """What an exception of the system's means for a connection to ``where``."""
    if isinstance(error, Fault):
        return error
    if isinstance(error, ssl.SSLCertVerificationError):
        return Fault(Kind.CERTIFICATE, f"the certificate of {where} is not valid: {error.verify_message}")
    if isinstance(error, ssl.SSLError):
        return Fault(Kind.TLS, f"no encrypted connection to {where}: {error.reason or error.args[-1]}")
    if isinstance(error, socket.gaierror):
        return Fault(Kind.NAME, f"the name of {where} is not known: {error.strerror}")
    if isinstance(error, ConnectionRefusedError):
        return Fault(Kind.REFUSED, f"{where} refused the connection")
    if isinstance(error, ConnectionError):
        return Fault(Kind.RESET, f"the connection to {where} was reset")
    if isinstance(error, TimeoutError):
        return Fault(Kind.TIMEOUT, f"{where} did not answer in time")
    if isinstance(error, OSError):
        return Fault(Kind.UNREACHABLE, f"{where} cannot be reached: {error.strerror or error}")
    return Fault(Kind.FAILED, f"the connection to {where} failed")
