"""What a file browser shows, without widgets: a folder's entries, sorted, filtered, paged, as lines of text.

Names, sizes and times come from the guest. A path is kept as the system gave it, and only ever shown through
`render.visible`.
"""

from __future__ import annotations

import fnmatch
import unicodedata
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from pathlib import Path

from wasm_kernel.host.files.folder import Folder, Item
from wasm_kernel.kernel.render import visible
from wasm_kernel.model.units import counted, format_size

PAGE = 200
NAME_COLUMNS = (12, 30)  # of the narrowest and the widest column of names
_BLANK = "\N{NO-BREAK SPACE}"
_TYPE_COLUMNS = 8
_TIME_COLUMNS = 12
_SIZE_COLUMNS = 9

# Groups of files, one icon each, and their endings with a name for each.
_TYPES: dict[str, dict[str, str]] = {
    "table": {
        ".csv": "CSV",
        ".tsv": "TSV",
        ".xlsx": "Excel",
        ".xlsm": "Excel",
        ".xls": "Excel",
        ".ods": "ODS",
        ".parquet": "Parquet",
        ".feather": "Feather",
        ".npy": "NumPy",
        ".npz": "NumPy",
        ".sqlite": "SQLite",
        ".sqlite3": "SQLite",
        ".db": "SQLite",
    },
    "image": {
        ".png": "PNG",
        ".jpg": "JPEG",
        ".jpeg": "JPEG",
        ".gif": "GIF",
        ".webp": "WebP",
        ".svg": "SVG",
        ".bmp": "BMP",
        ".tif": "TIFF",
        ".tiff": "TIFF",
    },
    "code": {
        ".py": "Python",
        ".ipynb": "notebook",
        ".json": "JSON",
        ".jsonl": "JSON",
        ".geojson": "JSON",
        ".html": "HTML",
        ".htm": "HTML",
        ".css": "CSS",
        ".js": "JS",
        ".ts": "TS",
        ".sql": "SQL",
        ".r": "R",
        ".jl": "Julia",
        ".c": "C",
        ".h": "C",
        ".cpp": "C++",
        ".rs": "Rust",
        ".go": "Go",
        ".java": "Java",
        ".sh": "shell",
        ".xml": "XML",
        ".yaml": "YAML",
        ".yml": "YAML",
        ".toml": "TOML",
        ".ini": "INI",
        ".cfg": "INI",
        ".tex": "TeX",
    },
    "text": {".txt": "text", ".md": "Markdown", ".rst": "text", ".log": "log"},
    "sound": {".wav": "audio", ".mp3": "audio", ".ogg": "audio", ".flac": "audio", ".m4a": "audio"},
    "film": {".mp4": "video", ".webm": "video", ".mov": "video"},
    "pdf": {".pdf": "PDF"},
    "archive": {".zip": "ZIP", ".gz": "gzip", ".tar": "tar", ".zst": "zstd", ".xz": "xz", ".bz2": "bzip2", ".7z": "7z"},
}
_BY_ENDING = {ending: (group, name) for group, names in _TYPES.items() for ending, name in names.items()}
_SPECIAL = {"folder": ("folder", "folder"), "link": ("link", "link"), "other": ("other", "special")}

SORTS: dict[str, str] = {
    "name": "Name A–Z",
    "name-": "Name Z–A",
    "time-": "Newest first",
    "time": "Oldest first",
    "size-": "Largest first",
    "size": "Smallest first",
    "type": "Type",
}

# Columns of the list: by what they sort, title, width if the title stands on the right, and the first click's order.
_HEADINGS = (
    ("name", "Name", 0, "name"),
    ("size", "Size", _SIZE_COLUMNS, "size-"),
    ("time", "Changed", _TIME_COLUMNS, "time-"),
    ("type", "Type", 0, "type"),
)


@dataclass(frozen=True)
class Entry:
    """Something in the folder that is shown.

    Attributes:
        path: Relative to the workspace, with bytes that are not UTF-8 as surrogates.
        kind: ``file``, ``folder``, ``link`` or ``other``.
        mark: ``new`` or ``changed`` if the last cell did that to it, or to something in it.
    """

    path: str
    kind: str
    size: int
    modified_ns: int
    mark: str = ""

    @property
    def name(self) -> str:
        """Its name, unchanged."""
        return self.path.rpartition("/")[2]

    @property
    def ending(self) -> str:
        """``.csv``"""
        return ending_of(self.name)

    @property
    def group(self) -> str:
        """The group, which decides its icon."""
        return self._type()[0]

    @property
    def type(self) -> str:
        """The name of its type, for a person."""
        return self._type()[1]

    def _type(self) -> tuple[str, str]:
        if self.kind != "file":
            return _SPECIAL[self.kind]
        ending = visible(self.ending)[1:]
        return _BY_ENDING.get(self.ending, ("other", ending.upper() if 0 < len(ending) < 6 else "file"))


