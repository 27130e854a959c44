"""What all users have: sessions and snapshots, their number, size, age and state. Values only, no I/O."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import cached_property

from wasm_kernel.errors import ConfigurationError


@dataclass(frozen=True)
class SessionRow:
    """One session of a user.

    Attributes:
        user: Whose it is.
        session_id: Its id.
        created_at: None when its metadata does not say, or cannot be read.
        updated_at: When it was last used; None likewise.
        size_bytes: All its files.
        live: Whether somebody uses it now, as far as locks tell.
        problem: ``no_metadata``, ``corrupted_metadata``, ``foreign_metadata``, ``symlink``, ``mount_inside`` or empty.
            Text of the user's own (title, notebook) may be hostile: escape it.
        title: What a person called it.
        notebook: The path of its notebook, if it has one.
        execution_count: Cells run so far.
        snapshot_count: How many snapshots it has.
        stamp: Changes whenever the session is used.
    """

    user: str
    session_id: str
    created_at: datetime | None
    updated_at: datetime | None
    size_bytes: int = 0
    live: bool = False
    problem: str = ""
    title: str = ""
    notebook: str = ""
    execution_count: int = 0
    snapshot_count: int = 0
    stamp: str = ""

    @property
    def state(self) -> str:
        """``live``, ``problem`` or ``rest``."""
        return "live" if self.live else "problem" if self.problem else "rest"


@dataclass(frozen=True)
class SnapshotRow:
    """One snapshot of a user's session; ``label`` is the user's text. For the other fields see `Snapshot`."""

    user: str
    snapshot_id: str
    session_id: str
    created_at: datetime
    trigger: str
    label: str = ""
    stored_bytes: int = 0
    memory_bytes: int = 0
    execution_count: int = 0
    file_count: int = 0
    file_bytes: int = 0
    parent: str = ""


@dataclass(frozen=True)
class HubUser:
    """A user as the hub knows them; ``server`` is the path of their server, if it runs."""

    name: str
    groups: tuple[str, ...] = ()
    running: bool = False
    server: str = ""


@dataclass(frozen=True)
class UserCensus:
    """What one user has.

    Attributes:
        user: Who, with groups and whether their server runs.
        taken_at: When this was read.
        root: Where their workspace is, or where it was looked for.
        sessions: Their sessions.
        snapshot_count: Of all sessions, including deleted ones.
        snapshot_bytes: What all snapshots take on disk.
        free_bytes: What is free on their disk; None when unknown.
        problem: Why nothing is known about them, or empty. A user without a workspace has no problem, and no sessions.
        identity: The same for two users if their workspaces are one folder.
    """

    user: HubUser
    taken_at: datetime
    root: str = ""
    sessions: tuple[SessionRow, ...] = ()
    snapshot_count: int = 0
    snapshot_bytes: int = 0
    free_bytes: int | None = None
    problem: str = ""
    identity: str = ""

    @property
    def root_exists(self) -> bool:
        """Whether they have a workspace."""
        return not self.problem and (bool(self.identity) or bool(self.sessions))

    @property
    def name(self) -> str:
        """The user's name."""
        return self.user.name

    @cached_property
    def session_bytes(self) -> int:
        """What their sessions take on disk."""
        return sum(row.size_bytes for row in self.sessions)


@dataclass(frozen=True)
class Census:
    """What all users have, by name."""

    taken_at: datetime
    users: dict[str, UserCensus] = field(default_factory=dict)

    def checked(self, names: Collection[str]) -> list[str]:
        """The same names, each once; `ConfigurationError` if the hub does not know one."""
        for name in names:
            if name not in self.users:
                raise ConfigurationError(f"the hub knows no user {name!r}; see the list of users for their names")
        return list(dict.fromkeys(names))

    def without(self, gone: Mapping[str, Collection[str]]) -> Census:
        """The same after sessions were deleted: user to ids."""
        users = dict(self.users)
        for name, ids in gone.items():
            if ids and name in users:
                left = tuple(row for row in users[name].sessions if row.session_id not in ids)
                users[name] = replace(users[name], sessions=left)
        return Census(self.taken_at, users)

    @cached_property
    def sessions(self) -> tuple[SessionRow, ...]:
        """Every session of every user."""
        return tuple(row for user in self.users.values() for row in user.sessions)

    @cached_property
    def session_bytes(self) -> int:
        """What all sessions take on disk."""
        return sum(user.session_bytes for user in self.users.values())

    @cached_property
    def snapshot_count(self) -> int:
        """How many snapshots there are."""
        return sum(user.snapshot_count for user in self.users.values())

    @cached_property
    def snapshot_bytes(self) -> int:
        """What all snapshots take on disk."""
        return sum(user.snapshot_bytes for user in self.users.values())


def without_shared(users: Iterable[UserCensus]) -> dict[str, UserCensus]:
    """Users by name. Those who share a folder are a problem: whose rules would apply there?"""
    found = list(users)
    sharing: dict[str, list[str]] = {}
    for user in found:
        if user.identity:
            sharing.setdefault(user.identity, []).append(user.name)
    result = {}
    for user in found:
        others = [name for name in sharing.get(user.identity, ()) if name != user.name]
        if others:
            problem = f"{user.root} is also the workspace of {', '.join(sorted(others)[:3])}"
            user = UserCensus(user.user, user.taken_at, user.root, problem=problem)
        result[user.name] = user
    return result
