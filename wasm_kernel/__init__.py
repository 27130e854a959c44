"""A Jupyter kernel in which every notebook is its own sealed, resumable computer.

>>> from wasm_kernel import create_sandbox
>>> with create_sandbox(workspace="scratch") as sandbox:
...     result = sandbox.execute("print(6 * 7)")
>>> result.stdout
'42\\n'
"""

from wasm_kernel.errors import (
    ConfigurationError,
    ImageError,
    ImageMissing,
    SandboxBusy,
    SandboxClosed,
    SandboxError,
    WasmKernelError,
)
from wasm_kernel.guest.wire import (
    ClearOutput,
    Comm,
    DisplayData,
    ErrorRaised,
    Event,
    ExecuteResult,
    InputRequest,
    Stream,
    UpdateDisplay,
)
from wasm_kernel.model.outcome import GuestError, Outcome, OutcomeKind, SandboxResult
from wasm_kernel.model.policy import ExecutionPolicy
from wasm_kernel.sessions.log import SandboxLogger
from wasm_kernel.sessions.sandboxes import BaseSandbox, RuntimeType, create_sandbox

__version__ = "0.1.0"

__all__ = [
    "BaseSandbox",
    "ClearOutput",
    "Comm",
    "ConfigurationError",
    "DisplayData",
    "ErrorRaised",
    "Event",
    "ExecuteResult",
    "ExecutionPolicy",
    "GuestError",
    "ImageError",
    "ImageMissing",
    "InputRequest",
    "Outcome",
    "OutcomeKind",
    "RuntimeType",
    "SandboxBusy",
    "SandboxClosed",
    "SandboxError",
    "SandboxLogger",
    "SandboxResult",
    "Stream",
    "UpdateDisplay",
    "WasmKernelError",
    "__version__",
    "create_sandbox",
]
