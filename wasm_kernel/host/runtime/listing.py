"""Lists a folder for a guest where wasmtime cannot: it lists nothing at all if one name in it is not UTF-8.

A guest cannot make such a name, or open it; but a person can unpack an old archive in a session's folder. Here those
names are left out. The filter drops what is hidden from this listing, as from every other.
"""

from __future__ import annotations

import contextlib
import os
import struct
from pathlib import Path

from wasm_kernel.errors import PathRefused
from wasm_kernel.host.files.folder import Folder, components

_ENTRY = struct.Struct("<QQIB3x")  # number of the next one, inode (0: not known), length of the name, kind
_KINDS = {"folder": 3, "file": 4, "link": 7}


def list_folder(root: Path, path: bytes) -> bytes:
    """The entries of a folder below ``root``, as WASI has them; none if it cannot be opened by this path any more."""
    found = [(b".", 3), (b"..", 3)]
    try:
        text = path.decode()
        with contextlib.ExitStack() as stack:
            place = stack.enter_context(Folder(root, backslashes=True))
            if components(text, backslashes=True):
                place = stack.enter_context(place.enter(text))
            for item in place.items(recursive=False):
                name = os.fsencode(item.path)
                with contextlib.suppress(UnicodeDecodeError):
                    name.decode()
                    found.append((name, _KINDS.get(item.kind, 0)))
    except (OSError, PathRefused, UnicodeDecodeError):
        return b""
    return b"".join(_ENTRY.pack(number, 0, len(name), kind) + name for number, (name, kind) in enumerate(found, 1))
