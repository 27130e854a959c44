"""The examples of docs/rest.md are run, line by line."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.server.conftest import API, BASE, Api
from wasm_kernel.server.extension import WasmKernelExtension

DOCUMENT = Path(__file__).parents[3] / "docs" / "rest.md"
_FOUND = {"ID": "sandbox_id", "TASK": "task_id", "SNAPSHOT": "snapshot_id"}


@pytest.mark.skipif(shutil.which("curl") is None, reason="curl is not installed")
def test_the_examples_work(api: Api, tmp_path: Path) -> None:
    lines = "\n".join(re.findall(r"```bash\n(.*?)```", DOCUMENT.read_text(), re.DOTALL)).splitlines()
    environment = {**os.environ, "TOKEN": api.server.token}
    last, answers = "", []
    for line in lines:
        assigned = re.match(r"(\w+)=(\S+)", line)
        if assigned and assigned[1] == "API":
            environment["API"] = f"http://127.0.0.1:{api.server.port}{BASE}/{API}"
        elif assigned:
            environment[assigned[1]] = re.findall(rf'"{_FOUND[assigned[1]]}":"([^"]+)', last)[0]
        elif line.startswith("alias call="):
            call = line.partition("=")[2].strip("'")
        elif line.startswith("call "):
            command = f'call() {{ {call} "$@"; }}; {line}'
            done = subprocess.run(
                ["bash", "-c", command], env=environment, cwd=tmp_path, capture_output=True, text=True
            )
            assert done.returncode == 0, (line, done.stdout, done.stderr)
            last = done.stdout
            answers.append(last)
    assert len(answers) >= 15 and '"stdout":"hi\\n"' in answers[1] and '"text/plain":"42"' in answers[1]
    assert '"state":"deleted"' in "".join(answers)


def test_every_setting_is_documented() -> None:
    text = DOCUMENT.read_text()
    for name in ("max_live_sandboxes", "idle_timeout_seconds", "archive_folder", "workspace_root"):
        assert name in WasmKernelExtension.class_own_traits(config=True) and f"| `{name}` |" in text
    assert len(text.splitlines()) < 120
