"""Puts secrets into the heads of HTTP/1.1 requests, on their way from a guest to the one host that may have them.

The guest is hostile: it would like a secret to end up where the server gives it back. So the value replaces a
placeholder only as the whole credential of one header (``Authorization: Bearer …``, ``Authorization: Basic …`` after
decoding it, or the header that the person named), only in a head that leaves no doubt where it ends and where the
next one begins, and never in a body, in the target or in a request that asks to be echoed. The head must also be for
the host that the connection leads to: one address may serve many names, and the ``Host`` header, or a whole URL as the
target, decides which of them gets the request. A request that is not strictly HTTP/1.1 goes out as it is, and so does
everything after it on that connection; the same holds after a request whose body some servers do not expect, and would
take for the next request, and after one for a tunnel, whose other end would get what follows.

No I/O. Work is linear in the bytes, and what is held back is one head at most.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Callable
from enum import Enum, auto

from wasm_kernel.host.network.secrets import AUTHORIZATION, Secret

MOST_HEAD = 64 << 10
_MOST_CHUNK_LINE = 1024
_MOST_LINE = 33 << 10  # of a request's first line
_REQUEST_LINE = re.compile(rb"([A-Z]{1,20}) ([\x21-\x7e]{1,32768}) HTTP/1\.1\Z")
_BEGINNING = re.compile(rb"[A-Z]{0,20}(\Z| )")  # of a request
_PATH = re.compile(rb"/(?!/)")  # a target that names no host
_FIELD = re.compile(rb"([A-Za-z0-9!#$%&'*+.^_`|~-]{1,256}):([\t\x20-\x7e\x80-\xff]*)\Z")
_CREDENTIALS = re.compile(rb"([A-Za-z][A-Za-z0-9-]{0,31}) +([\x21-\x7e]+)\Z")
_CHUNK = re.compile(rb"([0-9A-Fa-f]{1,15})\Z")
_ECHOES = (b"TRACE", b"CONNECT", b"OPTIONS")
_WITH_BODIES = (b"POST", b"PUT", b"PATCH", b"DELETE")
_MAY_END_HTTP = (b"upgrade", b"http2-settings", b"expect")  # what follows may be no body, or no HTTP


class _State(Enum):
    HEAD = auto()
    BODY = auto()
    CHUNK_LINE = auto()
    CHUNK_END = auto()
    TRAILER = auto()
    RAW = auto()


class SecretHeaders:
    """The outgoing bytes of one connection."""

    def __init__(self, host: str, port: int, secrets: Callable[[], list[Secret]]) -> None:
        """``host`` and ``port``: where the connection leads. ``secrets``: what its requests may carry, by now."""
        named = f"[{host}]" if ":" in host else host
        self._hosts = (named.encode(), f"{named}:{port}".encode())
        self._secrets = secrets
        self._held = bytearray()  # the beginning of a head, or of a line
        self._looked = 0  # of it, no end is before here
        self._state = _State.HEAD
        self._left = 0  # bytes of the body, or of the chunk

    def feed(self, data: bytes) -> bytes:
        """What to send for what the guest sends."""
        out: list[bytes] = []
        at = 0
        while at < len(data):
            if self._state is _State.RAW:
                out.append(data[at:])
                break
            if self._state is _State.BODY:
                piece = data[at : at + self._left]
                out.append(piece)
                at += len(piece)
                self._left -= len(piece)
                if not self._left:
                    self._state = self._after
                continue
            at = self._gather(data, at, out)
        return b"".join(out)

    @property
    def held(self) -> bytes:
        """What was held back so far: the beginning of a head that may never end."""
        return bytes(self._held)

    def _gather(self, data: bytes, at: int, out: list[bytes]) -> int:
        """Take bytes up to the end of a head or line, and deal with it; where the rest begins."""
        end, most = (b"\r\n\r\n", MOST_HEAD) if self._state is _State.HEAD else (b"\r\n", _MOST_CHUNK_LINE)
        before = len(self._held)
        self._held += data[at : at + most + len(end)]
        found = self._held.find(end, self._looked)
        if found < 0:
            self._looked = max(0, len(self._held) - len(end) + 1)
            if len(self._held) >= most or not self._may_be_ours():
                return self._give_up(out, at + len(self._held) - before)
            return len(data)
        taken = found + len(end)
        piece = bytes(self._held[:taken])
        self._held.clear()
        self._looked = 0
        out.append(self._deal_with(piece))
        return at + taken - before

    def _may_be_ours(self) -> bool:
        """Whether what is held back may become what it is held back for: other protocols must not wait for it."""
        if self._state is not _State.HEAD:
            return True
        end = self._held.find(b"\r\n", 0, _MOST_LINE)  # EHLO and USER begin like a request, too
        return _BEGINNING.match(self._held) is not None and (
            end < 0 or _REQUEST_LINE.match(self._held[:end]) is not None
        )

    def _give_up(self, out: list[bytes], at: int) -> int:
        out.append(bytes(self._held))
        self._held.clear()
        self._state = _State.RAW
        return at

    def _deal_with(self, piece: bytes) -> bytes:
        match self._state:
            case _State.HEAD:
                return self._head(piece)
            case _State.CHUNK_LINE:
                size = _CHUNK.match(piece[:-2])
                if size is None:
                    self._state = _State.RAW
                else:
                    self._left, self._after = int(size[1], 16), _State.CHUNK_END
                    self._state = _State.BODY if self._left else _State.TRAILER
            case _State.CHUNK_END:
                self._state = _State.CHUNK_LINE if piece == b"\r\n" else _State.RAW
            case _State.TRAILER:
                self._state = _State.HEAD if piece == b"\r\n" else _State.RAW
        return piece

    _after = _State.HEAD

    def _head(self, head: bytes) -> bytes:
        """A whole head, with its secrets; what follows it is known from here on."""
        first, *lines = head[:-4].split(b"\r\n")
        request = _REQUEST_LINE.match(first)
        fields = [_FIELD.match(line) for line in lines]
        if request is None or not all(fields):
            self._state = _State.RAW
            return head
        named = [(f[1].lower(), f[2].strip(b" \t")) for f in fields if f is not None]
        lengths = [value for name, value in named if name == b"content-length"]
        if not self._frame(lengths, [value for name, value in named if name == b"transfer-encoding"]):
            self._state = _State.RAW
            return head
        has_body = self._state is not _State.HEAD
        ends = request[1] == b"CONNECT" or any(name in _MAY_END_HTTP for name, _ in named)
        if ends or (has_body and request[1] not in _WITH_BODIES):
            self._state = _State.RAW
        if request[1] in _ECHOES or not _PATH.match(request[2]) or not self._for_our_host(named):
            return head
        secrets = self._secrets()
        out = [first]
        for line, (name, value) in zip(lines, named, strict=True):
            changed = _with_secret(name, value, secrets)
            out.append(line if changed is None else line[: len(name)] + b": " + changed)
        return b"\r\n".join([*out, b"", b""])

    def _for_our_host(self, named: list[tuple[bytes, bytes]]) -> bool:
        """Whether a request is for the host that the connection leads to."""
        hosts = [value.lower() for name, value in named if name == b"host"]
        return len(hosts) == 1 and hosts[0] in self._hosts

    def _frame(self, lengths: list[bytes], codings: list[bytes]) -> bool:
        """Where this request's body ends, if that is beyond doubt."""
        if codings:
            self._state = _State.CHUNK_LINE
            return not lengths and codings in ([b"chunked"], [b"Chunked"])
        if len(lengths) > 1 or (lengths and not re.fullmatch(rb"0|[1-9][0-9]{0,14}", lengths[0])):
            return False
        self._left, self._after = int(lengths[0]) if lengths else 0, _State.HEAD
        self._state = _State.BODY if self._left else _State.HEAD
        return True


def _with_secret(name: bytes, value: bytes, secrets: list[Secret]) -> bytes | None:
    """The value of a header with the secret it asks for; None: it asks for none."""
    for secret in secrets:
        stands_for = secret.placeholder.encode()
        if name != secret.header.encode():
            continue
        if secret.header != AUTHORIZATION:
            if value == stands_for:
                return secret.value
            continue
        credentials = _CREDENTIALS.match(value)
        if value == stands_for:
            return secret.value
        if credentials is None:
            continue
        if credentials[2] == stands_for:
            return credentials[1] + b" " + secret.value
        if credentials[1].lower() == b"basic":
            pair = _basic(credentials[2], stands_for, secret.value)
            if pair is not None:
                return credentials[1] + b" " + pair
    return None


def _basic(encoded: bytes, stands_for: bytes, value: bytes) -> bytes | None:
    """``user:password``, with the secret as one of the two."""
    try:
        user, colon, password = base64.b64decode(encoded, validate=True).partition(b":")
    except binascii.Error:
        return None
    if not colon or (user != stands_for) == (password != stands_for):
        return None
    return base64.b64encode(value + b":" + password if user == stands_for else user + b":" + value)
