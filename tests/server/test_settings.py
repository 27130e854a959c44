"""A setting that cannot be used is refused by kernel, files, API and command line, in the same words."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conformance.client import Kernel
from tests.server.conftest import Api, Session, running
from tests.sessions.helpers import make_session

_END = "Nothing runs here until it is fixed in jupyter_wasm_kernel_config.py"


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    ("setting", "problem"),
    [
        (
            "maxima = {'memory': 'much', 'disk': '1M'}",
            "WasmKernel.maxima cannot be used: limit memory: 'much' is not a size; write bytes, or a number with "
            f"k, M, G or T, such as 1.5G. {_END}",
        ),
        (
            "limits = {'memory': '100G'}",
            f"WasmKernel.limits cannot be used: memory is '100G'; it must be from 320.0 MB to 4.0 GB. {_END}",
        ),
    ],
)
def test_a_bad_setting_is_refused_everywhere_in_the_same_words(tmp_path: Path, setting: str, problem: str) -> None:
    with running(tmp_path, f"c.WasmKernel.{setting}\n") as server:
        session = Session(server, make_session(server.root, files={"a.txt": "x"}))
        api = Api(server)
        assert api("POST", "sandboxes", {}, 503)["detail"] == problem
        assert api("POST", f"sandboxes/{session.id}/tasks", {"code": "1"}, 503)["detail"] == problem
        refused = [session.put("b.txt", b"y"), session.post("folder", "?mkdir=1"), server.get(session.url("upload"))]
        assert [(answer.status, answer.json["detail"]) for answer in refused] == [(503, problem)] * 3
        assert sorted(p.name for p in session.folder.iterdir()) == [".metadata.json", "a.txt"]
        # What adds nothing is not held up.
        assert session.get("a.txt").body == b"x"
        assert server.get(session.url("list")).json["total"] == 1
        assert session.post("a.txt", "?move_to=c.txt").status == 200
        assert session.delete("c.txt").status == 204
        assert api("GET", "sandboxes")["total"] == 1
        assert problem in server.log.read_text()
    config = {"JUPYTER_CONFIG_DIR": str(tmp_path / "config")}
    kernel = Kernel(tmp_path / "workspace", **config)
    try:
        cell = kernel.run("1 + 1")
        assert not cell.ok
        assert cell.reply["evalue"] == problem
    finally:
        kernel.stop()
    done = subprocess.run(
        [sys.executable, "-m", "wasm_kernel.apps.cli", "config"],
        capture_output=True, text=True, timeout=60, env={**_environ(), **config},
    )  # fmt: skip
    assert done.returncode == 2, done.stdout
    file = tmp_path / "config" / "jupyter_wasm_kernel_config.py"
    assert " ".join(done.stderr.split()) == f"wasm-kernel: {problem} (read: {file})"


def _environ() -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if not name.startswith(("JUPYTER", "JPY_"))}
