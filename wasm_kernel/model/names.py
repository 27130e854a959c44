"""Names the guest chose, made safe for the disk they end up on: Windows', a Mac's, ours. No I/O."""

from __future__ import annotations

import os
import re
import unicodedata
from urllib.parse import quote_from_bytes

_MAX_BYTES = 255  # of a name, where it is unpacked
_FORBIDDEN = frozenset('<>:"/\\|?*')
_JOINERS = frozenset("\u200c\u200d")  # emoji and some scripts need them
_INVISIBLE = ("Cc", "Cf", "Cs", "Zl", "Zp", "Cn")  # control, direction, halves of characters, line ends, not assigned
_LONGEST_MARK = " (1000000000)"
_RESERVED = re.compile(r"(con|prn|aux|nul|com[0-9¹²³]|lpt[0-9¹²³]|conin\$|conout\$)\s*(\.|\Z)", re.IGNORECASE)


def text_of(name: str) -> str:
    """A file name as text that can be encoded: bytes that are no UTF-8 are replaced."""
    return name.encode("utf-8", "surrogateescape").decode("utf-8", "replace")


def key_of(path: str) -> str:
    """A path as it stands in a URL: every byte of it, so that it leads back to the file whatever its name is."""
    return quote_from_bytes(os.fsencode(path), safe="/")


def safe_name(name: str) -> str:
    """One component of a path, such that any system takes it, as a name and as nothing else."""
    kept = "".join(c if _is_harmless(c) else "_" for c in name)
    kept = re.sub(r"[. ]+\Z", "_", kept) or "_"
    return fitted(f"_{kept}" if _RESERVED.match(kept) else kept)


def _is_harmless(c: str) -> bool:
    return c in _JOINERS or (c not in _FORBIDDEN and unicodedata.category(c) not in _INVISIBLE)


def fitted(name: str, mark: str = "") -> str:
    """A name with a mark before its suffix, the stem cut so that it is not too long."""
    stem, dot, suffix = name.rpartition(".")
    if not stem or len(suffix) > 16:
        stem, dot, suffix = name, "", ""
    tail = f"{mark}{dot}{suffix}"
    room = _MAX_BYTES - len(tail.encode())
    return stem.encode()[:room].decode("utf-8", "ignore") + tail


class Names:
    """Gives out safe names for one folder of an archive, each once, on systems that ignore case, too."""

    def __init__(self) -> None:
        self._taken: set[str] = set()
        self._numbers: dict[str, int] = {}  # the last one given to names that are the same when they are cut

    def take(self, name: str) -> str:
        """A safe name that nobody has; a number tells apart what would be the same."""
        safe = safe_name(name)
        found = safe
        if _folded(found) in self._taken:
            alike = _folded(fitted(safe, _LONGEST_MARK))
            number = self._numbers.get(alike, 1)
            while _folded(found) in self._taken:
                number += 1
                found = fitted(safe, f" ({number})")
            self._numbers[alike] = number
        self._taken.add(_folded(found))
        return found


def _folded(name: str) -> str:
    return unicodedata.normalize("NFC", name).casefold()


class Paths:
    """Gives out safe paths to a walk that visits each folder right before what is in it."""

    def __init__(self, top: str = "", names: Names | None = None) -> None:
        self._levels = [("", top, names or Names())]  # a folder's own path, its safe one, and what is taken in it

    def take(self, path: str, *, folder: bool) -> str:
        """A safe path; a folder's ends in a slash."""
        parent, _, name = path.rpartition("/")
        while self._levels[-1][0] != parent:
            self._levels.pop()
        _, above, names = self._levels[-1]
        safe = above + names.take(name)
        if folder:
            safe += "/"
            self._levels.append((path, safe, Names()))
        return safe
