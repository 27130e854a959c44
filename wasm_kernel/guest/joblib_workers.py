"""joblib's backend of workers, and its default: what scikit-learn's `n_jobs` comes to."""

import time

from . import worker_calls, workers

_LOOK = 0.1  # seconds, unless something comes before


class Job:
    """A batch of calls that was submitted."""

    def __init__(self, callback):
        self._callback, self.outcome = callback, None

    def deliver(self, ok, value):
        """What came of it."""
        self.outcome = ok, value
        if self._callback is not None:
            self._callback(self)


class Time:
    """joblib looks every 10 ms whether something has come. It comes when somebody waits for it."""

    def __getattr__(self, name):
        return getattr(time, name)

    @staticmethod
    def sleep(seconds):
        """Wait for workers; if there are none, just wait."""
        if not workers.pump(max(seconds, _LOOK)):
            time.sleep(seconds)


def install(module):
    """Give joblib the backend. Threads are taken for forks where memory need not be shared."""
    from joblib import _parallel_backends as backends

    class ForkBackend(backends.AutoBatchingMixin, backends.ParallelBackendBase):
        """Runs batches in forks of the notebook."""

        supports_retrieve_callback = True
        uses_threads = True  # so that RandomForest and others, which prefer threads, get workers, too
        supports_sharedmem = False
        supports_inner_max_num_threads = True  # there is one in each, whatever is asked for
        MIN_IDEAL_BATCH_DURATION, MAX_IDEAL_BATCH_DURATION = 0.02, 0.2  # handing over a batch takes half a millisecond
        _team = None

        def effective_n_jobs(self, n_jobs):
            if n_jobs == 0:
                raise ValueError("n_jobs == 0 in Parallel has no meaning")
            if n_jobs is None:
                return 1
            if n_jobs < 0:
                n_jobs = workers.limit + 1 + n_jobs
            return max(1, min(n_jobs, workers.limit))

        def configure(self, n_jobs=1, parallel=None, prefer=None, require=None, **kwargs):
            n_jobs = self.effective_n_jobs(n_jobs)
            if n_jobs == 1:
                raise backends.FallbackToBackend(backends.SequentialBackend(nesting_level=self.nesting_level))
            self.parallel, self._n_jobs, self._submitted = parallel, n_jobs, 0
            self._team = workers.Team(n_jobs, share_arrays=True)
            return n_jobs

        def submit(self, func, callback=None):
            job = Job(callback)
            self._team.add([worker_calls.Call(job.deliver, func, (), {})])
            self._submitted += 1
            if self._submitted >= self._n_jobs:  # the first ones in one fork
                self._team.dispatch()
            return job

        def retrieve_result_callback(self, out):
            ok, value = out.outcome
            if not ok:
                raise value
            return value

        def terminate(self):
            if self._team is not None:
                self._team.forget()
                self._team.end(at_once=True)
            self.reset_batch_stats()

        def abort_everything(self, ensure_ready=True):
            self.terminate()
            if ensure_ready:
                self.configure(n_jobs=self.parallel.n_jobs, parallel=self.parallel)

    class ThreadingBackend(backends.ThreadingBackend):
        """There is one thread, so what needs shared memory runs in line: without a pool, which would only cost time."""

        def effective_n_jobs(self, n_jobs):
            return min(1, super().effective_n_jobs(n_jobs))

    module.time = Time()
    module.register_parallel_backend("fork", ForkBackend, make_default=True)
    module.BACKENDS["loky"] = module.BACKENDS["multiprocessing"] = ForkBackend
    module.BACKENDS["threading"] = ThreadingBackend
    module.DEFAULT_PROCESS_BACKEND = "fork"
    module.cpu_count = lambda only_physical_cores=False: max(1, workers.limit)
