"""Users' workspaces in folders that are reachable from here: a confined worker does the work; this gives the orders."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import socket
import subprocess
import sys
from typing import Any

from wasm_kernel.hub.census import HubUser
from wasm_kernel.hub.workspaces.confined_worker import MAX_REPLY, ORDER
from wasm_kernel.hub.workspaces.open_workspace import check_template

LEFT_ALONE = "their server is running, and the locks of its sessions may not be visible from here"
_KEPT = ("PATH", "LANG", "LC_ALL", "TZ", "PYTHONPATH")  # of our environment; the hub's token is not among them
_WORKER = ("-m", "wasm_kernel.hub.workspaces.confined_worker")
_BLOCK = 1 << 16
_READING = ("look", "snapshots", "foresee")
_PATIENCE = 120.0  # seconds for these: everybody waits for the user with the largest workspace


class Homes:
    """Work in homes.

    A live session is known by its lock, and a lock may be invisible on another machine: it depends on the file system
    and how it is mounted. So the sessions of a user whose server runs are left alone, all of them, unless the
    administrator says that locks are visible (``locks_visible``): if the servers run on this very machine, or on NFS 4
    without ``local_lock`` and ``nolock``.
    """

    def __init__(
        self,
        template: str,
        *,
        archive_folder: str = "",
        locks_visible: bool = False,
        allow_unconfined: bool = False,
        seconds: float = 1800.0,
    ) -> None:
        self._template = check_template(template)
        self._archive_folder, self._locks_visible = archive_folder, locks_visible
        self._allow_unconfined, self._seconds = allow_unconfined, seconds
        self._worker: _WorkerProcess | None = None

    def obstacle(self, user: HubUser) -> str:
        """Why nothing may be removed for this user now, or empty."""
        return LEFT_ALONE if user.running and not self._locks_visible else ""

    def shift(self) -> contextlib.AbstractAsyncContextManager[None]:
        """Nothing to start: homes are always there."""
        return contextlib.nullcontext()

    async def do(self, user: HubUser, job: str, *, archive: bool = False, **arguments: Any) -> dict[str, Any]:
        """Do a job of `jobs`: its answer, ``{"missing": path}``, or ``{"problem": text}``."""
        order = {
            "user": user.name,
            "template": self._template,
            "job": job,
            "arguments": arguments,
            "archive_folder": self._archive_folder if archive else "",
            "unconfined": self._allow_unconfined,
        }
        seconds = min(self._seconds, _PATIENCE) if job in _READING else self._seconds
        try:
            async with asyncio.timeout(seconds):
                return await self._ask(order, seconds)
        except TimeoutError:
            return {"problem": f"it took longer than {seconds:.0f} s, and was stopped"}
        except (OSError, ValueError) as e:
            return {"problem": f"it ended early: {e}"}

    async def _ask(self, order: dict[str, Any], seconds: float) -> dict[str, Any]:
        if self._worker is None or not self._worker.is_alive:
            self.close()
            self._worker = _WorkerProcess()
        channel = self._worker.begin(seconds)
        reader, writer = await asyncio.open_connection(sock=channel)
        try:
            writer.write(json.dumps(order).encode() + b"\n")
            data = bytearray()
            while block := await reader.read(_BLOCK):
                data += block
                if len(data) > MAX_REPLY:
                    raise ValueError(f"its answer is longer than {MAX_REPLY:,} bytes")
            found = json.loads(data)
            if not isinstance(found, dict):
                raise ValueError("its answer is not a JSON object")
            return found
        finally:
            writer.close()
            with contextlib.suppress(OSError):
                await writer.wait_closed()

    def close(self) -> None:
        """End the worker."""
        if self._worker is not None:
            self._worker.close()
            self._worker = None


class _WorkerProcess:
    """The process of `confined_worker`, and the socket it gets its orders by."""

    def __init__(self) -> None:
        self._orders, theirs = socket.socketpair()
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, "-P", *_WORKER, str(theirs.fileno())],
                pass_fds=[theirs.fileno()],
                stdin=subprocess.DEVNULL,
                env={name: os.environ[name] for name in _KEPT if name in os.environ},
                cwd="/",
                start_new_session=True,  # Ctrl-C is for the service
            )

    @property
    def is_alive(self) -> bool:
        return self._process.poll() is None

    def begin(self, seconds: float) -> socket.socket:
        """A channel to a new child, which ends after this many seconds at the latest."""
        ours, theirs = socket.socketpair()
        with theirs:
            socket.send_fds(self._orders, [ORDER.pack(seconds)], [theirs.fileno()])
        ours.setblocking(False)
        return ours

    def close(self) -> None:
        """Close the socket: the worker sees that, and ends."""
        self._orders.close()
        try:
            self._process.wait(5)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
