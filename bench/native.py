"""The native side: an environment of its own with the same libraries, and processes in it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import sysconfig
import tempfile
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Any

from wasm_kernel.host.image.cache import private_root

PACKAGES = ("numpy", "pandas", "matplotlib", "scikit-learn", "scipy", "ipykernel")
_PINS = {"pandas": "pandas==3.0.*"}  # the guest's series: 3.1 has other numbers
ONE_THREAD = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
_WORKER = Path(__file__).parent / "children" / "worker.py"
# They would make every start of Python compile its imports anew, or write each line by itself.
_UNWANTED = ("PYTHONDONTWRITEBYTECODE", "PYTHONUNBUFFERED", "PYTHONPATH", "PYTHONHOME", *ONE_THREAD)


def environment(extra: dict[str, str] | None = None) -> dict[str, str]:
    """The environment variables of a measured process."""
    kept = {name: value for name, value in os.environ.items() if name not in _UNWANTED}
    return {**kept, **(extra or {})}


def python(say: Callable[[str], None]) -> Path:
    """The native environment's interpreter; made in the cache folder by pip if it is not there."""
    folder = private_root() / "bench-native"
    interpreter = folder / "bin" / "python"
    stamp = folder / "installed.json"
    requirements = [_PINS.get(name, name) for name in PACKAGES]
    wanted = json.dumps([requirements, list(sys.version_info[:3])])
    if stamp.is_file() and stamp.read_text() == wanted:
        return interpreter
    say(f"Setting up the native environment ({', '.join(PACKAGES)}) in the cache folder; once, about a minute ...")
    _run(sys.executable, "-m", "venv", "--clear", folder)
    _run(interpreter, "-m", "pip", "install", "--quiet", *requirements)
    stamp.write_text(wanted)
    return interpreter


def beside(interpreter: Path, requirement: str, *more: str) -> Path:
    """The folder of an environment that has this, and ``more``, beyond the native one; made if it is not there."""
    folder = interpreter.parents[1].with_name("bench-" + requirement.partition("[")[0])
    stamp = folder / "installed.json"
    wanted = json.dumps([requirement, *more, (interpreter.parents[1] / "installed.json").read_text()])
    if stamp.is_file() and stamp.read_text() == wanted:
        return folder
    _run(sys.executable, "-m", "venv", "--clear", folder)
    shared, own = (sysconfig.get_path("purelib", vars={"base": str(f)}) for f in (interpreter.parents[1], folder))
    Path(own, "shared.pth").write_text(shared + "\n")
    _run(folder / "bin" / "python", "-m", "pip", "install", "--quiet", "--only-binary", ":all:", requirement, *more)
    stamp.write_text(wanted)
    return folder


def _run(*command: str | Path) -> None:
    done = subprocess.run(command, env=environment(), capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"an environment could not be set up:\n{done.stderr[-2000:]}")


def versions(interpreter: Path) -> dict[str, str]:
    """Versions of Python and of the libraries in the native environment."""
    source = (
        "import json, platform; from importlib.metadata import version; "
        f"print(json.dumps({{'Python': platform.python_version(), **{{n: version(n) for n in {PACKAGES!r}}}}}))"
    )
    found = subprocess.run([interpreter, "-c", source], env=environment(), capture_output=True, text=True, check=True)
    return dict(json.loads(found.stdout))


class Worker:
    """A native process that stays and runs the source text it is given."""

    def __init__(self, interpreter: Path, folder: Path, extra: dict[str, str] | None = None) -> None:
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115 - lives as long as the process
        home = interpreter.parents[1]
        private = {"IPYTHONDIR": str(home / "ipython"), "MPLCONFIGDIR": str(home / "matplotlib")}
        self._process = subprocess.Popen(
            [interpreter, _WORKER],
            cwd=folder,
            env=environment({**private, **(extra or {})}),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            text=True,
        )

    def run(self, source: str) -> Any:
        """Run the text; what it left in `result`."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(source) + "\n")
        self._process.stdin.flush()
        line = self._process.stdout.readline()
        if not line:
            self._errors.seek(0)
            raise RuntimeError(f"the native process ended:\n{self._errors.read()[-2000:].decode(errors='replace')}")
        answer = json.loads(line)
        if "error" in answer:
            raise RuntimeError(f"the native process raised:\n{answer['error']}")
        return answer["result"]

    def close(self) -> None:
        """End the process."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.close()
        self._process.wait()
        self._process.stdout.close()
        self._errors.close()

    def __enter__(self) -> Worker:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
