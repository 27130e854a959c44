"""Finds a Chromium for the browser tests; ``python -m tests.browser.chromium`` installs one where it may.

It may where it is root on a Debian: a fresh machine in CI. Elsewhere the tests are skipped, with what to install.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

_NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
_MAC = "/Applications/Google Chrome.app/Contents/MacOS/Google Chrome"
_PACKAGES = ("chromium", "fonts-dejavu-core")
MISSING = (
    "no Chromium that starts was found. Debian: apt-get install chromium fonts-dejavu-core. "
    "Elsewhere: install Google Chrome, or run .venv/bin/playwright install --with-deps chromium"
)


def find() -> str | None:
    """The path of a Chromium that starts."""
    candidates = [shutil.which(name) for name in _NAMES] + [_MAC]
    candidates += sorted(map(str, Path.home().glob(".cache/ms-playwright/chromium-*/chrome-linux*/chrome")))
    return next((c for c in candidates if c and Path(c).exists() and _starts(c)), None)


def _starts(path: str) -> bool:
    """Ubuntu has a package of this name that only says to use snap."""
    try:
        return subprocess.run([path, "--version"], capture_output=True, timeout=60).returncode == 0
    except (OSError, subprocess.TimeoutExpired):
        return False


def install() -> None:
    """From the distribution's packages."""
    quiet = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    apt = ["apt-get", "-qq", "-o", "Acquire::Retries=3"]
    subprocess.run([*apt, "update"], env=quiet, timeout=300, check=False)  # one dead mirror is no reason to give up
    command = [*apt, "install", "-y", "--no-install-recommends", *_PACKAGES]
    subprocess.run(command, env=quiet, timeout=900, check=True, stdout=subprocess.DEVNULL)


def main() -> int:
    """Never fails: without a browser there is still everything else to test."""
    if find() is None and sys.platform == "linux" and os.geteuid() == 0 and shutil.which("apt-get"):
        print("Installing Chromium for the browser tests ...", flush=True)
        try:
            install()
        except (OSError, subprocess.SubprocessError) as e:
            print(f"That failed: {e}", file=sys.stderr)
    found = find()
    print(f"Browser tests use {found}." if found else f"Browser tests will be skipped: {MISSING}.")
    return 0


if __name__ == "__main__":
    sys.exit(main())
