"""A guest's network: answers its frames, holds its connections, and keeps to what it was granted and to its limits.

The frames (`wire.Network`) name an action; each action's arguments are checked here, and nothing else is taken:

    open       host, port            begin to connect; answers the connection's number
    finish     connection, seconds   wait until it is connected, or encrypted; answers what is known of the other end
    tls        connection, host, protocols   begin to agree on TLS
    receive    connection, size, seconds     answers bytes, none at the end
    send       connection, seconds, and the bytes as a buffer; answers how many were taken
    wait       connections (pairs of number and events), seconds; answers those that are ready
    shutdown   connection, how: 1 to receive no more, 2 to send no more, 3 both, as WASI counts them
    close      connection

``seconds`` is how long to wait at most; null: as long as it takes. A wait ends early by an interrupt.

All connections are closed when the guest becomes another one (undo, restore, a trap): its memory would not know what
went through them meanwhile. Numbers are random and never used again, so a number that a guest remembers from another
life, or another kernel's, is a connection that was reset.
"""

from __future__ import annotations

import contextlib
import json
import secrets
import select
import socket
from collections.abc import Callable
from typing import Any

from wasm_kernel.errors import NotAllowed
from wasm_kernel.guest import wire
from wasm_kernel.host import administrator
from wasm_kernel.host.network import proxies, resolving
from wasm_kernel.host.network.connection import MOST_AT_ONCE, READ, WRITE, Connection
from wasm_kernel.host.network.faults import Fault, Kind, fault_of
from wasm_kernel.host.network.frame_arguments import FrameArguments
from wasm_kernel.host.network.opening import BackgroundStep, open_socket
from wasm_kernel.host.network.secret_headers import SecretHeaders
from wasm_kernel.host.network.secrets import SecretStore
from wasm_kernel.model import network_grants
from wasm_kernel.model.network_grants import HostGrant, Reach, to_allow, with_port
from wasm_kernel.model.policy import ExecutionPolicy
from wasm_kernel.model.units import format_size

Pump = Callable[[Callable[[], bool], float, Callable[[float], None]], bool]
"""Waits on the guest's behalf: until the first says so, for so long, by calling the third again and again. False: an
interrupt came first."""

_NAP = 0.02  # seconds after which a waiting guest is looked at, for interrupts
_LINGER = 10.0  # seconds that closing waits for what is still to be sent
_MOST_PROTOCOLS = 8


class Traffic:
    """Bytes in both directions: of the cell that runs, and of the session."""

    def __init__(self) -> None:
        self.cell = self.session = 0

    def left(self, policy: ExecutionPolicy) -> int:
        """How many more there may be now. Raises `Fault`."""
        for name, used, most, whose in (
            ("transfer", self.cell, policy.network_cell_bytes, "one cell"),
            ("traffic", self.session, policy.network_session_bytes, "this session"),
        ):
            if used >= most:
                text = f"the limit {name} is reached: {whose} may send and receive {format_size(most)} at most"
                raise Fault(Kind.LIMIT, text)
        return min(policy.network_cell_bytes - self.cell, policy.network_session_bytes - self.session)

    def add(self, count: int) -> None:
        """So many went through."""
        self.cell += count
        self.session += count


