"""Runs the command line as a test needs it: in this process, in another, on a terminal."""

from __future__ import annotations

import contextlib
import json
import os
import pty
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

from wasm_kernel.apps import cli

_OPEN = {"errors", "archived", "variables", "metadata", "settings"}  # objects whose keys are data
_ESCAPES = re.compile(r"\x1b\[[0-9;?]*[a-zA-Z]")


def wasm_kernel(*arguments: str, **env: str) -> subprocess.CompletedProcess[str]:
    """The command in a process of its own, without a terminal."""
    return subprocess.run(
        command(*arguments), stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=120,
        env={**os.environ, **env},
    )  # fmt: skip


def command(*arguments: str) -> list[str]:
    """What starts it."""
    return [sys.executable, "-m", "wasm_kernel.apps.cli", *arguments]


def on_terminal(*arguments: str, answer: str = "", **env: str) -> tuple[int, str]:
    """The command on a terminal of 100 columns; its exit code and everything it wrote there."""
    ours, theirs = pty.openpty()
    environ = {k: v for k, v in os.environ.items() if k not in ("NO_COLOR", "FORCE_COLOR")}
    environ |= {"TERM": "xterm-256color", "COLUMNS": "100", "LINES": "40", **env}
    process = subprocess.Popen(command(*arguments), stdin=theirs, stdout=theirs, stderr=theirs, env=environ)
    os.close(theirs)
    os.write(ours, answer.encode())
    seen = b""
    with contextlib.suppress(OSError):
        while block := os.read(ours, 65536):
            seen += block
    os.close(ours)
    return process.wait(60), seen.decode().replace("\r\n", "\n")


def plain(text: str) -> str:
    """Without colours and cursor movements."""
    return _ESCAPES.sub("", text)


class Main:
    """Calls main() in this process."""

    def __init__(self, capsys: Any) -> None:
        self._capsys = capsys

    def __call__(self, *arguments: object) -> tuple[int, str, str]:
        """Exit code, standard output, standard error."""
        try:
            code = cli.main([str(a) for a in arguments])
        except SystemExit as e:
            code = int(str(e.code))
        out, err = self._capsys.readouterr()
        return code, out, err

    def json(self, *arguments: object, code: int = 0) -> Any:
        """What it gives with --json, which has the shape its help shows."""
        found, out, err = self(*arguments, "--json")
        assert found == code, err
        value = json.loads(out)
        check_shape(example_of(*(str(a) for a in arguments)), value)
        return value


def example_of(*arguments: str) -> Any:
    """The example of --json in a command's help."""
    parser: Any = cli._parser()
    for word in arguments:
        choices: Any = next((a.choices for a in parser._actions if isinstance(a.choices, dict)), {})
        if word not in choices:
            break
        parser = choices[word]
    found = re.search(r"--json prints:\n(.*?)\n\n", parser.epilog, re.DOTALL)
    assert found is not None, f"{parser.prog} does not say what --json prints"
    return json.loads(found[1])


def check_shape(example: Any, value: Any, where: str = "it") -> None:
    """Whether a value has the fields of an example, and no others."""
    if isinstance(example, dict):
        assert set(example) == set(value), where
        for key in set(example) - _OPEN:
            check_shape(example[key], value[key], key)
    elif isinstance(example, list):
        assert isinstance(value, list), where
        for one in value if example else []:
            check_shape(example[0], one, where)
    elif value is not None:
        assert isinstance(value, type(example)), f"{where} is {value!r}"


# Control-C is pressed as soon as something in a folder matches a pattern. The program looks itself, with each call to the
# system: whoever looks from outside may be too late on a busy machine.
_INTERRUPTED = """
import os, signal, sys
from pathlib import Path
from wasm_kernel.apps import cli
folder, pattern = Path(sys.argv[1]), sys.argv[2]
looks = True
def watch(event, arguments):
    global looks
    if looks and (event == "open" or event.startswith("os.")):
        looks = False  # while looking, too
        looks = not any(folder.glob(pattern))
        if not looks:
            os.kill(os.getpid(), signal.SIGINT)
sys.addaudithook(watch)
sys.exit(cli.main(sys.argv[3:]))
"""


def interrupted(*arguments: str, folder: Path, when: str) -> subprocess.CompletedProcess[bytes]:
    """The command in a process of its own, which is interrupted as soon as something in a folder matches a pattern."""
    code = [sys.executable, "-c", _INTERRUPTED, str(folder), when]
    return subprocess.run([*code, *arguments], capture_output=True, timeout=200, check=False)
