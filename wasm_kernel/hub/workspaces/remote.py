"""Users' workspaces that cannot be reached from here: their own servers do the work, through wasm-kernel's extension.

The service asks each user's server through the hub's proxy, with its token and the scope ``access:servers``. A server
sees its own locks, so live sessions are safe; but it must be running. What it answers is the word of the user, who may
run any server: it is checked (`checked_answers`), and at worst it lies about that user's own sessions.

Nor may it exhaust this service's memory: an answer has at most 2 MB, never compressed, and no more items than were
asked for. Of each item only the plain values that are needed are kept, before the next page is asked for.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping, Sequence
from functools import reduce
from typing import Any, TypeVar, cast
from urllib.parse import quote

from tornado.httpclient import AsyncHTTPClient, HTTPClientError, HTTPRequest
from tornado.httputil import HTTPInputError
from tornado.iostream import StreamBufferFullError, StreamClosedError, UnsatisfiableReadError
from tornado.simple_httpclient import HTTPStreamClosedError

from wasm_kernel.errors import ConfigurationError, WasmKernelError
from wasm_kernel.hub.census import HubUser
from wasm_kernel.hub.hubapi import HubApi
from wasm_kernel.hub.workspaces.checked_answers import BadAnswer
from wasm_kernel.model.prune_report import (
    PruneReport,
    PruneRequest,
    PruneTotals,
    SnapshotBounds,
    joined,
    report_of_snapshots,
)
from wasm_kernel.model.session_info import (
    MAX_TITLE,
    SNAPSHOT_NUMBERS,
    SandboxInfo,
    SessionInfo,
    WorkspaceInfo,
    session_of,
)
from wasm_kernel.model.units import format_size

_T = TypeVar("_T")
NOT_RUNNING = "their server is not running, and only it can reach their workspace"
_BASE = "wasm-kernel/api/v0"
_PAGE, _MAX_ITEMS = 250, 200_000
_MAX_ANSWER = 2 << 20
_MAX_TEXT = 1000  # characters of a value
_MAX_IDS = 250  # sessions removed by one request; all of them are in its answer
_SECONDS = 600.0
# What tornado says of an answer, or of headers, that it does not read to the end.
_CUT_OFF = (
    HTTPStreamClosedError, StreamClosedError, StreamBufferFullError, UnsatisfiableReadError, HTTPInputError
)  # fmt: skip


class NotDone(WasmKernelError):
    """A user's server did not do its job; the text says why, ``status`` what it answered, if it did."""

    def __init__(self, text: str, status: int = 0) -> None:
        super().__init__(text)
        self.status = status


class CutOff(NotDone):
    """An incomplete answer, most often because it was too long."""


