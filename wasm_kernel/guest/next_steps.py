"""What to do after an error that would not have happened natively: one line below its usual message.

`STEPS` is the table. The exception keeps its type and its text; the line is a note (PEP 678), as tracebacks show it.
"""

import errno
import os
import re
import sys

from . import instead

in_notebook = False  # whether %session and %pip are there
memory_limit = 0  # bytes; the host tells with each request
memory_most = 0  # bytes that it can be raised to, if somebody has set that
_DEEPEST = 5  # causes of causes
_ON_THE_HOST = re.compile("`%(session|pip)")

NO_PIPES = (
    "The sandbox is one process with one thread. ProcessPoolExecutor, multiprocessing.Pool and joblib have workers, "
    "ThreadPoolExecutor runs in line, and asyncio works"
)
_NO_PACKAGES = "`%pip install NAME`: it installs pure-Python packages"
_UPLOAD = "write urllib.request.urlretrieve(URL, FILE) after `%session allow HOST`, or upload it: `%session files`"
# Modules of the standard library that need what a sandbox does not have.
_SYSTEM = {
    **dict.fromkeys(("_multiprocessing", "_posixshmem", "_posixsubprocess", "_interpreters"), NO_PIPES),
    **dict.fromkeys(("fcntl", "resource", "pwd", "grp", "syslog"), "There is no operating system around the sandbox"),
    **dict.fromkeys(("termios", "_curses", "readline"), "The sandbox has no terminal; input() works"),
    **dict.fromkeys(("tkinter", "_tkinter"), "The sandbox has no windows; matplotlib and ipywidgets are there"),
    "_ctypes": "Compiled libraries cannot be loaded in the sandbox",
}
_NO_PROCESSES = "pipe pipe2 fork forkpty kill killpg wait waitpid WNOHANG posix_spawn execv execve setsid mkfifo"


def add(error):
    """Note the next step on an error that is about to be shown."""
    step = _step(error)
    if step and step not in getattr(error, "__notes__", ()):
        error.add_note(step)


def _step(error):
    for _ in range(_DEEPEST):
        for kind, find in STEPS:
            if isinstance(error, kind):
                step = find(error)
                if step and (in_notebook or not _ON_THE_HOST.search(step)):
                    return f"{step}."
        # What an ImportError or an OSError was raised for says more than it does itself.
        hidden = error.__suppress_context__ or not isinstance(error, (ImportError, OSError))
        error = error.__cause__ or (None if hidden else error.__context__)
        if error is None:
            break
    return ""


def _module(error):
    name = error.name or ""
    top = name.partition(".")[0]
    if top in _SYSTEM or name in sys.modules or top in sys.modules:
        return _SYSTEM.get(top, "")
    return package(top) if top and not top.startswith("_") else ""


def package(name):
    """What to do about a package that is not there, by the name it is imported by."""
    known = instead.INSTALLED_AS.get(name, name)
    if sentence := instead.cannot_run(known):
        return sentence
    if known in instead.BUT:
        return f"`%pip install {known}` installs it, but {instead.BUT[known]}"
    if known != name or name in instead.PURE:
        return f"`%pip install {known}` installs it"
    own = f"`%session add {name}.py` copies a file of yours from beside the notebook"
    return f"`%pip install {name}` installs a package of that name, if it is pure Python; {own}"


def _optional(error):
    """pandas and others say in words which package they miss."""
    if re.search("InterpreterPoolExecutor|SharedMemory", str(error)):
        return NO_PIPES
    found = re.search(r"tried using: '(\w+)'|`Import (\w+)` failed|[Mm]issing optional dependency '(\w+)'", str(error))
    name = next((group for group in found.groups() if group), "") if found else ""
    return package({"pytables": "tables"}.get(name, name)) if name else ""


