"""`wasm-kernel host`: which kernel hosts of this user run, and how to end them."""

from __future__ import annotations

import argparse
import json
import os
import select
import signal
import socket
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from wasm_kernel.apps.cli_output import show_json, table
from wasm_kernel.apps.cli_parser import DONE, FAILED, NOTHING, add
from wasm_kernel.apps.kernel_host import address, protocol
from wasm_kernel.model.units import format_duration

_PATIENCE = 10.0  # seconds for an answer, and for an end
_SHAPE = (
    '[{"pid": 4711, "python": "/home/ada/env/bin/python", "image": "5ba2…",\n'
    '  "started": 1789000000.0, "idle_seconds": 1800.0, "kernels": [4801]}]'
)


def register(commands: Any) -> None:
    """Add the commands to a parser."""
    host = add(
        commands,
        "host",
        None,
        "The process that new kernels are forked from.",
        more="One per user, Python and image; the first kernel starts it, and it ends by\n"
        "itself when it was idle for a while. WASM_KERNEL_HOST=0 does without.",
    )
    parts = host.add_subparsers(title="commands", metavar="COMMAND", required=True)
    add(parts, "status", status_command, "Show the hosts that run, and their kernels.", shape=_SHAPE)
    add(
        parts,
        "stop",
        stop_command,
        "End all hosts. Kernels go on; the next one starts a new host.",
        shape='{"stopped": [4711]}',
    )


def status_command(options: argparse.Namespace) -> int:
    """Show every host of this user."""
    found = [state for connection in _hosts() if (state := _state(connection)) is not None]
    if options.json:
        show_json(found)
    elif found:
        rows = [
            [host["pid"], format_duration(time.time() - host["started"]), len(host["kernels"]), host["python"]]
            for host in found
        ]
        table(["process", "runs for", "kernels", "Python"], rows, title="Kernel hosts", numbers=(0, 2))
    else:
        print("No kernel host runs.")
    return DONE if found else NOTHING


def stop_command(options: argparse.Namespace) -> int:
    """End every host of this user; kernels go on."""
    stopped: list[int] = []
    failed: list[int] = []
    for connection in _hosts():
        with connection:
            pid, _ = protocol.peer(connection)
        (stopped if _ended(pid) else failed).append(pid)
    if options.json:
        show_json({"stopped": stopped})
    else:
        for pid in stopped:
            print(f"Ended host {pid}.")
        for pid in failed:
            print(f"Host {pid} has not ended after {_PATIENCE:g} s.")
        if not stopped and not failed:
            print("No kernel host runs.")
    return FAILED if failed else DONE if stopped else NOTHING


def _hosts() -> Iterator[socket.socket]:
    """A connection to each host of this user."""
    place = Path(address.folder(os.environ))
    for path in sorted(place.glob("*.sock")) if address.is_private(str(place)) else ():
        found = protocol.connect(str(path))
        if found is not None:
            yield socket.socket(fileno=found.detach())


def _state(connection: socket.socket) -> dict[str, Any] | None:
    """What a host says of itself."""
    with connection:
        connection.settimeout(_PATIENCE)
        try:
            protocol.send(connection, protocol.request(protocol.STATUS, "", [], {}), [0, 0, 0, 0])
            answer = connection.makefile("rb").readline(1 << 20)
            return dict(json.loads(answer))
        except (OSError, ValueError):  # it ends just now
            return None


def _ended(pid: int) -> bool:
    handle = os.pidfd_open(pid)
    try:
        signal.pidfd_send_signal(handle, signal.SIGTERM)
        return bool(select.select([handle], [], [], _PATIENCE)[0])
    finally:
        os.close(handle)
