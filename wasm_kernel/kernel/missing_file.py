"""A file that a cell did not find, but that lies beside the notebook: says so, and what to type.

Only the person gets to see that: it is the host that looks, after the cell has ended, at the one path that its error
names; and an output marked as private does not come back through a widget that captures outputs. So the guest cannot
find out by it what is in the notebook's folder.
"""

from __future__ import annotations

import ast
import re
import shlex
from pathlib import Path

from wasm_kernel.host.files import notebook_folder
from wasm_kernel.kernel import render
from wasm_kernel.kernel.outputs import PRIVATE
from wasm_kernel.model.outcome import GuestError

_LONGEST = 1000  # characters of an error's text
_OURS = "/app/"
_QUOTED = re.compile(r"No such file or directory: ('[^'\n]+'|\"[^\"\n]+\")\Z")  # as open() and pandas say it
_BARE = re.compile(r"([^\n]+) not found\.\Z")  # as numpy does


def path_in(error: GuestError) -> str:
    """The path in /app that an error says is not there; empty if it says no such thing."""
    text = error.value
    if error.name != "FileNotFoundError" or not isinstance(text, str) or len(text) > _LONGEST:
        return ""
    if (quoted := _QUOTED.search(text)) is not None:
        try:
            path = str(ast.literal_eval(quoted[1]))
        except (ValueError, SyntaxError):
            return ""
    elif (bare := _BARE.match(text)) is not None:
        path = bare[1]
    else:
        return ""
    return path.removeprefix(_OURS)


def told(folder: Path, error: GuestError) -> dict[str, object] | None:
    """What to show for an error, if the file is in the notebook's folder. Blocks."""
    path = path_in(error)
    if not path or not path.isprintable() or "`" in path:
        return None
    found = notebook_folder.look(folder, path)
    if found is None or not found.path:
        return None
    what = "file" if found.kind == "file" else "folder"
    content = render.aside(
        f"This {what} is beside the notebook, but not in its session. To copy it there: "
        f"`%session add {shlex.quote(found.path)}`"
    )
    return {**content, "metadata": {PRIVATE: True}}
