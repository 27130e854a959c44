"""What `wasm-kernel image …` does: build the image, look at it, move it between machines, delete what nobody needs."""

from __future__ import annotations

import argparse
import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

from wasm_kernel.apps.cli_output import progress, show_json, table
from wasm_kernel.apps.cli_parser import DONE, NOTHING, target_of
from wasm_kernel.apps.configuration import configured_root
from wasm_kernel.host import administrator
from wasm_kernel.host.image import build as building
from wasm_kernel.host.image import cache, image, older_images, packing
from wasm_kernel.host.image.cache import Entry
from wasm_kernel.model.units import format_size
from wasm_kernel.sessions import build_progress
from wasm_kernel.sessions.image_use import ImageUse, entries_of, images_in_use
from wasm_kernel.sessions.inventory import existing_root

_USERS_MAY_NEED_IT = "users' sessions may need it; name their workspace roots with --workspace-root to find out"


def build_command(options: argparse.Namespace) -> int:
    """Build the image."""
    build(metered=options.metered, force=options.force, as_json=options.json, key=options.image)
    return DONE


def build(*, metered: bool, force: bool, as_json: bool, key: str = "") -> None:
    """Build what is missing of the image, or of an earlier version's, and show how far it is."""
    which = older_images.find(key) if key and key != image.parts().base.key else None
    built = image.is_built(metered=metered) if which is None else not older_images.problem_with(which, metered=metered)
    if not force and built:
        if not as_json:
            print("The image is built.")
        return
    if as_json:
        building.build(lambda p: print(json.dumps(asdict(p)), flush=True), metered=metered, force=force, which=which)
        return
    with build_progress.shown() as update:
        building.build(update, metered=metered, force=force, which=which)
    print("The image is ready.")


def info_command(options: argparse.Namespace) -> int:
    """Show the image's parts."""
    parts = image.parts()
    rows: list[dict[str, Any]] = []
    named = [(e.kind, e) for e in parts.all()] + [(f"{e.kind}, metered", e) for e in parts.metered()]
    named.append(("runtime", parts.runtime))  # the others are made of it; a sandbox does not need it
    for name, entry in named:
        built = entry.manifest() is not None
        size = cache.folder_bytes(entry.path) if built else 0
        rows.append({"part": name, "key": entry.key, "built": built, "bytes": size, "path": str(entry.path)})
    if options.json:
        print(json.dumps({"key": parts.base.key, "cache": str(cache.cache_root()), "parts": rows}, indent=2))
    else:
        table(
            ["part", "key", "built", "size"],
            [[r["part"], r["key"], "yes" if r["built"] else "no", _size(r["bytes"])] for r in rows],
            title=f"Image {parts.base.key} in {cache.cache_root()}",
            numbers=(3,),
        )
    return DONE if image.is_built() else NOTHING


def list_command(options: argparse.Namespace) -> int:
    """List the images that are here or needed."""
    roots = _roots(options)
    found = images_in_use(roots)
    here = {entry.key for entry in cache.entries("base")}
    if options.json:
        show_json(
            [
                {
                    "key": use.key,
                    "current": use.current,
                    "here": use.key in here,
                    "problem": use.problem,
                    "sessions": sorted(use.sessions),
                    "snapshots": use.snapshots,
                }
                for use in found
            ]
        )
    else:
        rows = [
            [
                use.key,
                "yes" if use.key in here else "no",
                "no" if use.problem else "yes",
                use.reason or "nobody needs it",
            ]
            for use in found
        ]
        table(["image", "here", "usable", "why it is kept"], rows, title=_looked_at(roots))
        for use in found:
            if use.problem and use.sessions:
                print(f"{use.key}: {use.problem}")
    return DONE


def _roots(options: argparse.Namespace) -> list[Path]:
    """Whose sessions to look for: of those roots that were named, and the kernel's own, what exists."""
    named = [Path(root).expanduser().absolute() for root in options.workspace_root or []]
    for root in named:
        existing_root(root)
    return [root for root in dict.fromkeys([configured_root().absolute(), *named]) if root.is_dir()]


def _looked_at(roots: list[Path]) -> str:
    return f"Looked for sessions in {', '.join(map(str, roots)) or 'no folder: there is none yet'}"


def clean_command(options: argparse.Namespace) -> int:
    """Delete images that are not in use."""
    parts = image.parts()
    ours = {*parts.all(), *parts.metered(), parts.runtime}
    kept = [] if options.all else _kept_images(options)
    keep = (set() if options.all else ours).union(*(entries_of(use.key) for use in kept))
    kinds = dict.fromkeys(entry.kind for entry in sorted(ours, key=lambda e: e.kind))
    doomed = [e for kind in kinds for e in cache.entries(kind) if e not in keep]
    deleted: list[dict[str, Any]] = []
    for entry in doomed:
        size = cache.folder_bytes(entry.path) if options.dry_run else cache.remove(entry)
        deleted.append({"part": entry.kind, "key": entry.key, "bytes": size})
        if not options.json:
            print(f"{'Would delete' if options.dry_run else 'Deleted'} {entry.kind}/{entry.key}, {_size(size)}")
    total = sum(d["bytes"] for d in deleted)
    if options.json:
        older = [{"key": use.key, "reason": use.reason or _USERS_MAY_NEED_IT} for use in kept]
        show_json({"dry_run": options.dry_run, "deleted": deleted, "kept": older, "reclaimed_bytes": total})
    else:
        for use in kept:
            print(f"Kept the older image {use.key}: {use.reason or _USERS_MAY_NEED_IT}")
        print(f"{_size(total)} in all" if doomed else "Nothing to delete.")
    return DONE if doomed else NOTHING


def _kept_images(options: argparse.Namespace) -> list[ImageUse]:
    """Older images that stay: sessions need them, or may: whose sessions use a shared cache is not known here."""
    if options.even_needed:
        return []
    here = {entry.key for entry in cache.entries("base")}
    unknown = bool(administrator.rules().image_cache) and not options.workspace_root
    found = [use for use in images_in_use(_roots(options)) if not use.current and use.key in here]
    return [use for use in found if use.sessions or unknown]


def pack_command(options: argparse.Namespace) -> int:
    """Write the image to one file."""
    target = target_of(options, f"wasm-kernel-image-{image.parts().base.key}.tar.zst")
    with progress("Packing") as update:
        digest = packing.pack(target, metered=options.metered, on_progress=update)
    size = target.stat().st_size
    if options.json:
        show_json({"file": str(target), "bytes": size, "sha256": digest})
    else:
        print(f"Packed the image into {target}, {_size(size)}\nsha256 {digest}")
    return DONE


def unpack_command(options: argparse.Namespace) -> int:
    """Take the image from a packed one."""
    made = unpack(options.source, options.sha256, quiet=options.json)
    if options.json:
        show_json({"unpacked": [{"part": entry.kind, "key": entry.key} for entry in made]})
    return DONE if made else NOTHING


def unpack(source: str, sha256: str | None, *, quiet: bool = False) -> list[Entry]:
    """Take the image from a file or an address; what was not there yet."""
    with progress("Unpacking") as update:
        made = packing.unpack(source, sha256=sha256, on_progress=update)
    if not quiet:
        print("The image is ready." if made else "The image was there already.")
    return made


def _size(size: int) -> str:
    return format_size(size) if size else "-"
