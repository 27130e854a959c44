"""Forks of this guest that run calls side by side: what process pools and joblib are made of here.

A `Team` is one pool's workers. A call is pickled here, goes to a worker through the host, runs there, and its result
comes back pickled. A worker is a copy of this guest as it was when the worker was forked, so what existed then need not
be pickled: functions and classes of the notebook, and large arrays, are named by their number in `Team.known`.

What came later, a worker does not have. A call that needs it begins a new *era*: it goes only to workers forked from
then on, and older ones leave when they have nothing else to do. So calls see the notebook's functions, and the
variables that these name, as they were when they were submitted. (What changes inside an object counts for nothing, as
with processes.)

There is one thread, so results are taken when somebody waits: for a lock (`shims.GuestLock`), a future, a loop.
"""

import collections
import itertools
import json
import os
import sys
import time

import _host

from . import door, wire, worker_calls, worker_seeds

limit = 0  # how many workers there may be; the host says it with each request
in_worker = False

_MOST_SENT = 2000  # calls that wait at the host
_MOST_SENT_BYTES = 48 << 20
_LONGEST = 3600.0
_RETRY = 0.05  # seconds, while other pools have all the workers there may be

_numbers = itertools.count(1)
_active = {}  # teams with calls that are not done, by number
_arrived = collections.deque()  # what workers brought, and was not delivered yet


