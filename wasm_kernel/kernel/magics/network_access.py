"""Where this kernel's session may connect to: what the person allowed, kept with the session.

The hosts stand in the session's metadata, which the guest can neither see nor write. A session that is copied,
imported or attached elsewhere starts without. The configuration's own hosts are in the policy, and count for every
session; the administrator's rules bound both, at each connection (`host.network.guest_network`).
"""

from __future__ import annotations

from collections.abc import Iterable

from wasm_kernel.errors import NotAllowed
from wasm_kernel.host import administrator
from wasm_kernel.host.disk.records import read_record
from wasm_kernel.kernel.magics.grants import forbidden
from wasm_kernel.model import network_grants
from wasm_kernel.model.network_grants import HostGrant
from wasm_kernel.model.records import BadRecord
from wasm_kernel.sessions.log import SandboxLogger
from wasm_kernel.sessions.runtime import SessionRuntime

FIELD = "network"


class NetworkAccess:
    """The hosts that the person allowed this session.

    Attributes:
        hosts: These.
    """

    def __init__(self, logger: SandboxLogger) -> None:
        self._logger = logger
        self._runtime: SessionRuntime | None = None
        self.hosts: frozenset[HostGrant] = frozenset()

    def moved_in(self, runtime: SessionRuntime) -> None:
        """The kernel has opened a session: let it connect where it may."""
        self._runtime = runtime
        try:
            record = read_record(runtime.live.folder)
        except BadRecord:
            record = None
        self.hosts = network_grants.kept(record.extra.get(FIELD)) if record is not None else frozenset()
        log = self._logger.bind(session_id=runtime.live.session_id)
        runtime.live.on_connection = lambda line: log.info("network.connection", **line)
        runtime.sandbox.network.advice = lambda host: f"%session allow {host}"
        self.check()

    def check(self) -> None:
        """Before a cell: what the administrator forbids by now is no longer granted."""
        if self._runtime is not None:
            granted = frozenset() if self.hosts and forbidden("network") else self.hosts
            network = self._runtime.sandbox.network
            if network.granted != granted:
                network.granted = granted

    def refused(self, wanted: Iterable[HostGrant]) -> None:
        """Raise if the administrator's rules do not cover one of these hosts."""
        most = administrator.rules().network
        beyond = [grant for grant in wanted if most is not None and not any(map(grant.within, most))]
        if beyond:
            allowed = network_grants.listed(most or ()) or "none"
            source = administrator.rules().sources[FIELD]
            raise NotAllowed(
                f"{network_grants.listed(beyond)}: the administrator allows these hosts only: {allowed} ({source})"
            )

    @property
    def configured(self) -> frozenset[HostGrant]:
        """The hosts that every session may connect to."""
        policy = self._runtime.sandbox.policy if self._runtime is not None else None
        return network_grants.parse_all(policy.network) if policy is not None else frozenset()

    @property
    def in_force(self) -> list[str]:
        """All hosts that cells may connect to now, as people write them."""
        if self._runtime is None:
            return []
        found = self._runtime.sandbox.network.granted | self.configured
        most = administrator.rules().network
        return [str(grant) for grant in sorted(found if most is None else network_grants.common(found, most))]

    def allow(self, wanted: Iterable[HostGrant]) -> None:
        """Let cells connect to more hosts, from now on."""
        self._write(self.hosts | frozenset(wanted))

    def deny(self, wanted: Iterable[HostGrant]) -> None:
        """Take hosts back. Connections to them end, and secrets for them are forgotten."""
        self._write(self.hosts - frozenset(wanted))

    def _write(self, hosts: frozenset[HostGrant]) -> None:
        runtime = self._runtime
        assert runtime is not None
        self.hosts = hosts
        runtime.live.note(**{FIELD: sorted(map(str, hosts))})
        self.check()
        network = runtime.sandbox.network
        for secret in network.secrets:
            reach = network.reach
            if not (reach.allows(secret.host, secret.port) if secret.port else reach.names(secret.host)):
                network.secrets.forget(secret.name)
