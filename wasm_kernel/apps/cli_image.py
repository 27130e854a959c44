"""The parsers of `wasm-kernel image …`; the commands are in `image_commands`."""

from __future__ import annotations

from typing import Any

from wasm_kernel.apps.cli_parser import Parser, add, add_target, imported_when_run


def register(commands: Any) -> None:
    """Add the commands to a parser."""
    image = add(commands, "image", None, "The image sandboxes start from.")
    parts = image.add_subparsers(title="commands", metavar="COMMAND", required=True)
    for command in (_build, _info, _list, _clean, _pack, _unpack):
        command(parts)


def _build(parts: Any) -> None:
    made = add(
        parts,
        "build",
        imported_when_run("image_commands", "build_command"),
        "Build the missing parts of the image.",
    )
    made.add_argument("--metered", action="store_true", help="also build the variant that counts fuel")
    made.add_argument("--force", action="store_true", help="rebuild everything")
    made.add_argument(
        "--image", metavar="KEY", default="", help="compile an older image for this machine, for sessions that need it"
    )
    made.add_argument("--json", action="store_true", help="report progress as JSON lines")


def _info(parts: Any) -> None:
    add(
        parts,
        "info",
        imported_when_run("image_commands", "info_command"),
        "Show what the image is made of.",
        shape='{"key": "5ba2…", "cache": "/home/ada/.cache/wasm-kernel", "parts": [\n'
        '  {"part": "base", "key": "5ba2…", "built": true, "bytes": 1024,\n   "path": "/home/ada/…"}]}',
    )


def _list(parts: Any) -> None:
    made = add(
        parts,
        "list",
        imported_when_run("image_commands", "list_command"),
        "List the images that are here, and which sessions need them.",
        shape='[{"key": "5ba2…", "current": true, "here": true, "problem": "",\n'
        '  "sessions": ["0b5c…"], "snapshots": 3}]',
    )
    _add_roots(made)


def _clean(parts: Any) -> None:
    made = add(
        parts,
        "clean",
        imported_when_run("image_commands", "clean_command"),
        "Delete images that neither this version nor a session needs.",
        more="A session goes on with the image that it was saved with. Where all users\n"
        "share the cache, older images stay unless their workspace roots are named.",
        examples="wasm-kernel image clean --dry-run\n"
        "wasm-kernel image clean --workspace-root /srv/ada --workspace-root /srv/bob",
        shape='{"dry_run": false, "deleted": [\n  {"part": "base", "key": "5ba2…", "bytes": 1024}],\n'
        ' "kept": [{"key": "77c1…", "reason": "1 session needs it for 3 snapshots"}],\n'
        ' "reclaimed_bytes": 1024}',
    )
    _add_roots(made)
    made.add_argument(
        "--even-needed", action="store_true", help="also images that sessions need: their variables cannot be opened"
    )
    made.add_argument("--all", action="store_true", help="everything, also the image this version uses")
    made.add_argument("--dry-run", action="store_true", help="only show what would be deleted")


def _pack(parts: Any) -> None:
    made = add(
        parts,
        "pack",
        imported_when_run("image_commands", "pack_command"),
        "Write the image to one file, for machines of the same kind.",
        more="It prints the file's SHA-256, by which whoever unpacks it can know it.\n"
        "It fits machines with the same CPU features, wasmtime and wasm-kernel.",
        examples="wasm-kernel image pack\nwasm-kernel image pack /srv/share/image.tar.zst --metered",
        shape='{"file": "wasm-kernel-image-5ba2….tar.zst", "bytes": 1024,\n "sha256": "9f86d0…"}',
    )
    add_target(made, "one named by its key")
    made.add_argument("--metered", action="store_true", help="with the variant that counts fuel")


def _unpack(parts: Any) -> None:
    made = add(
        parts,
        "unpack",
        imported_when_run("image_commands", "unpack_command"),
        "Take the image from a file that `image pack` wrote, instead of building it.",
        more="What is in it runs as machine code, as you: unpack only what comes from\n"
        "somebody you trust. From an address, --sha256 is required.",
        examples="wasm-kernel image unpack image.tar.zst\n"
        "wasm-kernel image unpack https://example.org/image.tar.zst --sha256 9f86d0…",
        shape='{"unpacked": [{"part": "base", "key": "5ba2…"}]}',
    )
    made.add_argument("source", metavar="FILE|URL", help="the file, or an https address")
    add_hash(made, "--sha256")


def _add_roots(parser: Parser) -> None:
    parser.add_argument(
        "--workspace-root",
        metavar="FOLDER",
        action="append",
        help="also look for sessions here (may be repeated; the kernel's folder always counts)",
    )


def add_hash(parser: Parser, option: str) -> None:
    """Add the option by which a packed image is known."""
    parser.add_argument(option, metavar="HASH", help="the SHA-256 that `image pack` printed")
