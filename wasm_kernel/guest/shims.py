"""What WASI lacks and user code expects: locks, threads, processes, sockets, TLS, user ids.

IPython itself imports and runs without any of this. Each shim is for what people do afterwards, and is put in when
the module it mends is first imported, or at once if it already is.
"""

import functools
import os
import sys
import time
import types

from . import (
    door,
    function_sources,
    integers,
    joblib_workers,
    plots,
    process_pools,
    quick_estimators,
    quick_tracebacks,
    scipy_integers,
    worker_seeds,
    workers,
)

NO_PROCESS = "no processes in the WebAssembly sandbox: shell commands cannot run here"
NO_THREAD = "can't start new thread: the WebAssembly sandbox has one thread (process pools and asyncio work)"

# Set before anything is imported; the host's environment never gets here.
ENVIRONMENT = {
    "HOME": "/app",
    "TMPDIR": "/tmp",
    "IPYTHONDIR": "/tmp/.ipython",
    "JUPYTER_CONFIG_DIR": "/tmp/.jupyter",
    "XDG_CACHE_HOME": "/tmp/.cache",
    "XDG_CONFIG_HOME": "/tmp/.config",
    "XDG_DATA_HOME": "/tmp/.local/share",
    "MPLBACKEND": "module://matplotlib_inline.backend_inline",
    "MPLCONFIGDIR": "/tmp/.config/matplotlib",
    "TERM": "xterm-color",  # this and the pagers as ipykernel has them
    "PAGER": "cat",
    "GIT_PAGER": "cat",
    "LANG": "C.UTF-8",
    "JPY_PARENT_PID": "1",  # libraries take it as "in a Jupyter kernel"
    "LOKY_MAX_CPU_COUNT": "1",
    "DASK_SCHEDULER": "synchronous",
    "PYTEST_ADDOPTS": "--capture=sys -p no:faulthandler",  # the others need os.dup
}


def install():
    """Put in every shim."""
    os.environ.update(ENVIRONMENT)
    _os_names()
    _empty_paths()
    _chdir()
    _locks()
    _sleep()
    sys.meta_path.insert(0, _SslFinder)
    integers.install(after_import)
    scipy_integers.install(after_import)
    worker_seeds.install(after_import)
    after_import("socket", _socket)
    after_import("inspect", _inspect)
    after_import("stack_data.core", _stack_data)
    after_import("pygments.formatters.terminal256", quick_tracebacks.terminal256)
    after_import("queue", lambda m: setattr(m, "SimpleQueue", m._PySimpleQueue))  # the C one blocks on a C lock
    after_import("concurrent.futures.thread", _executor)
    after_import("scipy.spatial._ckdtree", _tree_threads)
    after_import("scipy.stats._qmc", _quasi_random_threads)
    after_import("concurrent.futures.process", process_pools.executor)
    after_import("multiprocessing.pool", process_pools.pool)
    after_import("multiprocessing.context", process_pools.context)
    after_import("joblib.parallel", joblib_workers.install)
    after_import("joblib", lambda m: setattr(m, "cpu_count", m.parallel.cpu_count))
    after_import("sklearn.base", quick_estimators.base)
    after_import("tqdm.std", _tqdm)
    after_import("mpmath.math2", lambda m: setattr(m, "NAN", float("nan")))  # INF - INF is -nan, but not on every CPU
    after_import("rich.live", _rich_live)
    after_import("rich.progress", _rich_progress)
    after_import("plotly.io._renderers", plots.plotly)
    after_import("bokeh.io.notebook", plots.bokeh)


# ---- after a module's first import

_waiting = {}


class _AfterFinder:
    @staticmethod
    def find_spec(name, path=None, target=None):
        if name not in _waiting:
            return None
        mends = _waiting.pop(name)
        for finder in sys.meta_path:
            if finder is not _AfterFinder and (spec := finder.find_spec(name, path, target)) is not None:
                spec.loader = _MendingLoader(spec.loader, mends)
                return spec
        return None


class _MendingLoader:
    def __init__(self, loader, mends):
        self._loader, self._mends = loader, mends

    def create_module(self, spec):
        return self._loader.create_module(spec)

    def exec_module(self, module):
        module.__loader__ = module.__spec__.loader = self._loader
        self._loader.exec_module(module)
        for mend in self._mends:
            mend(module)

    def __getattr__(self, name):
        return getattr(self._loader, name)


def after_import(name, mend):
    """Call ``mend(module)`` once the module has been imported."""
    if name in sys.modules:
        mend(sys.modules[name])
        return
    _waiting.setdefault(name, []).append(mend)
    if _AfterFinder not in sys.meta_path:
        sys.meta_path.insert(0, _AfterFinder)


# ---- os


def _os_names():
    for name in ("getuid", "geteuid", "getgid", "getegid"):
        if not hasattr(os, name):
            setattr(os, name, lambda: 0)  # what os.stat says owns every file
    if not hasattr(os, "getppid"):
        os.getppid = lambda: 1

    def no_process(*args, **kwargs):
        raise OSError(58, NO_PROCESS)

    for name in ("system", "popen", "kill"):
        if not hasattr(os, name):
            setattr(os, name, no_process)
    os.cpu_count = os.process_cpu_count = lambda: max(1, workers.limit)
    os.sched_getaffinity = lambda pid: set(range(max(1, workers.limit)))
    os.isatty = lambda fd: False  # WASI calls stdout a character device, and libraries then draw for a terminal


def _chdir():
    """wasi-libc keeps the working directory as it was written, `..` and all; others read it with getcwd()."""
    real = os.chdir

    def chdir(path):
        real(os.path.realpath(path))

    os.chdir = chdir


