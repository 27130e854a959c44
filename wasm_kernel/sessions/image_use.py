"""Which images the sessions of workspace roots still need, and what is therefore kept when old images are deleted."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

from wasm_kernel.errors import OlderImage
from wasm_kernel.host.image import cache, image, older_images
from wasm_kernel.host.image.cache import Entry
from wasm_kernel.host.store import cell_log, found_log
from wasm_kernel.model.names import STATE_FOLDER
from wasm_kernel.sessions.snapshots import has_store, list_snapshots


@dataclass
class ImageUse:
    """An image, and who needs it.

    Attributes:
        key: Its key.
        current: Whether this version of wasm-kernel uses it for whatever begins now.
        problem: Why it cannot be used on this machine; empty if it can.
        sessions: Those that would go on with it, or have snapshots that need it.
        snapshots: How many snapshots need it.
    """

    key: str
    current: bool = False
    problem: str = ""
    sessions: set[str] = field(default_factory=set)
    snapshots: int = 0

    @property
    def reason(self) -> str:
        """Why it is kept, for a person; empty if nobody needs it."""
        reasons = ["this version starts from it"] if self.current else []
        if self.sessions:
            some = "1 session needs" if len(self.sessions) == 1 else f"{len(self.sessions):,} sessions need"
            snapshots = f" for {self.snapshots:,} snapshot{'s' * (self.snapshots != 1)}" if self.snapshots else ""
            reasons.append(f"{some} it{snapshots}")
        return ", ".join(reasons)


def images_in_use(roots: Iterable[Path]) -> list[ImageUse]:
    """Every image that is in the cache or that a session needs, this version's first."""
    found = {image.parts().base.key: ImageUse(image.parts().base.key, current=True)}
    for entry in cache.entries("base"):
        found.setdefault(entry.key, ImageUse(entry.key))
    for root in roots:
        for saved_with, session_id, snapshots in _needs(root):
            key = _name_here(saved_with)
            use = found.setdefault(key, ImageUse(key))
            use.sessions.add(session_id)
            use.snapshots += snapshots
    for use in found.values():
        if not use.current:
            try:
                use.problem = older_images.problem_with(older_images.find(use.key))
            except OlderImage as e:
                use.problem = str(e)
        elif not image.is_built():
            use.problem = "it is not built yet; run `wasm-kernel image build`"
    return list(found.values())


def _name_here(key: str) -> str:
    """What the cache calls an image; the key as it is if this build of it is not there."""
    with contextlib.suppress(OlderImage):
        return older_images.find(key).base.key
    return key


def _needs(root: Path) -> Iterable[tuple[str, str, int]]:
    """Key, session and number of snapshots, for whatever below a root needs an image."""
    if has_store(root):
        for snapshot in list_snapshots(root):
            yield snapshot.image_key, snapshot.session_id, 1
    logs = root / STATE_FOLDER / cell_log.LOGS
    for folder in logs.iterdir() if logs.is_dir() else []:
        log = found_log.find(folder)
        if log is not None and log.paths:
            yield log.image, folder.name, 0


def entries_of(key: str) -> set[Entry]:
    """Everything in the cache that an image consists of; what its machine code could be made of again, too."""
    with contextlib.suppress(OlderImage):
        which = older_images.find(key)
        return {which.runtime, *which.all(), *which.metered()}
    return set()
