"""The event loop of the cells: top-level await, tasks that outlive a cell.

asyncio's loop wakes itself over a socket pair, which WASI has not. With one thread and no signals nothing could
wake it from outside, so it does not need one. `selectors.PollSelector` works as it is.
"""

import asyncio
import contextvars
import selectors
import time
from asyncio import events, runners
from asyncio.selector_events import BaseSelectorEventLoop
from collections.abc import Coroutine

from . import comms, door, parents, wire, workers

_loop = None
_quiet = 0  # looks at connections between cells that found nothing, one after the other
_NEXT_LOOK, _LAST_LOOK = 0.1, 5.0  # seconds between them
_LONGEST = 3600.0
_BETWEEN_LOOKS = 0.05  # seconds, for a cell whose tasks always have something to do
_LOOK = 0.002  # seconds that the host has to answer then


def install():
    """Mend asyncio, and let asyncio.run() work inside a cell."""

    def _make_self_pipe(self):
        self._ssock = self._csock = None
        self._internal_fds += 1

    def _close_self_pipe(self):
        self._internal_fds -= 1

    BaseSelectorEventLoop._make_self_pipe = _make_self_pipe
    BaseSelectorEventLoop._close_self_pipe = _close_self_pipe
    BaseSelectorEventLoop._write_to_self = lambda self: None

    async def shutdown_default_executor(self, timeout=None):
        """It has no thread to wait for, and would wait in one."""
        self._executor_shutdown_called = True
        if self._default_executor is not None:
            self._default_executor.shutdown(wait=False)

    BaseSelectorEventLoop.shutdown_default_executor = shutdown_default_executor

    real = runners.run

    def run(main, **kwargs):
        """asyncio.run(), on a loop of its own nested in the cell's."""
        outer = events._get_running_loop()
        task = asyncio.current_task(outer) if outer else None
        if task is not None:
            asyncio.tasks._leave_task(outer, task)
        events._set_running_loop(None)
        try:
            return real(main, **kwargs)
        finally:
            events._set_running_loop(outer)
            if task is not None:
                asyncio.tasks._enter_task(outer, task)
            asyncio.set_event_loop(loop())

    asyncio.run = runners.run = run
    poll = selectors.PollSelector.select

    def select(self, timeout=None):
        """For loops of asyncio.run(): what workers bring is taken while they wait."""
        if not workers.busy():
            return poll(self, timeout)
        if not self.get_map():
            return [] if workers.pump(timeout) else poll(self, timeout)
        found = poll(self, _BETWEEN_LOOKS if timeout is None else min(timeout, _BETWEEN_LOOKS))
        if not found:
            workers.pump(0.0)
        return found

    selectors.PollSelector.select = select


def loop():
    """The cells' loop, made when first needed, and again when a cell closed it."""
    global _loop
    if _loop is None or _loop.is_closed():
        _loop = asyncio.SelectorEventLoop(_Selector())
        asyncio.set_event_loop(_loop)
    return _loop


def forget_loop():
    """In a worker: the loop and the task that run are the notebook's."""
    global _loop
    outer = events._get_running_loop()
    task = asyncio.current_task(outer) if outer else None
    if task is not None:
        asyncio.tasks._leave_task(outer, task)
    events._set_running_loop(None)
    _loop = None