class Team:
    """The workers of one pool.

    Attributes:
        sent: Calls that the host has, by number.
        live: How many workers it has, of the present era.
        broken: Why it cannot go on; empty if it can.
        known: What workers of the present era have.
        share_arrays: Workers get large arrays as they are and cannot write to them; else copies, which they can.
    """

    def __init__(self, most, setup=None, arguments=(), calls_per_worker=None, *, inline=False, share_arrays=False):
        """``inline``: calls run here, one after the other."""
        self.number, self.most, self.share_arrays = next(_numbers), most, share_arrays
        self._setup, self._arguments, self._calls_per_worker = setup, arguments, calls_per_worker
        self._inline = inline
        self._waiting = collections.deque()  # iterators of calls that are not sent yet
        self._tasks = itertools.count()
        self.sent, self._sent_bytes = {}, 0
        self.live, self.broken = 0, ""
        self.known, self._places = [], {}
        self._era, self._forked, self._names = 0, False, {}
        self._is_set_up = False  # here, for calls that run here
        self._main = self._work  # the object whose address the host gets
        worker_calls.join(self)

    @property
    def inline(self):
        """Whether its calls run here, because there can be no workers."""
        return self._inline or in_worker or limit < 1

    @property
    def busy(self):
        """Whether it has calls that are not done."""
        return bool(self.sent or self._waiting)

    # ---- calls

    def add(self, calls):
        """Have calls run that an iterator gives; it is asked for them as they can be sent."""
        self._waiting.append(iter(calls))
        _active[self.number] = self

    def dispatch(self):
        """Send what can be sent, and see that there are workers for it."""
        if self._waiting:
            self.set_up_inline()
        while self._waiting and not self.broken:
            if len(self.sent) >= _MOST_SENT or self._sent_bytes >= _MOST_SENT_BYTES:
                break
            call = next(self._waiting[0], None)
            if call is None:
                self._waiting.popleft()
            elif self.inline:
                call.deliver(*call.run_here())
            else:
                self._send(call)
        if self.broken:
            self._fail()
        elif self.live < min(self.most, len(self.sent)):
            self._fork(min(self.most, len(self.sent)) - self.live)
        if not self.busy:
            _active.pop(self.number, None)

    def set_up_inline(self):
        """Run the initializer here, once, if calls run here."""
        if self._setup is None or self._is_set_up or not self.inline:
            return
        self._is_set_up = True
        try:
            self._setup(*self._arguments)
        except Exception as error:
            if error is door.time_limit:
                raise
            self.broken = _not_set_up(error)

    def _send(self, call):
        try:
            data = self._pickled(call)
            number = next(self._tasks)
            _host.call(wire.encode_event(wire.SubmitTask(self.number, self._era, number, (data,))))
        except Exception as error:
            if error is door.time_limit:
                raise
            call.deliver(False, error)
            return
        call.size = len(data)
        self.sent[number] = call
        self._sent_bytes += call.size

    def _pickled(self, call):
        if self._forked:
            variables = worker_calls.namespace()
            if any(variables.get(name) is not value for name, value in self._names.items()):
                self._begin_era()
        try:
            return worker_calls.pickled(call, self)
        except worker_calls.Newer:
            self._begin_era()
            return worker_calls.pickled(call, self)

    def _begin_era(self):
        self._era += 1
        self._forked, self._names, self.live = False, {}, 0

    def knows(self, thing):
        """Whether workers have something, or can still get it."""
        return not self._forked or worker_calls.identity(thing) in self._places

    def refer(self, thing):
        """The number of something that workers have."""
        which = worker_calls.identity(thing)
        place = self._places.get(which)
        if place is None:
            if self._forked:
                raise worker_calls.Newer
            place = self._places[which] = len(self.known)
            self.known.append(thing)
        return place

    def runs(self, call):
        """Whether a call is among the first that were sent: as many as there are workers for."""
        return any(sent is call for sent in itertools.islice(self.sent.values(), self.live))

    def cancel(self, call):
        """Take a call back that no worker has yet; False if one has."""
        for number, sent in self.sent.items():
            if sent is call:
                if door.send(wire.CancelTask(self.number, number))[:1] != wire.ANSWER_TEXT:
                    return False
                self._pop(number)
                break
        return True

    def _pop(self, number):
        call = self.sent.pop(number, None)
        if call is not None:
            self._sent_bytes -= call.size
        return call

    def forget(self):
        """Give up what is not done; nobody waits for it."""
        self.sent.clear()
        self._waiting.clear()
        self._sent_bytes = 0
        _active.pop(self.number, None)

    # ---- workers

    def _fork(self, count):
        if not self._forked:
            for thing in [*self.known, self._setup]:
                worker_calls.add_names(thing, self._names)
        door.flush()
        answer = _host.call(wire.encode_event(wire.StartWorkers(self.number, self._era, id(self._main), count)))
        found = json.loads(answer)
        self.live += found["started"]
        self._forked = self._forked or self.live > 0
        if found["why"] and not self.live:
            self.broken = f"no worker could be started: {found['why']}"
            self._fail()

    def finished(self, number, status, data):
        """A worker has handed in a result."""
        if status == worker_calls.CANNOT_WORK:
            self.lose(data.decode("utf-8", "replace") or "a worker could not begin")
            return
        call = self._pop(number)
        if call is not None:
            try:
                found = worker_calls.result(status, data)
            except BaseException as error:  # an interrupt: whoever waits for this call is not left waiting
                call.deliver(False, error)
                raise
            call.deliver(*found)

    def ended(self, era, why):
        """A worker is gone."""
        if era == self._era:
            self.live = max(0, self.live - 1)
        if why:
            self.lose(f"a worker ended before its call was done: {why}")

    def lose(self, why):
        """Something happened after which none of its calls will be done."""
        self.broken = self.broken or why
        self.end(at_once=True)
        self._fail()

    def _fail(self):
        from concurrent.futures.process import BrokenProcessPool

        calls = [self._pop(number) for number in list(self.sent)]
        calls += itertools.chain.from_iterable(self._waiting)
        self.forget()
        for call in calls:
            call.deliver(False, BrokenProcessPool(self.broken))

    def end(self, *, at_once):
        """Let the workers go; ``at_once``: also those that have something to do."""
        if self._forked or self._era:
            door.send(wire.StopWorkers(self.number, at_once))
        self.lose_workers()

    def lose_workers(self):
        """It has none any more: the cell that had them is over, or they were stopped."""
        self.known, self._places = [], {}
        self._begin_era()

    # ---- in a worker

    def _work(self):
        """All that a worker does. The host calls this in a copy of the guest."""
        worker, done = 0, 0
        while self._calls_per_worker is None or done < self._calls_per_worker:
            answer = _host.call(wire.encode_event(wire.NextTask()))
            if answer[:1] != wire.ANSWER_TEXT:
                return
            header, (data,) = wire.decode(answer[1:])
            status, found = worker_calls.OK, b""
            if not worker:
                worker = header["worker"]
                _become_worker(worker)
                status, found = self._set_up()
            if status == worker_calls.OK:
                status, found = worker_calls.run(data)
            _host.call(wire.encode_event(wire.TaskDone(header["task"], status, (found,))))
            done += 1

    def _set_up(self):
        try:
            if self._setup is not None:
                self._setup(*self._arguments)
        except BaseException as error:
            return worker_calls.CANNOT_WORK, _not_set_up(error).encode("utf-8", "replace")
        return worker_calls.OK, b""


