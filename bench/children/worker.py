"""Runs source text sent as JSON lines on stdin, and answers each with the value it left in `result`.

Run by the native environment's Python, so it uses the standard library only. What the text prints goes to stderr.
"""

import json
import os
import sys
import traceback
from typing import Any


def main() -> None:
    """Serve until stdin ends."""
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    space: dict[str, Any] = {"__name__": "__worker__"}
    for line in sys.stdin:
        space["result"] = None
        try:
            exec(compile(json.loads(line), "<bench>", "exec"), space)
            answer = {"result": space["result"]}
        except Exception:  # noqa: BLE001 - whatever the text raises belongs to the parent
            answer = {"error": traceback.format_exc()}
        print(json.dumps(answer), file=answers, flush=True)


main()
