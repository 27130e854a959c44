"""The hub's API, as far as this service needs it: users, their groups, and whose servers run."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Collection
from typing import Any
from urllib.parse import quote

from tornado.httpclient import AsyncHTTPClient, HTTPClientError, HTTPRequest

from wasm_kernel.errors import ConfigurationError, WasmKernelError
from wasm_kernel.hub.census import HubUser

_PAGES = "application/jupyterhub-pagination+json"
_SECONDS = 30.0
_STARTING = 300.0
_LIMIT = 200  # users asked for at once; the hub may give fewer


class HubUnavailable(WasmKernelError):
    """The hub does not answer, or refuses; the text says what to do."""


class HubApi:
    """Asks the hub, with the service's token."""

    def __init__(self, url: str, token: str, *, groups: bool = False, only: Collection[str] = ()) -> None:
        """``groups``: whether policies need to know users' groups. ``only``: users by name; none: all."""
        if not url or not token:
            raise ConfigurationError(
                "there is no hub: JUPYTERHUB_API_URL and JUPYTERHUB_API_TOKEN are not set; "
                "let JupyterHub start this service, or name users with --users"
            )
        self._url, self._token, self._groups, self._only = url.rstrip("/"), token, groups, frozenset(only)

    async def users(self) -> list[HubUser]:
        """Everybody the hub lets this service see."""
        found: list[HubUser] = []
        offset: int | None = 0
        while offset is not None:
            page = await self._ask(f"/users?offset={offset}&limit={_LIMIT}", "list:users")
            found += [self._user(model) for model in page["items"]]
            following = page["_pagination"]["next"]
            offset = following["offset"] if following else None
        return [user for user in found if not self._only or user.name in self._only]

    async def user(self, name: str) -> HubUser | None:
        """One user as the hub knows them now; None if they no longer exist."""
        found = await self._ask(f"/users/{quote(name, safe='')}", "read:users:name", missing=True)
        return self._user(found) if found is not None else None

    def _user(self, model: dict[str, Any]) -> HubUser:
        if "servers" not in model:
            raise HubUnavailable("the hub does not say whose servers run; give the service the scope read:servers")
        if self._groups and "groups" not in model:
            raise HubUnavailable(
                "the hub does not say users' groups; give the service the scope read:users:groups, "
                "or remove group_policies"
            )
        servers = model["servers"]
        ready = [server["url"] for _, server in sorted(servers.items()) if server.get("ready") and server.get("url")]
        return HubUser(str(model["name"]), tuple(model.get("groups", ())), bool(servers), ready[0] if ready else "")

    async def start(self, name: str) -> HubUser | None:
        """Start a user's server, and wait for it; None if it does not come up."""
        await self._ask(f"/users/{quote(name, safe='')}/server", "start:servers", method="POST")
        end = time.monotonic() + _STARTING
        while time.monotonic() < end:
            user = await self.user(name)
            if user is None or user.server:
                return user
            await asyncio.sleep(1)
        return None

    async def stop(self, name: str) -> None:
        """Stop a user's server."""
        await self._ask(f"/users/{quote(name, safe='')}/server", "delete:servers", method="DELETE")

    async def _ask(self, path: str, scope: str, *, method: str = "GET", missing: bool = False) -> Any:
        request = HTTPRequest(
            self._url + path,
            method=method,
            headers={"Authorization": f"token {self._token}", "Accept": _PAGES},
            body="" if method == "POST" else None,
            request_timeout=_SECONDS,
        )
        try:
            answer = await AsyncHTTPClient().fetch(request)
            return json.loads(answer.body) if answer.body else None
        except HTTPClientError as e:
            if e.code == 404 and missing:
                return None
            if e.code in (403, 404):
                raise HubUnavailable(f"the hub refuses {method} {path}; give the service the scope {scope}") from None
            raise HubUnavailable(f"the hub answers {e.code} to {method} {path}") from None
        except (OSError, ValueError) as e:
            raise HubUnavailable(f"the hub at {self._url} cannot be reached: {e}") from None


class GivenUsers:
    """Users that are named in the configuration, where there is no hub to ask; nobody's server is known to run."""

    def __init__(self, names: list[str]) -> None:
        self._names = names

    async def users(self) -> list[HubUser]:
        """All of them."""
        return [HubUser(name) for name in self._names]

    async def user(self, name: str) -> HubUser | None:
        """One of them."""
        return HubUser(name) if name in self._names else None
