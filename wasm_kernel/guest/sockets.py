"""Sockets whose connections the host holds, in place of the ones that WASI has not.

A socket connects to a name: `getaddrinfo` gives the name itself where others give an address, and the host looks it
up when it connects. Only outgoing streams are there. A socket's descriptor is a number that no file has; `polling`
knows it.
"""

import errno
import itertools
import json
import socket as library
import weakref

from . import connections
from .connections import NotYet

_numbers = itertools.count(1 << 20)
by_descriptor = weakref.WeakValueDictionary()
_UNNAMED = ("0.0.0.0", 0)
_NO_SERVERS = "the sandbox has only outgoing connections: nothing can listen here"

# What an `SSLObject` writes to begin with TLS, and reads when that is done: for libraries that encrypt by themselves
# what they send through a plain socket. Nobody else sends this.
TLS_MARK = b"\0\xff\xfewasm-kernel: TLS from here on, please\xfe\xff\0"


class Socket:
    """socket.socket, as far as streams to other machines go."""

    def __init__(self, family=-1, type=-1, proto=-1, fileno=None):
        if fileno is not None:
            raise OSError(errno.EBADF, "a descriptor of another socket cannot be used here")
        self.family = library.AF_INET if family == -1 else family
        self.type = library.SOCK_STREAM if type == -1 else type
        self.proto = 0 if proto == -1 else proto
        if self.family not in (library.AF_INET, library.AF_INET6) or self.type & 0xF != library.SOCK_STREAM & 0xF:
            raise OSError(errno.EPROTONOSUPPORT, "the sandbox has only streams to other machines (SOCK_STREAM)")
        self._timeout = library.getdefaulttimeout()
        self._options = {}
        self._peer = None
        self._adopt(None)
        self._closed, self._io_refs = False, 0

    def _adopt(self, connection):
        """Have a connection, and a descriptor of one's own."""
        self._connection, self._descriptor = connection, next(_numbers)
        self._first = b""  # what is received before anything from the host
        self._agreeing = False  # on TLS, for an `SSLObject`
        self.tls = None
        by_descriptor[self._descriptor] = self

    # ---- connecting

    def connect(self, address):
        """Connect to a name and port."""
        host, port = _place(address)
        if self._connection is not None:
            raise OSError(errno.EISCONN, "the socket is connected already")
        self._check_open()
        self._peer = address
        self._connection = json.loads(connections.call("open", host=host, port=port))
        if self._timeout == 0.0:
            raise BlockingIOError(errno.EINPROGRESS, "the connection is being made")
        self._connected()

    def _connected(self):
        try:
            self._finished()
        except NotYet:
            self._drop()
            raise TimeoutError("timed out") from None
        except OSError:
            self._connection = None
            raise

    def _finished(self, seconds=-1):
        """Wait for a step of the connection: how long, if not as the socket's own timeout says."""
        seconds = self._timeout if seconds == -1 else seconds
        answer = connections.call("finish", connection=self._connection, seconds=seconds)
        return json.loads(answer)

    def connect_ex(self, address):
        """The same; the number of the error, if it is one of the system's."""
        try:
            self.connect(address)
        except (PermissionError, library.gaierror):
            raise
        except OSError as e:
            return e.errno or errno.ETIMEDOUT
        return 0

    # ---- bytes

    def send(self, data, flags=0):
        """Send some of it; how much."""
        data = bytes(memoryview(data).cast("B")[: connections.MOST_AT_ONCE])
        self._check_connected()
        if data.startswith(TLS_MARK):
            wish = json.loads(data[len(TLS_MARK) :])
            connections.call("tls", connection=self._connection, **wish)
            self._agreeing = True
            return len(data)
        if not data:
            return 0
        return json.loads(self._waiting("send", data))

    def sendall(self, data, flags=0):
        """Send all of it."""
        view = memoryview(data).cast("B")
        while view:
            view = view[self.send(view) :]

    def sendmsg(self, buffers, *rest):
        """Send several buffers, one after the other; how much of them."""
        return self.send(b"".join(bytes(buffer) for buffer in buffers))

    def sendfile(self, file, offset=0, count=None):
        """Send what is in a file."""
        if offset:
            file.seek(offset)
        sent = 0
        while count is None or sent < count:
            data = file.read(min(1 << 16, 1 << 16 if count is None else count - sent))
            if not data:
                break
            self.sendall(data)
            sent += len(data)
        return sent

    def recv(self, size, flags=0):
        """Receive up to so many bytes; none at the end."""
        if size < 0:
            raise ValueError("negative buffersize in recv")
        self._check_connected()
        if self._agreeing:
            self._agreed()
        if self._first:
            data = self._first[:size]
            if not flags & library.MSG_PEEK:
                self._first = self._first[size:]
            return data
        if not size:
            return b""
        data = self._waiting("receive", size=min(size, connections.MOST_AT_ONCE))
        if flags & library.MSG_PEEK:
            self._first = data
        return data

    def recv_into(self, buffer, nbytes=0, flags=0):
        """Receive into a buffer; how many bytes."""
        view = memoryview(buffer).cast("B")
        data = self.recv(nbytes or len(view), flags)
        view[: len(data)] = data
        return len(data)

    def recvfrom(self, size, flags=0):
        """Receive, with where from."""
        return self.recv(size, flags), None

    def _agreed(self):
        try:
            told = self._finished()
        except NotYet:
            raise BlockingIOError(errno.EAGAIN, "not yet") from None
        except OSError as e:
            told = {"error": str(e.args[-1]), "certificate": type(e).__name__ == "SSLCertVerificationError"}
        self._agreeing = False
        self._first = TLS_MARK + json.dumps(told).encode() + b"\n"

    def _waiting(self, action, data=None, **arguments):
        try:
            return connections.call(action, data, connection=self._connection, seconds=self._timeout, **arguments)
        except NotYet:
            if self._timeout == 0.0:
                raise BlockingIOError(errno.EAGAIN, "Resource temporarily unavailable") from None
            if self._timeout is None:  # the host waits for an hour at a time
                return self._waiting(action, data, **arguments)
            raise TimeoutError("timed out") from None

    # ---- its state

    def fileno(self):
        """A number that stands for it in select() and poll(); -1 once it is closed."""
        return -1 if self._closed else self._descriptor

    def ready(self, events):
        """Which of these events need no question to the host."""
        if self._first:
            return events & connections.READ
        return 0 if self._connection is not None else events

    @property
    def connection(self):
        """The host's number of it."""
        return self._connection

    def settimeout(self, seconds):
        """How long things may take; None: as long as they take, 0: not at all."""
        if seconds is not None and (seconds := float(seconds)) < 0:
            raise ValueError("Timeout value out of range")
        self._timeout = seconds

    def gettimeout(self):
        return self._timeout

    timeout = property(gettimeout)

    def setblocking(self, blocking):
        self.settimeout(None if blocking else 0.0)

    def getblocking(self):
        return self._timeout != 0.0

    def setsockopt(self, level, name, value, length=None):
        self._options[level, name] = value

    def getsockopt(self, level, name, length=0):
        """What was set; for SO_ERROR, whether connecting went well: if not, the error itself is raised."""
        if (level, name) == (library.SOL_SOCKET, library.SO_ERROR) and self._connection is not None:
            try:
                self._finished(0)
            except NotYet:
                return errno.EINPROGRESS
            except OSError:
                self._connection = None
                raise
            return 0
        return self._options.get((level, name), 0)

    def getpeername(self):
        if self._connection is None:
            raise OSError(errno.ENOTCONN, "the socket is not connected")
        return self._peer

    def getsockname(self):
        return _UNNAMED

    def get_inheritable(self):
        return False

    def set_inheritable(self, inheritable):
        pass

    def shutdown(self, how):
        self._check_connected()
        connections.call("shutdown", connection=self._connection, how=how)

    def bind(self, address):
        if address not in (("", 0), _UNNAMED):
            raise OSError(errno.ENOTSUP, _NO_SERVERS)

    def listen(self, backlog=0):
        raise OSError(errno.ENOTSUP, _NO_SERVERS)

    accept = listen

    def dup(self):
        raise OSError(errno.ENOTSUP, "a connection of the sandbox has one socket")

    # ---- the end

    makefile = library.socket.makefile

    def _decref_socketios(self):
        if self._io_refs > 0:
            self._io_refs -= 1
        if self._closed:
            self.close()

    def close(self):
        """Close it, once no file made of it is open any more."""
        self._closed = True
        if self._io_refs <= 0:
            self._drop()

    def _drop(self):
        connection, self._connection = self._connection, None
        if connection is not None:
            try:
                connections.call("close", connection=connection)
            except OSError:
                pass

    def detach(self):
        """Give its connection away; its descriptor."""
        self._closed = True
        descriptor, self._connection = self._descriptor, None
        return descriptor

    def _check_open(self):
        if self._closed:
            raise OSError(errno.EBADF, "Bad file descriptor")

    def _check_connected(self):
        if self._connection is None:
            self._check_open()
            raise OSError(errno.ENOTCONN, "the socket is not connected")

    def __enter__(self):
        return self

    def __exit__(self, *exc):
        self.close()

    def __del__(self):
        if getattr(self, "_connection", None) is not None:
            self._drop()

    def __getstate__(self):
        raise TypeError("cannot pickle a socket")

    def __repr__(self):
        state = "closed " if self._closed else ""
        return f"<socket.socket {state}fd={self.fileno()} peer={self._peer}>"


