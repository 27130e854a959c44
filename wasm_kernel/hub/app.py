"""`wasm-kernel-hub`: the service as JupyterHub starts it, or as an administrator runs it once.

Settings come from the command line (``--WasmKernelHub.interval=6h``), from ``wasm_kernel_hub_config.py`` in the current
folder or the file that ``--config`` names, and from the environment (``WASM_KERNEL_HUB_INTERVAL=6h``, dictionaries and
lists as JSON), in this order. Exit codes of ``--once``: 0 done, 1 something failed, 2 the configuration is wrong.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import secrets
import signal
import sys
from dataclasses import asdict
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from urllib.parse import urlparse

from jupyterhub.services.auth import HubOAuth, HubOAuthCallbackHandler  # type: ignore[import-untyped]
from jupyterhub.utils import url_path_join  # type: ignore[import-untyped]
from tornado import web
from tornado.httpserver import HTTPServer
from traitlets import Bool, Dict, Int, List, TraitError, Unicode
from traitlets.config import Application, Config

from wasm_kernel.errors import ConfigurationError, WasmKernelError
from wasm_kernel.hub.hubapi import GivenUsers, HubApi
from wasm_kernel.hub.metrics_handler import MetricsHandler
from wasm_kernel.hub.page import handlers as pages
from wasm_kernel.hub.plan import Run
from wasm_kernel.hub.policies import Policies
from wasm_kernel.hub.service import Arrangement, Service
from wasm_kernel.hub.workplace import Directory, Workplace
from wasm_kernel.hub.workspaces.homes import Homes
from wasm_kernel.hub.workspaces.object_stores import ObjectStores
from wasm_kernel.hub.workspaces.remote import Remote
from wasm_kernel.model.records import format_time
from wasm_kernel.model.units import counted, format_size, parse_duration

_ENVIRONMENT = "WASM_KERNEL_HUB_"
_FIRST = 10.0  # seconds until the first run: the hub that started us is still busy
_COMMAND_LINE = ("once", "dry_run", "json", "generate_config", "config_file")
DONE, FAILED, USAGE = 0, 1, 2


class WasmKernelHub(Application):
    """The service's settings."""

    name = "wasm-kernel-hub"
    description = "Prunes, archives and shows the sessions of all users, on a schedule and on a web page."

    workspace_template = Unicode(
        "{home}/.local/share/wasm-kernel/workspace",
        help="Where each user's workspace is. {username} is the user's name, escaped as in the hub's URLs; "
        "{home}, at the beginning, is the home folder of the system's user of that name. Up to the name the path is "
        "the administrator's; no links are followed in the rest.",
    ).tag(config=True)
    remote = Bool(
        False,
        help="Users' workspaces cannot be reached from here: let their own servers do the work, through wasm-kernel's "
        "extension. Only users whose server is running are covered, unless start_servers is set.",
    ).tag(config=True)
    store = Unicode(
        help="Users' sessions are in an object store, and their pods' disks are caches: the store's address with "
        "{username} in it, as in s3://bucket/{username}. With credentials of this service's environment."
    ).tag(config=True)
    proxy_url = Unicode(
        help="For remote: the address of users' servers, such as http://proxy-public or http://127.0.0.1:8000. "
        "Default: the hub's public address, if it has one."
    ).tag(config=True)
    start_servers = Bool(
        False, help="For remote: start stopped servers for a scheduled run, and stop them again afterwards."
    ).tag(config=True)
    locks_visible = Bool(
        False,
        help="Whether the locks of users' kernels are visible from here: true if users' servers run on this machine. "
        "If not, all sessions of users whose server is running are left alone.",
    ).tag(config=True)
    allow_unconfined = Bool(
        False,
        help="Work without Landlock even if a workspace's owner may own those of other users too. A user could then "
        "make the service delete another user's files.",
    ).tag(config=True)
    state_folder = Unicode(
        "wasm-kernel-hub", help="The service's own folder: audit log, warnings, history. Closed to users."
    ).tag(config=True)
    archive_folder = Unicode(
        help="Where archives of sessions go, a folder per user; outside all workspaces, and closed to users. For "
        "remote, it is set in users' servers instead."
    ).tag(config=True)
    policy = Dict(
        help='What is kept for every user, such as {"max_age": "90d", "warn_before": "7d"}. Settings: max_age, '
        "max_sessions, max_total, min_free, keep, snapshot_max_age, snapshot_max_per_session, snapshot_max_total, "
        "archive, warn_before."
    ).tag(config=True)
    group_policies = Dict(
        help="The same for users in a group, by its name; overrides policy. Of several groups, what keeps more wins."
    ).tag(config=True)
    user_policies = Dict(help="The same for single users, by name; overrides all others.").tag(config=True)
    interval = Unicode("", help="How often to prune by the policies, such as 6h. Empty: only on request.").tag(
        config=True
    )
    census_age = Unicode("60s", help="How old the page's data may be before it is refreshed.").tag(config=True)
    breadth = Int(4, min=1, help="How many users are handled at once.").tag(config=True)
    open_metrics = Bool(False, help="Whether /metrics is open to everybody, not only to tokens with access.").tag(
        config=True
    )
    operator_groups = List(
        Unicode(),
        help="Groups whose members may use the page, besides administrators. The hub must let them in too: give the "
        "group a role with access:services!service=NAME.",
    ).tag(config=True)
    users = List(
        Unicode(),
        help="Without a hub: the users' names. With one: only these users.",
    ).tag(config=True)
    once = Bool(False, help="Prune once, by the policies, and exit.").tag(config=True)
    dry_run = Bool(False, help="With once: only show what would be done.").tag(config=True)
    json = Bool(False, help="With once: print the result as JSON.").tag(config=True)
    generate_config = Bool(False, help="Write a configuration file with every setting, commented out.").tag(config=True)
    config_file = Unicode("wasm_kernel_hub_config.py", help="The file with settings.").tag(config=True)

    aliases = {
        "config": "WasmKernelHub.config_file",
        "workspace-template": "WasmKernelHub.workspace_template",
        "state-folder": "WasmKernelHub.state_folder",
        "archive-folder": "WasmKernelHub.archive_folder",
        "interval": "WasmKernelHub.interval",
        "policy": "WasmKernelHub.policy",
        "users": "WasmKernelHub.users",
        "log-level": "WasmKernelHub.log_level",
    }
    flags = {
        "once": ({"WasmKernelHub": {"once": True}}, "Prune once, by the policies, and exit."),
        "dry-run": ({"WasmKernelHub": {"dry_run": True}}, "With --once: only show what would be done."),
        "json": ({"WasmKernelHub": {"json": True}}, "With --once: print the result as JSON."),
        "generate-config": (
            {"WasmKernelHub": {"generate_config": True}},
            "Write a configuration file with every setting, commented out.",
        ),
    }
    examples = (
        "wasm-kernel-hub --generate-config\n"
        "wasm-kernel-hub --once --dry-run\n"
        "wasm-kernel-hub --once --users=ann --workspace-template='/srv/homes/{username}/workspace' --policy max_age=30d"
    )

    def initialize(self, argv: Any = None) -> None:
        """Read the settings from the command line, the file and the environment."""
        self.parse_command_line(argv)
        if self.generate_config:
            return
        from_arguments = Config(self.cli_config)
        self.update_config(self._from_environment())
        named = "config_file" in from_arguments.get("WasmKernelHub", {})
        path = Path(self.config_file).absolute()
        if path.exists():
            self.load_config_file(path.name, path=str(path.parent))
        elif named:
            raise ConfigurationError(f"there is no file {str(path)!r}; name one that exists, or omit --config")
        self.update_config(from_arguments)

    def _from_environment(self) -> Config:
        found = Config()
        for name, trait in self.class_own_traits(config=True).items():
            text = os.environ.get(_ENVIRONMENT + name.upper())
            if text is None or name in _COMMAND_LINE:
                continue
            try:
                value: Any = json.loads(text) if isinstance(trait, Dict | List) else trait.from_string(text)
            except ValueError:
                raise ConfigurationError(
                    f"{_ENVIRONMENT}{name.upper()} is {text!r}; it must be a value for {name}, dictionaries as JSON"
                ) from None
            found.WasmKernelHub[name] = value
        return found

    # ---- parts

    def make_service(self) -> Service:
        """Create the service from these settings; `ConfigurationError` if they cannot work."""
        policies = Policies(self.policy, self.group_policies, self.user_policies)
        if policies.archives and self.store:
            raise ConfigurationError(
                "a policy asks for archives, but from an object store none are made; unset archive"
            )
        if policies.archives and not self.archive_folder and not self.remote:
            raise ConfigurationError("a policy asks for archives, but there is no folder for them; set archive_folder")
        directory = self._directory(policies)
        how = Arrangement(
            self._own_folder(self.state_folder),
            policies,
            can_archive=not self.store and bool(self.archive_folder or self.remote),
            census_seconds=parse_duration(self.census_age),
            breadth=self.breadth,
        )
        return Service(how, self._workplace(directory), directory)

    def _directory(self, policies: Policies) -> Directory:
        url, token = (os.environ.get(f"JUPYTERHUB_API_{name}", "") for name in ("URL", "TOKEN"))
        if self.users and not url:
            return GivenUsers(self.users)
        return HubApi(url, token, groups=policies.needs_groups, only=self.users)

    def _workplace(self, directory: Directory) -> Workplace:
        if self.store and self.remote:
            raise ConfigurationError("store and remote are both set; choose where users' sessions are looked for")
        if self.store.startswith(("file:", "local:")):
            raise ConfigurationError(
                f"store is {self.store!r}, a folder: users could put links there that lead into others' folders. Unset "
                "it, and let the service look at users' homes"
            )
        if self.store:
            return ObjectStores(self.store)
        if self.remote:
            if not isinstance(directory, HubApi):
                raise ConfigurationError("remote needs a hub; let JupyterHub start this service")
            proxy = urlparse(self.proxy_url or os.environ.get("JUPYTERHUB_PUBLIC_HUB_URL", ""))
            token = os.environ.get("JUPYTERHUB_API_TOKEN", "")
            return Remote(directory, f"{proxy.scheme}://{proxy.netloc}", token, start_servers=self.start_servers)
        return Homes(
            self.workspace_template,
            archive_folder=str(self._own_folder(self.archive_folder)) if self.archive_folder else "",
            locks_visible=self.locks_visible,
            allow_unconfined=self.allow_unconfined,
        )

    @staticmethod
    def _own_folder(name: str) -> Path:
        folder = Path(name).absolute()
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        return folder

    def make_web(self, service: Service) -> web.Application:
        """The pages, and metrics."""
        auth = HubOAuth.instance(parent=self)
        auth.cookie_options = {"samesite": "Lax", **auth.cookie_options}  # not sent with other sites' forms
        if not auth.access_scopes:  # else everybody would have access
            raise ConfigurationError(
                "JUPYTERHUB_OAUTH_ACCESS_SCOPES is not set, so nobody knows who may use this service; "
                "let JupyterHub start it, or set the variable to access:services!service=NAME"
            )
        prefix = os.environ.get("JUPYTERHUB_SERVICE_PREFIX", "/")
        handlers: list[Any] = [
            (url_path_join(prefix, "oauth_callback"), HubOAuthCallbackHandler),
            (url_path_join(prefix, "metrics"), MetricsHandler, {"service": service, "is_open": self.open_metrics}),
        ]
        handlers += [(url_path_join(prefix, path), *rest) for path, *rest in pages.handlers(service)]
        return web.Application(
            handlers,
            cookie_secret=secrets.token_bytes(32),
            xsrf_cookies=True,
            hub_auth=auth,
            prefix=prefix,
            operator_groups=frozenset(self.operator_groups),
        )

    # ---- running

    def run(self) -> int:
        """Do what was asked for, and return the exit code."""
        if self.generate_config:
            return self._write_config()
        return asyncio.run(self._once() if self.once else self._serve())

    def _write_config(self) -> int:
        path = Path(self.config_file).absolute()
        if path.exists():
            raise ConfigurationError(f"{str(path)!r} already exists; move it away first")
        path.write_text(self.generate_config_file([type(self)]), encoding="utf-8")
        print(f"Wrote {path}")
        return DONE

    async def _once(self) -> int:
        service = self.make_service()
        try:
            run = await service.prune("command line", dry_run=self.dry_run)
        finally:
            service.close()
        print(json.dumps(_as_json(run), indent=2) if self.json else summary(run))
        return FAILED if run.failures else DONE

    async def _serve(self) -> int:
        service = self.make_service()
        address = urlparse(os.environ.get("JUPYTERHUB_SERVICE_URL", "http://127.0.0.1:10203"))
        server = HTTPServer(self.make_web(service), max_body_size=4 << 20)
        server.listen(address.port or 80, address.hostname or "127.0.0.1")
        stopped = asyncio.Event()
        for number in (signal.SIGINT, signal.SIGTERM):
            asyncio.get_running_loop().add_signal_handler(number, stopped.set)
        schedule = asyncio.create_task(self._schedule(service)) if self.interval else None
        self.log.info("wasm-kernel-hub serves at %s", address.geturl())
        try:
            await stopped.wait()
        finally:
            server.stop()
            if schedule is not None:
                schedule.cancel()
                with contextlib.suppress(asyncio.CancelledError):
                    await schedule
            service.close()
        return DONE

    async def _schedule(self, service: Service) -> None:
        seconds, wait = max(1.0, parse_duration(self.interval)), _FIRST
        while True:
            wait = min(wait, seconds)
            service.next_run = datetime.now(UTC) + timedelta(seconds=wait)
            await asyncio.sleep(wait)
            await run_scheduled(service, self.log)
            wait = seconds


