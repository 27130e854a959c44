"""`/metrics` over HTTP: what Prometheus reads."""

from __future__ import annotations

import contextlib

from jupyterhub.services.auth import HubOAuthenticated  # type: ignore[import-untyped]
from tornado import web

from wasm_kernel.errors import WasmKernelError
from wasm_kernel.hub.service import Service


class MetricsHandler(HubOAuthenticated, web.RequestHandler):  # type: ignore[misc]
    """What Prometheus reads, with a token that has access to the service."""

    def initialize(self, service: Service, is_open: bool) -> None:
        """Take what the routes of `hub.app` hand to each request."""
        self._service, self._is_open = service, is_open

    def get_login_url(self) -> str:
        """Refuse: programs come here, and cannot log in on a page."""
        raise _needs_token()

    async def get(self) -> None:
        """Answer with all metrics, by a new census if the last one is too old."""
        if not self._is_open and self.current_user is None:
            raise _needs_token()
        with contextlib.suppress(WasmKernelError):  # then the last known values are shown
            await self._service.census()
        self.set_header("Content-Type", "text/plain; version=0.0.4; charset=utf-8")
        self.finish(self._service.metrics.text())


def _needs_token() -> web.HTTPError:
    return web.HTTPError(403, "send a token that has access to this service: Authorization: token …")
