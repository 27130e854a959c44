"""Sandboxes for programs: create one, run code in it, look at what it did."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from enum import StrEnum
from pathlib import Path
from types import TracebackType
from typing import Any

from wasm_kernel.errors import ConfigurationError, ImageMissing
from wasm_kernel.guest import wire
from wasm_kernel.host import administrator
from wasm_kernel.host.files import workspace_survey
from wasm_kernel.host.image import image
from wasm_kernel.host.runtime.sandbox import Sandbox
from wasm_kernel.model.outcome import SandboxResult
from wasm_kernel.model.policy import ExecutionPolicy
from wasm_kernel.sessions.host_tools import HostTools, Tool
from wasm_kernel.sessions.log import SandboxLogger

DEFAULT_WORKSPACE = Path("workspace")


class RuntimeType(StrEnum):
    """The languages a sandbox can run."""

    PYTHON = "python"


class BaseSandbox:
    """One sealed Python for many executions; variables and files persist between them.

    Use it as a context manager, or call `close()`. It may be used from any thread, one execution at a time.

    Attributes:
        policy: Its limits.
        workspace: The host folder the guest sees as `/app`.
    """

    def __init__(self, sandbox: Sandbox, logger: SandboxLogger, tools: HostTools | None = None) -> None:
        self._sandbox = sandbox
        self._tools = tools
        self._logger = logger

    @property
    def policy(self) -> ExecutionPolicy:
        """Its limits."""
        return self._sandbox.policy

    @property
    def workspace(self) -> Path:
        """The host folder the guest sees as `/app`."""
        return self._sandbox.folder

    @property
    def logger(self) -> SandboxLogger:
        """Where its events go."""
        return self._logger

    def execute(
        self,
        code: str,
        *,
        on_event: Callable[[wire.Event], None] | None = None,
        on_input: Callable[[wire.InputRequest], str] | None = None,
    ) -> SandboxResult:
        """Run Python code, as a notebook cell would run it, and return all its results.

        Args:
            code: Python source; IPython's magics and top-level await work.
            on_event: Called with each event (`wasm_kernel.Stream`, `DisplayData`, ...) as it happens, on the sandbox's
                thread. If it raises, it is not called again, and `execute` raises that when the code has ended.
            on_input: Called on this thread when the code wants a line of input; returns it. Without it, `input()`
                raises in the code.

        Errors in the code are never raised here: look at `success`, `outcome` and `error` of the result.
        """
        self._logger.info("execution.start", code_bytes=len(code) if isinstance(code, str) else None)
        tools = self._tools
        result = self._sandbox.execute(
            code,
            on_event=on_event,
            on_input=on_input,
            on_magic=tools.answer if tools is not None else None,
            options={"tools": tools.begin()} if tools is not None else None,
        )
        self._logger.info(
            "execution.complete",
            outcome=result.outcome.kind.value,
            cause=result.outcome.cause,
            duration_seconds=round(result.duration_seconds, 6),
            fuel_consumed=result.fuel_consumed,
            memory_bytes=result.memory_bytes,
        )
        return result

    def complete(self, code: str, cursor: int | None = None) -> dict[str, Any]:
        """Completions at a cursor position, as in Jupyter's complete_reply."""
        return self._ask({"op": "complete"}, code, cursor)

    def inspect(self, code: str, cursor: int | None = None, detail: int = 0) -> dict[str, Any]:
        """Information about the object at a cursor position, as in Jupyter's inspect_reply."""
        return self._ask({"op": "inspect", "detail_level": int(bool(detail))}, code, cursor)

    def is_complete(self, code: str) -> dict[str, Any]:
        """Whether code is ready to run, as in Jupyter's is_complete_reply."""
        return self._sandbox.ask({"op": "is_complete", "code": code})

    def _ask(self, request: dict[str, Any], code: str, cursor: int | None) -> dict[str, Any]:
        position = len(code) if cursor is None else cursor
        if not 0 <= position <= len(code):
            raise ConfigurationError(f"cursor is {cursor}; it must be within the code, from 0 to {len(code)}")
        return self._sandbox.ask({**request, "code": code, "cursor_pos": position})

    def interrupt(self) -> bool:
        """Raise KeyboardInterrupt in the running code; False if none is running. Callable from any thread."""
        return self._sandbox.interrupt()

    def reset(self) -> None:
        """Start a fresh interpreter; files stay."""
        self._sandbox.reset()

    def close(self) -> None:
        """Stop running code and release everything. The workspace's files stay."""
        self._sandbox.close()

    def __enter__(self) -> BaseSandbox:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def create_sandbox(
    runtime: RuntimeType | str = RuntimeType.PYTHON,
    policy: ExecutionPolicy | None = None,
    workspace: Path | str = DEFAULT_WORKSPACE,
    logger: SandboxLogger | None = None,
    *,
    tools: Mapping[str, Tool] | None = None,
) -> BaseSandbox:
    """Create a sandbox over a workspace folder, which is created if it does not exist.

    ``tools``: functions of yours that the code in it may call by these names, with JSON-like values, which are checked
    against the functions' annotations; `ToolError` is how they refuse. docs/agents.md has the limits.

    The first time on a machine this builds the image, which takes a few minutes and shows its progress; run
    `wasm-kernel install` beforehand to choose the moment. Afterwards a sandbox is ready in milliseconds.
    """
    check_runtime(runtime)
    policy = policy or ExecutionPolicy()
    if not isinstance(policy, ExecutionPolicy):
        raise ConfigurationError(f"policy is {policy!r}; it must be an ExecutionPolicy")
    policy = administrator.permitted(policy)
    folder = prepared(workspace)
    img = ready_image(metered=policy.fuel_budget is not None)
    checked = HostTools.of(tools)  # before anything is made
    return BaseSandbox(Sandbox(img, folder, policy), logger or SandboxLogger(), checked)


def check_runtime(runtime: RuntimeType | str) -> None:
    """Refuse an unsupported language."""
    if runtime != RuntimeType.PYTHON:
        known = ", ".join(repr(r.value) for r in RuntimeType)
        raise ConfigurationError(f"runtime is {runtime!r}; this version runs {known}")


def prepared(folder: Path | str) -> Path:
    """A workspace folder, created if needed."""
    return workspace_survey.prepare(Path(folder))


def ready_image(*, metered: bool = False) -> image.Image:
    """The image; built first, with progress shown, if it does not exist yet."""
    try:
        ready = image.load()
        ready.modules(metered=metered)
        return ready
    except ImageMissing:
        pass
    from wasm_kernel.host.image import build  # needed only for the first start
    from wasm_kernel.sessions import build_progress

    with build_progress.shown() as update:
        return build.ensure(update, metered=metered)
