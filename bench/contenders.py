"""Who brings a notebook's variables back: this kernel, and ipykernel with dill and with kishu."""

from __future__ import annotations

import json
import subprocess
import sys
import uuid
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from bench.native import Worker, beside, environment
from bench.setting import Setting

_PROJECT = Path(__file__).parents[1]
_ALSO = ("tqdm", "ipywidgets")  # what the guest has and the native environment lacks
NOTEBOOK = "notebook.ipynb"


@dataclass(frozen=True)
class Cell:
    """What became of a cell: what it printed, how it failed, and when the first text came (or, without any, idle):
    after it was sent, and after the kernel's process was started."""

    text: str
    error: str | None
    seconds: float
    age: float


@dataclass(frozen=True)
class Contender:
    """A kernel and the cells that make it save and bring back.

    Attributes:
        before: Cells at the beginning of every kernel.
        save: Cells after which the state is saved; none: every cell does that by itself.
        load: Cells that bring it back in another kernel; none: it comes by itself.
        stored: The file it saves to, in the kernel's folder.
    """

    name: str
    version: str
    argv: list[str]
    interrupt_mode: str
    environ: dict[str, str] = field(default_factory=dict)
    before: tuple[str, ...] = ()
    save: tuple[str, ...] = ()
    load: tuple[str, ...] = ()
    stored: str = ""

    def started(self, place: Path) -> tuple[list[str], str, dict[str, str]]:
        """How the children start its kernel in a folder; what they need there is put into it."""
        if self.name == "kishu" and not (place / NOTEBOOK).exists():
            _prepare_kishu(place)
        extra = {name: value.replace("{place}", str(place)) for name, value in self.environ.items()}
        return self.argv, self.interrupt_mode, extra

    @property
    def label(self) -> str:
        """For a table's head."""
        return f"{self.name} {self.version}"


def ours(*arguments: str) -> Contender:
    """This kernel. Kernels with the same name of a session, in the same place, follow each other."""
    spec = json.loads((_PROJECT / "kernelspec" / "kernel.json").read_text())
    program, *rest = spec["argv"]
    argv = [str(Path(sys.prefix) / "bin" / program), *rest, *arguments]
    named = {"WASM_KERNEL_SESSION": str(uuid.uuid4())}
    version = _version(Path(sys.prefix), "wasm-kernel")
    return Contender("wasm-kernel", version, argv, spec["interrupt_mode"], named)


def dill(setting: Setting) -> Contender:
    """ipykernel with dill."""
    folder = beside(setting.native, "dill", *_ALSO)
    return Contender(
        "dill",
        _version(folder, "dill"),
        _ipykernel(folder),
        "signal",
        before=("import dill",),
        save=("dill.dump_session('session.dill')",),
        load=("dill.load_session('session.dill')",),
        stored="session.dill",
    )


def kishu(setting: Setting) -> Contender:
    """ipykernel with kishu. RuntimeError if it cannot be installed."""
    folder = beside(setting.native, "kishu", *_ALSO)
    return Contender(
        "kishu",
        _version(folder, "kishu"),
        _ipykernel(folder),
        "signal",
        {"KISHU_PATH_ROOT": "{place}"},
        before=(f"from kishu import init_kishu; init_kishu({NOTEBOOK!r})",),
        save=(
            "commit = _kishu._kishu_branch.get_head().commit_id  # that of the cell before\n"
            "assert commit, 'kishu made no commit'\nopen('commit', 'w').write(commit)",
        ),
        load=("_kishu.checkout(open('commit').read(), skip_notebook=True)",),
        stored="notebook.kishudb",
    )


def _ipykernel(folder: Path) -> list[str]:
    return [str(folder / "bin" / "python"), "-m", "ipykernel_launcher", "-f", "{connection_file}"]


def _prepare_kishu(place: Path) -> None:
    """The notebook it wants to read, and its setting for kernels without a front end to talk to."""
    kernelspec = {"name": "python3", "display_name": "Python 3", "language": "python"}
    text = json.dumps({"cells": [], "metadata": {"kernelspec": kernelspec}, "nbformat": 4, "nbformat_minor": 5})
    (place / NOTEBOOK).write_text(text)
    (place / ".kishu").mkdir()
    (place / ".kishu" / "config.ini").write_text("[JUPYTERINT]\ntest_mode = True\n")


def _version(folder: Path, name: str) -> str:
    source = f"from importlib.metadata import version; print(version({name!r}))"
    command = [str(folder / "bin" / "python"), "-c", source]
    found = subprocess.run(command, env=environment(), capture_output=True, text=True, check=True)
    return str(found.stdout).strip()


class Client:
    """A native process that drives kernels."""

    def __init__(self, setting: Setting) -> None:
        self._worker = Worker(setting.native, setting.workspace())
        self._worker.run(
            f"import sys; sys.path.insert(0, {str(_PROJECT)!r})\nfrom bench.children import notebook_client"
        )

    def notebook(self, contender: Contender, place: Path, cells: Sequence[str], *, at_once: bool = False) -> list[Cell]:
        """Run cells in a new kernel."""
        found = self._call(f"notebook(*{(contender.started(place), str(place), list(cells))!r}, at_once={at_once})")
        return [Cell(**cell) for cell in found]

    def apart(
        self, jobs: Sequence[tuple[Contender, Path, list[str], list[str]]]
    ) -> list[tuple[list[Cell], list[Cell]]]:
        """Each job's first cells in a kernel of their own, its second ones in the next."""
        prepared = [(contender.started(place), str(place), *cells) for contender, place, *cells in jobs]
        return [([Cell(**c) for c in a], [Cell(**c) for c in b]) for a, b in self._call(f"apart({prepared!r})")]

    def trips(self, contender: Contender, place: Path, count: int, pause: float) -> dict[str, float]:
        """What `pass` takes, over and over."""
        arguments = (contender.started(place), str(place), list(contender.before), count, pause)
        return dict(self._call(f"trips(*{arguments!r})"))

    def _call(self, source: str) -> Any:
        return self._worker.run(f"result = notebook_client.{source}")

    def close(self) -> None:
        """End the process."""
        self._worker.close()
