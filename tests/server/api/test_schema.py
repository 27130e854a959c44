"""schemathesis reads the OpenAPI document, asks whatever it allows and forbids, and compares the answers with it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.server.conftest import API, BASE, Server, running

CONFIG = Path(__file__).parent / "schemathesis.toml"


@pytest.mark.slow
def test_schemathesis_finds_nothing(tmp_path: Path) -> None:
    with running(tmp_path, "") as server:  # its own: what other tests leave makes every list long
        done = fuzz(server, tmp_path)
    assert done.returncode == 0, done.stdout[-6000:] + done.stderr[-2000:]
    assert "21 selected / 21 total" in done.stdout, done.stdout  # all but the document itself
    assert "Stateful" in done.stdout and "Coverage" in done.stdout
    log = server.log.read_text()
    assert "Traceback" not in log, log[log.index("Traceback") :][:4000]


def fuzz(server: Server, folder: Path) -> subprocess.CompletedProcess[str]:
    base = f"http://127.0.0.1:{server.port}{BASE}/{API}"
    return subprocess.run(
        [
            sys.executable, "-m", "schemathesis.cli", "--config-file", str(CONFIG), "run", f"{base}/openapi.json",
            "--url", base, "--header", f"Authorization: Bearer {server.token}",
            "--max-examples", "10", "--generation-deterministic", "--no-color", "--continue-on-failure",
            # The header is there always: a missing one is tested by itself, and is 403 in Jupyter Server, not 401.
            "--generation-with-security-parameters", "false",
        ],
        cwd=folder, capture_output=True, text=True, timeout=250, env={**os.environ, "PYTHONWARNINGS": "default"},
    )  # fmt: skip