def _place(address):
    try:
        host, port = address[0], address[1]
        host = host.decode() if isinstance(host, bytes) else host
    except (TypeError, IndexError, UnicodeDecodeError):
        raise TypeError("an address is a tuple of a host and a port") from None
    if not isinstance(host, str) or not isinstance(port, int):
        raise TypeError("an address is a tuple of a host and a port")
    if not 0 <= port <= 65535:
        raise OverflowError("port must be 0-65535.")
    return host, port


def getaddrinfo(host, port, family=0, type=0, proto=0, flags=0):
    """The host's name in the place of its address: the host of the sandbox looks it up when it connects."""
    if isinstance(host, (bytes, bytearray)):
        host = bytes(host).decode()
    if not host:
        host = "localhost"
    if isinstance(port, (str, bytes)):
        text = port.decode() if isinstance(port, bytes) else port
        port = int(text) if text.isdigit() else _SERVICES.get(text)
        if port is None:
            raise library.gaierror(library.EAI_SERVICE, f"the service {text!r} is not known; give its number")
    v6 = ":" in host
    wanted = library.AF_INET6 if v6 else library.AF_INET
    if family not in (0, wanted) or type & 0xF not in (0, library.SOCK_STREAM & 0xF):
        raise library.gaierror(library.EAI_FAMILY, f"{host}: the sandbox has only streams to other machines")
    place = (host, port or 0, 0, 0) if v6 else (host, port or 0)
    return [
        (library.AddressFamily(wanted), library.SocketKind(library.SOCK_STREAM), 6, host if flags & 2 else "", place)
    ]


_SERVICES = {"http": 80, "https": 443, "ftp": 21, "ssh": 22, "smtp": 25, "imap": 143, "mysql": 3306, "postgresql": 5432}


def _socketpair(*args, **kwargs):
    raise OSError(errno.ENOTSUP, "the sandbox has no pairs of sockets: it is one process with one thread")


def install(module):
    """Mend the module `socket`."""
    import _socket

    module.socket = module.SocketType = Socket
    module.getaddrinfo = _socket.getaddrinfo = getaddrinfo
    module.gethostbyname = lambda host: host
    module.gethostbyname_ex = lambda host: (host, [], [host])
    module.getfqdn = lambda name="": name or "sandbox"
    module.gethostname = lambda: "sandbox"
    module.getnameinfo = lambda place, flags: (str(place[0]), str(place[1]))
    module.getservbyname = lambda name, protocol=None: _SERVICES[name]
    module.socketpair = _socketpair
    for name, value in {"SO_ERROR": 4, "SO_REUSEADDR": 2, "SO_KEEPALIVE": 9, "SO_RCVBUF": 8, "SO_SNDBUF": 7}.items():
        if not hasattr(module, name):
            setattr(module, name, value)
    from . import polling

    polling.install()
