"""Handing a fork to the workers of a cluster: each gets the chunks that it does not have, and no others.

What a worker lacks it says itself, whenever it is given the fork; what it was sent before is remembered here only to
spare it the question. Chunks travel in packs: one goes to the first worker that needs it, and Dask moves it from there
to others.
"""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from wasm_kernel.errors import ClusterError
from wasm_kernel.host.cluster import tasks
from wasm_kernel.host.cluster.captured_fork import CapturedFork
from wasm_kernel.host.cluster.connection import Connection
from wasm_kernel.host.cluster.frames import REFUSED, CallOutcome
from wasm_kernel.host.remote.chunk_packs import packed
from wasm_kernel.model.policy import ExecutionPolicy

if TYPE_CHECKING:
    from distributed import Future

_ATTEMPTS = 4


class HandingOver:
    """One fork on its way to workers. On the connection's thread.

    Attributes:
        begun: Whether calls can be submitted: the first workers have it.
    """

    def __init__(self, connection: Connection, fork: CapturedFork, policy: ExecutionPolicy) -> None:
        self._connection, self._fork, self._policy = connection, fork, policy
        self._under_way: dict[str, asyncio.Task[None]] = {}
        self._packs: dict[frozenset[bytes], asyncio.Task[list[Future[Any]]]] = {}
        self._ended = False
        self.begun = False

    def begin(self, calls: int) -> asyncio.Task[None]:
        """Hand it to as many workers as there is work for; if that fails, calls find out why."""
        return self._connection.loop.create_task(self._begin(calls))

    async def _begin(self, calls: int) -> None:
        try:
            workers = await self._connection.workers()
            first: list[str] = []
            room = 0
            for address, threads in workers.items():
                if room < calls:
                    first.append(address)
                    room += threads
            if first:
                await self.to(first[0])  # then the others can have it from there
            await asyncio.gather(*map(self.to, first[1:]), return_exceptions=True)
        except Exception:  # noqa: BLE001 - a call that is submitted meets the same, and says so
            pass
        finally:
            self.begun = True

    async def to(self, address: str) -> None:
        """See that a worker has it. Raises `ClusterError` if it does not take it."""
        task = self._under_way.get(address)
        if task is None:
            task = self._under_way[address] = self._connection.loop.create_task(self._to(address))
            task.add_done_callback(lambda _: self._under_way.pop(address, None))
        await asyncio.shield(task)

    async def _to(self, address: str) -> None:
        sent = self._connection.sent.setdefault(address, set())
        missing = frozenset(self._fork.chunks) - sent
        for _ in range(_ATTEMPTS):
            try:
                outcome = await self._offer(address, missing)
            except (ClusterError, asyncio.CancelledError):
                raise
            except Exception:  # noqa: BLE001 - a worker died with what it had: Dask says that in many ways
                self._packs.clear()
                continue
            if outcome.kind == REFUSED:
                raise ClusterError(outcome.text)
            wanted = frozenset(outcome.missing)
            if not wanted:
                self._connection.sent.setdefault(outcome.worker, set()).update(self._fork.chunks)
                return
            if not wanted <= frozenset(self._fork.chunks):
                raise ClusterError("a worker asks for what is not the notebook's")
            missing = wanted
        raise ClusterError("a worker did not take the notebook: files in /app may have changed meanwhile")

    async def _offer(self, address: str, chunks: frozenset[bytes]) -> CallOutcome:
        packs: list[Future[Any]] = []
        if chunks:
            if chunks not in self._packs:
                self._packs[chunks] = self._connection.loop.create_task(self._scattered(address, chunks))
            packs = await asyncio.shield(self._packs[chunks])
        future = self._connection.client.submit(
            tasks.adopt, self._fork.id, self._fork.description, packs, key=f"wasm-kernel-fork-{uuid.uuid4().hex}",
            workers=[address], allow_other_workers=True, pure=False,
        )  # fmt: skip
        return await self._answer(future)

    async def _scattered(self, address: str, chunks: Iterable[bytes]) -> list[Future[Any]]:
        """Packs of some chunks, on a worker."""
        made = await asyncio.to_thread(lambda: list(packed(self._fork.contents(chunks))))
        found = []
        for name, data, _ in made:
            self._connection.sent_bytes += len(data)
            key = f"wasm-kernel-pack-{name}"
            found.append((await self._connection.client.scatter({key: data}, workers=[address]))[key])
        return found

    async def call(self, data: bytes) -> CallOutcome:
        """Have a call run; cancelled if whoever waits for it is."""
        future = self._connection.client.submit(
            tasks.run_call, self._fork.id, data, key=f"wasm-kernel-call-{uuid.uuid4().hex}", pure=False
        )
        return await self._answer(future)

    async def _answer(self, future: Future[Any]) -> CallOutcome:
        try:
            return CallOutcome.decode(await future.result(), self._policy)
        except asyncio.CancelledError:
            self._connection.background(future.cancel(force=True))
            raise

    def end(self) -> None:
        """The turn is over, or nobody needs the fork any more."""
        if self._ended:
            return
        self._ended = True
        for task in (*self._under_way.values(), *self._packs.values()):
            task.cancel()
        self._packs.clear()
        if self._connection.alive:
            self._connection.background(self._connection.client.run(tasks.forget, [self._fork.id], on_error="ignore"))
