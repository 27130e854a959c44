"""Ports for the kernels and servers of tests."""

from __future__ import annotations

import socket
import subprocess
import sys
from pathlib import Path

from jupyter_client.manager import KernelManager

from tests.ports import free_port


def test_another_process_has_others() -> None:
    mine = free_port()
    code = "from tests.ports import free_port; print(*(free_port() for _ in range(600)))"
    command = [sys.executable, "-c", code]
    found = subprocess.run(command, cwd=Path(__file__).parents[1], capture_output=True, text=True, check=True)
    theirs = [int(port) for port in found.stdout.split()]
    assert len(set(theirs)) > 400
    assert mine not in theirs


def test_what_is_in_use_is_passed_over() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", free_port()))
        assert taken.getsockname()[1] not in {free_port() for _ in range(600)}


def test_kernels_get_them() -> None:
    manager = KernelManager(kernel_name="wasm")
    manager.start_kernel()
    try:
        assert {port // 500 for port in manager.ports} == {free_port() // 500}
    finally:
        manager.shutdown_kernel(now=True)
