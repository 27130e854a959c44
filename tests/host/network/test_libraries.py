"""Libraries that people connect with, unchanged: requests, urllib3, httpx, pg8000 and pymysql, from the package index."""

from __future__ import annotations

import os
import pwd
import shutil
import socket
import struct
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.host.network.conftest import fails, ok
from tests.host.network.servers import Authority, Server, raw_server
from wasm_kernel import BaseSandbox, ExecutionPolicy, create_session_sandbox, install_packages
from wasm_kernel.errors import PackageError

_POSTGRES = sorted(Path("/usr/lib/postgresql").glob("*/bin")) if Path("/usr/lib/postgresql").is_dir() else []


@pytest.fixture(scope="module")
def mysql() -> Iterator[Server]:
    """As much of MySQL's protocol as a query needs."""

    def packet(number: int, data: bytes) -> bytes:
        return struct.pack("<I", len(data))[:3] + bytes([number]) + data

    def text(value: bytes) -> bytes:
        return bytes([len(value)]) + value

    done = b"\x00\x00\x00\x02\x00\x00\x00"
    column = (
        text(b"def") + text(b"") * 3 + text(b"answer") * 2 + b"\x0c\x2d\x00\x02\x00\x00\x00\xfd\x00\x00\x00\x00\x00"
    )

    def serve(sock: socket.socket) -> None:
        greeting = b"\x0a8.0.0-test\x00" + struct.pack("<I", 7) + b"a" * 8 + b"\x00" + struct.pack("<H", 0xA20F)
        greeting += b"\x2d\x02\x00" + struct.pack("<H", 0x0008) + b"\x15" + b"\x00" * 10 + b"b" * 12 + b"\x00"
        sock.sendall(packet(0, greeting + b"mysql_native_password\x00"))
        sock.recv(4096)
        sock.sendall(packet(2, done))
        while (query := sock.recv(4096)) and query[4:5] == b"\x03":
            if b"SELECT" in query:
                end = b"\xfe\x00\x00\x02\x00"
                rows = (b"\x01", column, end, text(b"forty-two"), end)
                sock.sendall(b"".join(packet(n + 1, data) for n, data in enumerate(rows)))
            else:
                sock.sendall(packet(1, done))

    with raw_server(serve) as server:
        yield server


@pytest.fixture(scope="module")
def postgres(tmp_path_factory: pytest.TempPathFactory, authority: Authority) -> Iterator[Server]:
    """A PostgreSQL of this machine's, which wants a password and TLS."""
    if not _POSTGRES:
        pytest.skip("PostgreSQL is not installed: apt-get install postgresql")
    account = None
    if os.getuid() == 0:  # it does not run as root
        try:
            account = pwd.getpwnam("postgres")
        except KeyError:
            pytest.skip("PostgreSQL does not run as root, and there is no user postgres")
    folder = tmp_path_factory.mktemp("postgres")
    data = folder / "data"
    as_user = {"user": account.pw_uid, "group": account.pw_gid} if account else {}
    for parent in (folder, *folder.parents):
        if parent == Path(tempfile.gettempdir()) or parent.stat().st_uid != os.getuid():
            break
        parent.chmod(0o755)  # for the user that it runs as
    for name in ("server.pem", "server.key"):
        shutil.copy(authority.file.parent / name, folder / name)
    (folder / "password").write_text("sesame")
    if account:
        for path in (folder, *folder.iterdir()):
            os.chown(path, account.pw_uid, account.pw_gid)
    tools = _POSTGRES[-1]
    made = subprocess.run(
        [tools / "initdb", "-D", data, "-U", "ann", "--pwfile", folder / "password", "-A", "scram-sha-256", "--no-sync"],
        **as_user, capture_output=True, cwd=folder, check=False,
    )  # fmt: skip
    if made.returncode:
        pytest.skip(f"PostgreSQL cannot be set up here: {made.stderr.decode()[-200:]}")
    (data / "pg_hba.conf").write_text("hostssl all all 127.0.0.1/32 scram-sha-256\n")
    options = ["listen_addresses=127.0.0.1", f"unix_socket_directories={folder}", "ssl=on", "fsync=off"]
    options += [f"ssl_cert_file={folder}/server.pem", f"ssl_key_file={folder}/server.key"]
    command = [tools / "postgres", "-D", data, *(part for option in options for part in ("-c", option))]
    server, port = _begun(command, tools / "pg_isready", **as_user, cwd=folder)
    try:
        yield Server(port)
    finally:
        server.terminate()
        server.wait(30)