def _memory(error):
    limit = f"The memory limit is {_size(memory_limit)}" if memory_limit else "The memory limit is reached"
    if memory_limit >= 4 << 30:
        return f"{limit}, the most that WebAssembly can address; delete what is no longer needed, or use smaller types"
    if memory_most and memory_limit >= memory_most:
        return f"{limit}, the most that the administrator allows; delete what is no longer needed, or use smaller types"
    if memory_most:
        raised = f"`%session limits memory={memory_most >> 20}M` raises it"
        return f"{limit}; {raised} to what the administrator allows"
    return f"{limit}; `%session limits memory=4G` raises it (4 GiB is the most)"


def _array(error):
    if "array is too big" not in str(error) and "Maximum allowed dimension exceeded" not in str(error):
        return ""
    return f"One array has at most 2 GiB here, because addresses have 32 bits. {_memory(error)}"


def _too_large(error):
    if "index-sized integer" not in str(error) and "too large to convert to C ssize_t" not in str(error):
        return ""
    return f"One object has at most 2 GiB here, because addresses have 32 bits. {_memory(error)}"


def _system(error):
    text = str(error)
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return "`%session limits` shows the limits on disk and files, `%session limits disk=5G` raises one"
    if error.errno == errno.EFBIG:
        return "`%session limits file=4G` raises the limit on the size of a file"
    for part, step in _SYSTEM_TEXTS.items():
        if part in text:
            return step
    return ""


_SYSTEM_TEXTS = {
    "no processes in the WebAssembly sandbox": NO_PIPES,
    "wasi does not support processes": NO_PIPES,
    "mmap is unavailable": "The sandbox cannot map files or memory. Read the file as a whole; workers of pools have "
    "the notebook's variables, and hand results back",
    "the sandbox has no pairs of sockets": NO_PIPES,
    "coder jpeg not available": "The sandbox's Pillow has no JPEG; convert pictures to PNG before you bring them in",
    "ctypes is unavailable": "Compiled libraries cannot be loaded in the sandbox",
}


def _missing_in_os(error):
    return NO_PIPES if error.obj is os and error.name in _NO_PROCESSES.split() else ""


# The kind of error, and what finds its next step; the first that finds one.
STEPS = (
    (ModuleNotFoundError, _module),
    (ImportError, _optional),
    (MemoryError, _memory),
    (ValueError, _array),
    (OverflowError, _too_large),
    (OSError, _system),
    (AttributeError, _missing_in_os),
    (NotImplementedError, lambda error: NO_PIPES if "multiprocessing" in str(error) else ""),
)

# What to write in place of a shell command.
_COMMANDS = {
    **dict.fromkeys("ls mkdir rmdir rm cp mv cd pwd cat less more".split(), "write `%{command}{rest}`"),
    **dict.fromkeys("head tail".split(), "write `%cat FILE`"),
    **dict.fromkeys("pip pip3".split(), "write `%pip{rest}`: it installs pure-Python packages"),
    **dict.fromkeys("conda mamba uv apt apt-get brew".split(), f"write {_NO_PACKAGES}"),
    **dict.fromkeys("wget curl git gdown kaggle".split(), _UPLOAD),
    **dict.fromkeys("python python3".split(), "write `%run{rest}`"),
    **dict.fromkeys("unzip tar gunzip".split(), "write shutil.unpack_archive(FILE)"),
    "nvidia-smi": "there is no GPU, either",
}


def command(line):
    """The next step after a shell command that cannot run, as the end of a sentence; empty if there is none."""
    words = line.strip().split()
    if words[1:3] == ["-m", "pip"]:
        words = words[2:]
    if not words or words[0] not in _COMMANDS:
        return ""
    rest = "".join(f" {word}" for word in words[1:])
    step = _COMMANDS[words[0]].format(command=words[0], rest=rest[:100])
    return f"; {step}" if in_notebook or not _ON_THE_HOST.search(step) else ""


def _size(count):
    return f"{count / (1 << 30):.3g} GiB" if count >= 1 << 30 else f"{count / (1 << 20):.3g} MiB"
