"""The cluster that a session's workers run on, from when the person allowed it until the session or they end it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from wasm_kernel.errors import ClusterError
from wasm_kernel.host.cluster.captured_fork import SentFiles
from wasm_kernel.host.cluster.connection import Connection, Member
from wasm_kernel.host.cluster.runner import ClusterWorkers
from wasm_kernel.host.image.older_images import why_another
from wasm_kernel.host.runtime.guest_image import GuestImage
from wasm_kernel.host.runtime.workers import Turn
from wasm_kernel.model.policy import ExecutionPolicy

_ASK_SECONDS = 60.0  # a worker that is asked for the first time loads its image


class SessionCluster:
    """A cluster, as a session's guest uses it: an `Elsewhere`.

    Attributes:
        connection: To Dask.
    """

    def __init__(self, address: str, image: GuestImage, may: Callable[[], str] = lambda: "") -> None:
        """Connect, and see that its workers fit. Blocks. `ClusterError` says what is wrong.

        ``may``: why it may not be used now; empty if it may.
        """
        self._may = may
        self._image_key = image.key
        self._files: tuple[Path, SentFiles] | None = None
        self.connection = Connection(address)
        try:
            self._check(self.members())
        except BaseException:
            self.connection.close()
            raise

    @property
    def address(self) -> str:
        """Of the scheduler."""
        return self.connection.address

    def members(self) -> list[Member]:
        """Its workers. Blocks."""
        return self.connection.wait(self.connection.members(), _ASK_SECONDS)

    def _check(self, members: list[Member]) -> None:
        if not members:
            raise ClusterError(
                f"the cluster at {self.address} has no workers; start some: wasm-kernel worker {self.address}"
            )
        for member in members:
            if member.problem:
                raise ClusterError(f"the worker {member.address} cannot be used: {member.problem}")
            if member.image_key != self._image_key:
                raise ClusterError(
                    f"the worker {member.address} has the image {member.image_key}, and this session needs "
                    f"{self._image_key}: {why_another(member.image_key, self._image_key)}. A session of an earlier "
                    "version moves to this one's with %session reset"
                )

    # ---- as `Elsewhere` says

    def most_workers(self, policy: ExecutionPolicy) -> int:
        """As `Elsewhere` says."""
        return max(1, min(policy.cluster_workers, self.connection.threads)) if not self._may() else 0

    def runner(self, turn: Turn, image: GuestImage, packages: Path | None) -> ClusterWorkers:
        """As `Elsewhere` says."""
        scratch = turn.files.scratch
        if self._files is None or self._files[0] != scratch:
            self._files = scratch, SentFiles(turn.files.folder, scratch, packages)
        return ClusterWorkers(turn, self.connection, self._files[1], image.key, self.most_workers(turn.policy))

    def close(self) -> None:
        """Leave the cluster."""
        self.connection.close()
