"""File names: which are the host's own, and how names the guest chose are made safe on any system. No I/O."""

from __future__ import annotations

import os
import re
import unicodedata
from collections.abc import Collection
from urllib.parse import quote_from_bytes

from wasm_kernel.model.records import is_uuid

METADATA_NAME = ".metadata.json"
STATE_FOLDER = ".wasm-kernel"
TASKS = "tasks"  # in it: what is kept of the REST API's tasks
HIDDEN = (METADATA_NAME, STATE_FOLDER)  # guests never see names that begin like this, in any folder: `interposer`

_UUID_LENGTH = 36
_MAX_BYTES = 255  # of a name, where an archive is unpacked
_FORBIDDEN = frozenset('<>:"/\\|?*')
_JOINERS = frozenset("\u200c\u200d")  # emoji and some scripts need them
_INVISIBLE = ("Cc", "Cf", "Cs", "Zl", "Zp", "Cn")  # control, direction, halves of characters, line ends, not assigned
_LONGEST_MARK = " (1000000000)"
_RESERVED = re.compile(r"(con|prn|aux|nul|com[0-9¹²³]|lpt[0-9¹²³]|conin\$|conout\$)\s*(\.|\Z)", re.IGNORECASE)


def is_hidden(name: str) -> bool:
    """Whether a name begins with one of the host's own, or with a spelling that some file system takes for it."""
    if name.isascii() and "\\" not in name:
        return name[:1] == "." and name.lower().startswith(HIDDEN)
    spelt = (name, unicodedata.normalize("NFKD", name).casefold())
    return any(_ascii_of(part).startswith(HIDDEN) for text in spelt for part in text.split("\\"))


def is_kept_back(name: str) -> bool:
    """Whether sessions get nothing of this name from a person's folder: one that begins with a dot, or is our own."""
    return name.startswith(".") or is_hidden(name)


def is_session_folder(name: str, named: Collection[str] = ()) -> bool:
    """Whether a name is hidden from sandboxes without a session: a UUID, or one of ``named`` (lower case)."""
    if len(name) < _UUID_LENGTH and not named:
        return False
    plain = _ascii_of(unicodedata.normalize("NFKD", name).casefold()).partition(":")[0].rstrip(". ")
    return is_uuid(plain) or plain in named


def _ascii_of(name: str) -> str:
    """A name in lower case, without accents and invisible characters."""
    return "".join(c for c in name.replace("\u017f", "s").replace("\u212a", "k").lower() if c < "\x80")


def text_of(name: str) -> str:
    """A file name as text that can be encoded: bytes that are not UTF-8 are replaced."""
    return name.encode("utf-8", "surrogateescape").decode("utf-8", "replace")


def key_of(path: str) -> str:
    """A path for a URL. Every byte is kept, so that it finds the file whatever its name is."""
    return quote_from_bytes(os.fsencode(path), safe="/")


def safe_name(name: str) -> str:
    """One path component that every system accepts as a name, and as nothing else."""
    kept = "".join(c if _is_harmless(c) else "_" for c in name)
    kept = re.sub(r"[. ]+\Z", "_", kept) or "_"
    return fitted(f"_{kept}" if _RESERVED.match(kept) else kept)


def _is_harmless(c: str) -> bool:
    return c in _JOINERS or (c not in _FORBIDDEN and unicodedata.category(c) not in _INVISIBLE)


def fitted(name: str, mark: str = "") -> str:
    """A name with a mark before its suffix; the stem is cut to keep it within the length limit."""
    stem, dot, suffix = name.rpartition(".")
    if not stem or len(suffix) > 16:
        stem, dot, suffix = name, "", ""
    tail = f"{mark}{dot}{suffix}"
    room = _MAX_BYTES - len(tail.encode())
    return stem.encode()[:room].decode("utf-8", "ignore") + tail


class Names:
    """Hands out safe names for one folder of an archive, each once, even on systems that ignore case."""

    def __init__(self) -> None:
        self._taken: set[str] = set()
        self._numbers: dict[str, int] = {}  # the last number given to names that are equal once cut

    def take(self, name: str) -> str:
        """A safe name that is not taken yet; a number is added where two would be equal."""
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
    """Hands out safe paths to a walk that visits each folder just before its contents."""

    def __init__(self, top: str = "", names: Names | None = None) -> None:
        self._levels = [("", top, names or Names())]  # a folder's own path, its safe path, and the names taken in it

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
