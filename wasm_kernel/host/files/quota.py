"""How much a workspace uses and may use. One rule for all who add files: the guest itself, the file browser, uploads.

What counts is on the disk: /app, and of a guest that runs its /tmp and the files that it deleted but still has open.
"""

from __future__ import annotations

import errno
import os
import stat
from dataclasses import dataclass
from pathlib import Path

from wasm_kernel.host.files.workspace_survey import Survey, survey
from wasm_kernel.model.policy import ExecutionPolicy


@dataclass(frozen=True)
class Quota:
    """What a workspace uses and may use.

    Attributes:
        used: Bytes; None when they cannot be counted, because folders are too deep. Nothing can be added then.
        limit: Bytes that there may be.
        entries: Files, folders and links.
        max_entries: As many as there may be.
        max_file: Bytes that one file may have.
    """

    used: int | None
    limit: int
    entries: int
    max_entries: int
    max_file: int

    @property
    def free(self) -> int:
        """Bytes that can still be written."""
        return max(0, self.limit - self.used) if self.used is not None else 0

    @property
    def free_entries(self) -> int:
        """Files, folders and links that can still be made."""
        return max(0, self.max_entries - self.entries) if self.used is not None else 0


def measure(
    policy: ExecutionPolicy,
    folder: Path,
    scratch: Path | None = None,
    *,
    pid: int | None = None,
    seen: Survey | None = None,
) -> Quota:
    """Count what a workspace uses.

    ``scratch``: what the guest that runs there sees as /tmp, if one does. ``pid``: the process it runs in, if not this
    one. ``seen``: what is in the folder, if somebody has just looked.
    """
    here = seen if seen is not None else survey(folder)
    there = survey(scratch) if scratch is not None else Survey()
    used = None
    if here.complete and there.complete:
        roots = (folder,) if scratch is None else (folder, scratch)
        used = here.used_bytes + there.used_bytes + _held_bytes(roots, "self" if pid is None else str(pid))
    entries = here.entries + there.entries
    return Quota(used, policy.workspace_bytes, entries, policy.max_files, policy.max_file_bytes)


def _held_bytes(roots: tuple[Path, ...], process: str) -> int:
    """Space of files that were deleted but are still open in a process below ``roots``. Linux only.

    One whose old path is too long to be asked for counts wherever it was.
    """
    total = 0
    handles = f"/proc/{process}/fd"
    prefixes = tuple(f"{os.path.realpath(root)}/" for root in roots)
    try:
        names = os.listdir(handles)  # noqa: PTH208 - names, no paths
    except OSError:  # no such system, or it is not ours to look at
        return 0
    for name in names:
        try:
            info = os.stat(f"{handles}/{name}")  # noqa: PTH116 - leads to the open file, deleted or not
            if info.st_nlink or not stat.S_ISREG(info.st_mode):
                continue
            try:
                target = os.readlink(f"{handles}/{name}")  # noqa: PTH115 - ends in " (deleted)", no real path
            except OSError as e:
                if e.errno != errno.ENAMETOOLONG:
                    continue
                target = prefixes[0]
            if target.startswith(prefixes):
                total += max(info.st_size, info.st_blocks * 512)
        except OSError:
            continue
    return total
