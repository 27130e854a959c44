"""`wasm-kernel-hub`: the service as JupyterHub starts it, or as an administrator runs it once."""

from __future__ import annotations

import asyncio
import importlib.util
import os
from pathlib import Path
from typing import Any, cast
from urllib.parse import urlparse

from jupyterhub.services.auth import HubOAuth, HubOAuthCallbackHandler  # type: ignore[import-untyped]
from jupyterhub.utils import url_path_join  # type: ignore[import-untyped]
from tornado.httpclient import AsyncHTTPClient, HTTPRequest
from tornado.web import Application as WebApplication
from traitlets import Bool, Dict, Float, Unicode
from traitlets.config import Application

from wasm_kernel.hub.census import HubUser
from wasm_kernel.hub.homes import Homes
from wasm_kernel.hub.policies import Policies
from wasm_kernel.hub.service import Arrangement, Service


class WasmKernelHub(Application):
    """The service."""

    name = "wasm-kernel-hub"
    description = "Prunes, archives and shows what all users' kernels left, on a schedule and by a page."

    workspace_template = Unicode(
        "/home/{username}/.local/share/wasm-kernel/workspace",
        help="Where each user's workspace is. {username} is the user's name, escaped as in the hub's addresses.",
    ).tag(config=True)
    state_folder = Unicode("wasm-kernel-hub", help="The service's own folder.").tag(config=True)
    archive_folder = Unicode("", help="Where archives of sessions go, a folder per user.").tag(config=True)
    policy = Dict(help="What is kept of every user.").tag(config=True)
    group_policies = Dict(help="What is kept of users in a group.").tag(config=True)
    user_policies = Dict(help="What is kept of single users.").tag(config=True)
    locks_visible = Bool(False, help="Whether locks of users' kernels are seen from here.").tag(config=True)
    interval = Float(0.0, help="Seconds between two runs; 0: none by itself.").tag(config=True)
    aliases = {"config": "WasmKernelHub.config_file", "state-folder": "WasmKernelHub.state_folder"}
    config_file = Unicode("", help="A file with settings.").tag(config=True)

    def initialize(self, argv: Any = None) -> None:
        """Settings from the command line and a file."""
        super().initialize(argv)
        if self.config_file:
            self.load_config_file(self.config_file)

    def make_service(self) -> Service:
        """The service by these settings."""
        archive = Path(self.archive_folder).absolute() if self.archive_folder else None
        arrangement = Arrangement(
            Path(self.state_folder).absolute(),
            Policies(self.policy, self.group_policies, self.user_policies),
            self.locks_visible,
            archive is not None,
        )
        return Service(arrangement, Homes(self.workspace_template, archive), self.list_users)

    async def list_users(self) -> list[HubUser]:
        """Everybody the hub knows."""
        import json

        url = url_path_join(os.environ["JUPYTERHUB_API_URL"], "users")
        headers = {"Authorization": f"token {os.environ['JUPYTERHUB_API_TOKEN']}"}
        answer = await AsyncHTTPClient().fetch(HTTPRequest(url, headers=headers))
        return [
            HubUser(u["name"], tuple(u.get("groups", ())), bool(u.get("servers") or u.get("server")))
            for u in json.loads(answer.body)
        ]

    def make_web(self, service: Service) -> WebApplication:
        """The pages."""
        prefix = os.environ.get("JUPYTERHUB_SERVICE_PREFIX", "/")
        handlers: list[Any] = [(url_path_join(prefix, "oauth_callback"), HubOAuthCallbackHandler)]
        if importlib.util.find_spec("wasm_kernel.hub.pages") is not None:
            pages = importlib.import_module("wasm_kernel.hub.pages")
            handlers += [(url_path_join(prefix, path), *rest) for path, *rest in pages.handlers(service)]
        auth = HubOAuth.instance(parent=self)
        return WebApplication(handlers, cookie_secret=os.urandom(32), xsrf_cookies=True, hub_auth=auth, prefix=prefix)

    def start(self) -> None:
        """Serve until told to stop."""
        asyncio.run(self._serve())

    async def _serve(self) -> None:
        address = urlparse(os.environ.get("JUPYTERHUB_SERVICE_URL", "http://127.0.0.1:10203"))
        self.make_web(self.make_service()).listen(address.port or 80, address.hostname or "127.0.0.1")
        await asyncio.Event().wait()


main = cast(Any, WasmKernelHub.launch_instance)
