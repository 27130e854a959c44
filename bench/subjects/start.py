"""From nothing to the first DataFrame printed."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path

from bench.native import environment
from bench.report import Aim, Section, milliseconds, number, seconds
from bench.rounds import interleave
from bench.setting import Setting, succeed
from wasm_kernel import create_sandbox

FRAME = "import pandas as pd; print(pd.DataFrame({'a': [1, 2]}))"
_LAST_LINE = "1  2"
_NATIVE = FRAME.replace("}))", "}), flush=True)")
# Afterwards it tells how long its parts took.
_GUEST = f"""
import time
started = time.perf_counter()
from wasm_kernel import create_sandbox
imported = time.perf_counter()
with create_sandbox(workspace="workspace") as sandbox:
    created = time.perf_counter()
    result = sandbox.execute({FRAME!r})
    print(result.stdout, end="", flush=True)
    executed = time.perf_counter()
import json
print(json.dumps([imported - started, created - imported, executed - created]))
"""


def run(setting: Setting) -> Section:
    """Measure starts in this process and in fresh ones."""

    def warm(code: str) -> float:
        folder = setting.workspace()
        started = time.perf_counter()
        with create_sandbox(workspace=folder) as sandbox:
            result = sandbox.execute(code)
            taken = time.perf_counter() - started
            succeed(result)
        return taken

    def guest() -> Mapping[str, float]:
        shown, ended, rest = _fresh([sys.executable, "-c", _GUEST], setting.workspace())
        imports, create, execute = json.loads(rest)
        return {"guest": shown, "guest end": ended, "import": imports, "create": create, "execute": execute}

    def native() -> Mapping[str, float]:
        shown, ended, _ = _fresh([str(setting.native), "-c", _NATIVE], setting.workspace())
        return {"native": shown, "native end": ended}

    found = interleave(
        [lambda: {"ready": warm("pass")}, lambda: {"warm": warm(FRAME)}, guest, native],
        setting.rounds.start,
        setting.tick,
    )
    rows = [
        [
            "warm process: create, first `pass` (ready)",
            milliseconds(found, "ready"),
            _share(found.ratio("ready", "native")),
        ],
        ["warm process: create, DataFrame printed", milliseconds(found, "warm"), _share(found.ratio("warm", "native"))],
        ["fresh process: DataFrame printed", milliseconds(found, "guest"), _share(found.ratio("guest", "native"))],
        ["– of which `import wasm_kernel`", milliseconds(found, "import"), ""],
        ["– of which create (image loaded)", milliseconds(found, "create"), ""],
        ["– of which execute", milliseconds(found, "execute"), ""],
        [
            "– until the process has ended",
            milliseconds(found, "guest end"),
            _share(found.ratio("guest end", "native end")),
        ],
        ["native, fresh process: DataFrame printed", milliseconds(found, "native"), "1"],
        ["– until the process has ended", milliseconds(found, "native end"), "1"],
    ]
    ready, warm_ratio, fresh_ratio = (
        found.median("ready"),
        found.ratio("warm", "native"),
        found.ratio("guest", "native"),
    )
    return Section(
        "Start to first DataFrame",
        f"`{FRAME}`, in ms. In a fresh process the time runs from its start to the arrival of the last line.",
        ["", "median [best]", "of native"],
        rows,
        [
            Aim("ready under 25 ms in a warm process", seconds(ready), ready < 0.025),
            *(
                Aim(
                    f"first DataFrame, in a {kind} process, in under a fifth of the time of a fresh native process",
                    f"{_share(ratio)} of it",
                    ratio < 0.2,
                )
                for kind, ratio in (("warm", warm_ratio), ("fresh", fresh_ratio))
            ),
        ],
    )


def _share(ratio: float) -> str:
    return f"{number(ratio)}x"


def _fresh(command: list[str], folder: Path) -> tuple[float, float, str]:
    """Run a process: seconds until it showed the DataFrame, until it had ended, and what it printed after that."""
    started = time.perf_counter()
    with subprocess.Popen(
        command, cwd=folder, env=environment(), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        shown = None
        for line in process.stdout:
            if line.rstrip() == _LAST_LINE:
                shown = time.perf_counter() - started
                break
        rest = process.stdout.read()
        process.wait()
        ended = time.perf_counter() - started
        if shown is None or process.returncode:
            raise RuntimeError(f"a fresh process failed:\n{process.stderr.read()[-2000:]}")
    return shown, ended, rest