class _Selector(selectors.PollSelector):
    """Where a cell waits while it awaits something. Widgets' messages reach it there, as in ipykernel."""

    listens = False  # a cell awaits, and somebody may send it messages
    _look_at = 0.0

    def select(self, timeout=None):
        wait = _LONGEST if timeout is None else max(0.0, min(timeout, _LONGEST))
        if workers.busy() and not self.get_map():
            workers.pump(min(wait, _BETWEEN_LOOKS))
            wait = timeout = 0.0
        if not self.listens:
            return super().select(timeout)
        if not self.get_map():
            if wait == 0.0 and time.monotonic() < self._look_at:
                return super().select(timeout)
            self._look(wait)
            return []
        end = time.monotonic() + wait
        while True:  # connections and messages in turn
            brought = workers.busy()  # a worker's result, taken meanwhile, is for the loop to look at
            found = super().select(min(_BETWEEN_LOOKS, max(0.0, end - time.monotonic())))
            now = time.monotonic()
            came = self.listens and now >= self._look_at and self._look(0.0)
            if found or came or brought or now >= end:
                return found

    def _look(self, wait):
        """Wait for a widget's message; whether one came."""
        self._look_at = time.monotonic() + _BETWEEN_LOOKS
        answer = door.send(wire.Waiting(max(wait, _LOOK)))
        if answer[:1] == wire.ANSWER_TEXT:
            self._receive(*wire.decode(answer[1:]))
            return True
        if answer[:1] == wire.ANSWER_INTERRUPTED:
            raise KeyboardInterrupt
        if answer[:1] == wire.ANSWER_REFUSED:  # nobody sends any
            self.listens = False
        return False

    @staticmethod
    def _receive(request, buffers):
        context = contextvars.copy_context()
        context.run(parents.enter, request)
        message = (request["action"], request["content"], request.get("metadata") or {}, buffers)
        loop().call_soon(comms.receive, *message, context=context)


def run_cell(shell, code, options):
    """Run a cell with the loop running, as ipykernel does: create_task() works in any cell."""
    # No task for a plain cell, which would cost more than the cell: the loop only counts as running.
    events._set_running_loop(loop())
    try:
        return shell.run_cell(code, **options)
    finally:
        events._set_running_loop(None)


class _Cell(Coroutine):
    """A cell's coroutine. An interrupt reaches it where it awaits, as KeyboardInterrupt, by way of a cancellation."""

    def __init__(self, inner):
        self._inner = inner
        self.interrupted = False

    def send(self, value):
        return self._inner.send(value)

    def throw(self, error, *rest):
        if self.interrupted and isinstance(error, asyncio.CancelledError):
            self.interrupted = False
            error = KeyboardInterrupt()
        return self._inner.throw(error)

    def close(self):
        self._inner.close()

    def __await__(self):
        return self._inner.__await__()


def run_coroutine(coroutine):
    """What the shell calls for a cell with a top-level await."""
    here = loop()
    events._set_running_loop(None)
    cell = _Cell(coroutine)
    task = here.create_task(cell)
    here._selector.listens = True
    try:
        while True:
            try:
                return here.run_until_complete(task)
            except KeyboardInterrupt:  # it hit the loop between two steps of the cell
                if task.done():
                    raise
                cell.interrupted = True
                task.cancel()
    finally:
        here._selector.listens = False
        events._set_running_loop(here)


def pump(seconds):
    """Let waiting tasks go on for up to ``seconds``, ending early when none is ready; when the next one is due.

    None: nothing waits. Else seconds from now.
    """
    global _quiet
    if _loop is None or _loop.is_closed():
        return None
    end = time.monotonic() + seconds
    if _loop._selector.get_map():
        _loop.call_soon(_loop.stop)
        _loop.run_forever()  # looks at the connections once
        _quiet = 0 if _loop._ready else _quiet + 1
    while _loop._ready or (_loop._scheduled and _loop._scheduled[0]._when <= _loop.time()):
        _loop.call_soon(_loop.stop)
        _loop.run_forever()
        if time.monotonic() >= end:
            break
    while _loop._scheduled and _loop._scheduled[0]._cancelled:
        _loop._timer_cancelled_count = max(0, _loop._timer_cancelled_count - 1)
        import heapq

        heapq.heappop(_loop._scheduled)._scheduled = False
    if _loop._ready:
        return 0.0
    due = [max(0.0, _loop._scheduled[0]._when - _loop.time())] if _loop._scheduled else []
    if _loop._selector.get_map():
        due.append(min(_NEXT_LOOK * 2.0**_quiet, _LAST_LOOK))
    return min(due, default=None)
