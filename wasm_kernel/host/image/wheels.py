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
from wasm_kernel.host.disk import installer


@dataclass(frozen=True)
class Which:
    """Which wheels of a release are wanted, in pip's words and in uv's, which wants some of them in its environment."""

    pip: tuple[str, ...]
    uv: tuple[str, ...]
    uv_environment: tuple[tuple[str, str], ...] = ()
    many: bool = False


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
    many=True,
)  # fmt: skip


def install(which: Which, requirements: str, target: Path, what: str, report: Callable[[float], None]) -> None:
    """Unpack pinned wheels into a folder, with uv or pip as the user has set them up; the other one, if one cannot.

    ``report`` gets the part that is done, 0 to 1.
    """
    report(0.0)
    with tempfile.NamedTemporaryFile("w", suffix=".txt") as file:
        file.write(requirements)
        file.flush()
        options = ["--no-deps", "--only-binary", ":all:", "--target", str(target), "--require-hashes", "-r", file.name]
        pip = [sys.executable, "-P", "-m", "pip", "install", "--progress-bar", "raw", "--no-compile"]
        commands: list[tuple[list[str], dict[str, str]]] = [([*pip, *which.pip, *options], {})]
        uv = installer.find_uv()
        if uv:  # 20 times faster with many wheels, but silent; and some have told only pip where wheels come from
            place = 0 if which.many and installer.uv_knows_where() else 1
            commands.insert(place, ([uv, "pip", "install", *which.uv, *options], dict(which.uv_environment)))
        problems = []
        for command, environment in commands:
            shutil.rmtree(target, ignore_errors=True)
            problem = _run(command, environment, requirements.count("=="), report)
            if not problem:
                _forget_installer(target)
                return
            problems.append(problem)
    raise ImageError(
        f"{what} could not be fetched. Check the network and your pip configuration (`pip config list`), "
        "then try again.\n" + "\n".join(problems)
    )


def _forget_installer(target: Path) -> None:
    """Delete what tells pip's work from uv's, or one machine's from another's: scripts name this machine's Python."""
    (target / ".lock").unlink(missing_ok=True)  # uv's
    for name in ("bin", "share"):
        shutil.rmtree(target / name, ignore_errors=True)
    for info in target.glob("*.dist-info"):
        for name in ("INSTALLER", "REQUESTED", "direct_url.json", "uv_cache.json"):
            (info / name).unlink(missing_ok=True)
        record = info / "RECORD"
        lines = record.read_text().splitlines()
        record.write_text("".join(sorted(f"{line}\n" for line in lines if _is_in(target, line.partition(",")[0]))))


def _is_in(target: Path, path: str) -> bool:
    return ".." not in path and (target / path).is_file()


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
