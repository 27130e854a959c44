"""How Jupyter's kernel managers get kernels from the host. The kernelspec's metadata name this provisioner.

JupyterLab, nbclient, papermill and JupyterHub's servers all come here. Without a host, or when a caller wants
something that only a process of its own can give, a kernel is started as for any other kernelspec.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import pathlib
import socket
import subprocess
from collections.abc import Iterator
from typing import Any

from jupyter_client.connect import KernelConnectionInfo
from jupyter_client.provisioning.local_provisioner import LocalProvisioner

from wasm_kernel.apps.kernel_host import address, protocol
from wasm_kernel.apps.kernel_host.hosted_process import HostedProcess
from wasm_kernel.kernel.channels import PORTS

NAME = "wasm-kernel-host"
_PATIENCE = 20.0  # seconds for a kernel to bind its sockets
_UNDERSTOOD = {"env", "cwd", "stdin", "stdout", "stderr", "extra_arguments", "kernel_id"}


class HostProvisioner(LocalProvisioner):
    """Asks the host for kernels; whatever else a kernel manager wants to know of one is as for any local kernel."""

    async def launch_kernel(self, cmd: list[str], **kwargs: Any) -> KernelConnectionInfo:
        """Have a kernel forked by the host, or start it."""
        # Somebody may have taken a port since the manager chose it. After a restart clients know the ports.
        kind = protocol.NEW if self.ports_cached and self.pid is None else protocol.CONNECTION
        process = await _hosted(kind, [os.path.expanduser(part) for part in cmd], kwargs)  # noqa: PTH111 - as jupyter_client
        if process is None:
            return await super().launch_kernel(cmd, **kwargs)
        self.process = process  # type: ignore[assignment]  # it has all that is used of one
        self.pid = self.pgid = process.pid
        self.cwd = kwargs.get("cwd", pathlib.Path.cwd())
        self.connection_info.update(zip(PORTS, process.ports, strict=True))  # type: ignore[typeddict-item]
        return self.connection_info


async def _hosted(kind: str, command: list[str], options: dict[str, Any]) -> HostedProcess | None:
    """A kernel from the host; None if there is no host, or it refuses, or something else is wanted."""
    environ = {**(options.get("env") or os.environ), "JPY_PARENT_PID": str(os.getpid())}
    if command[1:4] != protocol.OPTIONS or options.keys() - _UNDERSTOOD or not address.wanted(environ):
        return None
    key = address.key(command[0], environ)
    found = protocol.connect(address.socket_path(environ, key))
    if found is None:
        return None
    connection = socket.socket(fileno=found.detach())
    try:
        request = protocol.request(kind, key, command[4:], environ)
        with _descriptors(options) as descriptors:
            pid, ports = await asyncio.wait_for(_ask(connection, request, descriptors), _PATIENCE)
            return HostedProcess(pid, ports, connection, command)
    except (OSError, ValueError, TimeoutError):  # it ended just now, or refused
        connection.close()
        return None


async def _ask(connection: socket.socket, request: bytes, descriptors: list[int]) -> tuple[int, list[int]]:
    """The kernel's process and ports, once its sockets are bound. `ValueError`: there will be none."""
    loop = asyncio.get_running_loop()
    connection.setblocking(False)
    sent = protocol.send(connection, request, descriptors)
    await loop.sock_sendall(connection, request[sent:])
    line = await loop.sock_recv(connection, 4096)
    if not line.startswith(b"kernel "):
        raise ValueError(line.decode(errors="replace"))
    pid, *ports = map(int, line.split()[1:])
    return pid, ports


@contextlib.contextmanager
def _descriptors(options: dict[str, Any]) -> Iterator[list[int]]:
    """The folder and the standard streams that a kernel is to have. `ValueError`: no host can give it these."""
    with contextlib.ExitStack() as opened:

        def own(descriptor: int) -> int:
            opened.callback(os.close, descriptor)
            return descriptor

        folder = own(os.open(options.get("cwd") or ".", os.O_PATH | os.O_CLOEXEC))
        reader, writer = os.pipe()
        os.close(writer)  # nothing to read, as for any kernel
        found = [folder, own(reader), 1, 2]
        for place, name in enumerate(("stdin", "stdout", "stderr"), 1):
            given = options.get(name)
            if given == subprocess.DEVNULL:
                found[place] = own(os.open(os.devnull, os.O_RDWR | os.O_CLOEXEC))
            elif given == subprocess.STDOUT and name == "stderr":
                found[place] = found[place - 1]
            elif given is not None:
                found[place] = given if isinstance(given, int) else given.fileno()
            if found[place] < 0:  # subprocess.PIPE
                raise ValueError(f"{name} is to be a pipe")
        yield found
