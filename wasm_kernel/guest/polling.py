"""select() and poll() for the guest's sockets, beside the files that these know anyway."""

import select
import selectors
import time

from . import connections
from .sockets import by_descriptor

_poll, _select = select.poll, select.select
_IN, _OUT = select.POLLIN | getattr(select, "POLLRDNORM", 0), select.POLLOUT | getattr(select, "POLLWRNORM", 0)
_LONGEST = 3600.0


def _descriptor(file):
    return file if isinstance(file, int) else file.fileno()


class Poll:
    """select.poll()"""

    def __init__(self):
        self._sockets, self._files, self._real = {}, 0, _poll()

    def register(self, file, events=select.POLLIN | select.POLLPRI | select.POLLOUT):
        descriptor = _descriptor(file)
        if descriptor in by_descriptor:
            self._sockets[descriptor] = events
        else:
            self._real.register(descriptor, events)
            self._files += 1

    def modify(self, file, events):
        descriptor = _descriptor(file)
        if descriptor in self._sockets:
            self._sockets[descriptor] = events
        else:
            self._real.modify(descriptor, events)

    def unregister(self, file):
        descriptor = _descriptor(file)
        if self._sockets.pop(descriptor, None) is None:
            self._real.unregister(descriptor)
            self._files -= 1

    def poll(self, timeout=None):
        seconds = None if timeout is None or timeout < 0 else timeout / 1000
        if not self._sockets:
            return self._real.poll(timeout)
        found = self._real.poll(0) if self._files else []
        return found + _ready(self._sockets, 0.0 if found else seconds)


def _ready(wanted, seconds):
    """Pairs of descriptor and events, of those that are ready."""
    asked, found = {}, []
    for descriptor, events in wanted.items():
        sock = by_descriptor.get(descriptor)
        mask = (connections.READ if events & _IN else 0) | (connections.WRITE if events & _OUT else 0)
        if sock is None:
            found.append((descriptor, select.POLLNVAL))
        elif at_once := sock.ready(mask):
            found.append((descriptor, _events(at_once, events)))
        elif sock.connection is not None and mask:
            asked[sock.connection] = (descriptor, events, mask)
    end = None if seconds is None else time.monotonic() + seconds
    pairs = [[number, mask] for number, (_, _, mask) in asked.items()]
    while True:
        left = 0.0 if found else _LONGEST if end is None else min(max(0.0, end - time.monotonic()), _LONGEST)
        if pairs:
            for number, ready in connections.wait(pairs, left).items():
                descriptor, events, _ = asked[number]
                found.append((descriptor, _events(ready, events)))
        elif left:
            time.sleep(left)
        if found or (end is not None and time.monotonic() >= end):
            return found


def _events(ready, wanted):
    events = (_IN if ready & connections.READ else 0) | (_OUT if ready & connections.WRITE else 0)
    return events & wanted


def select_(readers, writers, others, timeout=None):
    """select.select()"""
    wanted = {}
    for files, event in ((readers, select.POLLIN), (writers, select.POLLOUT)):
        for file in files:
            if (descriptor := _descriptor(file)) in by_descriptor:
                wanted[descriptor] = wanted.get(descriptor, 0) | event
    if not wanted:
        return _select(readers, writers, others, timeout)
    files = [[f for f in group if _descriptor(f) not in by_descriptor] for group in (readers, writers, others)]
    ready = _select(*files, 0) if any(files) else ([], [], [])
    found = dict(_ready(wanted, 0.0 if any(ready) else timeout))
    return (
        ready[0] + [f for f in readers if found.get(_descriptor(f), 0) & (select.POLLIN | select.POLLNVAL)],
        ready[1] + [f for f in writers if found.get(_descriptor(f), 0) & (select.POLLOUT | select.POLLNVAL)],
        ready[2],
    )


def install():
    """Put these in place of the ones that know files only."""
    select.poll, select.select = Poll, select_
    selectors.PollSelector._selector_cls = Poll
    selectors.SelectSelector._select = staticmethod(select_)
