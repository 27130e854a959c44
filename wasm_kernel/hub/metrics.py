"""Metrics for Prometheus: what there is, per user and in total, and what was done."""

from __future__ import annotations

from collections.abc import Iterator

from prometheus_client import CollectorRegistry, Counter, Gauge, generate_latest
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector

from wasm_kernel.hub.census import Census
from wasm_kernel.hub.plan import Run

_PREFIX = "wasm_kernel_hub_"


class Metrics:
    """A registry of our own, so that nothing about the process is exposed."""

    def __init__(self) -> None:
        self._registry = CollectorRegistry()
        self._census = _CensusCollector()
        self._registry.register(self._census)
        self._deleted = self._counter("deleted_sessions", "Sessions deleted", "user")
        self._archived = self._counter("archived_sessions", "Sessions archived before they were deleted", "user")
        self._freed = self._counter("freed_bytes", "Bytes of sessions and snapshots deleted", "user")
        self._snapshots = self._counter("deleted_snapshots", "Snapshots deleted from sessions that stay", "user")
        self._failed = self._counter("failures", "Things that went wrong", "user")
        self._live = self._gauge(
            "skipped_live_sessions", "Sessions that the last run left alone because they were in use"
        )
        self._waiting = self._gauge("warned_sessions", "Sessions whose users were warned that they will be deleted")
        self._last = self._gauge("last_run_timestamp_seconds", "When the last scheduled run succeeded")
        self._duration = self._gauge("last_run_duration_seconds", "How long the last scheduled run took")
        self._runs = self._counter("runs", "Scheduled runs", "result")

    def _counter(self, name: str, text: str, label: str) -> Counter:
        return Counter(_PREFIX + name, text, [label], registry=self._registry)

    def _gauge(self, name: str, text: str) -> Gauge:
        return Gauge(_PREFIX + name, text, registry=self._registry)

    def saw(self, census: Census) -> None:
        """Remember the last census."""
        self._census.census = census

    def did(self, run: Run) -> None:
        """Count what was done."""
        for name, user in run.users.items():
            self._deleted.labels(name).inc(len(user.deleted))
            self._archived.labels(name).inc(len(user.archived))
            self._freed.labels(name).inc(user.freed_bytes)
            self._snapshots.labels(name).inc(len(user.snapshots))
            self._failed.labels(name).inc(len(user.errors))

    def scheduled(self, run: Run | None) -> None:
        """A scheduled run ended; None: it failed."""
        self._runs.labels("failed" if run is None else "partial" if run.failures else "done").inc()
        if run is not None:
            self._last.set_to_current_time()
            self._duration.set(run.duration)
            self._live.set(sum(len(user.live) for user in run.users.values()))

    def warned(self, sessions: int) -> None:
        """Note how many sessions have been warned of."""
        self._waiting.set(sessions)

    def text(self) -> bytes:
        """All of it, as Prometheus reads it."""
        return generate_latest(self._registry)


class _CensusCollector(Collector):
    """What the last census says; users who are gone are gone here too."""

    census: Census | None = None

    def collect(self) -> Iterator[GaugeMetricFamily]:
        census = self.census
        if census is None:
            return
        users = census.users.values()
        per_user = {
            "sessions": ("Sessions", [len(u.sessions) for u in users]),
            "session_bytes": ("Bytes of sessions", [u.session_bytes for u in users]),
            "snapshots": ("Snapshots", [u.snapshot_count for u in users]),
            "snapshot_bytes": ("Bytes of snapshots on disk", [u.snapshot_bytes for u in users]),
            "live_sessions": ("Sessions in use", [sum(row.live for row in u.sessions) for u in users]),
        }
        for name, (text, values) in per_user.items():
            family = GaugeMetricFamily(f"{_PREFIX}user_{name}", f"{text}, per user", labels=["user"])
            for user, value in zip(users, values, strict=True):
                family.add_metric([user.name], value)
            yield family
            yield GaugeMetricFamily(_PREFIX + name, f"{text}, of all users", value=sum(values))
        yield GaugeMetricFamily(_PREFIX + "users", "Users the hub knows", value=len(users))
        unknown = sum(bool(u.problem) for u in users)
        yield GaugeMetricFamily(_PREFIX + "unreachable_users", "Users whose workspace cannot be read", value=unknown)
        yield GaugeMetricFamily(
            _PREFIX + "census_timestamp_seconds", "When this was counted", value=census.taken_at.timestamp()
        )
