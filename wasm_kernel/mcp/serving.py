"""Serves the tools: over stdio to the program that started us, or over HTTP on this machine to who has the token."""

from __future__ import annotations

import asyncio
import hmac
import secrets
import signal
import socket
from typing import Any

import uvicorn
from mcp.server.mcpserver import MCPServer
from mcp.server.transport_security import TransportSecuritySettings
from starlette.types import ASGIApp, Receive, Scope, Send

from wasm_kernel import __version__
from wasm_kernel.mcp.agent_sessions import AgentSessions
from wasm_kernel.mcp.tools import SessionTools

_INSTRUCTIONS = """Sealed Python sessions. Each has its own variables and files, which stay between conversations;
nothing in it can reach this computer. Use one session name per task. Save a snapshot before something risky; after a
mistake, undo. To try alternatives, fork, run each, compare, and go on in the better one."""
_MOST_BODY = 32 << 20
_LAST_SECONDS = 3  # that a run has, after a signal, to end by itself


def server_of(sessions: AgentSessions) -> MCPServer[Any]:
    """A server with the tools over these sessions."""
    server: MCPServer[Any] = MCPServer(
        "wasm-kernel", version=__version__, instructions=_INSTRUCTIONS, log_level="WARNING"
    )
    SessionTools(sessions).register(server)
    return server


async def serve_stdio(sessions: AgentSessions) -> None:
    """Serve the program on stdin and stdout until it leaves, or a signal comes; then everything is saved."""
    signals: asyncio.Queue[int] = asyncio.Queue()
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, signals.put_nowait, number)
    serving, signalled = (
        asyncio.ensure_future(server_of(sessions).run_stdio_async()),
        asyncio.ensure_future(signals.get()),
    )
    try:
        await asyncio.wait({serving, signalled}, return_when=asyncio.FIRST_COMPLETED)
    finally:
        await sessions.close()
    if signalled.done():  # a thread waits for a line from stdin, and would hold up any other end
        signal.signal(signalled.result(), signal.SIG_DFL)
        signal.raise_signal(signalled.result())
    signalled.cancel()
    await serving


async def serve_http(sessions: AgentSessions, listener: socket.socket, token: str) -> None:
    """Serve on a port of this machine's loopback address, to who sends the token, until a signal ends it."""
    port = listener.getsockname()[1]
    allowed = [f"{host}:{port}" for host in ("127.0.0.1", "localhost")]
    security = TransportSecuritySettings(allowed_hosts=allowed, allowed_origins=[f"http://{host}" for host in allowed])
    app = server_of(sessions).streamable_http_app(transport_security=security, max_request_body_size=_MOST_BODY)
    config = uvicorn.Config(TokenRequired(app, token), log_level="warning", timeout_graceful_shutdown=_LAST_SECONDS)
    # uvicorn raises the signal that ended it once more, and then everything is still to be saved
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, lambda: None)
    try:
        await uvicorn.Server(config).serve([listener])
    finally:
        await sessions.close()


def new_token() -> str:
    """A token that nobody guesses."""
    return secrets.token_urlsafe(32)


class TokenRequired:
    """Lets requests through that have the token."""

    def __init__(self, app: ASGIApp, token: str) -> None:
        self._app, self._expected = app, f"Bearer {token}".encode()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "websocket":  # which nobody needs
            await send({"type": "websocket.close"})
            return
        if scope["type"] != "lifespan":
            given = dict(scope["headers"]).get(b"authorization", b"")
            if not hmac.compare_digest(given, self._expected):
                headers = [(b"www-authenticate", b"Bearer"), (b"content-type", b"text/plain")]
                await send({"type": "http.response.start", "status": 401, "headers": headers})
                await send({"type": "http.response.body", "body": b"send the token: Authorization: Bearer ..."})
                return
        await self._app(scope, receive, send)
