"""What differs between two snapshots of a session: variables, as the guest described them, and files. No I/O."""

from __future__ import annotations

from typing import Any

from wasm_kernel.model.snapshots import Manifest, Variables

MOST_NAMES = 20  # as many as a person will read


def compare_variables(before: Variables, after: Variables, most: int = MOST_NAMES) -> dict[str, list[str]]:
    """Names added, removed and changed; only the first of each if they are more than ``most``."""
    changed = [name for name in after if name in before and _differ(before[name], after[name])]
    return {
        "added": sorted(name for name in after if name not in before)[:most],
        "removed": sorted(name for name in before if name not in after)[:most],
        "changed": sorted(changed)[:most],
    }


def _differ(one: list[Any], other: list[Any]) -> bool:
    """Whether two descriptions are of different values. What there was no time for has an identity only."""
    prints = str(one[2]), str(other[2])
    identities = {text.partition(" ")[0] for text in prints}
    half_known = one[0] == other[0] and len(identities) == 1 and any(" " not in text for text in prints)
    return one != other and not half_known


def compare_files(before: Manifest, after: Manifest) -> dict[str, list[str]]:
    """Files of /app added, removed and changed between two snapshots."""

    def listed(manifest: Manifest) -> dict[str, object]:
        return {
            f.path.decode("utf-8", "replace"): (f.kind, f.size, f.chunks, f.target)
            for f in manifest.files
            if f.mount == "app"
        }

    old, new = listed(before), listed(after)
    return {
        "added": sorted(name for name in new if name not in old),
        "removed": sorted(name for name in old if name not in new),
        "changed": sorted(name for name in new if name in old and new[name] != old[name]),
    }
