"""Packages the host installed for this session: which set of them is on sys.path.

The host mounts `/packages` read-only. Each set in it is a folder that never changes, so nothing imported ever finds
other files than those it began with; an install makes a new set, and `current` links to it.
"""

import importlib
import os
import sys

_PLACE = "/packages"
_folder = ""


def use(name):
    """Import from this set from now on. What is imported already goes on with the set it came from."""
    global _folder
    folder = f"{_PLACE}/{name}" if name else ""
    if folder == _folder:
        return
    if _folder and _folder in sys.path:
        sys.path.remove(_folder)
    if folder:
        sys.path.append(folder)  # last: what the image has stays as it is
    _folder = folder
    importlib.invalidate_caches()


def look():
    """Use what was installed since this cell began."""
    try:
        use(os.readlink(f"{_PLACE}/current"))
    except OSError:
        use("")
