"""Servers with names: ``*.test`` leads to this machine, by the one hook at which names become addresses."""

from __future__ import annotations

import os
import socket
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.host.network.servers import Authority, Server, http_server, make_authority
from wasm_kernel import BaseSandbox, ExecutionPolicy, create_sandbox
from wasm_kernel.host.network import resolving

Grant = Callable[..., BaseSandbox]


def to_this_machine(name: str, port: int, **options: Any) -> Any:
    """A look-up by which tests' names are this machine's."""
    return socket.getaddrinfo("127.0.0.1" if name.endswith(".test") else name, port, **options)


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Authority]:
    """An authority that the host trusts, while the module's tests run."""
    made = make_authority(tmp_path_factory.mktemp("authority"), "web.test", "localhost")
    before = os.environ.get("SSL_CERT_FILE")
    os.environ["SSL_CERT_FILE"] = str(made.file)
    yield made
    os.environ.pop("SSL_CERT_FILE")
    if before is not None:
        os.environ["SSL_CERT_FILE"] = before


@pytest.fixture(scope="module")
def web() -> Iterator[Server]:
    """A server of HTTP."""
    with http_server() as server:
        yield server


@pytest.fixture(scope="module")
def secure_web(authority: Authority) -> Iterator[Server]:
    """A server of HTTPS, web.test."""
    with http_server(authority.context) as server:
        yield server


@pytest.fixture(autouse=True)
def _names(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(resolving, "look_up", to_this_machine)
    for name in ("http_proxy", "https_proxy", "all_proxy", "no_proxy"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.upper(), raising=False)


@pytest.fixture(scope="module")
def granted(tmp_path_factory: pytest.TempPathFactory, web: Server, secure_web: Server) -> Iterator[BaseSandbox]:
    """A sandbox that may connect to both servers, for tests that do not mind each other."""
    policy = ExecutionPolicy(network=both(web, secure_web))
    with create_sandbox(policy=policy, workspace=tmp_path_factory.mktemp("granted")) as sandbox:
        sandbox.execute(f"PLAIN, SECURE = {web.port}, {secure_web.port}")
        yield sandbox


def both(*servers: Server) -> list[str]:
    """What grants these servers: the name, and the address that it has here."""
    return [f"{host}:{server.port}" for server in servers for host in ("web.test", "127.0.0.1")]


@pytest.fixture
def sandbox_for(tmp_path: Path) -> Iterator[Grant]:
    """Sandboxes with hosts and limits of their own."""
    made: list[BaseSandbox] = []

    def make(hosts: list[str], **limits: Any) -> BaseSandbox:
        policy = ExecutionPolicy(network=hosts, **limits)
        made.append(create_sandbox(policy=policy, workspace=tmp_path / f"workspace{len(made)}"))
        return made[-1]

    yield make
    for sandbox in made:
        sandbox.close()


def ok(sandbox: BaseSandbox, code: str) -> str:
    """What code prints, which must go well."""
    result = sandbox.execute(code)
    assert result.success, (result.outcome, result.error)
    return result.stdout


def fails(sandbox: BaseSandbox, code: str) -> tuple[str, str]:
    """The error that code ends with: its name and text."""
    result = sandbox.execute(code)
    assert result.error is not None, result
    return result.error.name, result.error.value