@dataclass(frozen=True)
class Marks:
    """What the last cell did to files, as paths that can be shown."""

    created: frozenset[str] = frozenset()
    changed: frozenset[str] = frozenset()
    deleted: tuple[str, ...] = ()
    _above: dict[str, str] = field(default_factory=dict)

    @classmethod
    def of(cls, created: Iterable[str], modified: Iterable[str], deleted: Iterable[str]) -> Marks:
        """From the lists of a `SandboxResult`; its ``modified`` includes new files."""
        new = frozenset(created)
        rewritten = frozenset(modified) - new
        above: dict[str, str] = {}
        for path in [*new, *rewritten, *deleted]:
            while "/" in path:
                path = path.rpartition("/")[0]
                if path in above:
                    break
                above[path] = "changed"
        return cls(new, rewritten, tuple(deleted), above)

    def of_path(self, path: str) -> str:
        """The mark of a file or a folder."""
        known = encodable(path)
        if known in self.created:
            return "new"
        return "changed" if known in self.changed else self._above.get(known, "")

    def deleted_in(self, folder: str) -> list[str]:
        """Names deleted from a folder."""
        prefix = f"{encodable(folder)}/" if folder else ""
        return [p.removeprefix(prefix) for p in self.deleted if p.startswith(prefix)]


@dataclass(frozen=True)
class View:
    """What to show: folder, order, filter and page."""

    folder: str = ""
    sort: str = "name"
    wanted: str = ""
    page: int = 0

    def into(self, folder: str) -> View:
        """Another folder, from its first page."""
        return replace(self, folder=folder, wanted="", page=0)

    def up(self) -> View:
        """The folder above."""
        return self.into(self.folder.rpartition("/")[0])


@dataclass(frozen=True)
class Page:
    """A part of a listing."""

    entries: tuple[Entry, ...]
    first: int
    found: int
    total: int
    number: int
    pages: int

    def describe(self) -> str:
        """``1-200 of 10,000 files``"""
        of = counted(self.total, "item")
        if self.found != self.total:
            of = f"{self.found:,} of {of} match"
        if self.pages > 1:
            of = f"{self.first + 1:,}–{self.first + len(self.entries):,} of {of}"
        return of


def ending_of(name: str) -> str:
    """``.csv``; empty for a name whose only dot is the first character."""
    dot = name.rfind(".")
    return name[dot:].lower() if dot > 0 else ""


def encodable(path: str) -> str:
    """A path as results spell it: bytes that are not UTF-8 are replaced."""
    return path.encode("utf-8", "surrogateescape").decode("utf-8", "replace")


def scan(root: Path, folder: str, marks: Marks | None = None) -> list[Entry]:
    """The entries of a folder of the workspace; hidden ones are skipped, links not followed."""
    marks = marks or Marks()
    prefix = f"{folder}/" if folder else ""
    found = ((prefix + item.path, item) for item in items_in(root, folder))
    return [Entry(path, i.kind, i.size, i.modified_ns, marks.of_path(path)) for path, i in found]


def items_in(root: Path, folder: str) -> list[Item]:
    """A folder of the workspace as it is on disk."""
    with Folder(root, backslashes=True) as workspace:
        if not folder:
            return list(workspace.items(recursive=False))
        with workspace.enter(folder) as inner:
            return list(inner.items(recursive=False))