def _begun(command: list[Any], is_ready: Path, **options: Any) -> tuple[subprocess.Popen[bytes], int]:
    """A server on a free port, and the port: another one if somebody was quicker there."""
    end = time.monotonic() + 60
    while True:
        with socket.create_server(("127.0.0.1", 0)) as free:
            port = free.getsockname()[1]
        quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
        server = subprocess.Popen([*command, "-c", f"port={port}"], **options, **quiet)
        while server.poll() is None:
            if not subprocess.run([is_ready, "-h", "127.0.0.1", "-p", str(port)], check=False, **quiet).returncode:
                return server, port
            assert time.monotonic() < end
            time.sleep(0.1)
        assert time.monotonic() < end


@pytest.fixture(scope="module")
def session(
    tmp_path_factory: pytest.TempPathFactory, web: Server, secure_web: Server, mysql: Server
) -> Iterator[BaseSandbox]:
    """A session with the libraries."""
    root = tmp_path_factory.mktemp("sessions")
    hosts = [f"{host}:{server.port}" for server in (web, secure_web, mysql) for host in ("web.test", "127.0.0.1")]
    session_id, sandbox = create_session_sandbox(workspace_root=root, policy=ExecutionPolicy(network=hosts))
    with sandbox:
        try:
            install_packages(session_id, ["requests", "httpx", "pg8000", "pymysql"], root)
        except PackageError as e:
            pytest.skip(f"the libraries cannot be installed here: {e}")
        ok(sandbox, f"PLAIN, SECURE, MYSQL = {web.port}, {secure_web.port}, {mysql.port}")
        yield sandbox


def test_requests(session: BaseSandbox) -> None:
    code = """
import requests
print(requests.get(f"https://web.test:{SECURE}/r", timeout=30).json()["path"])
print(requests.post(f"http://web.test:{PLAIN}/p", json={"a": 1}).json()["body"])
with requests.Session() as s:
    print([s.get(f"https://web.test:{SECURE}/{n}").json()["path"] for n in range(3)])
print(sum(map(len, requests.get(f"https://web.test:{SECURE}/s", stream=True).iter_content(7))))
"""
    said = ok(session, code).splitlines()
    assert said[:3] == ["/r", '{"a": 1}', "['/0', '/1', '/2']"]
    name, text = fails(session, "requests.get('https://api.github.com/zen')")
    assert name == "ConnectionError"
    assert "no permission to connect to api.github.com:443" in text


def test_urllib3(session: BaseSandbox) -> None:
    code = """
import urllib3
pool = urllib3.PoolManager()
print([pool.request("GET", f"https://web.test:{SECURE}/u{n}").json()["path"] for n in range(2)])
"""
    assert ok(session, code) == "['/u0', '/u1']\n"


def test_httpx_both_ways(session: BaseSandbox) -> None:
    code = """
import asyncio, httpx
print(httpx.get(f"https://web.test:{SECURE}/sync").json()["path"])
async with httpx.AsyncClient() as client:
    found = await asyncio.gather(*(client.get(f"https://web.test:{SECURE}/{n}") for n in range(3)))
    print([answer.json()["path"] for answer in found], (await client.get(f"http://web.test:{PLAIN}/p")).json()["path"])
"""
    assert ok(session, code) == "/sync\n['/0', '/1', '/2'] /p\n"


def test_pymysql(session: BaseSandbox) -> None:
    code = """
import pymysql
with pymysql.connect(host="web.test", port=MYSQL, user="ann", password="x") as connection:
    with connection.cursor() as cursor:
        cursor.execute("SELECT answer")
        print(cursor.fetchall())
"""
    assert ok(session, code) == "(('forty-two',),)\n"


def test_pg8000_with_tls(session: BaseSandbox, postgres: Server) -> None:
    network = session._sandbox.network
    from wasm_kernel.model.network_grants import parse_all

    network.granted = parse_all([f"web.test:{postgres.port}", f"127.0.0.1:{postgres.port}"])
    code = f"""
import pg8000.native, ssl
c = pg8000.native.Connection("ann", host="web.test", port={postgres.port}, password="sesame", database="postgres",
                             ssl_context=ssl.create_default_context())
c.run("CREATE TABLE cities (name text, people int)")
c.run("INSERT INTO cities VALUES (:n, :p)", n="Bern", p=134)
print(c.run("SELECT name, people FROM cities"), c.run("SELECT ssl FROM pg_stat_ssl WHERE pid = pg_backend_pid()"))
print(c.run("SELECT sum(n) FROM generate_series(1, 100000) AS n"), len(c.run("SELECT repeat('x', 3000000)")[0][0]))
c.close()
"""
    assert ok(session, code) == "[['Bern', 134]] [[True]]\n[[5000050000]] 3000000\n"
    name, text = fails(session, code.replace("sesame", "wrong"))
    assert name == "DatabaseError"
