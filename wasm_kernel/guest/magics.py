"""Magics that are shell commands in IPython, done in Python; and one clear sentence for those that cannot be."""

import os
import shlex
import shutil
import time

from .shims import NO_PROCESS


def register(shell):
    """Add ours to a shell."""
    from IPython.core.error import UsageError

    def no_process(line, cell=None):
        raise UsageError(NO_PROCESS)

    for name in ("script", "bash", "sh", "perl", "ruby", "python", "python2", "python3", "pypy"):
        shell.register_magic_function(no_process, "cell", name)
    for name in ("sx", "system"):
        shell.register_magic_function(no_process, "line_cell", name)
    for name in ("edit", "man", "conda", "mamba", "micromamba", "uv"):
        shell.register_magic_function(no_process, "line", name)

    def pip(line):
        """%pip install NAME: packages are installed by the kernel's host, from a cell of its own line."""
        raise UsageError("%pip works only as a line of a notebook cell run by the wasm kernel, not from code")

    shell.register_magic_function(pip, "line", "pip")
    for name in ("ls", "ll", "lf", "lk", "ldir", "lx"):
        shell.register_magic_function(_ls if name == "ls" else _ll, "line", name)
    for name in ("cat", "less", "more"):
        shell.register_magic_function(_cat, "line", name)
    for name, function in {
        "mkdir": lambda *names: [os.makedirs(n, exist_ok=True) for n in names],
        "rmdir": lambda *names: [os.rmdir(n) for n in names],
        "rm": lambda *names: [os.remove(n) for n in names],
        "cp": lambda source, target: shutil.copy(source, target),
        "mv": lambda source, target: shutil.move(source, target),
    }.items():
        shell.register_magic_function(_simple(name, function), "line", name)


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


def _simple(name, function):
    def magic(line):
        function(*_words(line)[0])

    magic.__doc__ = f"%{name}, done in Python: options are ignored."
    return magic
