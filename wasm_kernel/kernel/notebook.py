"""Which notebook this kernel belongs to, if any. No Jupyter message says so."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

_PATIENCE = 3.0  # seconds for the server's answer


def from_environment(environ: Mapping[str, str]) -> Path | None:
    """The notebook that the server named when it started this kernel."""
    name = environ.get("JPY_SESSION_NAME", "")
    # A kernel started from within another kernel inherits its variable, so trust it only if our parent is the server.
    if not name.endswith(".ipynb") or server_of(environ) is None:
        return None
    return _absolute(Path(name))


def from_server(environ: Mapping[str, str], connection_file: Path) -> Path | None:
    """Where the notebook is now, according to the server's list of sessions: it may have been renamed."""
    server = server_of(environ)
    kernel_id = connection_file.stem.removeprefix("kernel-")
    if server is None:
        return None
    try:
        sessions = ask_server(server, environ, "api/sessions")
        path = str(next(s["path"] for s in sessions if s["kernel"]["id"] == kernel_id))
        root = str(server.get("root_dir") or server.get("notebook_dir") or "")
    except (KeyError, TypeError, StopIteration):
        return None
    if not path.endswith(".ipynb") or not root:
        return None
    return _absolute(Path(root).expanduser() / path)


def ask_server(server: Mapping[str, Any], environ: Mapping[str, str], what: str) -> Any:
    """A server's answer to a GET, as JSON; None if there is none. Blocks."""
    import http.client
    import urllib.parse
    import urllib.request

    token = server.get("token") or environ.get("JUPYTERHUB_API_TOKEN", "")
    url = urllib.parse.urljoin(str(server.get("url", "")), what)
    try:
        request = urllib.request.Request(url, headers={"Authorization": f"token {token}"})
        # Never through a proxy: the server is on this machine, and its token must not leave it.
        direct = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        with direct.open(request, timeout=_PATIENCE) as answer:
            return json.loads(answer.read(8 << 20))
    except (OSError, ValueError, http.client.HTTPException):
        return None


def name_of(environ: Mapping[str, str], notebook: Path) -> str:
    """A notebook's path below the server's folder, or below the user's: the same on every machine of a hub."""
    server = server_of(environ) or {}
    root = str(server.get("root_dir") or server.get("notebook_dir") or "")
    for folder in filter(None, (root, environ.get("HOME", ""))):
        above = _absolute(Path(folder).expanduser())
        if notebook.is_relative_to(above):
            return str(notebook.relative_to(above))
    return str(notebook)


def _absolute(path: Path) -> Path:
    return Path(os.path.normpath(path.absolute()))  # links are kept: a notebook is where its user sees it


def server_of(environ: Mapping[str, str]) -> dict[str, Any] | None:
    """The information file of the server that is this process's parent."""
    from jupyter_core.paths import jupyter_runtime_dir

    parent = environ.get("JPY_PARENT_PID", "")
    if not parent.isdigit():
        return None
    try:
        found = json.loads((Path(jupyter_runtime_dir()) / f"jpserver-{parent}.json").read_bytes())
    except (OSError, ValueError):
        return None
    return found if isinstance(found, dict) else None
