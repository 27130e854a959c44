"""ProcessPoolExecutor and multiprocessing.Pool over workers: the standard library's names, arguments and errors."""

import itertools
import os
import types
import weakref
from functools import partial

from . import worker_calls, workers
from .integers import call_for_people


def executor(module):
    """Replace `concurrent.futures.process.ProcessPoolExecutor`."""
    base = module._base

    def _process_chunk(fn, chunk):
        return [call_for_people(fn, args, {}) for args in chunk]

    _put(module, _process_chunk)

    class Future(base.Future):
        """A call of a pool. Looking at it takes what workers have brought meanwhile."""

        _call = _team = None

        def cancel(self):
            if not super().done() and self._call is not None and not self._team.cancel(self._call):
                return False
            if not super().cancel():
                return False
            if self._state == base.CANCELLED:  # nobody else will tell `wait` and `as_completed`
                self.set_running_or_notify_cancel()
            return True

        def done(self):
            if not super().done():
                workers.poll()
            return super().done()

        def running(self):
            return not self.done() and self._team.runs(self._call)

        def calls(self, function, arguments, keywords):
            """Its one call, for its team; none if it was cancelled before somebody asked."""
            if not super().cancelled():
                self._call = worker_calls.Call(self._deliver, function, arguments, keywords)
                yield self._call

        def _deliver(self, ok, value):
            self._call = None
            if self.set_running_or_notify_cancel():
                (self.set_result if ok else self.set_exception)(value)

    class ProcessPoolExecutor(base.Executor):
        """Runs calls in forks of the notebook."""

        def __init__(
            self, max_workers=None, mp_context=None, initializer=None, initargs=(), *, max_tasks_per_child=None
        ):
            if max_workers is None:
                max_workers = os.process_cpu_count() or 1
            elif max_workers <= 0:
                raise ValueError("max_workers must be greater than 0")
            if initializer is not None and not callable(initializer):
                raise TypeError("initializer must be a callable")
            if max_tasks_per_child is not None:
                if not isinstance(max_tasks_per_child, int):
                    raise TypeError("max_tasks_per_child must be an integer")
                if max_tasks_per_child <= 0:
                    raise ValueError("max_tasks_per_child must be >= 1")
            self._max_workers = max_workers
            self._team = workers.Team(max_workers, initializer, initargs, max_tasks_per_child)
            self._is_shut_down = self._together = False
            self._futures = weakref.WeakSet()

        def submit(self, fn, /, *args, **kwargs):
            if self._team.broken:
                raise module.BrokenProcessPool(self._team.broken)
            if self._is_shut_down:
                raise RuntimeError("cannot schedule new futures after shutdown")
            future = Future()
            future._team = self._team
            self._futures.add(future)
            self._team.add(future.calls(fn, args, kwargs))
            if not self._together:
                self._team.dispatch()
            return future

        def map(self, fn, *iterables, timeout=None, chunksize=1, buffersize=None):
            if chunksize < 1:
                raise ValueError("chunksize must be >= 1.")
            batches = itertools.batched(zip(*iterables, strict=False), chunksize)
            self._together = True  # one fork for all of them
            try:
                found = super().map(partial(module._process_chunk, fn), batches, timeout=timeout, buffersize=buffersize)
            finally:
                self._together = False
            self._team.dispatch()
            return module._chain_from_iterable_of_lists(found)

        def shutdown(self, wait=True, *, cancel_futures=False):
            self._is_shut_down = True
            if cancel_futures:
                for future in list(self._futures):
                    future.cancel()
            if wait:
                workers.wait_for(lambda: not self._team.busy)
                self._team.end(at_once=False)

        def kill_workers(self):
            """End all workers; calls that are not done are broken."""
            self._is_shut_down = True
            self._team.lose("the workers were terminated")

        terminate_workers = kill_workers

    for name in ("submit", "map", "shutdown"):
        getattr(ProcessPoolExecutor, name).__doc__ = getattr(base.Executor, name).__doc__
    _put(module, ProcessPoolExecutor)


def pool(module):
    """Replace `multiprocessing.pool.Pool` and `ThreadPool`: what drives them, not what they offer."""

    def mapstar(args):
        function, values = args
        return [call_for_people(function, (value,), {}) for value in values]

    def starmapstar(args):
        function, values = args
        return [call_for_people(function, value, {}) for value in values]

    _put(module, mapstar)
    _put(module, starmapstar)

    class Tasks:
        """Where the pool's methods put what a thread would hand to processes."""

        def __init__(self, pool):
            self._pool = weakref.ref(pool)
            self._team, self._cache = pool._team, pool._cache

        def put(self, item):
            tasks, set_length = item
            self._team.add(self._calls(tasks, set_length))
            self._team.dispatch()

        def _calls(self, tasks, set_length):
            count = 0
            for job, number, function, arguments, keywords in tasks:
                count = number + 1
                yield worker_calls.Call(partial(self._deliver, job, number), function, arguments, keywords)
            if set_length is not None:
                set_length(count)

        def _deliver(self, job, number, ok, value):
            result = self._cache.get(job)
            if result is not None:
                result._set(number, (ok, value))

    class Pool(module.Pool):
        """Runs calls in forks of the notebook."""

        _inline = False

        def __init__(self, processes=None, initializer=None, initargs=(), maxtasksperchild=None, context=None):
            self._pool, self._state = [], module.INIT
            self._ctx = context or module.get_context()
            if processes is None:
                processes = os.process_cpu_count() or 1
            if processes < 1:
                raise ValueError("Number of processes must be at least 1")
            if maxtasksperchild is not None and (not isinstance(maxtasksperchild, int) or maxtasksperchild <= 0):
                raise ValueError("maxtasksperchild must be a positive int or None")
            if initializer is not None and not callable(initializer):
                raise TypeError("initializer must be a callable")
            self._processes, self._cache = processes, {}
            self._pool = [None] * processes  # chunks are made by how many there are
            self._team = workers.Team(processes, initializer, initargs, maxtasksperchild, inline=self._inline)
            self._taskqueue = Tasks(self)
            self._team.set_up_inline()
            self._state = module.RUN

        def __del__(self):
            pass

        def close(self):
            if self._state == module.RUN:
                self._state = module.CLOSE

        def terminate(self):
            self._state = module.TERMINATE
            self._team.forget()
            self._team.end(at_once=True)

        def join(self):
            if self._state == module.RUN:
                raise ValueError("Pool is still running")
            if self._state not in (module.CLOSE, module.TERMINATE):
                raise ValueError("In unknown state")
            workers.wait_for(lambda: not self._team.busy)
            self._team.end(at_once=False)

    class ThreadPool(Pool):
        """There is one thread: calls run one after the other, when they are submitted."""

        _inline = True

        def __init__(self, processes=None, initializer=None, initargs=()):
            Pool.__init__(self, processes, initializer, initargs)

    def ready(self):
        if not self._event.is_set():
            workers.poll()
        return self._event.is_set()

    module.ApplyResult.ready = ready
    _put(module, Pool)
    _put(module, ThreadPool)


def context(module):
    """Have `multiprocessing.get_context("forkserver")`, the default of other systems, as well as the other two."""
    module.ForkServerContext._check_available = lambda self: None


def _put(module, replacement):
    """Have a class or a function be what its name stands for in a module, and look like it."""
    replacement.__module__, replacement.__qualname__ = module.__name__, replacement.__name__
    if isinstance(replacement, type):
        for name, member in vars(replacement).items():
            if type(member) is types.FunctionType:  # errors about arguments name it
                member.__qualname__ = f"{replacement.__name__}.{name}"
    setattr(module, replacement.__name__, replacement)
