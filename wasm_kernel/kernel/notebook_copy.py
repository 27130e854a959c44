"""A copy of the notebook beside it, for a fork of its session."""

from __future__ import annotations

import itertools
from pathlib import Path

from wasm_kernel.errors import ConfigurationError
from wasm_kernel.sessions.notebooks import adopt_notebook

_SUFFIX = ".ipynb"


def copy_path(notebook: Path | None, name: str) -> Path:
    """The path for a copy of that name; raises if it cannot be made there."""
    if notebook is None:
        raise ConfigurationError("this kernel has no notebook to copy; %session fork without --notebook works")
    plain = name if name.endswith(_SUFFIX) else f"{name}{_SUFFIX}"
    if Path(plain).name != plain or plain.startswith("."):
        raise ConfigurationError(f"{name!r} is not a plain file name; the copy goes next to the notebook")
    if (notebook.parent / plain).exists():
        raise ConfigurationError(f"{plain!r} already exists; choose another name")
    return notebook.parent / plain


def free_copy_path(notebook: Path | None) -> Path:
    """The path for a copy under a name that is free: study-fork.ipynb, study-fork2.ipynb, …"""
    if notebook is None:
        return copy_path(None, "")
    names = (f"{notebook.stem}-fork{number if number > 1 else ''}{_SUFFIX}" for number in itertools.count(1))
    return copy_path(notebook, next(name for name in names if not (notebook.parent / name).exists()))


def write_copy(notebook: Path, copy: Path, root: Path, session_id: str) -> None:
    """Write the copy, and make it the notebook of a session. FileExistsError if somebody was quicker."""
    with copy.open("xb") as file:
        file.write(notebook.read_bytes())
    adopt_notebook(root, session_id, copy)