def _empty_paths():
    """Here "" is taken for the current folder, so exists("") would be True and HTML("") would try to read a folder."""
    import genericpath

    for name in ("exists", "lexists", "isdir"):
        real = getattr(os.path, name)

        def ask(path, _real=real):
            return path != "" and path != b"" and _real(path)

        ask.__name__ = name
        setattr(genericpath, name, ask)
        setattr(os.path, name, ask)


def _inspect(module):
    """getmodule() of a cell's frame looks at the files of 3,000 modules, to find none; it is asked for every frame."""
    real = module.getmodule

    def getmodule(object, _filename=None):
        code = getattr(object, "f_code", None) or getattr(getattr(object, "tb_frame", None), "f_code", None)
        if code is not None and code.co_filename.startswith("<"):
            return None
        return real(object, _filename)

    module.getmodule = getmodule


def _stack_data(module):
    function_sources.install(module)
    quick_tracebacks.stack_data(module)


# ---- locks and threads


class GuestLock:
    """threading.Lock for one thread.

    A C lock that would block makes this guest trap, with a timeout or without. Nobody can release a lock while we
    wait for it, but for what is done with the results of workers. Otherwise a timed wait sleeps and fails, and an
    untimed one is a deadlock and says so.
    """

    __slots__ = ("_held", "__weakref__")

    def __init__(self):
        self._held = False

    def acquire(self, blocking=True, timeout=-1):
        if not self._held:
            self._held = True
            return True
        if not blocking:
            if timeout != -1:
                raise ValueError("can't specify a timeout for a non-blocking call")
            return False
        timed = timeout is not None and timeout >= 0
        end = time.monotonic() + timeout if timed else 0.0
        if workers.busy() and workers.wait_for(lambda: not self._held, timeout if timed else None):
            self._held = True
            return True
        if not timed:
            raise RuntimeError("deadlock: the sandbox has one thread, so this wait could never end")
        time.sleep(max(0.0, end - time.monotonic()))
        return False

    def release(self):
        if not self._held:
            raise RuntimeError("release unlocked lock")
        self._held = False

    def locked(self):
        return self._held

    acquire_lock, release_lock, locked_lock = acquire, release, locked

    def __enter__(self):
        return self.acquire()

    def __exit__(self, *exc):
        self.release()

    def _at_fork_reinit(self):
        self._held = False

    def __repr__(self):
        return f"<{'locked' if self._held else 'unlocked'} lock object at {id(self):#x}>"


def _locks():
    import _thread
    import threading

    _thread.allocate_lock = _thread.allocate = GuestLock
    _thread.LockType = _thread.lock = GuestLock
    threading.Lock = threading._allocate_lock = GuestLock

    def start(self):
        raise RuntimeError(NO_THREAD)

    threading.Thread.start = start
    threading.get_native_id = _thread.get_ident  # as on Linux; scipy.fft.set_backend asks for it


def _sleep():
    original = time.sleep

    def sleep(seconds, /):
        """Delay execution for a given number of seconds. What workers bring meanwhile is delivered."""
        if workers.busy() and isinstance(seconds, (int, float)) and seconds > 0:
            end = time.monotonic() + seconds
            workers.wait_for(lambda: False, seconds)
            seconds = max(0.0, end - time.monotonic())
        original(seconds)

    sleep.__module__, sleep.__qualname__ = "time", "sleep"
    time.sleep = sleep


def _executor(module):
    def submit(self, fn, /, *args, **kwargs):
        future = module._base.Future()
        future.set_running_or_notify_cancel()
        try:
            future.set_result(integers.call_for_people(fn, args, kwargs))
        except (KeyboardInterrupt, SystemExit):
            raise
        except BaseException as e:
            if e is door.time_limit:
                raise
            future.set_exception(e)
        return future

    module.ThreadPoolExecutor.submit = submit


def _tree_threads(module):
    class Thread:
        """What KDTree.query(workers=2) begins, for a part of the points each: done when it begins."""

        def __init__(self, target, args=(), kwargs=None):
            self._call = functools.partial(target, *args, **kwargs or {})

        def start(self):
            self._call()

        def join(self):
            pass

    module.threading = types.SimpleNamespace(Thread=Thread)


def _quasi_random_threads(module):
    """Its threads are C++'s, and where they cannot begin, some functions return numbers that nobody has calculated."""
    real = module._validate_workers
    module._validate_workers = lambda workers=1: min(real(workers), 1)


def _tqdm(module):
    import threading

    module.tqdm.monitor_interval = 0  # its monitor is a thread
    module.TqdmDefaultWriteLock.mp_lock = threading.RLock()  # for process_map; workers write to no bar of the notebook


def _rich_live(module):
    class NoThread:
        """Live refreshes on each update instead of from a thread."""

        daemon = True

        def __init__(self, live, refresh_per_second):
            pass

        def start(self):
            pass

        stop = start

        def join(self, timeout=None):
            pass

    module._RefreshThread = NoThread


def _rich_progress(module):
    real = module.Progress.track

    def track(self, *args, **kwargs):
        auto, self.live.auto_refresh = self.live.auto_refresh, False  # else it counts in a thread
        try:
            yield from real(self, *args, **kwargs)
        finally:
            self.live.auto_refresh = auto
            self.refresh()

    module.Progress.track = track


# ---- network


def _socket(module):
    from . import sockets

    sockets.install(module)


class _SslFinder:
    """`import ssl`: there is no _ssl, and TLS is the host's."""

    @staticmethod
    def find_spec(name, path=None, target=None):
        if name != "ssl":
            return None
        from importlib.machinery import ModuleSpec

        return ModuleSpec("ssl", _SslFinder, origin="wasm_guest.tls")

    @staticmethod
    def create_module(spec):
        from . import tls

        return tls.module()

    @staticmethod
    def exec_module(module):
        pass
