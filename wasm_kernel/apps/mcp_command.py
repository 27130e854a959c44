"""`wasm-kernel mcp`: sessions for agents. What they may do is said here, by the person who starts it, and only here."""

from __future__ import annotations

import argparse
import asyncio
import os
import re
import socket
import sys
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from wasm_kernel.apps.cli_parser import DONE, add
from wasm_kernel.errors import ConfigurationError
from wasm_kernel.host import administrator
from wasm_kernel.host.workspace_root import default_root
from wasm_kernel.model import limits
from wasm_kernel.model.policy import ExecutionPolicy

_FOLDER = "agent-sessions"


def register(commands: Any) -> None:
    """Add the command to a parser."""
    mcp = add(
        commands,
        "mcp",
        mcp_command,
        "Serve sealed Python sessions to agents (Model Context Protocol).",
        more="Over stdin and stdout to the program that starts it; with --http on this\n"
        "machine's loopback address, to who sends the token. An agent cannot change what\n"
        "is set here.",
        examples="wasm-kernel mcp\n"
        "wasm-kernel mcp --limit memory=1G timeout=60 --mount ~/data\n"
        "wasm-kernel mcp --http 8931 --token-file token.txt",
    )
    mcp.add_argument(
        "--workspace-root", metavar="FOLDER", help="where the sessions are (default: one for agents alone)"
    )
    mcp.add_argument("--limit", metavar="NAME=VALUE", nargs="+", default=[], help="limits of each session: memory=1G")
    mcp.add_argument(
        "--allow", metavar="HOST", nargs="+", default=[], help="hosts that sessions may connect to: api.github.com"
    )
    mcp.add_argument("--mount", metavar="FOLDER", help="a folder that all sessions see at /data, read-only")
    mcp.add_argument(
        "--sessions", metavar="N", type=int, default=16, help="as many are in memory at once (default: 16)"
    )
    mcp.add_argument("--http", metavar="PORT", type=int, help="serve streamable HTTP on 127.0.0.1 instead of stdio")
    mcp.add_argument(
        "--token-file", metavar="FILE", help="the token for --http; made, for you alone, if it is not there"
    )


def mcp_command(options: argparse.Namespace) -> int:
    """Serve until the program at the other end leaves, or a signal comes."""
    if find_spec("mcp") is None:
        raise ConfigurationError("the MCP server needs the extra 'mcp': pip install 'wasm-kernel[mcp]'")
    if options.http is not None and not 0 < options.http < 65536:
        raise ConfigurationError(f"--http is {options.http}; a port is 1 to 65535")
    if options.http is None and options.token_file is not None:
        raise ConfigurationError("--token-file is for --http; over stdio nobody else is there")
    if options.sessions < 1:
        raise ConfigurationError(f"--sessions is {options.sessions}; at least 1")
    maxima = administrator.rules().maxima
    policy = limits.bounded(ExecutionPolicy(), maxima)
    policy = limits.changed(policy, limits.parse_changes(options.limit), maxima)
    policy = replace(policy, network=options.allow)
    data = _folder(options.mount) if options.mount is not None else None
    asyncio.run(_serve(options, policy, data))
    return DONE


async def _serve(options: argparse.Namespace, policy: ExecutionPolicy, data: Path | None) -> None:
    from wasm_kernel.mcp.agent_sessions import AgentSessions
    from wasm_kernel.mcp.serving import new_token, serve_http, serve_stdio

    ruled = administrator.workspace_root()  # who says where sessions are has them all there
    own = Path(options.workspace_root) if options.workspace_root else default_root(None).with_name(_FOLDER)
    root = ruled or own
    root.mkdir(parents=True, exist_ok=True)
    notebooks = ruled is None  # where all sessions are in one folder, nobody chose it for agents
    sessions = AgentSessions(root, policy, data=data, most_open=options.sessions, notebooks=notebooks)
    if options.http is None:
        await serve_stdio(sessions)
        return
    token = new_token() if options.token_file is None else _token(Path(options.token_file), new_token())
    listener = _listening(options.http)
    said = f" with the token in {options.token_file}" if options.token_file else f"\ntoken: {token}"
    print(f"Serving on http://127.0.0.1:{options.http}/mcp{said}", file=sys.stderr, flush=True)
    await serve_http(sessions, listener, token)


def _listening(port: int) -> socket.socket:
    """This machine's loopback address, before anything is said of it."""
    try:
        return socket.create_server(("127.0.0.1", port))
    except OSError as e:
        raise ConfigurationError(f"--http is {port}; nothing can be served there: {e.strerror}") from None


def _folder(name: str) -> Path:
    folder = Path(name).expanduser()
    if not folder.is_dir():
        raise ConfigurationError(f"--mount is {name!r}; there is no such folder")
    return folder.resolve()


def _token(path: Path, fresh: str) -> str:
    """The token in a file; a fresh one, that only this user can read, if there is no such file."""
    try:
        with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
            file.write(fresh + "\n")
            return fresh
    except FileExistsError:
        found = path.read_bytes().strip().decode("ascii", "replace")
    if not re.fullmatch(r"[!-~]{16,}", found):
        raise ConfigurationError(
            f"--token-file {path}: a token is one line of at least 16 letters, digits or signs without spaces; "
            "remove the file, and one is made"
        )
    return found
