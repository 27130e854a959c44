"""Sessions on disk: planning a prune, deleting, and writing down that a cell ran."""

from __future__ import annotations

import shutil
import time
import uuid
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path

from bench.report import Aim, Section, number, seconds
from bench.rounds import Samples, interleave
from bench.setting import Setting, succeed
from wasm_kernel import (
    RetentionPolicy,
    SandboxLogger,
    create_session_sandbox,
    create_snapshot,
    fork_session,
    prune_sessions,
)
from wasm_kernel.host.durable import sync_tree
from wasm_kernel.host.files.workspace_survey import METADATA_NAME
from wasm_kernel.model.records import new_record
from wasm_kernel.model.retention import SessionFacts, plan
from wasm_kernel.sessions.session import Ran

_PLANNED = 10_000
_DELETED = 1_000
_FILES = 4  # and the metadata: five
_REFRESHES = 200
_MANY_FILES = """
import os
for folder in range(20):
    os.mkdir(f"folder{folder}")
    for number in range(50):
        open(f"folder{folder}/file{number}", "w").write(f"{folder} {number} " * 200)
"""


def run(setting: Setting) -> Section:
    """Measure what an administrator's prune and every cell's timestamp cost."""
    quiet = SandboxLogger(level="error")
    now = datetime.now(UTC)
    facts = [SessionFacts(str(n), now - timedelta(hours=n / 100), n, live=n % 50 == 0) for n in range(_PLANNED)]
    policy = RetentionPolicy(max_age_hours=24, max_sessions=5000, max_total_bytes=10_000_000)

    def planning() -> Mapping[str, float]:
        started = time.perf_counter()
        plan(facts, policy, now)
        return {"plan": _PLANNED / (time.perf_counter() - started)}

    def surveying_and_deleting() -> Mapping[str, float]:
        root = setting.workspace()
        _fill(root, now - timedelta(hours=100))
        started = time.perf_counter()
        prune_sessions(24, root, dry_run=True, logger=quiet)
        dry = time.perf_counter() - started
        started = time.perf_counter()
        if len(prune_sessions(24, root, logger=quiet).deleted_sessions) != _DELETED:
            raise RuntimeError("not everything was deleted")
        return {"dry run": _DELETED / dry, "prune": _DELETED / (time.perf_counter() - started)}

    def plain() -> Mapping[str, float]:
        root = setting.workspace()
        _fill(root, now)
        folders = list(root.iterdir())
        started = time.perf_counter()
        for folder in folders:
            shutil.rmtree(folder)
        return {"rmtree": _DELETED / (time.perf_counter() - started)}

    def refreshing() -> Mapping[str, float]:
        _, sandbox = create_session_sandbox(workspace_root=setting.workspace(), logger=quiet)
        with sandbox:
            result = sandbox.execute("pass")
            live = sandbox._live  # type: ignore[attr-defined]
            started = time.perf_counter()
            for _ in range(_REFRESHES):
                live.refresh([Ran.of(result)], quiet)
            return {"refresh": (time.perf_counter() - started) / _REFRESHES}

    def forking() -> Mapping[str, float]:
        session_id, sandbox = create_session_sandbox(workspace_root=(root := setting.workspace()), logger=quiet)
        with sandbox:
            succeed(sandbox.execute(_MANY_FILES))
            snapshot_id = create_snapshot(session_id, root, logger=quiet).snapshot_id
        started = time.perf_counter()
        fork = fork_session(session_id, root, snapshot_id=snapshot_id, logger=quiet)
        forked = time.perf_counter() - started
        started = time.perf_counter()
        shutil.copytree(root / fork, root / "copy")
        sync_tree(root / "copy")
        return {"fork": forked, "copy": time.perf_counter() - started}

    subjects = [planning, surveying_and_deleting, plain, refreshing, forking]
    found = interleave(subjects, setting.rounds.sessions, setting.tick)
    return _section(found)


def _fill(root: Path, moment: datetime) -> None:
    for _ in range(_DELETED):
        session_id = str(uuid.uuid4())
        folder = root / session_id
        folder.mkdir()
        (folder / METADATA_NAME).write_bytes(new_record(session_id, moment).to_json())
        for n in range(_FILES):
            (folder / f"file{n}").write_bytes(b"x" * 100)


def _section(found: Samples) -> Section:
    def rate(name: str) -> str:
        return f"{found.median(name):,.0f} [{max(found.values(name)):,.0f}]"

    share = f"{number(found.ratio('prune', 'rmtree'))}x"
    refresh = found.median("refresh") * 1e3
    return Section(
        "Sessions",
        f"Sessions a second, median [best]. `plan`: {_PLANNED:,} sessions by three bounds. Pruned: {_DELETED:,} "
        f"sessions of five files, everything from looking at them on; beside it a loop of `shutil.rmtree` that looks "
        "at nothing. The timestamp is written after every cell. A fork copies the files out of a snapshot, and all of "
        "it is on the disk when it returns.",
        ["", "sessions/s", "of rmtree"],
        [
            ["`plan`", rate("plan"), ""],
            ["`prune_sessions(dry_run=True)`", rate("dry run"), ""],
            ["`prune_sessions`", rate("prune"), share],
            ["loop of `shutil.rmtree`", rate("rmtree"), "1"],
            ["timestamp refresh", f"{number(refresh)} ms", ""],
            ["fork of 1,000 files", seconds(found.median("fork")), ""],
            ["`shutil.copytree` of the same, and one sync", seconds(found.median("copy")), ""],
        ],
        [
            Aim("20,000 sessions a second planned", f"{found.median('plan'):,.0f}", found.median("plan") >= 20_000),
            Aim(
                "3,000 small sessions a second deleted",
                f"{found.median('prune'):,.0f}, {share} of what plain rmtree does here",
                found.median("prune") >= 3_000,
            ),
            Aim("a prune is as quick as a loop of rmtree", share, found.ratio("prune", "rmtree") >= 1),
            Aim(
                "a fork of 1,000 files in 0.3 s",
                f"{seconds(found.median('fork'))}, {number(found.ratio('fork', 'copy'))}x of copytree and a sync",
                found.median("fork") <= 0.3,
            ),
            Aim("a timestamp refresh in 1 ms or less", f"{number(refresh)} ms", refresh <= 1),
        ],
    )
