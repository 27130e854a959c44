"""What the API does with a whole workspace: lists, snapshots, prunes, totals, notices."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from wasm_kernel.model.prune_report import PruneReport, PruneRequest
from wasm_kernel.model.records import is_uuid
from wasm_kernel.model.snapshots import Snapshot
from wasm_kernel.server.api import sandbox_slot, upkeep, views
from wasm_kernel.server.api.pool import Pool
from wasm_kernel.server.problems import Problem
from wasm_kernel.sessions.notices import write_notices
from wasm_kernel.sessions.snapshots import get_snapshot


class WorkspaceVerbs:
    """The API's verbs for a whole workspace. Used on the event loop; blocking work goes to the pool's threads."""

    def __init__(self, pool: Pool, archives: Path | None, remote: str = "") -> None:
        self._pool, self._archives, self._remote = pool, archives, remote

    async def sandboxes(self, query: Mapping[str, Any]) -> dict[str, Any]:
        """A page of them."""
        pool = self._pool
        return await pool.in_thread(views.sandboxes, pool.root, pool.terms, pool.living(), query)

    async def snapshots(self, query: Mapping[str, Any], sandbox_id: str | None = None) -> dict[str, Any]:
        """A page of the snapshots of one sandbox, or of all."""
        return await self._pool.in_thread(views.snapshots, self._pool.root, query, sandbox_id)

    async def snapshot(self, snapshot_id: str) -> dict[str, Any]:
        """One snapshot."""
        return self.shown(await self._pool.in_thread(get_snapshot, _checked(snapshot_id), self._pool.root))

    def shown(self, snapshot: Snapshot) -> dict[str, Any]:
        """A snapshot as an answer."""
        return views.snapshot(snapshot)

    async def delete_snapshot(self, snapshot_id: str) -> None:
        """Delete a snapshot, and free its space once that may be much."""
        size = await self._pool.in_thread(sandbox_slot.forget, self._pool.root, _checked(snapshot_id))
        await self._pool.in_thread(self._pool.collector.went, 1, size)

    async def prune(self, wanted: PruneRequest, *, dry_run: bool) -> PruneReport:
        """Delete sessions and snapshots by a policy, or say what would be deleted."""
        where = self._pool.root, wanted, self._archives, self._remote
        return await self._pool.in_thread(upkeep.prune, *where, dry_run=dry_run)

    async def usage(self) -> dict[str, int]:
        """The totals of the workspace."""
        found = await self._pool.in_thread(upkeep.usage, self._pool.root)
        return {**found, "live_here": self._pool.live_count, "max_live_sandboxes": self._pool.max_live}

    async def replace_notices(self, notices: Sequence[dict[str, Any]]) -> None:
        """Replace the user's notices."""
        await self._pool.in_thread(write_notices, self._pool.root, notices)


def _checked(snapshot_id: str) -> str:
    if not is_uuid(snapshot_id):
        raise Problem(404, f"there is no snapshot {snapshot_id[:140]!r}")
    return snapshot_id
