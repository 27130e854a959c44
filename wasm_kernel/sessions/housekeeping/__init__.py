"""Keeps a workspace within bounds: one recipe for `%prune`, the command line, the REST API and the hub's worker.

    survey → plan → expire tombstones → delete or archive → sweep leftovers → thin out snapshots → collect chunks

`planning` looks and decides, and changes nothing; a dry run stops there and is therefore exact. `carrying_out` does
what was decided, and nothing else, however much later; `results` reports what was done. These rules are nowhere else:

* Without a bound no session is deleted. Leftovers are swept anyway: those of killed processes, and chunks that no
  snapshot needs.
* A session in use is kept, with its snapshots, which undo needs. So is one that was used after the decision, which
  shows in its stamp.
* Records of deleted sessions (tombstones), and their snapshots, are deleted when they reach the age limit of sessions.
* With an object store, what is here and what is there are judged and deleted together: `with_store`.
* Reclaimed space is counted before anything is deleted, files and snapshots, so that a dry run says the same.
"""

from wasm_kernel.sessions.housekeeping.carrying_out import carry_out
from wasm_kernel.sessions.housekeeping.planning import (
    HousePlan,
    plan_housekeeping,
    plan_prune,
    plan_removal,
    plan_thinning,
)
from wasm_kernel.sessions.housekeeping.pruning import (
    ArchiveResult,
    SnapshotPrune,
    archive_sessions,
    prune_sessions,
    prune_snapshots,
)
from wasm_kernel.sessions.housekeeping.results import PruneResult, foreseen, report
from wasm_kernel.sessions.housekeeping.with_store import InStore, look

__all__ = [
    "ArchiveResult",
    "HousePlan",
    "InStore",
    "PruneResult",
    "SnapshotPrune",
    "archive_sessions",
    "carry_out",
    "foreseen",
    "look",
    "plan_housekeeping",
    "plan_prune",
    "plan_removal",
    "plan_thinning",
    "prune_sessions",
    "prune_snapshots",
    "report",
]
