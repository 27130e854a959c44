"""Where the host of a kernel is. Imported by the launcher, which has milliseconds: no module that takes time.

There is one host for each user, Python and image, and for each set of values of the variables that count from a
process's start on. A host has no others in its own environment, so it knows nothing of anybody's notebook.
"""

from __future__ import annotations

import binascii
import os
import stat
import sys

TYPE_CHECKING = False  # typing takes longer to import than all of this module
if TYPE_CHECKING:
    from collections.abc import Mapping

SWITCH = "WASM_KERNEL_HOST"
_LONGEST = 80  # bytes of a folder: a socket's whole path has 107 at most
_VERSION = "2"  # of what is said on the socket
# Read by the C library and the interpreter, or by modules when they are imported (a test has the list of these).
_PREFIXES = ("PYTHON", "_PYTHON", "LC_", "LD_", "MALLOC_", "RUST_", "RAYON_", "TORNADO_", "WASMTIME_")
_NAMES = {
    "ANDROID_DATA",
    "FORCE_COLOR",
    "GLIBC_TUNABLES",
    "HOME",
    "IN_SPHINX_RUN",
    "IPYTHON_TESTING_TIMEOUT_SCALE",
    "JUPYTER_ALLOW_INSECURE_WRITES",
    "JUPYTER_PLATFORM_DIRS",
    "JUPYTER_USE_PROGRAMDATA",
    "LANG",
    "LANGUAGE",
    "MSGPACK_PUREPYTHON",
    "NO_COLOR",
    "PSUTIL_DEBUG",
    "PYZMQ_BACKEND",
    "TERM",
    "TRAITLETS_APPLICATION_RAISE_CONFIG_FILE_ERROR",
    "USER",
    "WASM_KERNEL_CACHE",
    "XDG_CACHE_HOME",
    "XDG_CONFIG_DIRS",
    "XDG_DATA_DIRS",
    "XDG_RUNTIME_DIR",
}


def wanted(environ: Mapping[str, str]) -> bool:
    """Whether kernels of this environment come from a host, where there can be one."""
    return sys.platform == "linux" and environ.get(SWITCH) != "0"


def fixed(environ: Mapping[str, str]) -> dict[str, str]:
    """The variables that count from a process's start on."""
    return {name: environ[name] for name in sorted(environ) if name in _NAMES or name.startswith(_PREFIXES)}


def key(executable: str, environ: Mapping[str, str]) -> str:
    """Which host serves a kernel of this Python with this environment."""
    return "\n".join([_VERSION, executable, *(f"{name}={value}" for name, value in fixed(environ).items())])


def folder(environ: Mapping[str, str]) -> str:
    """The folder of all hosts of this user."""
    runtime = environ.get("XDG_RUNTIME_DIR", "")
    if runtime.startswith("/") and len(os.fsencode(runtime)) <= _LONGEST and _mine(runtime):
        return f"{runtime}/wasm-kernel"
    return f"/tmp/wasm-kernel-{os.getuid()}"


def is_private(place: str) -> bool:
    """Whether a folder is this user's, and nobody else's."""
    return _mine(place, 0o077)


def _mine(place: str, forbidden: int = 0o022) -> bool:
    try:
        found = os.lstat(place)
    except OSError:
        return False
    return stat.S_ISDIR(found.st_mode) and found.st_uid == os.getuid() and not found.st_mode & forbidden


def socket_path(environ: Mapping[str, str], of: str) -> str:
    """The socket of a host. Two keys may share one: a host compares the whole key."""
    return f"{folder(environ)}/{binascii.crc32(os.fsencode(of)):08x}.sock"