class Remote:
    """Work done by users' servers."""

    def __init__(self, hub: HubApi, proxy_url: str, token: str, *, start_servers: bool = False) -> None:
        if not proxy_url.startswith(("http://", "https://")):
            raise ConfigurationError(
                f"proxy_url is {proxy_url!r}; for remote it must be where users' servers are reached, "
                "such as http://127.0.0.1:8000"
            )
        self._hub, self._proxy, self._token = hub, proxy_url.rstrip("/"), token
        self._may_start, self._on_shift = start_servers, False
        self._started: dict[str, HubUser] = {}
        # A client of our own: the one that everybody shares reads answers of any length.
        self._client = AsyncHTTPClient(force_instance=True, max_body_size=_MAX_ANSWER, max_buffer_size=_MAX_ANSWER)
        self._jobs: dict[str, Callable[..., Awaitable[Mapping[str, Any]]]] = {
            "look": self._look,
            "snapshots": self._snapshots,
            "foresee": self._foresee,
            "remove": self._remove,
            "stop": self._stop,
            "fork": self._fork,
            "thin": self._thin,
            "forget": self._forget,
            "sweep": self._sweep,
            "tell": self._tell,
        }

    def obstacle(self, user: HubUser) -> str:
        """Why nothing may be removed for this user now, or empty."""
        return "" if user.server or self._on_shift or user.name in self._started else NOT_RUNNING

    @contextlib.asynccontextmanager
    async def shift(self) -> AsyncIterator[None]:
        """Servers may be started meanwhile, if that is set, and are stopped at the end."""
        self._on_shift = self._may_start
        try:
            yield
        finally:
            self._on_shift = False
            while self._started:
                name, _ = self._started.popitem()
                with contextlib.suppress(WasmKernelError):  # the culler will do it
                    await self._hub.stop(name)

    async def do(self, user: HubUser, job: str, *, archive: bool = False, **arguments: Any) -> dict[str, Any]:
        """Do a job as `jobs` does it: its answer, or ``{"problem": text}``."""
        if job == "remove":
            arguments["archive"] = archive
        try:
            server = user.server or (await self._start(user)).server
            return {**await self._jobs[job](server, **arguments), "root": self._proxy + server}
        except (WasmKernelError, OSError, BadAnswer, LookupError, TypeError, AttributeError) as e:
            return {"problem": str(e)}

    async def _start(self, user: HubUser) -> HubUser:
        if user.name not in self._started:
            if not self._on_shift:
                raise NotDone(NOT_RUNNING)
            started = await self._hub.start(user.name)
            if started is None or not started.server:
                raise NotDone("their server did not start")
            self._started[user.name] = started
        return self._started[user.name]

    def close(self) -> None:
        """Close all connections."""
        self._client.close()

    # ---- jobs

    async def _look(self, server: str) -> WorkspaceInfo:
        usage = _plain(await self._ask(server, "usage"), ("snapshots", "snapshot_bytes", "disk_free_bytes"))
        return {
            "sessions": await self._pages(server, "sandboxes", _session),
            "snapshot_count": usage["snapshots"] or 0,
            "snapshot_bytes": usage["snapshot_bytes"] or 0,
            "free_bytes": usage["disk_free_bytes"],
        }

    async def _snapshots(self, server: str, session_id: str | None = None) -> dict[str, Any]:
        of_one = f"sandboxes/{quote(session_id, safe='')}/" if session_id is not None else ""
        return {"snapshots": await self._pages(server, f"{of_one}snapshots", _snapshot)}

    async def _foresee(
        self, server: str, decisions: list[list[Any]], policy: dict[str, Any] | None = None
    ) -> PruneReport:
        batches = _batches(decisions)
        bounds = _bounds(policy) if policy is not None else None
        if len(batches) <= 1 and bounds is not None:
            stamps = batches[0] if batches else {}
            return await self._prune(server, {"stamps": stamps, "snapshots": bounds}, dry_run=True)
        # Too many sessions for one request: none of these plans knows what the others delete.
        found = [await self._prune(server, {"stamps": few}, dry_run=True) for few in batches]
        if bounds is not None:
            found.append(await self._prune(server, {"only": [], "snapshots": bounds}, dry_run=True))
        return _joined(found)

    async def _remove(self, server: str, decisions: list[list[Any]], archive: bool) -> PruneReport:
        done = []
        for few in _batches(decisions):
            done.append(_about(await self._prune(server, {"stamps": few, "archive": archive}), few))
        return _joined(done)

    async def _stop(self, server: str, decisions: list[list[Any]]) -> PruneReport:
        """Stop sessions; each leaves a last snapshot, also of what ran in it since it was listed."""
        sessions: list[dict[str, Any]] = []
        live, errors = [], {}
        for name, _, size, _ in decisions:
            try:
                found = await self._ask(server, f"sandboxes/{quote(name, safe='')}/stop", {})
                gone = {"session_id": name, "action": "delete", "done": True, "size_bytes": size}
                sessions.append({**gone, "snapshot_id": _plain(found, ("snapshot_id",))["snapshot_id"]})
            except NotDone as e:
                if e.status == 409:
                    live.append(name)
                else:
                    errors[name] = str(e)
        return cast(PruneReport, {**report_of_snapshots([], errors), "sessions": sessions, "live": live})

    async def _fork(self, server: str, snapshot_id: str, title: str) -> dict[str, Any]:
        found = await self._ask(server, "sandboxes", {"snapshot_id": snapshot_id, "title": title[:MAX_TITLE]})
        return {"session_id": _plain(found, ("sandbox_id",))["sandbox_id"]}

    async def _thin(self, server: str, policy: dict[str, Any]) -> PruneReport:
        return await self._prune(server, {"only": [], "snapshots": _bounds(policy)})

    async def _forget(self, server: str, snapshot_ids: list[str]) -> PruneReport:
        done, errors = [], {}
        for name in snapshot_ids:
            try:
                await self._ask(server, f"snapshots/{quote(name, safe='')}", method="DELETE")
                done.append(name)
            except NotDone as e:
                errors[name] = str(e)
        return report_of_snapshots(done, errors)

    async def _sweep(self, server: str, max_age_hours: float | None = None) -> PruneReport:
        if max_age_hours is None:
            return await self._prune(server, {"only": []})
        # The service decides which sessions go: this only forgets those deleted that long ago.
        planned = await self._prune(server, {"max_age_hours": max_age_hours}, dry_run=True)
        old = [item["session_id"] for item in planned["sessions"] if item["action"] == "forget"]
        return await self._prune(server, {"max_age_hours": max_age_hours, "only": old})

    async def _prune(self, server: str, wanted: PruneRequest, *, dry_run: bool = False) -> PruneReport:
        return _report(await self._ask(server, "prune/plan" if dry_run else "prune/execute", wanted))

    async def _tell(self, server: str, notices: list[dict[str, Any]]) -> dict[str, Any]:
        await self._ask(server, "notices", {"notices": notices}, method="PUT")
        return {}

    # ---- asking

    async def _pages(self, server: str, what: str, read: Callable[[Any], _T]) -> list[_T]:
        """A whole list, page by page. ``read`` takes what is needed of an item."""
        found: list[_T] = []
        size, offset = _PAGE, 0
        while offset < _MAX_ITEMS:
            try:
                page = await self._ask(server, f"{what}?limit={size}&offset={offset}")
            except CutOff:
                if size == 1:
                    raise
                size = max(1, size // 5)  # large items, such as snapshots with much metadata
                continue
            items = page["items"]
            if not isinstance(items, list) or len(items) > size:
                raise NotDone(f"their server sent no list, or more than the {size} items asked for")
            found += [read(item) for item in items]
            if page.get("next_offset") is None:
                return found
            if not items:
                raise NotDone(f"their server's list of {what} does not end")
            offset += size
        raise NotDone(f"their server lists more than {_MAX_ITEMS:,} {what}")

    async def _ask(
        self, server: str, what: str, body: Mapping[str, Any] | None = None, *, method: str = ""
    ) -> dict[str, Any]:
        quietly = f"{'&' if '?' in what else '?'}no_track_activity=1"  # or no server would ever be idle
        request = HTTPRequest(
            f"{self._proxy}{server}{_BASE}/{what}{quietly}",
            method=method or ("GET" if body is None else "POST"),
            headers={
                "Authorization": f"token {self._token}",
                "Content-Type": "application/json",
                "Accept-Encoding": "identity",
            },
            decompress_response=False,  # a few KB may become GB
            body=None if body is None else json.dumps(body),
            request_timeout=_SECONDS,
            follow_redirects=False,  # to a page to log in
        )
        try:
            answer = await self._client.fetch(request)
            if answer.headers.get("Content-Encoding", "identity").lower() != "identity":
                raise NotDone(f"their server's answer to {what} is compressed, though it was asked not to be")
            found = json.loads(answer.body) if answer.body else {}
        except _CUT_OFF:
            limit = format_size(_MAX_ANSWER)
            raise CutOff(f"their server's answer to {what} was cut off; it may have at most {limit}") from None
        except HTTPClientError as e:
            raise NotDone(_refusal(e, what), e.code) from None
        except (ValueError, RecursionError):
            raise NotDone(f"their server's answer to {what} is not JSON") from None
        except OSError as e:
            raise NotDone(f"their server cannot be reached: {e}") from None
        if not isinstance(found, dict):
            raise NotDone(f"their server's answer to {what} is not an object")
        return found


def _refusal(error: HTTPClientError, what: str) -> str:
    text = f"their server answers {error.code} to {what}"
    if error.code in (301, 302, 403):
        return f"{text}; give the service the scope access:servers"
    if error.code == 404:
        return f"{text}; wasm-kernel's extension is missing, or too old"
    with contextlib.suppress(ValueError, AttributeError, TypeError, LookupError, RecursionError):
        text += f": {str(json.loads(error.response.body)['detail'])[:200]}"  # type: ignore[union-attr]
    return text


def _session(found: Any) -> SessionInfo:
    """A sandbox of the API as a session."""
    texts = ("sandbox_id", "state", "stamp", "created_at", "updated_at", "problem", "title", "notebook")
    numbers = ("size_bytes", "execution_count", "snapshot_count")
    item = _plain(found, (*texts, "former_notebook", *numbers))
    if item["stamp"] is None:
        raise NotDone("their server lists sandboxes without a stamp; its wasm-kernel is too old")
    return session_of(cast(SandboxInfo, {**item, **{name: item[name] or 0 for name in numbers}}))


def _snapshot(found: Any) -> dict[str, Any]:
    """A snapshot of the API as `jobs.snapshots` has it."""
    names = ("snapshot_id", "created_at", "trigger", "label")
    item = _plain(found, (*names, "sandbox_id", "parent", *SNAPSHOT_NUMBERS))
    numbers = {name: item[name] or 0 for name in SNAPSHOT_NUMBERS}
    mine = {name: item[name] for name in names}
    return {**mine, **numbers, "session_id": item["sandbox_id"], "parent": item["parent"] or ""}


def _plain(found: Any, names: Iterable[str]) -> dict[str, Any]:
    """The named values of an object, None for missing ones; long text is cut, and what is neither text nor a number is
    refused."""
    if not isinstance(found, dict):
        raise NotDone("their server sent an item that is not an object")
    values = {name: found.get(name) for name in names}
    for name, value in values.items():
        if isinstance(value, str):
            values[name] = value[:_MAX_TEXT]
        elif value is not None and (not isinstance(value, int) or abs(value) >= 1 << 63):  # bool is an int too
            raise NotDone(f"their server sent a {name} that is neither text nor a number")
    return values


def _report(found: dict[str, Any]) -> PruneReport:
    """What a server says of a prune, in plain values; `checked_answers` checks whether they make sense."""
    sessions, errors = found.get("sessions"), found.get("errors")
    names = {name: found.get(name, []) for name in ("live", "changed", "snapshots")}
    lists = all(isinstance(value, list) and all(isinstance(n, str) for n in value) for value in names.values())
    if not (isinstance(sessions, list) and isinstance(errors, dict) and lists):
        raise NotDone("their server does not say what became of the sessions")
    fields = ("session_id", "action", "done", "size_bytes", "snapshot_bytes", "archive")
    plain = [_plain(item, fields) for item in sessions]
    totals = _plain(found.get("totals"), PruneTotals.__annotations__)
    return cast(
        PruneReport,
        {
            "dry_run": found.get("dry_run") is True,
            "sessions": [{**one, "snapshot_bytes": one["snapshot_bytes"] or 0} for one in plain],
            "totals": {name: value or 0 for name, value in totals.items()},
            "errors": {name: str(text)[:_MAX_TEXT] for name, text in errors.items()},
            **names,
        },
    )


def _batches(decisions: list[list[Any]]) -> list[dict[str, str]]:
    """Session to stamp, as many as one request may name: all of them are in its answer."""
    stamps = [(name, stamp) for name, _, _, stamp in decisions]
    return [dict(stamps[start : start + _MAX_IDS]) for start in range(0, len(stamps), _MAX_IDS)]


def _bounds(policy: dict[str, Any]) -> SnapshotBounds:
    return cast(SnapshotBounds, {name: value for name, value in policy.items() if value is not None})


def _joined(reports: Sequence[PruneReport]) -> PruneReport:
    return reduce(joined, reports) if reports else report_of_snapshots([], {})


def _about(found: PruneReport, asked: Mapping[str, Any]) -> PruneReport:
    """What a report says of the sessions asked about; those it does not mention count as changed."""
    gone = {item["session_id"] for item in found["sessions"] if item["done"]}
    told = {*gone, *found["errors"], *found["live"]}
    return {
        **found,
        "sessions": [item for item in found["sessions"] if item["session_id"] in asked],
        "errors": {name: text for name, text in found["errors"].items() if name in asked},
        "live": [name for name in found["live"] if name in asked],
        "changed": [name for name in asked if name not in told],
    }