def arrange(entries: Iterable[Entry], view: View) -> Page:
    """Filter, sort and page. Folders come first, whatever the order."""
    everything = list(entries)
    found = [e for e in everything if matches(e.name, view.wanted)]
    found.sort(key=lambda e: (e.name.casefold(), e.name), reverse=view.sort == "name-")
    what = view.sort.removesuffix("-")
    if what == "time":
        found.sort(key=lambda e: e.modified_ns, reverse=view.sort.endswith("-"))
    elif what == "size":
        found.sort(key=lambda e: e.size, reverse=view.sort.endswith("-"))
    elif what == "type":
        found.sort(key=lambda e: e.type.casefold())
    found.sort(key=lambda e: e.kind != "folder")
    pages = max(1, -(-len(found) // PAGE))
    number = min(max(view.page, 0), pages - 1)
    first = number * PAGE
    return Page(tuple(found[first : first + PAGE]), first, len(found), len(everything), number, pages)


def matches(name: str, wanted: str) -> bool:
    """A part of the name, or a pattern if it has a star or a question mark; case is ignored."""
    wanted = wanted.strip().casefold()
    if not wanted:
        return True
    if any(c in wanted for c in "*?"):
        return fnmatch.fnmatchcase(name.casefold(), wanted)
    return wanted in name.casefold()


def crumbs(folder: str, most: int = 5) -> list[tuple[str, str]]:
    """The path to a folder as labels with the folders they lead to. A long path is shortened in the middle."""
    parts = folder.split("/") if folder else []
    way = [("/app", ""), *((shorten(p, 24), "/".join(parts[: n + 1])) for n, p in enumerate(parts))]
    if len(way) > most:
        hidden = way[-most + 1]
        way = [way[0], ("…", hidden[1]), *way[-most + 2 :]]
    return way


# ---- lines of text


def columns(text: str) -> int:
    """How many columns a text takes in a fixed-width font."""
    return sum(0 if unicodedata.combining(c) else 2 if unicodedata.east_asian_width(c) in "WF" else 1 for c in text)


def shorten(name: str, most: int) -> str:
    """A name shortened to a number of columns; its end, with the type, is kept."""
    text = visible(name)
    if columns(text) <= most:
        return text
    tail = _fitting(reversed(text), min(10, most // 3))
    head = _fitting(iter(text), most - 1 - columns(tail))
    return f"{head}…{tail[::-1]}"


def _fitting(characters: Iterable[str], most: int) -> str:
    taken, width = [], 0
    for c in characters:
        width += columns(c)
        if width > most:
            break
        taken.append(c)
    return "".join(taken)


def when(modified_ns: int, now: datetime) -> str:
    """A time, as short as possible. The guest may have set it to anything."""
    try:
        then = datetime.fromtimestamp(modified_ns / 1e9, now.tzinfo)
    except (OverflowError, OSError, ValueError):
        return "?"
    if then.date() == now.date():
        return f"{then:%H:%M:%S}"
    return f"{then:%d %b %H:%M}" if then.year == now.year else f"{then:%Y-%m-%d}"


def name_width(entries: Sequence[Entry]) -> int:
    """How wide the column of names has to be."""
    least, most = NAME_COLUMNS
    return min(max([least, *(columns(visible(e.name)) + (e.kind == "folder") for e in entries)]), most)


def header(width: int, sort: str) -> list[tuple[str, str]]:
    """The line above a list, in parts: text, and the order that a click on it gives; empty if it cannot be clicked."""
    parts = [("  ", "")]
    for key, title, right, first in _HEADINGS:
        is_sorted, is_down = key == sort.removesuffix("-"), sort.endswith("-")
        text = f"{title} {'↓' if is_down else '↑'}" if is_sorted else title
        turned = key if is_down else f"{key}-"
        parts.append((" " * (right - len(text)), ""))
        parts.append((text, turned if is_sorted and turned in SORTS else first))
        parts.append((" " * ((width - len(text) if key == "name" else 0) + 2), ""))
    return parts


def labels(entries: Sequence[Entry], now: datetime) -> list[str]:
    """One line for each entry, columns aligned, no two equal; with blanks that browsers keep."""
    width = name_width(entries)
    made: list[str] = []
    seen: set[str] = set()
    for e in entries:
        name = shorten(e.name, width - (e.kind == "folder")) + ("/" if e.kind == "folder" else "")
        line = "  ".join(
            (
                {"new": "+ ", "changed": "~ "}.get(e.mark, "  ") + name + " " * (width - columns(name)),
                (format_size(e.size) if e.kind == "file" else "").rjust(_SIZE_COLUMNS),
                when(e.modified_ns, now).rjust(_TIME_COLUMNS),
                shorten(e.type, _TYPE_COLUMNS),
            )
        )
        line = line.replace(" ", _BLANK)
        while line in seen:  # two long names that look the same: a list finds an entry by its text
            line += _BLANK
        seen.add(line)
        made.append(line)
    return made
