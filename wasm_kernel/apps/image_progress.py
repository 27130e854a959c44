"""Build the image from a kernel: in a process of its own, with its progress shown in the cell that waits for it."""

from __future__ import annotations

import asyncio
import html
import json
import sys
import time
import uuid
from collections.abc import Callable
from typing import Any

Publish = Callable[[str, dict[str, Any]], None]
_NAMES = {
    "fetch": "fetching the runtime",
    "compile": "compiling it for this CPU",
    "packages": "fetching IPython",
    "base memory": "importing the scientific stack",
}


class BuildFailed(Exception):
    """The image could not be built; the message says why and what to do."""


async def build_with_progress(publish: Publish) -> None:
    """Build the image, or wait for the process that does, and show how far it is."""
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "wasm_kernel.apps.cli",
        "image",
        "build",
        "--json",
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    display_id = str(uuid.uuid4())
    started, shown = time.monotonic(), 0.0
    kind = "display_data"
    assert process.stdout is not None
    assert process.stderr is not None
    try:
        async for line in process.stdout:
            try:
                state = json.loads(line)
            except ValueError:
                continue
            if time.monotonic() - shown < 0.5 and state.get("fraction", 0) < 1:
                continue
            shown = time.monotonic()
            publish(kind, _picture(state, shown - started, display_id))
            kind = "update_display_data"
        problem = (await process.stderr.read()).decode(errors="replace").strip()
        if await process.wait() != 0:
            raise BuildFailed(
                f"the sandbox's image could not be built. {problem}\nRun `wasm-kernel doctor` in a terminal."
            )
    finally:
        if process.returncode is None:
            process.kill()
    elapsed = time.monotonic() - started
    publish(
        kind, _bundle(f"wasm-kernel: the sandbox is ready ({elapsed:.0f} s, once on this machine)", 1.0, display_id)
    )


def _picture(state: dict[str, Any], elapsed: float, display_id: str) -> dict[str, Any]:
    step, index, count = state.get("step", ""), state.get("index", 1), state.get("count", 1)
    fraction = float(state.get("fraction", 0))
    whole = (index - 1 + fraction) / max(count, 1)
    who = "another process is " if state.get("waiting") else ""
    text = (
        f"wasm-kernel: {who}building the sandbox, once on this machine: step {index} of {count}, "
        f"{_NAMES.get(step, step)}, {fraction:.0%}; {elapsed:.0f} s"
    )
    return _bundle(text, whole, display_id)


def _bundle(text: str, fraction: float, display_id: str) -> dict[str, Any]:
    bar = f'<progress max="1" value="{fraction:.3f}" style="width: 20em"></progress> '
    return {
        "data": {"text/plain": text, "text/html": f"{bar}<span>{html.escape(text)}</span>"},
        "metadata": {},
        "transient": {"display_id": display_id},
    }