async def run_scheduled(service: Service, log: Any) -> None:
    """One scheduled run. Whatever goes wrong, the schedule continues."""
    try:
        run = await service.prune("schedule")
    except Exception as e:  # not even a bug of ours may end the schedule
        service.trouble = str(e) or type(e).__name__
        service.metrics.scheduled(None)
        log.error("the scheduled run failed: %s", e, exc_info=not isinstance(e, WasmKernelError | OSError))
        return
    service.trouble, service.last_run = "", run
    service.metrics.scheduled(run)
    log.info("scheduled run: %s", summary(run))
    for name, user in run.users.items():
        for what, text in user.errors.items():
            log.warning("user %r, %s: %s", name, what, text)


def summary(run: Run) -> str:
    """A run in one line."""
    users = run.users.values()
    gone = f"{counted(run.deleted, 'session')}, {format_size(run.freed_bytes)}"
    parts = [f"{'would delete' if run.dry_run else 'deleted'} {gone}"]
    for count, what in (
        (sum(len(u.snapshots) for u in users), "snapshots"),
        (sum(len(u.archived) for u in users), "archived"),
        (sum(len(u.live) for u in users), "in use"),
        (sum(u.waiting for u in users), "waiting until their users have been warned for long enough"),
        (sum(bool(u.left_alone) for u in users), "users left alone"),
        (run.failures, "failed"),
    ):
        if count:
            parts.append(f"{count} {what}")
    return "; ".join(parts) + "."


def _as_json(run: Run) -> dict[str, Any]:
    return {
        **asdict(run),
        "started_at": format_time(run.started_at),
        "freed_bytes": run.freed_bytes,
        "failures": run.failures,
    }


def main(argv: list[str] | None = None) -> int:
    """Run the command."""
    app = WasmKernelHub.instance()
    try:
        app.initialize(argv)
        return app.run()
    except SystemExit as e:  # traitlets shows help, or says what is wrong with an argument
        return USAGE if e.code else DONE
    except (ConfigurationError, TraitError) as e:
        print(f"wasm-kernel-hub: {e}", file=sys.stderr)
        return USAGE
    except (WasmKernelError, OSError) as e:
        print(f"wasm-kernel-hub: {e}", file=sys.stderr)
        return FAILED


if __name__ == "__main__":
    sys.exit(main())
