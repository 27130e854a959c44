"""Users' sessions in an object store, a prefix for each, for hubs without shared disks: no server has to run.

Only what is pushed is seen: sessions, their size, and when they were last pushed. One that a server has open is in use,
as its lease says. Snapshots and archives are made on users' disks, and there are none here. A prefix is its user's, who
can write anything there: what is read is checked, as everywhere, and at worst a user lies about their own sessions.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from wasm_kernel.errors import ConfigurationError, LeaseLost, SessionElsewhere, WasmKernelError
from wasm_kernel.host.remote.objects import Objects, open_objects, without_credentials
from wasm_kernel.hub.census import HubUser
from wasm_kernel.hub.workspaces.open_workspace import NAME, Refused, folder_name
from wasm_kernel.model.prune_report import PruneReport, report_of_snapshots
from wasm_kernel.model.records import SessionRecord, format_time
from wasm_kernel.model.session_info import SessionInfo, WorkspaceInfo
from wasm_kernel.sessions.remote.deleting import collect, delete_stored
from wasm_kernel.sessions.remote.lease import acquire
from wasm_kernel.sessions.remote.notices import write_stored_notices
from wasm_kernel.sessions.remote.states import states
from wasm_kernel.sessions.remote.stored import StoredSession, records_of, survey_store

_SECONDS = 600.0
_AT_ONCE = 8  # sessions of a user
_NEW_NAMES = 200  # sessions of a user whose titles one look reads; the next one reads more
_MOST_NAMES = 100_000  # that are remembered
_TEXT = 300
_NOT_HERE = "only users' own kernels can do that: their sessions are in an object store"

Decisions = list[list[Any]]


def check_template(template: str) -> str:
    """A template that gives each user a prefix of their own; `ConfigurationError` if not."""
    if NAME not in template or "{" in template.replace(NAME, "") or "://" not in template:
        raise ConfigurationError(
            f"store is {template!r}; it must be an address with {NAME} in it, such as s3://bucket/{NAME}"
        )
    return template


class ObjectStores:
    """Work in users' prefixes, with this service's own credentials."""

    def __init__(self, template: str) -> None:
        self._template = check_template(template)
        self._names: dict[str, SessionRecord] = {}  # by address and state, which never changes
        self._jobs: dict[str, Callable[..., Mapping[str, Any]]] = {
            "look": self._look,
            "snapshots": lambda _objects, session_id=None: {"snapshots": []},
            "foresee": _foresee,
            "remove": _remove,
            "sweep": _sweep,
            "tell": _tell,
            "connections": lambda _objects, after="": {"connections": []},
        }

    def obstacle(self, user: HubUser) -> str:
        """Nothing: leases say which sessions are in use."""
        return ""

    def shift(self) -> contextlib.AbstractAsyncContextManager[None]:
        """Nothing to start: a store is always there."""
        return contextlib.nullcontext()

    def close(self) -> None:
        """Nothing to end."""

    async def do(self, user: HubUser, job: str, *, archive: bool = False, **arguments: Any) -> dict[str, Any]:
        """Do a job as `jobs` does it: its answer, or ``{"problem": text}``."""
        if archive or job not in self._jobs:
            return {"problem": _NOT_HERE}
        try:
            address = self._template.replace(NAME, folder_name(user.name))
            async with asyncio.timeout(_SECONDS):
                return await asyncio.to_thread(self._do, address, job, arguments)
        except TimeoutError:
            return {"problem": f"the store took longer than {_SECONDS:.0f} s"}
        except Refused as e:
            return {"problem": str(e)}

    def _do(self, address: str, job: str, arguments: dict[str, Any]) -> dict[str, Any]:
        try:
            answer = self._jobs[job](open_objects(address), **arguments)
        except (WasmKernelError, OSError) as e:
            return {"problem": str(e)}
        except Exception as e:  # noqa: BLE001 - whatever a user has put there, it is a problem of that user alone
            return {"problem": f"what is in their store cannot be read ({type(e).__name__})"}
        identity = hashlib.sha256(address.encode()).hexdigest()
        return {**answer, "root": without_credentials(address), "identity": identity}

    def _look(self, objects: Objects) -> WorkspaceInfo:
        found = survey_store(objects).sessions
        names = self._names_of(objects, found)
        return {
            "sessions": [_info(session, names.get(session.session_id)) for session in found.values()],
            "snapshot_count": 0,
            "snapshot_bytes": 0,
            "free_bytes": None,
        }

    def _names_of(self, objects: Objects, found: Mapping[str, StoredSession]) -> dict[str, SessionRecord]:
        """The metadata of sessions, of which each look reads some more, those used last first."""
        keys = {name: f"{objects.address}/{session.state}" for name, session in found.items()}
        latest = sorted(found.values(), key=lambda session: session.updated_at, reverse=True)
        unread = [s.session_id for s in latest if keys[s.session_id] not in self._names][:_NEW_NAMES]
        with ThreadPoolExecutor(_AT_ONCE) as pool:
            for one in pool.map(lambda name: records_of(objects, found, [name]), unread):
                self._names.update({keys[name]: record for name, record in one.items()})
        for key in list(self._names)[:-_MOST_NAMES]:
            self._names.pop(key, None)
        return {name: self._names[key] for name, key in keys.items() if key in self._names}


def _info(session: StoredSession, record: SessionRecord | None) -> SessionInfo:
    extra: dict[str, Any] = record.extra if record is not None else {}
    count = extra.get("execution_count")
    return {
        "session_id": session.session_id,
        "created_at": format_time(record.created_at) if record is not None else None,
        "updated_at": format_time(session.updated_at),
        "size_bytes": session.size_bytes,
        "live": bool(session.open_at),
        "problem": "",
        "title": str(extra.get("title") or "")[:_TEXT],
        "notebook": str(extra.get("notebook") or "")[:_TEXT],
        "former_notebook": "",
        "execution_count": count if type(count) is int and 0 <= count < 1 << 53 else 0,
        "snapshot_count": 0,
        "stamp": session.stamp,
    }


def _foresee(objects: Objects, decisions: Decisions, policy: dict[str, Any] | None = None) -> PruneReport:
    return _report([(name, size) for name, _, size, _ in decisions], {}, [], [], done=False)


def _remove(objects: Objects, decisions: Decisions) -> PruneReport:
    """Delete sessions that have not been pushed, and not been opened, since the decision."""
    errors: dict[str, str] = {}
    live: list[str] = []
    changed: list[str] = []

    def remove(decision: list[Any]) -> tuple[str, int] | None:
        name, _, size, stamp = decision
        try:
            lease = acquire(objects, name)
            if "".join(states(objects, name)[-1:]).rpartition("/")[2] == stamp:
                delete_stored(objects, name, lease)
                return name, size
            changed.append(name)
            lease.give_back()
        except SessionElsewhere:
            live.append(name)
        except LeaseLost:
            changed.append(name)
        except (WasmKernelError, OSError) as e:
            errors[name] = str(e)
        return None

    with ThreadPoolExecutor(_AT_ONCE) as pool:
        gone = [one for one in pool.map(remove, decisions) if one is not None]
    return _report(gone, errors, live, changed, done=True)


def _report(
    gone: list[tuple[str, int]], errors: dict[str, str], live: list[str], changed: list[str], *, done: bool
) -> PruneReport:
    found = report_of_snapshots([], errors)
    found["sessions"] = [
        {
            "session_id": name,
            "action": "delete",
            "reason": "",
            "done": done,
            "age_hours": None,
            "size_bytes": size,
            "snapshot_bytes": 0,
            "stored_bytes": size,
            "notebook": "",
            "title": "",
            "archive": None,
            "snapshot_id": None,
        }
        for name, size in gone
    ]
    found["live"], found["changed"] = live, changed
    return found


def _sweep(objects: Objects, max_age_hours: float | None = None) -> PruneReport:
    for leftover in survey_store(objects).leftovers:
        collect(objects, leftover)
    return report_of_snapshots([], {})


def _tell(objects: Objects, notices: list[dict[str, Any]]) -> dict[str, Any]:
    write_stored_notices(objects, notices)
    return {}
