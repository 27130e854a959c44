"""Users' workspaces that cannot be reached from here: their own servers do the work, by wasm-kernel's extension.

The service asks each user's server through the hub's proxy, with its token and the scope ``access:servers``. A server
sees its own locks, so live sessions are safe also while it runs; it must run, though. What it answers is the user's
word, who may run any server: it is checked (`answers`), and at worst tells lies about that user's own sessions.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from typing import Any, cast
from urllib.parse import quote

from tornado.httpclient import AsyncHTTPClient, HTTPClientError, HTTPRequest

from wasm_kernel.errors import ConfigurationError, WasmKernelError
from wasm_kernel.hub.answers import BadAnswer
from wasm_kernel.hub.census import HubUser
from wasm_kernel.hub.hubapi import HubApi
from wasm_kernel.model.prune_report import PruneReport, PruneRequest, SnapshotBounds, report_of_snapshots
from wasm_kernel.model.session_info import SandboxInfo, SessionInfo, WorkspaceInfo, session_of

NOT_RUNNING = "their server does not run, and only it can reach their workspace"
_BASE = "wasm-kernel/api/v0"
_PAGE, _MAX_PAGES = 1000, 200
_SECONDS = 600.0
_MAX_ANSWER = 64 << 20


class NotDone(WasmKernelError):
    """A user's server does not do it; the text says why."""


class Remote:
    """Work by users' servers."""

    def __init__(self, hub: HubApi, proxy_url: str, token: str, *, start_servers: bool = False) -> None:
        if not proxy_url.startswith(("http://", "https://")):
            raise ConfigurationError(
                f"proxy_url is {proxy_url!r}; for remote it must be where users' servers are reached, "
                "such as http://127.0.0.1:8000"
            )
        self._hub, self._proxy, self._token = hub, proxy_url.rstrip("/"), token
        self._may_start, self._on_shift = start_servers, False
        self._started: dict[str, HubUser] = {}
        # Answers of this length are not read by the client that everybody shares.
        self._client = AsyncHTTPClient(force_instance=True, max_body_size=_MAX_ANSWER, max_buffer_size=_MAX_ANSWER)
        self._jobs: dict[str, Callable[..., Awaitable[Mapping[str, Any]]]] = {
            "look": self._look,
            "snapshots": self._snapshots,
            "remove": self._remove,
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
        """Meanwhile servers may be started, if that is set; they are stopped at the end."""
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
                raise NotDone("their server does not start")
            self._started[user.name] = started
        return self._started[user.name]

    def close(self) -> None:
        """No more work."""
        self._client.close()

    # ---- jobs

    async def _look(self, server: str) -> WorkspaceInfo:
        usage = await self._ask(server, "usage")
        return {
            "sessions": [_session(item) for item in await self._pages(server, "sandboxes")],
            "snapshot_count": usage.get("snapshots", 0),
            "snapshot_bytes": usage.get("snapshot_bytes", 0),
            "free_bytes": usage.get("disk_free_bytes"),
        }

    async def _snapshots(self, server: str, session_id: str | None = None) -> dict[str, Any]:
        of_one = f"sandboxes/{quote(session_id, safe='')}/" if session_id is not None else ""
        found = await self._pages(server, f"{of_one}snapshots")
        names = ("snapshot_id", "created_at", "trigger", "label", "stored_bytes", "memory_bytes")
        return {"snapshots": [{**{n: s.get(n) for n in names}, "session_id": s.get("sandbox_id")} for s in found]}

    async def _remove(self, server: str, decisions: list[list[Any]], archive: bool) -> PruneReport:
        stamps = {name: stamp for name, _, _, stamp in decisions}
        found = await self._prune(server, {"stamps": stamps, "archive": archive})
        # Whatever else it says went is none of what was asked for.
        return {
            **found,
            "sessions": [item for item in found["sessions"] if item["session_id"] in stamps],
            "errors": {name: text for name, text in found["errors"].items() if name in stamps},
            "live": [name for name in found["live"] if name in stamps],
            "changed": [name for name in found["changed"] if name in stamps],
        }

    async def _thin(self, server: str, policy: dict[str, Any], dry_run: bool = False) -> PruneReport:
        bounds = cast(SnapshotBounds, {name: value for name, value in policy.items() if value is not None})
        return await self._prune(server, {"snapshots": bounds}, dry_run=dry_run)

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
            return await self._prune(server, {})
        # Which sessions go is decided by the service: only what was deleted so long ago is to be forgotten.
        planned = await self._prune(server, {"max_age_hours": max_age_hours}, dry_run=True)
        old = [item["session_id"] for item in planned["sessions"] if item["action"] == "forget"]
        return await self._prune(server, {"max_age_hours": max_age_hours, "only": old})

    async def _prune(self, server: str, wanted: PruneRequest, *, dry_run: bool = False) -> PruneReport:
        found = await self._ask(server, "prune/plan" if dry_run else "prune/execute", wanted)
        return cast(PruneReport, found)  # what is in it is checked by whoever uses it: `answers`

    async def _tell(self, server: str, notices: list[dict[str, Any]]) -> dict[str, Any]:
        await self._ask(server, "notices", {"notices": notices}, method="PUT")
        return {}

    # ---- asking

    async def _pages(self, server: str, what: str) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = []
        for number in range(_MAX_PAGES):
            page = await self._ask(server, f"{what}?limit={_PAGE}&offset={number * _PAGE}")
            items = page["items"]
            if not isinstance(items, list) or not all(isinstance(item, dict) for item in items):
                raise NotDone("their server answers with a list that is none")
            found += items
            if page.get("next_offset") is None:
                return found
        raise NotDone(f"they have more than {_PAGE * _MAX_PAGES:,} of {what}")

    async def _ask(
        self, server: str, what: str, body: Mapping[str, Any] | None = None, *, method: str = ""
    ) -> dict[str, Any]:
        quietly = f"{'&' if '?' in what else '?'}no_track_activity=1"  # or no server would ever be idle
        request = HTTPRequest(
            f"{self._proxy}{server}{_BASE}/{what}{quietly}",
            method=method or ("GET" if body is None else "POST"),
            headers={"Authorization": f"token {self._token}", "Content-Type": "application/json"},
            body=None if body is None else json.dumps(body),
            request_timeout=_SECONDS,
            follow_redirects=False,  # to a page to log in
        )
        try:
            answer = await self._client.fetch(request)
            found = json.loads(answer.body) if answer.body else {}
        except HTTPClientError as e:
            raise NotDone(_refusal(e, what)) from None
        except (ValueError, RecursionError):
            raise NotDone(f"their server answers to {what} with what is no JSON") from None
        except OSError as e:
            raise NotDone(f"their server cannot be asked: {e}") from None
        if not isinstance(found, dict):
            raise NotDone(f"their server answers to {what} with what is no object")
        return found


def _refusal(error: HTTPClientError, what: str) -> str:
    text = f"their server answers {error.code} to {what}"
    if error.code in (301, 302, 403):
        return f"{text}; give the service the scope access:servers"
    if error.code == 404:
        return f"{text}; wasm-kernel's extension is not there, or too old"
    with contextlib.suppress(ValueError, AttributeError, TypeError, LookupError):
        text += f": {str(json.loads(error.response.body)['detail'])[:200]}"  # type: ignore[union-attr]
    return text


def _session(item: dict[str, Any]) -> SessionInfo:
    """A sandbox of the API as a session."""
    try:
        return session_of(cast(SandboxInfo, item))
    except KeyError as e:
        raise NotDone(f"their server lists sandboxes without {e}; its wasm-kernel is too old") from None
