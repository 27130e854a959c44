"""What `%pip install` accepts, what it did, and what to use instead of packages that cannot be installed."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field

from packaging.markers import UndefinedEnvironmentName
from packaging.requirements import InvalidRequirement, Requirement
from packaging.utils import canonicalize_name

from wasm_kernel.errors import PackageError
from wasm_kernel.guest.instead import BUT, COMPILED

GUEST_PYTHON = "3.15"
_LONGEST = 300
_ADDRESS = re.compile(r"://|^[a-z+]+:|[/\\]|\s@\s|^[.~]|\.(whl|zip|tar|gz|bz2|xz|txt)$|^\w[\w.\[\],-]*@", re.IGNORECASE)
# Markers are evaluated against the guest. We do that ourselves, because pip would use the host.
_GUEST = {
    "implementation_name": "cpython",
    "implementation_version": f"{GUEST_PYTHON}.0",
    "os_name": "posix",
    "platform_machine": "wasm32",
    "platform_python_implementation": "CPython",
    "platform_release": "",
    "platform_system": "wasi",
    "platform_version": "",
    "python_full_version": f"{GUEST_PYTHON}.0",
    "python_version": GUEST_PYTHON,
    "sys_platform": "wasi",
    "extra": "",
}


@dataclass(frozen=True)
class Package:
    """An installed package.

    Attributes:
        name: As it calls itself.
        version: Its version.
        built_in: Whether it is part of the image: in every session, and fixed.
        requested: Whether it was asked for, rather than installed as a dependency.
    """

    name: str
    version: str
    built_in: bool = False
    requested: bool = False

    def __str__(self) -> str:
        return f"{self.name} {self.version}"


@dataclass(frozen=True)
class PackageChange:
    """What an install or uninstall did.

    Attributes:
        added: Packages that are new.
        updated: Packages in another version than before, as (old, new). A running guest that imported the old one
            keeps it until it is restarted.
        removed: Packages that were removed.
        present: Requested packages that were already installed.
        notes: Sentences a person should read.
    """

    added: list[Package] = field(default_factory=list)
    updated: list[tuple[Package, Package]] = field(default_factory=list)
    removed: list[Package] = field(default_factory=list)
    present: list[Package] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    def __str__(self) -> str:
        parts = []
        if self.added:
            parts.append(f"Installed {', '.join(map(str, self.added))}")
        if self.updated:
            parts.append("Changed " + ", ".join(f"{old} to {new.version}" for old, new in self.updated))
        if self.removed:
            parts.append(f"Removed {', '.join(map(str, self.removed))}")
        if self.present:
            parts.append(f"Already installed: {', '.join(map(str, self.present))}")
        return "; ".join(parts) or "Nothing to do"


def key_of(name: str) -> str:
    """A package's name, normalised for comparison."""
    return str(canonicalize_name(name))


def parse_requirement(text: str) -> Requirement:
    """A requirement as written in a cell: a name, optionally with extras, versions and markers, and nothing else.

    Options, URLs and paths are refused: a cell could use them to make the host read or run anything.
    """
    shown = repr(text)[:80]
    if not isinstance(text, str) or not text.strip() or len(text) > _LONGEST or not text.isprintable():
        raise PackageError("requirement", f"{shown} is not a package name")
    text = text.strip()
    if text.startswith("-"):
        raise PackageError("requirement", f"{shown} is an option; write only package names, such as NAME or NAME==1.2")
    before_marker = text.partition(";")[0]
    if _ADDRESS.search(before_marker.strip()):
        raise PackageError(
            "requirement", f"{shown} is a URL or a path; only packages from the registry can be installed here"
        )
    try:
        parsed = Requirement(text)
    except InvalidRequirement:
        raise PackageError(
            "requirement", f"{shown} is not a requirement; write NAME, NAME==1.2 or NAME[extra]>=1,<2"
        ) from None
    if parsed.url is not None or any(part.operator == "===" for part in parsed.specifier):
        raise PackageError("requirement", f"{shown} cannot be installed here; write NAME, NAME==1.2 or NAME>=1,<2")
    return parsed


def applies(requirement: Requirement) -> bool:
    """Whether a requirement's markers hold in the guest."""
    try:
        return requirement.marker is None or requirement.marker.evaluate(_GUEST)
    except UndefinedEnvironmentName:
        return False


def plain(requirement: Requirement) -> str:
    """A requirement without its markers, so that an installer cannot read anything else into it."""
    extras = f"[{','.join(sorted(requirement.extras))}]" if requirement.extras else ""
    return f"{requirement.name}{extras}{requirement.specifier}"


def why_not_compiled(name: str, asked: Iterable[str]) -> str:
    """Why a package without a pure-Python wheel cannot be installed."""
    instead = COMPILED.get(key_of(name), "")
    wanted = [a for a in asked if key_of(a) != key_of(name)]
    if key_of(name) in {key_of(a) for a in asked} or not wanted:
        return _joined(f"{name} has no pure-Python wheel, and the sandbox cannot run compiled ones", instead)
    instead = instead or next((i for i in (COMPILED.get(key_of(a), "") for a in wanted) if i), "")
    subject, verb = (wanted[0], "needs") if len(wanted) == 1 else (", ".join(wanted), "need")
    return _joined(f"{subject} {verb} {name}, which is compiled and cannot run in the sandbox", instead)


def _joined(sentence: str, more: str) -> str:
    return f"{sentence}; {more}" if more else sentence


def notes_on(added: Iterable[Package]) -> list[str]:
    """Warnings about packages that were just installed."""
    return [f"{p.name} is installed, but {BUT[key_of(p.name)]}" for p in added if key_of(p.name) in BUT]