class GuestNetwork:
    """The network of one sandbox. On the sandbox's thread, but for the attributes.

    Attributes:
        granted: The hosts that the person granted, beside those of the policy. May be changed at any moment.
        secrets: What the person typed for some of them.
        advice: What to do to grant a host, as the end of a sentence.
        listeners: Called with every connection when it is asked for, and when it has ended.
    """

    def __init__(self, policy: Callable[[], ExecutionPolicy]) -> None:
        self._policy = policy
        self.granted: frozenset[HostGrant] = frozenset()
        self.secrets = SecretStore()
        self.advice: Callable[[str], str] = lambda host: f"ExecutionPolicy(network=[{host!r}])"
        self.listeners: list[Callable[[Connection], None]] = []
        self.traffic = Traffic()
        self._open: dict[int, Connection] = {}
        self._taken_back: dict[int, str] = {}  # what the guest is told of connections that are not allowed any more
        self._abandoned: list[BackgroundStep[Any]] = []
        self._bell: tuple[socket.socket, socket.socket] | None = None  # a step rings it when it is done

    # ---- what the sandbox does

    @property
    def reach(self) -> Reach:
        """Where the guest may connect to now. `NotAllowed` when the administrator's rules cannot be read."""
        return Reach(self.granted | network_grants.parse_all(self._policy().network), administrator.rules().network)

    def begin_cell(self) -> None:
        """A cell begins: what it may send and receive is counted anew, and what was taken back is closed."""
        self.traffic.cell = 0
        for number, connection in list(self._open.items()):
            if connection.granted is not self.granted:
                with contextlib.suppress(Fault, NotAllowed):
                    self._still_granted(number, connection)

    def close_all(self) -> None:
        """The guest becomes another one, or ends."""
        for number in list(self._open):
            self._end(number)
        self._taken_back.clear()
        if self._bell is not None and not self._still_running():
            bell, self._bell = self._bell, None
            for end in bell:
                end.close()

    def answer(self, event: wire.Network, pump: Pump) -> bytes:
        """The answer to a frame. Raises `wire.BadFrame` if it is none of ours, and whatever ends a turn."""
        action = self._ACTIONS.get(event.action)
        if action is None:
            raise wire.BadFrame("the network has no such action")
        try:
            return action(self, FrameArguments(event), pump)
        except wire.BadFrame:
            raise
        except NotAllowed as e:
            return _told(Fault(Kind.PERMISSION, str(e)))
        except (Fault, OSError, ValueError) as e:
            return _told(fault_of(e, "the host"))

    # ---- actions

    def _connect(self, given: FrameArguments, pump: Pump) -> bytes:
        name, port = given.text("host"), given.whole("port", 65535)
        reach, policy = self.reach, self._policy()
        try:
            name = network_grants.normalised(name)
        except ValueError as e:
            raise Fault(Kind.NAME, f"{name[:300]!r} cannot be connected to: {e}") from None
        if not reach.allows(name, port):
            raise self._refusal(name, port, reach)
        self.traffic.left(policy)
        if len(self._open) + self._still_running() >= policy.network_connections:
            text = f"the limit connections is reached: {policy.network_connections} may be open at once"
            raise Fault(Kind.LIMIT, text)
        seconds, ring = policy.network_connect_seconds, self._bell_to_ring()
        work = lambda: open_socket(name, port, reach, seconds, self.advice)  # noqa: E731
        step = BackgroundStep(work, with_port(name, port), ring, lambda sock: sock.close())
        number = secrets.randbits(62)
        self._open[number] = connection = Connection(name, port, step, ring, self.granted)
        self._tell(connection)
        return _json(number)

    def _refusal(self, name: str, port: int, reach: Reach) -> Fault:
        where = with_port(name, port)
        if reach.most is not None and not any(rule.covers(name, port) for rule in reach.most):
            most = network_grants.listed(reach.most)
            allowed = f"only {most}" if most else "no network"
            return Fault(Kind.PERMISSION, f"no permission to connect to {where}: the administrator allows {allowed}")
        text = f"no permission to connect to {where}. To allow it: {self.advice(to_allow(name, port))}"
        return Fault(Kind.PERMISSION, text)

    def _finish(self, given: FrameArguments, pump: Pump) -> bytes:
        number, connection = self._known(given)
        longest = self._policy().network_connect_seconds + 1 - (0 if connection.secured else connection.seconds)
        seconds = given.seconds()
        if not self._until(lambda: not connection.busy, min(seconds, max(0.0, longest)), pump, [number]):
            return wire.ANSWER_INTERRUPTED
        if connection.busy:
            if seconds < longest:
                return wire.ANSWER_NOT_YET
            connection.problem = f"{connection.where} did not answer in time"
            self._end(number)
            raise Fault(Kind.TIMEOUT, f"{connection.where} did not answer within the limit connect")
        try:
            return _json(connection.finish())
        except Fault:
            self._end(number)
            raise

    def _start_tls(self, given: FrameArguments, pump: Pump) -> bytes:
        number, connection = self._known(given)
        protocols = given.texts("protocols", _MOST_PROTOCOLS)
        name, reach = connection.name, self.reach
        with contextlib.suppress(ValueError):  # a name that is none is not granted
            name = network_grants.normalised(given.text("host") or name)
        if name != connection.name and not reach.allows(name, connection.port):
            raise self._refusal(name, connection.port, reach)
        heads, port = None, connection.port
        if name == connection.name and self.secrets.for_host(name, port):
            heads = SecretHeaders(name, port, lambda: self.secrets.for_host(name, port))
            protocols = tuple(p for p in protocols if p == "http/1.1")  # the one that can be read here
        if not self._flushed(number, pump):
            return wire.ANSWER_INTERRUPTED
        connection.start_tls(name, protocols, self._policy().network_connect_seconds, heads)
        return wire.ANSWER_TEXT

    def _receive(self, given: FrameArguments, pump: Pump) -> bytes:
        number, connection = self._known(given)
        size = min(given.whole("size", 1 << 40), MOST_AT_ONCE, self.traffic.left(self._policy()))
        data: bytes | None = None

        def arrived() -> bool:
            nonlocal data
            if not connection.busy:
                data = connection.receive(size)
            return data is not None

        if not self._until(arrived, given.seconds(), pump, [number], READ):
            return wire.ANSWER_INTERRUPTED
        if data is None:
            return wire.ANSWER_NOT_YET
        self.traffic.add(len(data))
        return wire.ANSWER_TEXT + data

    def _send(self, given: FrameArguments, pump: Pump) -> bytes:
        number, connection = self._known(given)
        data = given.buffer()[: min(MOST_AT_ONCE, self.traffic.left(self._policy()))]
        taken: int | None = None

        def went() -> bool:
            nonlocal taken
            if not connection.busy:
                taken = connection.send(data)
            return taken is not None

        if not self._until(went, given.seconds(), pump, [number], WRITE):
            return wire.ANSWER_INTERRUPTED
        if taken is None:
            return wire.ANSWER_NOT_YET
        self.traffic.add(taken)
        return _json(taken)

    def _wait(self, given: FrameArguments, pump: Pump) -> bytes:
        wanted = given.pairs("connections", self._policy().network_connections * 2 + 16)
        found: dict[int, int] = {number: events for number, events in wanted if number not in self._open}
        known = [(number, events) for number, events in wanted if number in self._open]

        def any_ready() -> bool:
            for number, events in known:
                if ready := self._open[number].ready(events):
                    found[number] = ready
            return bool(found)

        def nap(seconds: float) -> None:
            found.update(self._sleep(min(seconds, _NAP), known))

        seconds = given.seconds()
        if not any_ready():
            nap(0.0)
        if not found and seconds > 0 and not pump(any_ready, seconds, nap):
            return wire.ANSWER_INTERRUPTED
        return _json(list(found.items()))

    def _shut_down(self, given: FrameArguments, pump: Pump) -> bytes:
        number, connection = self._known(given)
        if not self._flushed(number, pump):
            return wire.ANSWER_INTERRUPTED
        connection.shut_down(given.direction())
        return wire.ANSWER_TEXT

    def _close(self, given: FrameArguments, pump: Pump) -> bytes:
        number = given.whole("connection", 1 << 62)
        connection = self._open.get(number)
        if connection is not None:
            with contextlib.suppress(Fault):
                if not connection.busy and not self._flushed(number, pump):
                    return wire.ANSWER_INTERRUPTED
            self._end(number)
        return wire.ANSWER_TEXT

    _ACTIONS: dict[str, Callable[[GuestNetwork, FrameArguments, Pump], bytes]] = {
        "open": _connect,
        "finish": _finish,
        "tls": _start_tls,
        "receive": _receive,
        "send": _send,
        "wait": _wait,
        "shutdown": _shut_down,
        "close": _close,
    }

    # ---- connections

    def _known(self, given: FrameArguments) -> tuple[int, Connection]:
        number = given.whole("connection", 1 << 62)
        connection = self._open.get(number)
        if number in self._taken_back:
            raise Fault(Kind.PERMISSION, self._taken_back[number])
        if connection is None:
            raise Fault(
                Kind.RESET, "this connection is gone: it was closed when the session went back or was continued"
            )
        if connection.granted is not self.granted:  # something was granted, or taken back
            self._still_granted(number, connection)
        return number, connection

    def _still_granted(self, number: int, connection: Connection) -> None:
        """End a connection whose permission was taken back, or that of its address. Raises `Fault` then."""
        name, port, reach, granted = connection.name, connection.port, self.reach, self.granted
        try:
            if not reach.allows(name, port):
                raise self._refusal(name, port, reach)
            if connection.busy:  # looked at again when it leads somewhere
                return
            address = connection.address
            if address is not None and proxies.proxy_for(name, port) is None:
                resolving.judge(address, name, port, reach, self.advice)
        except Fault as e:
            connection.problem = "the permission for it was taken back"
            self._end(number)
            self._taken_back[number] = e.text
            raise
        connection.granted = granted

    def _end(self, number: int) -> None:
        connection = self._open.pop(number)
        if connection.busy and connection.step is not None:
            self._abandoned.append(connection.step)
        connection.close()
        self._tell(connection)

    def _tell(self, connection: Connection) -> None:
        for listener in self.listeners:
            listener(connection)

    def _still_running(self) -> int:
        self._abandoned = [step for step in self._abandoned if step.running]
        return len(self._abandoned)

    # ---- waiting

    def _until(self, done: Callable[[], bool], seconds: float, pump: Pump, numbers: list[int], events: int = 0) -> bool:
        """Wait until something is done, or for so long; False if an interrupt came first."""
        watched = [(number, events) for number in numbers]
        return done() or seconds <= 0 or pump(done, seconds, lambda left: self._nap(left, watched))

    def _nap(self, seconds: float, watched: list[tuple[int, int]]) -> None:
        self._sleep(min(seconds, _NAP), watched)

    def _flushed(self, number: int, pump: Pump) -> bool:
        """Whether what was taken is sent, as far as the other end takes it; False if an interrupt came first."""
        connection = self._open[number]

        def empty() -> bool:
            connection.happened(select.POLLOUT, 0)
            return not connection.has_unsent or bool(connection.problem)

        return not connection.has_unsent or self._until(empty, _LINGER, pump, [number], WRITE)

    def _sleep(self, seconds: float, watched: list[tuple[int, int]]) -> dict[int, int]:
        """Until something happens on one of these connections, or a step is done, or for so long."""
        poll, by_handle = select.poll(), {}
        for number, events in watched:
            asked = self._open[number].watched(events)
            if asked is not None:
                poll.register(*asked)
                by_handle[asked[0]] = (number, events)
        bell = self._bell
        if bell is not None:
            poll.register(bell[0], select.POLLIN)
        found = {}
        for handle, mask in poll.poll(seconds * 1000):
            if handle not in by_handle:
                with contextlib.suppress(BlockingIOError):
                    _ = bell is not None and bell[0].recv(4096)
                continue
            number, events = by_handle[handle]
            if happened := self._open[number].happened(mask, events):
                found[number] = happened
        return found

    def _bell_to_ring(self) -> Callable[[], None]:
        if self._bell is None:
            self._bell = socket.socketpair()
            for end in self._bell:
                end.setblocking(False)
        rings = self._bell[1]

        def ring() -> None:
            with contextlib.suppress(OSError):  # it has rung often enough, or nobody listens
                rings.send(b".")

        return ring


def _json(value: Any) -> bytes:
    return wire.ANSWER_TEXT + json.dumps(value).encode()


def _told(fault: Fault) -> bytes:
    return wire.ANSWER_ERROR + json.dumps([fault.kind.value, fault.text]).encode()
