"""Everything wasm-kernel raises on purpose.

    WasmKernelError
    ├── ConfigurationError (also ValueError)   a value the caller gave is wrong
    ├── NotAllowed                             the administrator's rules forbid it, or cannot be read
    ├── NotGranted                             a person would have to allow it, and did not
    ├── ImageError                             the image is missing, damaged or cannot be built
    │   └── ImageMissing                       nothing is built yet, and building was not allowed here
    ├── SessionLocked                          another process, or another sandbox, uses the session
    ├── Interrupted                            the person stopped what the host did for a cell
    ├── PackageError                           packages could not be installed or removed; nothing was changed
    ├── DamagedChunk                           a part of a snapshot is missing or not what was stored
    ├── BadManifest                            a snapshot's own file is damaged, or of a newer version
    ├── StoreBusy                              snapshots are being taken or collected by somebody else
    └── SandboxError                           the sandbox itself failed, not the code in it
        ├── SandboxClosed                      it was used after close()
        └── SandboxBusy                        a second execute while one runs

What the *code* does is never raised here: an exception in a cell, a limit that was hit, an interrupt or a
crash of the guest come back as values (`wasm_kernel.Outcome` in a `SandboxResult`). Each message says what was
wrong, the value, and what to do.
"""

from __future__ import annotations


class WasmKernelError(Exception):
    """Base of everything wasm-kernel raises on purpose."""


class ConfigurationError(WasmKernelError, ValueError):
    """A setting or an argument has a value that cannot work."""


class NotAllowed(WasmKernelError):
    """The administrator's rules forbid it, or the file that holds them cannot be used."""


class NotGranted(WasmKernelError):
    """A notebook's text wanted something beyond its session, and nobody allowed it. Nothing was done."""


class ImageError(WasmKernelError):
    """The image a guest starts from is damaged or cannot be built."""


class ImageMissing(ImageError):
    """No image is built yet, and this call may not build one."""


class SessionLocked(WasmKernelError):
    """Another process uses this session; the message names it."""


class Interrupted(WasmKernelError):
    """The user stopped what the host did for a cell. Not KeyboardInterrupt: that would end an event loop."""


class PackageError(WasmKernelError):
    """Packages could not be installed or removed; the session has those it had before.

    Attributes:
        cause: What stood in the way: ``requirement`` (not a name with versions), ``unknown`` (no such package or
            version), ``compiled`` (no wheel in pure Python), ``conflict``, ``network``, ``disk``, ``cancelled``,
            ``installer`` (anything else pip or uv said).
        details: The installer's last lines, for somebody who wants to know more.
    """

    def __init__(self, cause: str, message: str, details: str = "") -> None:
        super().__init__(message)
        self.cause, self.details = cause, details


class DamagedChunk(WasmKernelError):
    """A chunk is missing, or is not what its name says: what refers to it cannot be used, everything else can."""


class BadManifest(WasmKernelError):
    """A manifest is damaged or impossible: what it described cannot be used, everything else can."""


class StoreBusy(WasmKernelError):
    """Others use the store of chunks, and this needs it alone."""


class SandboxError(WasmKernelError):
    """The sandbox failed for a reason that is not the code it ran."""


class SandboxClosed(SandboxError):
    """The sandbox was closed before this call."""


class SandboxBusy(SandboxError):
    """The sandbox is already executing; a guest has one thread."""
