"""Two machines, each with its own disk, and one object store between them: a folder, or a real S3 server over HTTP."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest
from moto.server import ThreadedMotoServer

from wasm_kernel.host.remote.objects import Objects, open_objects


@pytest.fixture(scope="session")
def s3_server() -> Iterator[str]:
    """An S3 server on this machine: its address."""
    server = ThreadedMotoServer("127.0.0.1", 0, verbose=False)
    server.start()
    _, port = server.get_host_and_port()
    yield f"http://127.0.0.1:{port}"
    server.stop()


@pytest.fixture
def s3(s3_server: str, monkeypatch: pytest.MonkeyPatch) -> str:
    """A bucket of its own: its address."""
    import s3fs

    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "test")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "test")
    monkeypatch.setenv("AWS_DEFAULT_REGION", "us-east-1")
    monkeypatch.setenv("AWS_ENDPOINT_URL", s3_server)
    bucket = f"bucket-{uuid.uuid4().hex[:8]}"
    s3fs.S3FileSystem(skip_instance_cache=True).mkdir(bucket)
    return f"s3://{bucket}/prefix"


@pytest.fixture(params=["file", "s3"])
def address(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """Where sessions live."""
    if request.param == "file":
        return f"file://{tmp_path}/store"
    found: str = request.getfixturevalue("s3")
    return found


@pytest.fixture
def objects(address: str) -> Objects:
    """The store there."""
    return open_objects(address)


@pytest.fixture
def nodes(tmp_path: Path) -> tuple[Path, Path]:
    """The workspace roots of two machines."""
    roots = tmp_path / "node-1", tmp_path / "node-2"
    for root in roots:
        root.mkdir()
    return roots
