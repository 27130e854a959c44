"""A native Python with the guest's numpy and friends, made in the cache when it is not there.

numpy 2.5 needs Python 3.12; the newest that can be found is taken. Packages come from where pip is told to find them.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from wasm_kernel.host.image.cache import Entry, build_lock

HERE = Path(__file__).parent
OLDEST = (3, 12)
# --no-deps: this is all that the programs need.
PACKAGES = (
    "numpy", "pandas", "scipy", "scikit-learn", "statsmodels", "patsy", "formulaic", "interface-meta", "joblib",
    "cloudpickle", "narwhals", "threadpoolctl", "packaging", "python-dateutil", "six", "typing-extensions", "tzdata",
    "wrapt",
)  # fmt: skip
_ALONE = {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1", "PYTHONNOUSERSITE": "1"}


class NoNativePython(Exception):
    """Nothing to compare with on this machine; the message says what is missing."""


def answers(files: Sequence[Path], requirements: Sequence[str]) -> dict[str, dict[str, Any]]:
    """{name of a file: {program: answer}} as a native Python gives them; `requirements` are pinned."""
    python = interpreter()
    folder = packages(python, requirements)
    done = subprocess.run(
        [python, str(HERE / "answers.py"), *map(str, files)],
        env={**os.environ, **_ALONE, "PYTHONPATH": str(folder)},
        stdin=subprocess.DEVNULL, capture_output=True, text=True,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-3000:]
    told: dict[str, dict[str, Any]] = json.loads(done.stdout.splitlines()[-1])
    return {stem(Path(file)): found for file, found in told.items()}


def pinned(versions: dict[str, str]) -> list[str]:
    """Requirements of exactly these versions."""
    return [f"{name}=={version}" for name, version in versions.items()]


def stem(file: Path) -> str:
    """What a file of programs is called in the records."""
    return f"{file.parent.name}/{file.stem}"


def interpreter() -> str:
    """The newest native Python that numpy can be installed for."""
    return max(_found(), key=version, default="") or _absent()


def version(python: str) -> tuple[int, ...]:
    """(3, 13, 0), or () if it does not run."""
    command = [python, "-c", "import sys, pip; print(*sys.version_info[:3])"]
    done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True)
    return tuple(map(int, done.stdout.split())) if done.returncode == 0 else ()


def _found() -> list[str]:
    names = [f"python3.{minor}" for minor in range(OLDEST[1], 15)]
    candidates = {sys.executable, *filter(None, map(shutil.which, names))}
    pyenv = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv"))
    candidates |= set(map(str, pyenv.glob("versions/3.1[2-4]*/bin/python")))
    return [python for python in candidates if version(python) >= OLDEST]


def _absent() -> str:
    raise NoNativePython(f"no Python from {OLDEST[0]}.{OLDEST[1]} on is installed, which numpy needs")


def packages(python: str, requirements: Sequence[str]) -> Path:
    """A folder with these packages for this Python."""
    key = hashlib.sha256(json.dumps([version(python)[:2], sorted(requirements)]).encode())
    entry = Entry("native-numbers", key.hexdigest()[:20])
    if entry.manifest() is None:  # the lock may be with somebody who builds an image
        with build_lock(lambda state: None):
            if entry.manifest() is None:
                entry.build(lambda folder: _install(python, folder, requirements))
    return entry.path / "packages"


def _install(python: str, folder: Path, requirements: Sequence[str]) -> dict[str, Any]:
    command = [python, "-m", "pip", "--quiet", "--disable-pip-version-check", "install", "--no-deps"]
    command += ["--only-binary", ":all:", "--target", str(folder / "packages"), *requirements]
    done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True)
    if done.returncode:
        raise NoNativePython(f"pip cannot install {', '.join(requirements)}: {done.stderr[-1000:]}")
    return {}
