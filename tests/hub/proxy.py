"""JupyterHub's proxy for the tests; ``python -m tests.hub.proxy`` fetches it with npm, once, below the environment.

The tests fetch it themselves where that has not been done. Without npm they are skipped.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from filelock import FileLock

_VERSION = "5.2.0"  # the last one all of whose dependencies run on node 20
_PLACE = Path(sys.prefix) / "share" / "configurable-http-proxy"
MISSING = "JupyterHub's proxy needs node and npm, and npm was not found. Debian: apt-get install npm"


def find() -> Path | None:
    """The folder with the command ``configurable-http-proxy``, fetched if need be; None where there is no npm."""
    commands = _PLACE / _VERSION / "node_modules" / ".bin"
    npm = shutil.which("npm")
    if npm is None:
        return None
    _PLACE.mkdir(parents=True, exist_ok=True)
    with FileLock(_PLACE / "lock", timeout=600):
        if not (commands / "configurable-http-proxy").exists():
            _fetch(npm)
    return commands


def _fetch(npm: str) -> None:
    """Into a folder beside its place, and there when it is whole."""
    with tempfile.TemporaryDirectory(dir=_PLACE) as folder:
        half = Path(folder, "half")
        half.mkdir()
        quiet = ["--no-audit", "--no-fund", "--no-update-notifier", "--loglevel=error"]
        command = [npm, "install", "--prefix", str(half), *quiet, f"configurable-http-proxy@{_VERSION}"]
        done = subprocess.run(command, capture_output=True, text=True, timeout=500, check=False)
        if done.returncode:
            raise RuntimeError(f"npm could not fetch JupyterHub's proxy:\n{done.stderr[-2000:]}")
        half.rename(_PLACE / _VERSION)


def main() -> int:
    """Never fails: the tests that need it will say what was wrong."""
    try:
        found = find()
    except (OSError, RuntimeError, subprocess.SubprocessError) as e:
        print(e, file=sys.stderr)
    else:
        print(f"Hub tests use {found}." if found else f"Hub tests will be skipped: {MISSING}.")
    return 0


if __name__ == "__main__":
    sys.exit(main())