def _not_set_up(error):
    return f"the initializer raised {type(error).__name__}: {error}\n\n{worker_calls.text_of(error)}"


def _become_worker(number):
    """Put right what is odd in a copy."""
    global in_worker, limit
    in_worker, limit = True, 0
    worker_seeds.in_worker = True
    _active.clear()
    _arrived.clear()
    from . import aio

    aio.forget_loop()
    parent = os.getpid()
    os.getpid, os.getppid = lambda: parent + number, lambda: parent
    sys.modules[os.name].getpid = os.getpid  # where pickle finds it
    process = sys.modules.get("multiprocessing.process")
    if process is not None:
        main = process._current_process
        process._parent_process = process._ParentProcess(main.name, parent, None)
        main._name, main._identity = f"ForkPoolWorker-{number}", (number,)


# ---- waiting


def busy():
    """Whether calls are under way."""
    return bool(_active)


def pump(seconds=None):
    """Wait for what workers bring, for so long at most, and deliver it. False: there is nothing to wait for."""
    if _arrived:
        _deliver()
        return True
    for team in list(_active.values()):
        team.dispatch()
    if not any(team.sent for team in _active.values()):
        return False
    wait = _LONGEST if seconds is None else max(0.0, min(seconds, _LONGEST))
    if any(team.live < min(team.most, len(team.sent)) for team in _active.values()):
        wait = min(wait, _RETRY)
    door.held = True  # what has come, comes once: an interrupt must not get between it and `_arrived`
    try:
        answer = door.send(wire.AwaitTasks(float(wait)))
        if answer[:1] == wire.ANSWER_TEXT:
            header, buffers = wire.decode(answer[1:])
            _arrived.extend(zip(header["events"], buffers, strict=True))
    finally:
        door.held = False
    error, door.waiting = door.waiting, None
    if answer[:1] == wire.ANSWER_INTERRUPTED:
        _lose_all("the cell was interrupted")
        error = error or KeyboardInterrupt()
    if error is not None:
        raise error
    _deliver()
    return True


def _deliver():
    """Hand on what has come. What an interrupt gets in the way of is looked at again; twice does no harm."""
    while _arrived:
        arrived = event, data = _arrived[0]
        team = worker_calls.team_of(event["pool"])
        if team is not None and "task" in event:
            team.finished(event["task"], event["status"], data)
        elif team is not None:
            team.ended(event["era"], event["ended"])
        if _arrived and _arrived[0] is arrived:  # else somebody waited in what was called
            _arrived.popleft()


def wait_for(ready, seconds=None):
    """Wait until something is so, as far as workers can make it so; whether it is."""
    end = None if seconds is None else time.monotonic() + seconds
    while not ready():
        left = None if end is None else end - time.monotonic()
        if (left is not None and left <= 0) or not pump(left):
            break
    return ready()


def poll():
    """Take what is there."""
    if _active:
        pump(0.0)


# ---- cells


def begin_turn(most):
    """A request begins, with so many workers at most; those of the one before are gone."""
    global limit
    limit = most
    _arrived.clear()
    worker_seeds.begin_turn()
    for team in worker_calls.teams():
        team.lose_workers()


def finish():
    """At the end of a cell: what was submitted is done before the cell is."""
    while pump():
        pass


def abandon():
    """At the end of a cell that failed: what was submitted is not waited for."""
    _lose_all("the cell ended before the call was done")


def _lose_all(why):
    for team in list(_active.values()):
        team.lose(why)
