"""Fetch pinned wheels with the user's own pip or uv, for another Python than ours. Nothing of them is imported."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from wasm_kernel.errors import ImageError


@dataclass(frozen=True)
class Which:
    """Which wheels of a release are wanted, in pip's words and in uv's, which wants some of them in its environment."""

    pip: tuple[str, ...]
    uv: tuple[str, ...]
    uv_environment: tuple[tuple[str, str], ...] = ()


PURE = Which(
    ("--python-version", "3.15", "--implementation", "py", "--abi", "none", "--platform", "any"),
    ("--python-version", "3.15"),
)
# Compiled packages have their Python sources in every wheel; of those that exist for all, these are the smallest.
WITH_SOURCES = Which(
    (
        "--ignore-requires-python", "--python-version", "3.13", "--implementation", "cp",
        "--abi", "cp313", "--abi", "abi3", "--abi", "none",
        "--platform", "macosx_14_0_arm64", "--platform", "macosx_11_0_arm64", "--platform", "any",
    ),
    ("--python-version", "3.13", "--python-platform", "aarch64-apple-darwin"),
    (("MACOSX_DEPLOYMENT_TARGET", "14.0"),),
)  # fmt: skip


def install(which: Which, requirements: str, target: Path, what: str, report: Callable[[float], None]) -> None:
    """Unpack pinned wheels into a folder, with pip as the user has set it up, or with uv if pip cannot.

    ``report`` gets the part that is done, 0 to 1.
    """
    report(0.0)
    with tempfile.NamedTemporaryFile("w", suffix=".txt") as file:
        file.write(requirements)
        file.flush()
        options = ["--no-deps", "--only-binary", ":all:", "--target", str(target), "--require-hashes", "-r", file.name]
        pip = [sys.executable, "-P", "-m", "pip", "install", "--progress-bar", "raw", "--no-compile"]
        commands: list[tuple[list[str], dict[str, str]]] = [([*pip, *which.pip, *options], {})]
        uv = shutil.which("uv")
        if uv:
            commands.append(([uv, "pip", "install", *which.uv, *options], dict(which.uv_environment)))
        problems = []
        for command, environment in commands:
            shutil.rmtree(target, ignore_errors=True)
            problem = _run(command, environment, requirements.count("=="), report)
            if not problem:
                return
            problems.append(problem)
    raise ImageError(
        f"{what} could not be fetched. Check the network and your pip configuration (`pip config list`), "
        "then try again.\n" + "\n".join(problems)
    )


def _run(command: list[str], environment: dict[str, str], count: int, report: Callable[[float], None]) -> str:
    """Run pip or uv; what it said if it failed."""
    process = subprocess.Popen(
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        env={**os.environ, **environment},
        text=True,
        errors="replace",
    )
    lines: list[str] = []
    done = 0
    try:
        assert process.stdout is not None
        for line in process.stdout:
            match = re.match(r"Progress (\d+) of (\d+)", line)
            if match and int(match[2]):
                part = int(match[1]) / int(match[2])
                report(min(1.0, (done + part) / count))
                done += part == 1
            elif not match:
                lines.append(line.rstrip())
        return "" if process.wait() == 0 else "\n".join([f"$ {command[0]} ...", *lines[-8:]])
    finally:
        process.kill()
        process.wait()
