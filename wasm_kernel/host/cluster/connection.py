"""A session's connection to a Dask cluster: the host is Dask's client, on a thread and an event loop of its own.

The guest learns nothing of it, no address and no credential. How it is encrypted, and who may connect, is Dask's:
``tls://`` addresses use what Dask's own configuration says.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
import uuid
from collections.abc import Coroutine, Mapping
from concurrent.futures import Future
from dataclasses import dataclass
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, TypeVar

from wasm_kernel.errors import ClusterError, ConfigurationError
from wasm_kernel.host.cluster.frames import identity

if TYPE_CHECKING:
    from distributed import Client

T = TypeVar("T")
_CONNECT_SECONDS = 10.0
_CLOSE_SECONDS = 10.0


@dataclass(frozen=True)
class Member:
    """A worker of a cluster. ``threads``: how many calls it runs at a time."""

    address: str
    threads: int
    image_key: str
    problem: str


class Connection:
    """An open connection. Its methods may be called on any thread but the connection's own, unless they say so.

    Attributes:
        address: Of the scheduler, as the person wrote it.
        id: What workers know the session by that it is for.
        client: Dask's, for use on `loop`.
        threads: How many calls the cluster runs at a time, as it was last heard.
        sent: The chunks that each worker was sent, by its address.
        sent_bytes: Bytes of packs of chunks that left this machine.
    """

    def __init__(self, address: str) -> None:
        if find_spec("distributed") is None:
            raise ConfigurationError("clusters need the extra 'dask': pip install 'wasm-kernel[dask]'")
        self.address, self.id = address, uuid.uuid4().hex
        self.loop = asyncio.new_event_loop()
        self.client: Client
        self.closed = False
        self.threads = 0  # how many calls the cluster runs at a time, as it was last heard
        self.sent: dict[str, set[bytes]] = {}
        self.sent_bytes = 0
        self._background: set[asyncio.Task[Any]] = set()
        self._thread = threading.Thread(target=self._run, name="wasm-kernel-cluster", daemon=True)
        self._thread.start()
        try:
            self.wait(self._connect(), _CONNECT_SECONDS + 5)
        except ClusterError:
            self.close()
            raise
        except Exception as e:  # noqa: BLE001 - Dask raises TypeError, too, where its configuration lacks certificates
            self.close()
            raise ClusterError(f"there is no Dask scheduler that answers at {address}: {_reason(e)}") from None

    def _run(self) -> None:
        with asyncio.Runner(loop_factory=lambda: self.loop):  # cancels at its end what still waits
            asyncio.set_event_loop(self.loop)
            self.loop.run_forever()

    async def _connect(self) -> None:
        from distributed import Client

        # Not the default of the process, and with no reconnecting for ever: a cell that waits is told.
        self.client = Client(
            self.address, asynchronous=True, set_as_default=False, timeout=_CONNECT_SECONDS, name="wasm-kernel"
        )
        await self.client

    def start(self, work: Coroutine[Any, Any, T]) -> Future[T]:
        """Have something done on the connection's thread."""
        return asyncio.run_coroutine_threadsafe(work, self.loop)

    def wait(self, work: Coroutine[Any, Any, T], seconds: float) -> T:
        """The same; its result."""
        future = self.start(work)
        try:
            return future.result(seconds)
        except TimeoutError:
            future.cancel()
            raise ClusterError(f"the cluster at {self.address} does not answer") from None

    async def workers(self) -> dict[str, int]:
        """The addresses of its workers, and how many calls each runs at a time. On the connection's thread."""
        scheduler: Any = self.client.scheduler
        info = (await scheduler.identity(n_workers=-1))["workers"]
        found = {str(address): int(worker.get("nthreads", 1)) for address, worker in info.items()}
        self.threads = sum(found.values())
        return found

    async def members(self) -> list[Member]:
        """Its workers, and what each has; `ClusterError` if it cannot be asked. On the connection's thread."""
        from wasm_kernel.host.cluster import tasks

        try:
            info = await self.workers()
            answers: Mapping[str, Any] = await self.client.run(tasks.identify, on_error="return") if info else {}
        except Exception as e:  # noqa: BLE001 - Dask raises AttributeError, too, once it has given up
            why = "" if isinstance(e, AttributeError) else f": {_reason(e)}"
            raise ClusterError(
                f"the cluster at {self.address} cannot be reached any more{why}. `%session cluster {self.address}` "
                "connects anew, `%session cluster off` goes back to this machine"
            ) from None
        found = []
        for address, threads in info.items():
            answer = answers.get(address)
            said = identity(answer) if isinstance(answer, bytes) else {"problem": _problem(answer)}
            found.append(Member(address, threads, said.get("key", ""), said.get("problem", "")))
        return found

    def background(self, work: Coroutine[Any, Any, Any]) -> None:
        """Have something done that nobody waits for, and whose failure harms nobody. On the connection's thread."""

        async def quietly() -> None:
            with contextlib.suppress(Exception):
                await work

        task = self.loop.create_task(quietly())
        self._background.add(task)
        task.add_done_callback(self._background.discard)

    @property
    def alive(self) -> bool:
        """Whether the scheduler can be reached."""
        return not self.closed and self.client.status in ("running", "connecting", "newly-created")

    def close(self) -> None:
        """Leave the cluster. Safe to call twice."""
        if self.closed:
            return
        self.closed = True
        client = getattr(self, "client", None)
        if client is not None:
            with contextlib.suppress(Exception):
                self.wait(client.close(), _CLOSE_SECONDS)
        self.loop.call_soon_threadsafe(self.loop.stop)
        self._thread.join(_CLOSE_SECONDS)


def _problem(answer: object) -> str:
    if isinstance(answer, ModuleNotFoundError):
        return "wasm-kernel is not installed there: pip install 'wasm-kernel[dask]', then `wasm-kernel install`"
    return f"it does not answer ({type(answer).__name__})"


def _reason(error: BaseException) -> str:
    return str(error) or type(error).__name__
