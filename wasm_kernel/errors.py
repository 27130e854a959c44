"""Everything wasm-kernel raises on purpose.

    WasmKernelError
    ├── ConfigurationError (also ValueError)   a value the caller gave is wrong
    │   ├── WorkspaceRootMissing (also FileNotFoundError)   the folder that should hold the sessions is not there
    │   └── BadArchive                         a file is not a session archive, or is malicious
    ├── PathRefused (also ValueError)          a path the host refuses to touch
    ├── NotAllowed                             the administrator's rules forbid it, or cannot be read
    ├── NotGranted                             it needs a person's permission, which was not given
    ├── ImageError                             the image is missing, damaged or cannot be built
    │   ├── ImageMissing                       nothing is built yet, and building was not allowed here
    │   └── OlderImage                         variables were saved with another image, which cannot be used
    ├── SessionLocked                          another process, or another sandbox, is using the session
    │   └── SessionElsewhere                   another machine has it, as the object store says
    ├── RemoteError                            an object store cannot be used
    │   └── LeaseLost                          another machine has taken the session over
    │       └── SessionDeleted                 or has deleted it
    ├── ClusterError                           a Dask cluster cannot be used, or cannot be reached any more
    ├── MountInside (also OSError)             another file system is mounted inside what was to be deleted
    ├── Interrupted                            the user stopped work the host was doing for a cell
    ├── ToolError                              a tool that the program offers its guest refuses, and says why
    ├── PackageError                           packages could not be installed or removed; nothing was changed
    ├── BadSnapshot                            data is not a valid snapshot, or is malicious
    ├── DamagedChunk                           a part of a snapshot is missing or damaged
    ├── BadManifest                            a snapshot's manifest is damaged, or from a newer version
    ├── StoreBusy                              another process is using the snapshot store
    └── SandboxError                           the sandbox itself failed, not the code in it
        ├── SandboxClosed                      used after close()
        └── SandboxBusy                        a second execute while one is running

What happens to the *code* is never raised: an exception in a cell, a limit that was hit, an interrupt or a crash
of the guest come back as values (`wasm_kernel.Outcome` in a `SandboxResult`). Each message says what was wrong, the
value, and what to do. Errors of the operating system (a full disk, a missing file) stay `OSError`.

Exceptions that never leave the layer that raises them are defined there.
"""

from __future__ import annotations


class WasmKernelError(Exception):
    """Base of everything wasm-kernel raises on purpose."""


class ConfigurationError(WasmKernelError, ValueError):
    """A setting or an argument has a value that cannot work."""


class WorkspaceRootMissing(ConfigurationError, FileNotFoundError):
    """The workspace root does not exist, or is not a folder."""


class BadArchive(ConfigurationError):
    """A file that is not a session archive, or one that tries to write outside its session."""


class PathRefused(WasmKernelError, ValueError):
    """A path the host refuses to touch: it leaves the workspace, or names one of the host's own files."""


class NotAllowed(WasmKernelError):
    """The administrator's rules forbid it, or the file that holds them cannot be used."""


class NotGranted(WasmKernelError):
    """A cell asked for something beyond its session, and nobody allowed it. Nothing was done."""


class ImageError(WasmKernelError):
    """The image a guest starts from is damaged or cannot be built."""


class ImageMissing(ImageError):
    """No image is built yet, and this call may not build one."""


class OlderImage(ImageError):
    """Variables were saved with the image of another version of wasm-kernel, which cannot be used here. Files can."""


class SessionLocked(WasmKernelError):
    """Another process is using this session; the message names it."""


class SessionElsewhere(SessionLocked):
    """Another machine is using this session; the message names it. It may be taken over."""


class RemoteError(WasmKernelError):
    """An object store cannot be reached, or refuses. What is here stays here."""


class ClusterError(WasmKernelError):
    """A Dask cluster cannot be used, or cannot be reached any more. Workers can run on this machine instead."""


class LeaseLost(RemoteError):
    """Another machine has taken the session over: what is pushed from here no longer counts."""


class SessionDeleted(LeaseLost):
    """The session was deleted in the object store; a copy on this machine's disk stays there, and is not pushed."""


class ToolError(WasmKernelError):
    """Raised by a tool: what it says is told to the code in the sandbox, unlike any other error's text."""


class MountInside(WasmKernelError, OSError):
    """Another file system is mounted inside what was to be deleted, which is left alone."""


class Interrupted(WasmKernelError):
    """The user stopped work the host was doing for a cell. Not a KeyboardInterrupt, which would end an event loop."""


class PackageError(WasmKernelError):
    """Packages could not be installed or removed; the session's packages are unchanged.

    Attributes:
        cause: What prevented it: ``requirement`` (not a name with versions), ``unknown`` (no such package or
            version), ``compiled`` (no wheel in pure Python), ``conflict``, ``network``, ``disk``, ``cancelled``,
            ``installer`` (anything else pip or uv said).
        details: The last lines of the installer's output.
    """

    def __init__(self, cause: str, message: str, details: str = "") -> None:
        super().__init__(message)
        self.cause, self.details = cause, details


class BadSnapshot(WasmKernelError):
    """Data that is not a valid snapshot, or is malicious; the message says what is wrong with it."""


class DamagedChunk(WasmKernelError):
    """A chunk is missing or damaged. Snapshots that refer to it cannot be used; all others can."""


class BadManifest(WasmKernelError):
    """A manifest is damaged. Its snapshot cannot be used; all others can."""


class StoreBusy(WasmKernelError):
    """Other processes are using the chunk store, and this needs exclusive access."""


class SandboxError(WasmKernelError):
    """The sandbox itself failed, not the code in it."""


class SandboxClosed(SandboxError):
    """The sandbox was closed before this call."""


class SandboxBusy(SandboxError):
    """The sandbox is already executing; a guest has one thread."""
