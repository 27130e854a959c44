"""Run the example notebooks and keep their outputs: ``python -m tests.run_examples [NAME.ipynb …]`` (``make examples``)."""

from __future__ import annotations

import os
import shutil
import sys
import time
from pathlib import Path

import nbformat
from nbclient import NotebookClient

EXAMPLES = Path(__file__).parents[1] / "examples"


def run(path: Path, root: Path) -> tuple[nbformat.NotebookNode, set[int]]:
    """Execute a notebook in a kernel and a workspace of its own; also says which cells failed.

    A cell that fails without the tag ``raises-exception`` ends it with an exception.
    """
    notebook = nbformat.read(path, as_version=4)
    failed: set[int] = set()
    client = NotebookClient(
        notebook,
        timeout=30,  # nbclient misses a reply that arrives while it sends a message itself, and waits for this long
        kernel_name="wasm",
        record_timing=False,
        coalesce_streams=True,
        on_cell_error=lambda cell, cell_index, execute_reply: failed.add(cell_index),
    )
    client.execute(env={**os.environ, "WASM_KERNEL_WORKSPACE": str(root)})
    return notebook, failed


def main() -> None:
    """Execute and save."""
    # `%session` shows where a session's folder is; what is kept should say nothing about the machine it ran on.
    root = Path("/tmp/wasm-kernel-examples")
    for path in [EXAMPLES / name for name in sys.argv[1:]] or sorted(EXAMPLES.glob("*.ipynb")):
        shutil.rmtree(root, ignore_errors=True)
        begun = time.monotonic()
        notebook, _ = run(path, root)
        nbformat.write(notebook, path)
        print(f"{path.name:28} {time.monotonic() - begun:5.1f} s {path.stat().st_size / 1000:7.0f} kB", flush=True)
    shutil.rmtree(root, ignore_errors=True)


if __name__ == "__main__":
    main()
