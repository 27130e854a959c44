"""Warning users before their sessions are deleted: who was told of what, and the notice their next kernel shows.

A user is warned of a session that would be deleted within ``warn_before``, and it is not deleted before they have been
warned for that long; using it cancels the warning. Only a disk that runs full (``min_free``) does not wait. What users
were told is kept in the service's own folder. The notice is a file in the workspace, ``.wasm-kernel/notices.json``:

    {"version": 1, "notices": [{"id": …, "created_at": …, "text": …, "session_ids": […], "due": …}]}
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

from wasm_kernel.host.durable import write_file
from wasm_kernel.hub.census import UserCensus
from wasm_kernel.hub.plan import URGENT, facts_of
from wasm_kernel.hub.policies import UserRules
from wasm_kernel.model.records import format_time, parse_time
from wasm_kernel.model.retention import plan
from wasm_kernel.model.units import format_duration

_MAX_NOTICES, _MAX_IDS, _MAX_NAMED, _MAX_NAME = 20, 500, 5, 80
_TIMES = ("warned_at", "due", "updated_at")


@dataclass(frozen=True)
class SessionWarning:
    """A session whose user was warned that it will be deleted.

    Attributes:
        user: Whose.
        session_id: Which.
        warned_at: When the notice was written.
        due: From when on it may be deleted.
        reason: Which bound asks for it.
        updated_at: When it had last been used; using it cancels the warning.
        notice_id: The notice it is in.
        name: Its notebook or title, if it has one: the user's text.
        size_bytes: What it holds.
    """

    user: str
    session_id: str
    warned_at: datetime
    due: datetime
    reason: str
    updated_at: datetime
    notice_id: str
    name: str = ""
    size_bytes: int = 0


def warnings_for(
    user: UserCensus, rules: UserRules, known: Mapping[str, SessionWarning], now: datetime
) -> list[SessionWarning]:
    """What a user is to be warned of now: known warnings that still hold, and new ones. ``known`` is by session."""
    if user.problem:
        return list(known.values())  # their workspace could not be read this time
    if not rules.warn_before:
        return []
    ahead = timedelta(seconds=rules.warn_before)
    decided = plan(facts_of(user.sessions), rules.retention, now + ahead, free_bytes=user.free_bytes)
    rows = {row.session_id: row for row in user.sessions}
    notice_id = str(uuid.uuid4())
    result = []
    for decision in decided.remove:
        row = rows[decision.session_id]
        if decision.reason in URGENT or row.updated_at is None:
            continue
        told = known.get(row.session_id)
        if told is not None and told.updated_at == row.updated_at:
            result.append(told)
            continue
        due = now + ahead
        if decision.reason == "max_age_hours" and rules.retention.max_age_hours is not None:
            due = max(due, row.updated_at + timedelta(hours=rules.retention.max_age_hours))
        name = (row.title or row.notebook.rpartition("/")[2])[:_MAX_NAME]
        result.append(
            SessionWarning(
                user.name, row.session_id, now, due, decision.reason, row.updated_at, notice_id, name, row.size_bytes
            )
        )
    return result


def notices_of(warnings: Iterable[SessionWarning], rules: UserRules) -> list[dict[str, Any]]:
    """What a user's kernel shows: a notice for all that was found at one time, the oldest first."""
    together: dict[str, list[SessionWarning]] = {}
    for warning in warnings:
        together.setdefault(warning.notice_id, []).append(warning)
    newest = sorted(together.items(), key=lambda item: item[1][0].warned_at, reverse=True)
    return [
        {
            "id": notice_id,
            "created_at": format_time(some[0].warned_at),
            "text": _text(some, rules),
            "session_ids": [w.session_id for w in some[:_MAX_IDS]],
            "due": format_time(min(w.due for w in some)),
        }
        for notice_id, some in reversed(newest[:_MAX_NOTICES])
    ]


def _text(some: list[SessionWarning], rules: UserRules) -> str:
    some = sorted(some, key=lambda w: w.due)
    one = len(some) == 1
    named = [w.name or w.session_id[:8] for w in some[:_MAX_NAMED]]
    rest = len(some) - len(named)
    listed = ", ".join(named) + (f" and {rest} more" if rest else "")
    why = {
        "max_age_hours": f"unused for {format_duration(3600 * (rules.retention.max_age_hours or 0))}",
        "max_sessions": "too many sessions",
        "max_total_bytes": "too much space",
    }
    reasons = "; ".join(sorted({why.get(w.reason, w.reason) for w in some}))
    done = "archived and deleted" if rules.archive else "deleted"
    return (
        f"{'A session' if one else f'{len(some)} sessions'} of yours will be {done}, "
        f"{'' if one else 'the first '}on {some[0].due:%Y-%m-%d} ({reasons}): {listed}. "
        f"To keep {'it' if one else 'one'}, open its notebook and run a cell."
    )


class WarningBook:
    """Who was told of what, on disk. A user who is not in it has not been told."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._by_user: dict[str, dict[str, SessionWarning]] | None = None

    def of(self, user: str) -> dict[str, SessionWarning]:
        """A user's warnings by session."""
        return self._read().get(user, {})

    def all(self) -> list[SessionWarning]:
        """Everybody's, the next due first."""
        every = (w for of_user in self._read().values() for w in of_user.values())
        return sorted(every, key=lambda w: (w.due, w.user, w.session_id))

    def replace(self, by_user: Mapping[str, Iterable[SessionWarning]], *, users: Iterable[str]) -> None:
        """Replace the warnings of these users, and forget users that no longer exist."""
        book = {name: of_user for name, of_user in self._read().items() if name in set(users)}
        book.update({name: {w.session_id: w for w in some} for name, some in by_user.items()})
        book = {name: of_user for name, of_user in book.items() if of_user}
        if book != self._read():
            self._write(book)
        self._by_user = book

    def _read(self) -> dict[str, dict[str, SessionWarning]]:
        if self._by_user is None:
            self._by_user = {}
            try:
                for found in json.loads(self._path.read_bytes())["warnings"]:
                    warning = SessionWarning(**{**found, **{name: parse_time(found[name]) for name in _TIMES}})
                    self._by_user.setdefault(warning.user, {})[warning.session_id] = warning
            except FileNotFoundError:
                pass
            except (ValueError, TypeError, KeyError):  # users are warned again, and have time again
                self._by_user = {}
        return self._by_user

    def _write(self, book: dict[str, dict[str, SessionWarning]]) -> None:
        listed = [_plain(w) for of_user in book.values() for w in of_user.values()]
        data = json.dumps({"version": 1, "warnings": listed}, indent=1).encode()
        self._path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        write_file(self._path, data)


def _plain(warning: SessionWarning) -> dict[str, Any]:
    return {**asdict(warning), **{name: format_time(getattr(warning, name)) for name in _TIMES}}
