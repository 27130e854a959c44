"""Users' workspaces that cannot be reached from here: their own servers do the work, by wasm-kernel's extension.

The service asks each user's server through the hub's proxy, with its token and the scope ``access:servers``. A server
sees its own locks, so live sessions are safe also while it runs; it must run, though. What it answers is the user's
word, who may run any server: it is checked (`answers`), and at worst tells lies about that user's own sessions.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from datetime import UTC, datetime, timedelta
from typing import Any
from urllib.parse import quote

from tornado.httpclient import AsyncHTTPClient, HTTPClientError, HTTPRequest

from wasm_kernel.errors import ConfigurationError, WasmKernelError
from wasm_kernel.hub.answers import BadAnswer
from wasm_kernel.hub.census import HubUser
from wasm_kernel.hub.hubapi import HubApi
from wasm_kernel.model.records import BadRecord, parse_time

NOT_RUNNING = "their server does not run, and only it can reach their workspace"
_BASE = "wasm-kernel/api/v0"
_PAGE, _MAX_PAGES = 1000, 200
_SECONDS = 600.0
_MAX_ANSWER = 64 << 20
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


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
        self._jobs: dict[str, Callable[..., Awaitable[dict[str, Any]]]] = {
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
        except (WasmKernelError, OSError, BadAnswer, LookupError, TypeError) as e:
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

    async def _look(self, server: str) -> dict[str, Any]:
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

    async def _remove(self, server: str, decisions: list[list[Any]], archive: bool) -> dict[str, Any]:
        result: dict[str, Any] = {
            "deleted": {}, "archived": {}, "errors": {}, "live": [], "changed": [], "snapshot_bytes": 0
        }  # fmt: skip
        for ids, hours in _by_age(decisions):
            found = await self._ask(server, "prune/execute", {"max_age_hours": hours, "only": ids, "archive": archive})
            gone = [item for item in found["sessions"] if item["done"] and item["session_id"] in ids]
            result["deleted"] |= {item["session_id"]: item["size_bytes"] for item in gone}
            if archive:
                result["archived"] |= {item["session_id"]: str(item["archive"]) for item in gone}
            result["errors"] |= {name: str(text) for name, text in found["errors"].items() if name in ids}
            result["live"] += [name for name in found["live"] if name in ids]
            result["snapshot_bytes"] += found["totals"]["snapshot_bytes_freed"]
            told = {*result["deleted"], *result["errors"], *result["live"]}
            result["changed"] += [name for name in ids if name not in told]
        return result

    async def _thin(self, server: str, policy: dict[str, Any], dry_run: bool = False) -> dict[str, Any]:
        bounds = {name: value for name, value in policy.items() if value is not None}
        how = "prune/plan" if dry_run else "prune/execute"
        found = await self._ask(server, how, {"only": [], "snapshots": bounds})
        return {"snapshots": found["snapshots"], "snapshot_bytes": found["totals"]["snapshot_bytes_freed"]}

    async def _forget(self, server: str, snapshot_ids: list[str]) -> dict[str, Any]:
        done, errors = [], {}
        for name in snapshot_ids:
            try:
                await self._ask(server, f"snapshots/{quote(name, safe='')}", method="DELETE")
                done.append(name)
            except NotDone as e:
                errors[name] = str(e)
        return {"snapshots": done, "errors": errors, "snapshot_bytes": 0}

    async def _sweep(self, server: str, max_age_hours: float | None = None) -> dict[str, Any]:
        found = await self._ask(server, "prune/execute", {"only": []})
        return {"snapshot_bytes": found["totals"]["snapshot_bytes_freed"]}

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
        self, server: str, what: str, body: dict[str, Any] | None = None, *, method: str = ""
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


def _session(item: dict[str, Any]) -> dict[str, Any]:
    """A sandbox of the API as `jobs.look` has it. Its stamp is when it was used: the API has no other."""
    names = ("created_at", "updated_at", "size_bytes", "problem", "title", "notebook", "execution_count")
    try:
        moment = parse_time(item.get("updated_at"))
        stamp = [0, (moment - _EPOCH) // timedelta(microseconds=1)]
    except BadRecord:
        stamp = None
    return {
        **{name: item.get(name) for name in names},
        "session_id": item.get("sandbox_id"),
        "live": item.get("state") != "released",
        "snapshot_count": item.get("snapshot_count", 0),
        "stamp": stamp,
    }


def _by_age(decisions: list[list[Any]]) -> list[tuple[list[str], float]]:
    """Ids of about the same age, and the hours that all of them have not been used for, but none that was used since.

    Half of their age: clocks differ, and whatever is used after it was decided is younger than that by far.
    """
    now = (datetime.now(UTC) - _EPOCH) // timedelta(microseconds=1)
    ages = sorted((max(0, now - (stamp or (0, now))[1]) / 3.6e9, name) for name, _, _, stamp in decisions)
    groups: list[tuple[list[str], float]] = []
    for hours, name in ages:
        if groups and hours <= 4 * groups[-1][1]:
            groups[-1][0].append(name)
        else:
            groups.append(([name], hours / 2))
    return groups
