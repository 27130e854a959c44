"""`%session cluster`: workers on a Dask cluster instead of on this machine."""

from __future__ import annotations

import asyncio

from wasm_kernel.errors import ConfigurationError, NotAllowed
from wasm_kernel.kernel.magics.answers import Answer, Message, say, table
from wasm_kernel.kernel.magics.host import Group
from wasm_kernel.model import cluster_addresses
from wasm_kernel.model.units import counted, format_size

_USAGE = "%session cluster tcp://HOST:PORT, %session cluster off, or %session cluster"


class ClusterMagics(Group):
    """Where the workers of process pools and joblib run."""

    async def session_cluster(self, words: list[str], parent: Message) -> Answer:
        """Run workers on a Dask cluster from now on; off: on this machine again; without a word: show which."""
        runtime = await self._host.ready(parent)
        access = self._host.cluster_access
        await access.check()
        if not words:
            return await self._shown()
        if len(words) > 1:
            raise ConfigurationError(_USAGE)
        if words == ["off"]:
            was = access.attached is not None
            await asyncio.to_thread(access.close)
            return say("Workers run on this machine again." if was else "Workers run on this machine.", False)
        address = cluster_addresses.parse(words[0])
        problem = access.problem(address)
        if problem:
            raise NotAllowed(problem)
        if address not in access.allowed:
            kind = "encrypted" if address.scheme == "tls" else "not encrypted: others on the network can read along"
            details = [
                f"{address} ({kind})",
                "variables and files of this session are sent to its machines",
                "whoever runs that cluster can run code in this kernel's process, on this machine",
            ]
            await self._host.require("cluster", "run its workers on a Dask cluster", details)
            access.allow(address)
        cluster = await access.attach(address)
        most = cluster.most_workers(runtime.sandbox.policy)
        machines = counted(len(await asyncio.to_thread(cluster.members)), "worker")
        return say(
            f"Process pools and joblib run on {machines} of {address} from now on, {counted(most, 'call')} at a time. "
            "To go back to this machine: `%session cluster off`",
            True,
        )

    async def _shown(self) -> Answer:
        """Which cluster, for the person; code learns no addresses."""
        cluster = self._host.cluster_access.attached
        if cluster is None:
            return say("Workers run on this machine. To use a Dask cluster: `%session cluster tcp://HOST:PORT`", [])
        members = await asyncio.to_thread(cluster.members)
        rows = [(member.address, str(member.threads), member.problem or "ready") for member in members]
        sent = format_size(cluster.connection.sent_bytes)
        shown = table(
            [member.threads for member in members],
            ("worker", "calls at a time", ""),
            rows,
            numbers=(1,),
            caption=f"{cluster.address}: {sent} of this session's memory and files were sent there",
        )
        return Answer(shown.data, shown.text, shown.html, private=True)
