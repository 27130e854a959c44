"""What sessions in an object store cost: `python -m bench.stored_sessions`. `bench.simulation` starts from its figures.

A real S3 server on this machine (moto's), over HTTP: bytes and requests do not depend on how quick it is. Seconds are
only those that this machine computes: a listing as the store sends it, parsed and judged.
"""

from __future__ import annotations

import logging
import os
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

from moto.server import ThreadedMotoServer

from wasm_kernel import create_session_sandbox, create_snapshot, get_session_sandbox
from wasm_kernel.host.remote.objects import Entry, Objects, open_objects
from wasm_kernel.sessions.log import SandboxLogger
from wasm_kernel.sessions.remote import stored
from wasm_kernel.sessions.remote.deleting import delete_stored
from wasm_kernel.sessions.remote.lease import acquire
from wasm_kernel.sessions.remote.pulling import pull_session
from wasm_kernel.sessions.remote.pushing import SessionPush
from wasm_kernel.sessions.remote.stored import survey_store

_PANDAS = "import pandas as pd; df = pd.DataFrame({'a': range(1000)}); df.describe()"
_LARGE = "import numpy as np; df = pd.DataFrame(np.random.rand(250_000, 10)); df.mean()"  # 20 MB
_SMALL_CELL = "df['b'] = df.iloc[:, 0] * 2; df['b'].sum()"
_MANY = 20_000  # sessions that are judged


class Requests(logging.Handler):
    """Counts what the server was asked, by method."""

    def __init__(self) -> None:
        super().__init__()
        self.count: Counter[str] = Counter()

    def emit(self, record: logging.LogRecord) -> None:
        """One line for each request."""
        text = record.getMessage()
        method = next((m for m in ("DELETE", "HEAD", "PUT", "POST", "GET") if f"{m} /" in text), "")
        self.count["LIST" if method == "GET" and "list-type" in text else method] += 1

    def during(self, what: str, work: Callable[[], object]) -> object:
        """Print what some work asks for."""
        self.count.clear()
        done = work()
        print(f"{what}: {dict(sorted(self.count.items()))}")
        return done


def main() -> None:
    """Measure, and print."""
    requests = Requests()
    log = logging.getLogger("werkzeug")
    log.setLevel(logging.INFO)
    log.addHandler(requests)
    log.propagate = False
    server = ThreadedMotoServer("127.0.0.1", 0, verbose=False)
    server.start()
    _, port = server.get_host_and_port()
    os.environ |= {
        "AWS_ENDPOINT_URL": f"http://127.0.0.1:{port}",
        "AWS_ACCESS_KEY_ID": "test",
        "AWS_SECRET_ACCESS_KEY": "test",
        "AWS_DEFAULT_REGION": "us-east-1",
    }
    import s3fs

    s3fs.S3FileSystem(skip_instance_cache=True).mkdir("bench")
    with tempfile.TemporaryDirectory() as folder:
        _sessions(open_objects("s3://bench/ann"), Path(folder), requests)
    server.stop()
    _judging()


def _sessions(objects: Objects, folder: Path, requests: Requests) -> None:
    root = folder / "here"
    root.mkdir()
    session_id = ""
    for name, cells in (("a number", ["x = 1"]), ("a small table", [_PANDAS]), ("20 MB", [_PANDAS, _LARGE])):
        session_id, sandbox = create_session_sandbox(workspace_root=root)
        with sandbox:
            for cell in cells:
                assert sandbox.execute(cell).success
            create_snapshot(session_id, root)
        lease = requests.during("taking the lease", partial(acquire, objects, session_id))
        push = SessionPush(objects, root, session_id, lease)  # type: ignore[arg-type]
        first = requests.during("first push", push.push)
        print(f"  {name}: {first}")
        if name != "a number":
            with get_session_sandbox(session_id, workspace_root=root, resume=True) as sandbox:
                assert sandbox.execute(_SMALL_CELL).success
                create_snapshot(session_id, root)
            print(f"  after a small cell: {requests.during('push', push.push)}")
        requests.during("giving it back", lease.give_back)  # type: ignore[attr-defined]
        size = survey_store(objects).sessions[session_id]
        count = len(objects.names(f"sessions/{session_id}/"))
        print(f"  in the store: {size.size_bytes / 1e6:.2f} MB, {count} objects")
    there = folder / "there"
    there.mkdir()
    requests.during("pull", lambda: pull_session(objects, there, session_id, SandboxLogger(level="error")))
    requests.during("survey of three", lambda: survey_store(objects))
    requests.during("deleting one", lambda: delete_stored(objects, session_id, acquire(objects, session_id)))


def _judging() -> None:
    """How long this machine takes to judge a listing of many sessions, once it is there."""
    now = datetime.now(UTC)
    names = ("leases/000000000001", "leases/000000000001.beat", "leases/000000000001.over")
    entries = [
        Entry(f"sessions/{number:08d}-0000-4000-8000-000000000000/{name}", 1000, now)
        for number in range(_MANY)
        for name in (*names, f"packs/{'0' * 64}", f"packs/{'1' * 64}", "states/000000000001-00000001")
    ]

    class Listed:
        address = "listed"

        def listing(self, prefix: str) -> list[Entry]:
            return entries

    original, stored.store_time = stored.store_time, lambda objects, prefix: now.timestamp()
    start = time.perf_counter()
    found = survey_store(Listed())  # type: ignore[arg-type]
    seconds = time.perf_counter() - start
    stored.store_time = original
    assert len(found.sessions) == _MANY
    print(f"judging: {seconds / _MANY * 1e6:.0f} µs a session")


if __name__ == "__main__":
    main()
