"""A Jupyter server's kernels, asked for over HTTP and talked to over their sockets."""

from __future__ import annotations

import json
import socket
import urllib.request
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from jupyter_client.blocking import BlockingKernelClient

from tests.browser.lab import Lab
from tests.conformance.client import PATIENCE, eventually

# In a kernel's settings: whose child it is, and what it is.
NOTE = """
import os
with open({file!r}, "a") as file:
    file.write(f"{{os.getpid()}} {{os.getppid()}}\\n")
"""


def note_parents(settings: Path) -> Path:
    """From now on kernels with these settings write down their process and its parent; where."""
    file = settings / "parents"
    settings.mkdir(parents=True, exist_ok=True)
    (settings / "jupyter_wasm_kernel_config.py").write_text(NOTE.format(file=str(file)))
    return file


def parents(file: Path) -> list[tuple[int, int]]:
    """Kernels and whose children they are, in the order of their starts."""
    lines = file.read_text().splitlines() if file.exists() else []
    return [(int(pid), int(parent)) for pid, parent in (line.split() for line in lines)]


class ServerKernel:
    """A kernel of a server's."""

    def __init__(self, lab: Lab, runtime: Path, notebook: str) -> None:
        self._lab, self._runtime = lab, runtime
        assert eventually(self._listens)
        body = {"path": notebook, "name": notebook, "type": "notebook", "kernel": {"name": "wasm"}}
        self.session = self._ask("api/sessions", body)
        self.id = self.session["kernel"]["id"]

    def _listens(self) -> bool:
        address = urlsplit(self._lab.url)
        with socket.socket() as tried:
            return tried.connect_ex((address.hostname, address.port)) == 0

    def _ask(self, what: str, body: Any = None, method: str = "POST") -> Any:
        headers = {"Authorization": f"token {self._lab.token}", "Content-Type": "application/json"}
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(f"{self._lab.url}{what}", data, headers, method=method)
        direct = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        with direct.open(request, timeout=PATIENCE) as answer:
            return json.loads(answer.read() or b"null")

    def act(self, what: str) -> None:
        """Interrupt or restart it."""
        self._ask(f"api/kernels/{self.id}/{what}", {})

    def end(self) -> None:
        """Shut it down."""
        self._ask(f"api/sessions/{self.session['id']}", method="DELETE")

    def run(self, code: str, meanwhile: Any = None) -> dict[str, Any]:
        """A cell's reply. ``meanwhile`` is done once it has printed something."""
        client = BlockingKernelClient(connection_file=str(self._runtime / f"kernel-{self.id}.json"))
        client.load_connection_file()
        client.start_channels()
        try:
            client.wait_for_ready(timeout=PATIENCE)
            message = client.execute(code)
            if meanwhile is not None:
                while client.get_iopub_msg(timeout=PATIENCE)["msg_type"] != "stream":
                    pass
                meanwhile()
            while True:
                reply = client.get_shell_msg(timeout=PATIENCE)
                if reply["parent_header"].get("msg_id") == message:
                    return dict(reply["content"])
        finally:
            client.stop_channels()
