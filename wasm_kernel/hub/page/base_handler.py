"""What all pages have in common: who may see them, the headers they are sent with, and how they are rendered."""

from __future__ import annotations

from datetime import UTC, datetime
from http import HTTPStatus
from typing import Any
from urllib.parse import urlencode

from jupyterhub.services.auth import HubOAuthenticated, UserNotAllowed  # type: ignore[import-untyped]
from tornado import web

from wasm_kernel.errors import ConfigurationError
from wasm_kernel.hub.census import Census
from wasm_kernel.hub.hubapi import HubUnavailable
from wasm_kernel.hub.page.policy_form import FIELDS
from wasm_kernel.hub.page.rendering import render
from wasm_kernel.hub.page.request_memory import Memory
from wasm_kernel.hub.service import Service

_MAX_ARGUMENT = 400
_ARGUMENTS = (
    *(
        "search",
        "user",
        "state",
        "sort",
        "page",
        "session",
        "snapshot",
        "trigger",
        "plan",
        "action",
        "result",
        "policy",
        "users",
        "archive",
    ),
    *(name for name, *_ in FIELDS),
)
_RULES = "; ".join(
    (
        "default-src 'none'",
        "style-src 'self'",
        "script-src 'self'",
        "img-src 'self'",
        "form-action 'self'",
        "base-uri 'none'",
        "frame-ancestors 'none'",
    )
)


class StaticFile(web.StaticFileHandler):
    """Style and script."""

    def set_extra_headers(self, path: str) -> None:
        """Let browsers guess nothing about them."""
        self.set_header("X-Content-Type-Options", "nosniff")


class Page(HubOAuthenticated, web.RequestHandler):  # type: ignore[misc]
    """What all pages have in common."""

    def initialize(self, service: Service, memory: Memory) -> None:
        """Called for each request, with what `handlers` gives."""
        self.service, self.memory = service, memory

    @property
    def hub_auth(self) -> Any:
        """The hub's authentication."""
        return self.settings["hub_auth"]

    def check_hub_user(self, model: dict[str, Any]) -> dict[str, Any]:
        """Let in only some users, even if the hub lets every user see every service."""
        allowed: dict[str, Any] = super().check_hub_user(model)
        operators = set(self.settings.get("operator_groups", ()))
        if allowed.get("admin") or operators.intersection(allowed.get("groups") or ()):
            return allowed
        raise UserNotAllowed(model)

    def set_default_headers(self) -> None:
        """Allow only our own script and style, no frames and no caching."""
        self.set_header("Content-Type", "text/html; charset=utf-8")
        self.set_header("Content-Security-Policy", _RULES)
        self.set_header("X-Content-Type-Options", "nosniff")
        self.set_header("Referrer-Policy", "same-origin")
        self.set_header("Cache-Control", "no-store")

    def prepare(self) -> None:
        """Refuse changes that, as browsers tell, are requested by another site."""
        site = self.request.headers.get("Sec-Fetch-Site", "same-origin")
        if self.request.method not in ("GET", "HEAD") and site not in ("same-origin", "none"):
            raise web.HTTPError(403, reason="This request comes from another site")

    @property
    def base(self) -> str:
        """The address of the first page; the others are below it."""
        return str(self.settings["prefix"]).rstrip("/") + "/"

    @property
    def actor(self) -> str:
        """Who is asking."""
        return str(self.current_user["name"])

    def argument(self, name: str) -> str:
        """A value of the address or the form, cut short and on one line."""
        return str(self.get_argument(name, ""))[:_MAX_ARGUMENT].strip()

    def number(self, name: str) -> int:
        """A page number."""
        text = self.argument(name)
        return int(text) if text.isascii() and text.isdigit() and len(text) < 9 else 1

    async def known(self) -> Census:
        """What all users have."""
        return await self.service.census(fresh=bool(self.argument("fresh")))

    def show(self, template: str, **values: Any) -> None:
        """Answer with a page."""
        arguments = {name: self.argument(name) for name in _ARGUMENTS if name in self.request.query_arguments}

        def link(page: str = "", /, **wanted: Any) -> str:
            given = {name: value for name, value in wanted.items() if value not in ("", None)}
            return self.base + page + (f"?{urlencode(given)}" if given else "")

        def here(**changes: Any) -> str:
            return link(self.request.path.removeprefix(self.base.rstrip("/")).lstrip("/"), **{**arguments, **changes})

        values |= {"base": self.base, "link": link, "here": here, "arguments": arguments, "service": self.service}
        values["hub"] = f"{self.hub_auth.hub_host}{self.hub_auth.hub_prefix}"
        values |= {"me": self.current_user, "xsrf": self.xsrf_token.decode(), "now": datetime.now(UTC)}
        self.finish(render(template, **values))

    def log_exception(self, typ: Any, value: Any, tb: Any) -> None:
        """Log no traceback for what the page itself says."""
        if not isinstance(value, ConfigurationError | HubUnavailable):
            super().log_exception(typ, value, tb)

    def write_error(self, status_code: int, **kwargs: Any) -> None:
        """An error as a page."""
        error = kwargs.get("exc_info", (None, None))[1]
        text = ""
        for kind, status in ((ConfigurationError, 400), (HubUnavailable, 503)):
            if isinstance(error, kind):
                status_code, text = status, str(error)
                self.set_status(status)
        if isinstance(error, web.HTTPError):
            text = error.reason or ""
        title = HTTPStatus(status_code).phrase if status_code in HTTPStatus._value2member_map_ else "Error"
        values = {"status": status_code, "title": title, "text": "" if text == title else text}
        self.finish(render("error.html", base=self.base, **values))
