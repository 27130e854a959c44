"""Structured log events: what happened, to which session, with which numbers."""

from __future__ import annotations

import copy
import sys
from typing import Any, Self, TextIO

_LEVELS = {"debug": 10, "info": 20, "warning": 30, "error": 40}


class SandboxLogger:
    """Emits named events with fields through structlog, as JSON lines or for a console.

    Events go to standard error unless a stream is given, never to standard output, which belongs to the code that
    runs. structlog is imported with the first event that is actually emitted, to keep startup fast.
    """

    def __init__(
        self,
        *,
        level: str = "warning",
        json: bool = False,
        stream: TextIO | None = None,
        context: dict[str, Any] | None = None,
    ) -> None:
        if level not in _LEVELS:
            raise ValueError(f"level is {level!r}; it must be one of {', '.join(_LEVELS)}")
        self._level, self._json, self._stream = level, json, stream
        self._context = dict(context or {})
        self._emit: Any = None

    def bind(self, **fields: Any) -> Self:
        """A logger of the same kind that adds these fields to every event."""
        bound = copy.copy(self)  # a subclass may have attributes of its own, and another constructor
        bound._context = {**self._context, **fields}
        return bound

    def debug(self, event: str, **fields: Any) -> None:
        """An event for debugging."""
        self.log("debug", event, **fields)

    def info(self, event: str, **fields: Any) -> None:
        """An event of normal operation."""
        self.log("info", event, **fields)

    def warning(self, event: str, **fields: Any) -> None:
        """Something a person should know, although work continues."""
        self.log("warning", event, **fields)

    def error(self, event: str, **fields: Any) -> None:
        """Something failed."""
        self.log("error", event, **fields)

    def log(self, level: str, event: str, **fields: Any) -> None:
        """Emit an event at a level given by name."""
        if _LEVELS[level] < _LEVELS[self._level]:
            return
        if self._emit is None:
            self._emit = self._structlog()
        getattr(self._emit, level)(event, **{**self._context, **fields})

    def _structlog(self) -> Any:
        import structlog

        stream = self._stream or sys.stderr
        renderer: Any = (
            structlog.processors.JSONRenderer()
            if self._json
            else structlog.dev.ConsoleRenderer(colors=hasattr(stream, "isatty") and stream.isatty())
        )
        return structlog.wrap_logger(
            structlog.PrintLogger(stream),
            processors=[
                structlog.processors.add_log_level,
                structlog.processors.TimeStamper(fmt="iso", utc=True),
                renderer,
            ],
            wrapper_class=structlog.make_filtering_bound_logger(_LEVELS[self._level]),
        )
