"""A Jupyter kernel in which every notebook is its own sealed, resumable computer.

>>> from wasm_kernel import create_sandbox
>>> with create_sandbox(workspace="scratch") as sandbox:
...     result = sandbox.execute("print(6 * 7)")
>>> result.stdout
'42\\n'
"""

TYPE_CHECKING = False  # importing typing takes longer than a launcher of kernels may
if TYPE_CHECKING:
    from typing import Any

    from wasm_kernel.errors import (
        BadArchive,
        ConfigurationError,
        ImageError,
        ImageMissing,
        NotAllowed,
        OlderImage,
        PackageError,
        PathRefused,
        SandboxBusy,
        SandboxClosed,
        SandboxError,
        SessionLocked,
        ToolError,
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
    from wasm_kernel.model.packages import Package, PackageChange
    from wasm_kernel.model.policy import ExecutionPolicy
    from wasm_kernel.model.records import SessionRecord
    from wasm_kernel.model.retention import RetentionPolicy
    from wasm_kernel.model.snapshot_retention import SnapshotRetention
    from wasm_kernel.model.snapshots import Snapshot
    from wasm_kernel.sessions.archive import export_session, import_session
    from wasm_kernel.sessions.catalog import repair_session_metadata
    from wasm_kernel.sessions.deletion import delete_session_workspace
    from wasm_kernel.sessions.files import (
        SessionFile,
        delete_session_path,
        list_session_files,
        open_session_file,
        read_session_file,
        write_session_file,
    )
    from wasm_kernel.sessions.housekeeping import (
        ArchiveResult,
        PruneResult,
        archive_sessions,
        prune_sessions,
        prune_snapshots,
    )
    from wasm_kernel.sessions.log import SandboxLogger
    from wasm_kernel.sessions.packages import install_packages, list_packages, uninstall_packages
    from wasm_kernel.sessions.sandboxes import BaseSandbox, RuntimeType, create_sandbox
    from wasm_kernel.sessions.session_list import SessionSummary, list_sessions
    from wasm_kernel.sessions.session_sandboxes import create_session_sandbox, get_session_sandbox
    from wasm_kernel.sessions.snapshots import (
        collect_snapshots,
        create_snapshot,
        delete_snapshot,
        export_snapshot,
        fork_session,
        get_snapshot,
        import_snapshot,
        list_snapshots,
        restore_snapshot,
        verify_snapshots,
    )

__version__ = "0.1.0"

# Imported when first asked for: a kernel must listen on its sockets before it imports anything else.
_LATER = {
    **dict.fromkeys(
        (
            "BadArchive",
            "ConfigurationError",
            "ImageError",
            "ImageMissing",
            "NotAllowed",
            "OlderImage",
            "PackageError",
            "PathRefused",
            "SandboxBusy",
            "SandboxClosed",
            "SandboxError",
            "SessionLocked",
            "ToolError",
            "WasmKernelError",
        ),
        "errors",
    ),
    **dict.fromkeys(
        (
            "ClearOutput",
            "Comm",
            "DisplayData",
            "ErrorRaised",
            "Event",
            "ExecuteResult",
            "InputRequest",
            "Stream",
            "UpdateDisplay",
        ),
        "guest.wire",
    ),
    **dict.fromkeys(("GuestError", "Outcome", "OutcomeKind", "SandboxResult"), "model.outcome"),
    "ExecutionPolicy": "model.policy",
    "SandboxLogger": "sessions.log",
    **dict.fromkeys(("BaseSandbox", "RuntimeType", "create_sandbox"), "sessions.sandboxes"),
    **dict.fromkeys(("Package", "PackageChange"), "model.packages"),
    "SessionRecord": "model.records",
    "RetentionPolicy": "model.retention",
    **dict.fromkeys(("export_session", "import_session"), "sessions.archive"),
    **dict.fromkeys(("create_session_sandbox", "get_session_sandbox"), "sessions.session_sandboxes"),
    "delete_session_workspace": "sessions.deletion",
    "repair_session_metadata": "sessions.catalog",
    **dict.fromkeys(
        (
            "SessionFile",
            "delete_session_path",
            "list_session_files",
            "open_session_file",
            "read_session_file",
            "write_session_file",
        ),
        "sessions.files",
    ),
    **dict.fromkeys(("install_packages", "list_packages", "uninstall_packages"), "sessions.packages"),
    **dict.fromkeys(
        ("ArchiveResult", "PruneResult", "archive_sessions", "prune_sessions", "prune_snapshots"),
        "sessions.housekeeping",
    ),
    **dict.fromkeys(("SessionSummary", "list_sessions"), "sessions.session_list"),
    "Snapshot": "model.snapshots",
    "SnapshotRetention": "model.snapshot_retention",
    **dict.fromkeys(
        (
            "collect_snapshots",
            "create_snapshot",
            "delete_snapshot",
            "export_snapshot",
            "fork_session",
            "get_snapshot",
            "import_snapshot",
            "list_snapshots",
            "restore_snapshot",
            "verify_snapshots",
        ),
        "sessions.snapshots",
    ),
}


def __getattr__(name: str) -> "Any":
    if name not in _LATER:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    value = getattr(import_module(f"{__name__}.{_LATER[name]}"), name)
    globals()[name] = value
    return value


def _jupyter_server_extension_points() -> "list[dict[str, Any]]":
    """What Jupyter Server loads: `wasm_kernel.server`."""
    from importlib import import_module

    return [{"module": __name__, "app": import_module(f"{__name__}.server.extension").WasmKernelExtension}]


def __dir__() -> list[str]:
    return sorted({*globals(), *_LATER})


__all__ = [
    "ArchiveResult",
    "BadArchive",
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
    "NotAllowed",
    "OlderImage",
    "Outcome",
    "OutcomeKind",
    "Package",
    "PackageChange",
    "PackageError",
    "PathRefused",
    "PruneResult",
    "RetentionPolicy",
    "RuntimeType",
    "SandboxBusy",
    "SandboxClosed",
    "SandboxError",
    "SandboxLogger",
    "SandboxResult",
    "SessionFile",
    "SessionLocked",
    "SessionRecord",
    "SessionSummary",
    "Snapshot",
    "SnapshotRetention",
    "Stream",
    "ToolError",
    "UpdateDisplay",
    "WasmKernelError",
    "__version__",
    "archive_sessions",
    "collect_snapshots",
    "create_sandbox",
    "create_session_sandbox",
    "create_snapshot",
    "delete_session_path",
    "delete_session_workspace",
    "delete_snapshot",
    "export_session",
    "export_snapshot",
    "fork_session",
    "get_session_sandbox",
    "get_snapshot",
    "import_session",
    "import_snapshot",
    "install_packages",
    "list_packages",
    "list_session_files",
    "list_sessions",
    "list_snapshots",
    "open_session_file",
    "prune_sessions",
    "prune_snapshots",
    "read_session_file",
    "repair_session_metadata",
    "restore_snapshot",
    "uninstall_packages",
    "verify_snapshots",
    "write_session_file",
]
