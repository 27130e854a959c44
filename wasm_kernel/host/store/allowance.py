"""How many snapshots, and how much of them, the administrator's rules let a user have."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

from wasm_kernel.errors import NotAllowed
from wasm_kernel.host import administrator
from wasm_kernel.host.store import memory_files
from wasm_kernel.host.store.collect import file_bytes
from wasm_kernel.model.administrator import Rules
from wasm_kernel.model.units import format_size


@dataclass
class Allowance:
    """What may still be added to a store, in this folder, that holds ``stored`` bytes."""

    rules: Rules
    stored: int = 0
    store: Path | None = None

    def check_bytes(self, more: int) -> None:
        """`NotAllowed` if so many more bytes are too many."""
        most = self.rules.snapshot_bytes
        if most is not None and self.stored + more > most and self.store is not None:
            self.stored -= memory_files.drop_all(self.store)  # what is there twice is no reason to refuse anything
        if most is not None and self.stored + more > most:
            self._refuse("snapshot_bytes", f"{format_size(most)} of snapshots")

    def check_number(self, there: Callable[[], int]) -> None:
        """`NotAllowed` if one more is too many; they are counted only if there is a bound."""
        most = self.rules.snapshots
        if most is not None and there() >= most:
            self._refuse("snapshots", f"{most:,} snapshots")

    def _refuse(self, rule: str, what: str) -> NoReturn:
        raise NotAllowed(
            f"the administrator allows {what} for all sessions together ({self.rules.sources[rule]}). Make room: "
            "`%prune --older-than 7d --yes` deletes old sessions and their snapshots; in a terminal "
            "`wasm-kernel snapshots list` shows all, `wasm-kernel snapshots prune --max-per-session 2` deletes most"
        )


def stored_bytes(store: Path) -> int:
    """Bytes of chunks, manifests, logs of cells and memories on the disk, in a store's folder."""
    folders = [store / "packs", *(store / "manifests").glob("*"), *(store / "logs").glob("*")]
    return sum(file_bytes(folder) for folder in folders) + memory_files.total_bytes(store)


def allowance(store: Path) -> Allowance:
    """What may be added to the store in a folder. It is measured only if there is a bound."""
    rules = administrator.rules()
    return Allowance(rules, stored_bytes(store) if rules.snapshot_bytes is not None else 0, store)
