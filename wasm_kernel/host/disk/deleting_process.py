"""What a process of `deleters` does: delete folders of a bin, by name, until nobody tells it more.

It imports as little as it can, because its start is part of what a prune takes.
"""

from __future__ import annotations

import os
import sys

from wasm_kernel.host.files import delete_tree


def main(folder: int, last: str) -> None:
    """Each line on standard input: names of folders in the one open as ``folder``. Answers with those that are left.

    ``last``: the file in each that goes last, and is still there in those that are left.
    """
    for line in sys.stdin.buffer:
        left = [name for name in line.decode().split() if not _is_deleted(name, last, folder)]
        os.write(1, f"{' '.join(left)}\n".encode())
    os._exit(0)  # there is nothing to tidy up, and somebody waits


def _is_deleted(name: str, last: str, folder: int) -> bool:
    try:
        delete_tree.remove(name, last, folder)
    except OSError:
        return False
    return True
