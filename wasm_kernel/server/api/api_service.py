"""What the API's requests work with, loaded only when needed, so that servers start fast.

The OpenAPI document is loaded with the first request to the API, and what runs guests with the first one that needs it.
"""

from __future__ import annotations

import asyncio
import importlib
import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from wasm_kernel.model.settings import SessionLimits
from wasm_kernel.server.api import openapi
from wasm_kernel.server.api.values import Operation, operations

if TYPE_CHECKING:
    from wasm_kernel.server.api.sandboxes import Sandboxes
    from wasm_kernel.server.api.workspace_verbs import WorkspaceVerbs

_CEILINGS = {"output": 8 << 20, "display": 8 << 20}  # the most of a task's output the server keeps in memory


@dataclass(frozen=True)
class ApiSettings:
    """What the administrator and the user set for the API.

    Attributes:
        root: Where the sessions are.
        limits: What a sandbox may use.
        idle_timeout: Seconds after which an idle sandbox is released, unless its client asked for another value.
        max_live: The most sandboxes in memory.
        archives: Where a prune may archive sessions; None: nowhere.
        startup_code: Python run in every fresh guest, before its first task.
        remote: The object store that kernels push sessions to: prunes delete there, too. Empty: none.
    """

    root: Path
    limits: SessionLimits
    idle_timeout: int
    max_live: int
    archives: Path | None
    startup_code: str = ""
    remote: str = ""


class ApiService:
    """One per server, shared by its handlers."""

    document: Mapping[str, Any]  # both are set by the first request
    operations: Mapping[str, Operation]

    def __init__(self, settings: ApiSettings, base_url: str, log: logging.Logger) -> None:
        self.root = settings.root
        self.on_activity: Callable[[], None] = lambda: None  # called while a task runs: the server is not idle
        self._settings, self._limits, self._log = settings, settings.limits.lowered(_CEILINGS), log
        self._address = base_url.rstrip("/") + openapi.BASE
        self._loading = asyncio.Lock()
        self._verbs: tuple[Sandboxes, WorkspaceVerbs] | None = None

    async def load_document(self) -> None:
        """Load `document` and `operations`, unless they are there."""
        if hasattr(self, "operations"):
            return
        async with self._loading:
            if not hasattr(self, "operations"):
                maxima, idle_timeout = self._limits.maxima, self._settings.idle_timeout
                self.document = await asyncio.to_thread(openapi.document, self._address, maxima, idle_timeout)
                self.operations = operations(self.document)

    async def sandboxes(self) -> Sandboxes:
        """The operations on one sandbox."""
        return (await self._loaded())[0]

    async def workspace(self) -> WorkspaceVerbs:
        """The operations on the whole workspace."""
        return (await self._loaded())[1]

    async def _loaded(self) -> tuple[Sandboxes, WorkspaceVerbs]:
        async with self._loading:
            if self._verbs is None:
                # These import wasmtime and more: first on a thread, so that the server's other clients do not wait.
                await asyncio.to_thread(importlib.import_module, "wasm_kernel.server.api.workspace_verbs")
                from wasm_kernel.server.api.pool import Pool
                from wasm_kernel.server.api.sandboxes import Sandboxes
                from wasm_kernel.server.api.views import Terms
                from wasm_kernel.server.api.workspace_verbs import WorkspaceVerbs

                settings, limits = self._settings, self._limits
                terms = Terms(limits.policy, limits.maxima, settings.idle_timeout)
                pool = Pool(
                    self.root,
                    terms,
                    settings.max_live,
                    self._log,
                    startup_code=settings.startup_code,
                    refused=limits.problem,
                )
                pool.on_activity = self.on_activity
                self._verbs = Sandboxes(pool), WorkspaceVerbs(pool, settings.archives, settings.remote)
        return self._verbs

    async def close(self) -> None:
        """Called when the server stops."""
        if self._verbs is not None:
            await self._verbs[0].pool.close()
