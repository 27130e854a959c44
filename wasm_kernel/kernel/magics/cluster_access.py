"""The cluster that this kernel's session runs its workers on, and those that the person allowed it.

What was allowed stands in the session's metadata, which the guest can neither see nor write. A session that is copied,
imported or attached elsewhere starts without. The connection is the kernel's: another kernel of the session starts on
its own machine until a cell says `%session cluster` again.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from wasm_kernel.errors import NotAllowed
from wasm_kernel.host import administrator
from wasm_kernel.host.disk.records import read_record
from wasm_kernel.kernel.magics.grants import forbidden
from wasm_kernel.model import cluster_addresses
from wasm_kernel.model.cluster_addresses import ClusterAddress
from wasm_kernel.model.records import BadRecord
from wasm_kernel.sessions.log import SandboxLogger
from wasm_kernel.sessions.runtime import SessionRuntime

if TYPE_CHECKING:
    from wasm_kernel.host.cluster.session_cluster import SessionCluster

FIELD = "clusters"


class ClusterAccess:
    """Where the workers of this kernel's session run.

    Attributes:
        allowed: The clusters that the person allowed this session.
        attached: The one that is used; None: this machine.
    """

    def __init__(self, logger: SandboxLogger) -> None:
        self._logger = logger
        self._runtime: SessionRuntime | None = None
        self.allowed: frozenset[ClusterAddress] = frozenset()
        self.attached: SessionCluster | None = None

    def moved_in(self, runtime: SessionRuntime) -> None:
        """The kernel has opened a session: it begins on this machine."""
        if self._runtime is not None and self._runtime is not runtime:
            self.close()
        self._runtime = runtime
        try:
            record = read_record(runtime.live.folder)
        except BadRecord:
            record = None
        self.allowed = cluster_addresses.kept(record.extra.get(FIELD)) if record is not None else frozenset()

    def problem(self, address: ClusterAddress) -> str:
        """Why the administrator does not allow it; empty if it is allowed."""
        source = forbidden("cluster")
        if source:
            return f"the administrator does not let cells use a cluster ({source})"
        try:
            rules = administrator.rules()
        except NotAllowed as e:
            return str(e)
        if rules.clusters is None or any(map(address.within, rules.clusters)):
            return ""
        allowed = cluster_addresses.listed(rules.clusters) or "none"
        return f"{address}: the administrator allows these clusters only: {allowed} ({rules.sources[FIELD]})"

    async def check(self) -> None:
        """Before a cell: what the administrator forbids by now is left."""
        if self.attached is not None and self.problem(cluster_addresses.parse(self.attached.address)):
            await asyncio.to_thread(self.close)

    def allow(self, address: ClusterAddress) -> None:
        """The person has allowed it."""
        self._write(self.allowed | {address})

    def revoke(self) -> None:
        """Leave the cluster, and forget what was allowed."""
        self.close()
        self._write(frozenset())

    def _write(self, allowed: frozenset[ClusterAddress]) -> None:
        assert self._runtime is not None
        self.allowed = allowed
        self._runtime.live.note(**{FIELD: sorted(map(str, allowed))[: cluster_addresses.MOST]})

    async def attach(self, address: ClusterAddress) -> SessionCluster:
        """Connect to a cluster, and run workers there from now on."""
        from wasm_kernel.host.cluster.session_cluster import SessionCluster

        runtime = self._runtime
        assert runtime is not None
        cluster = await asyncio.to_thread(SessionCluster, str(address), runtime.sandbox.image)
        await asyncio.to_thread(self.close)
        self.attached = runtime.sandbox.workers_elsewhere = cluster
        self._logger.bind(session_id=runtime.live.session_id).info("cluster.attached", address=str(address))
        return cluster

    def close(self) -> None:
        """Leave the cluster: workers run on this machine again."""
        cluster, self.attached = self.attached, None
        if cluster is not None:
            assert self._runtime is not None
            self._runtime.sandbox.workers_elsewhere = None
            cluster.close()
