"""IPython's shell-command magics, reimplemented in Python; those that need a process say why they cannot run."""

import os
import shlex
import shutil
import time

from . import next_steps
from .host_help import HELP
from .shims import NO_PROCESS


def register(shell):
    """Register these magics with a shell."""
    from IPython.core.error import UsageError

    def no_process(line, cell=None):
        raise UsageError(NO_PROCESS + next_steps.command(cell or line))

    def no_conda(line):
        raise UsageError(NO_PROCESS + next_steps.command("conda"))

    for name in ("script", "bash", "sh", "perl", "ruby", "python", "python2", "python3", "pypy"):
        shell.register_magic_function(no_process, "cell", name)
    for name in ("sx", "system"):
        shell.register_magic_function(no_process, "line_cell", name)
    for name in ("edit", "man"):
        shell.register_magic_function(no_process, "line", name)
    for name in ("conda", "mamba", "micromamba", "uv"):
        shell.register_magic_function(no_conda, "line", name)

    for name, text in HELP.items():
        shell.register_magic_function(_host_magic(name, text), "line", name)
    for name in ("ls", "ll", "lf", "lk", "ldir", "lx"):
        shell.register_magic_function(_ls if name == "ls" else _ll, "line", name)
    shell.register_magic_function(_cat, "line", "cat")
    for name in ("less", "more"):
        shell.register_magic_function(_less, "line", name)
    for name in ("connect_info", "qtconsole"):
        shell.register_magic_function(_no_connection, "line", name)
    shell.register_magic_function(_clear, "line", "clear")
    shell.register_magic_function(_autosave, "line", "autosave")
    for name, function in {
        "mkdir": lambda *names: [os.makedirs(n, exist_ok=True) for n in names],
        "rmdir": lambda *names: [os.rmdir(n) for n in names],
        "rm": lambda *names: [os.remove(n) for n in names],
        "cp": lambda source, target: shutil.copy(source, target),
        "mv": lambda source, target: shutil.move(source, target),
    }.items():
        shell.register_magic_function(_simple(name, function), "line", name)


def _host_magic(name, text):
    from IPython.core.error import UsageError
    from IPython.core.magic import no_var_expand

    from . import door, installed, wire

    @no_var_expand
    def magic(line):
        answer = door.send(wire.HostMagic(name, line))
        kind, rest = answer[:1], answer[1:]
        if kind == wire.ANSWER_TEXT:
            import json

            installed.look()  # %pip may have installed something
            return json.loads(rest)
        if kind == wire.ANSWER_INTERRUPTED:
            raise KeyboardInterrupt
        if kind == wire.ANSWER_ERROR:
            raise UsageError(rest.decode("utf-8", "replace"))
        raise UsageError(f"%{name} works only when it is written in a notebook cell")

    magic.__doc__ = text
    return magic


def _words(line):
    words = shlex.split(line)
    return [w for w in words if not w.startswith("-")], [w for w in words if w.startswith("-")]


def _ls(line):
    """List a folder's files."""
    names, options = _words(line)
    long = any("l" in o for o in options)
    for name in names or ["."]:
        folder = os.path.isdir(name)
        for entry in sorted(os.listdir(name)) if folder else [name]:
            path = os.path.join(name, entry) if folder else entry
            tail = "/" if os.path.isdir(path) else ""
            if long:
                info = os.stat(path)
                when = time.strftime("%Y-%m-%d %H:%M", time.localtime(info.st_mtime))
                print(f"{info.st_size:>12} {when} {entry}{tail}")
            else:
                print(entry + tail)


def _ll(line):
    """List a folder's files with sizes and times."""
    _ls("-l " + line)


def _cat(line):
    """Print files."""
    for name in _words(line)[0]:
        with open(name, errors="replace") as file:
            print(file.read(), end="")


def _less(line):
    """Show a file in the pager."""
    from IPython.core import page

    for name in _words(line)[0]:
        with open(name, errors="replace") as file:
            page.page(file.read())


def _clear(line):
    """Clear the terminal."""
    print("\033[H\033[2J", end="")


def _autosave(line):
    """Set how often the classic notebook saves itself, in seconds; 0 switches it off."""
    from IPython.core.error import UsageError
    from IPython.display import Javascript, display

    try:
        seconds = int(line)
    except ValueError:
        raise UsageError(f"%autosave requires an integer, got {line!r}") from None
    code = f"IPython.notebook.set_autosave_interval({1000 * seconds})"
    display(Javascript(code), include=["application/javascript"])
    print(f"Autosaving every {seconds} seconds" if seconds else "Autosave disabled")


def _no_connection(line):
    """Not available: only the host knows the kernel's ports and key."""
    from IPython.core.error import UsageError

    raise UsageError("the sandbox does not know the kernel's connection; on the host, run: jupyter console --existing")


def _simple(name, function):
    def magic(line):
        function(*_words(line)[0])

    magic.__doc__ = f"%{name}, implemented in Python; options are ignored."
    return magic
