"""What all requests for a session's files share: the service they use, and checked arguments."""

from __future__ import annotations

from wasm_kernel.errors import PathRefused
from wasm_kernel.host.files.folder import components
from wasm_kernel.server.base_handler import BaseHandler
from wasm_kernel.server.files.file_service import FileService
from wasm_kernel.server.problems import Problem

_TRUE, _FALSE = ("1", "true", "yes"), ("0", "false", "no", "")


class SessionHandler(BaseHandler):
    """A request about one session."""

    def initialize(self, name: str, files: FileService) -> None:
        """Called for each request."""
        super().initialize(name)
        self.files = files

    # ---- arguments

    def flag(self, name: str) -> bool:
        """A yes-or-no argument; no if it is not given."""
        value = self.argument(name).lower()
        if value not in _TRUE + _FALSE:
            raise Problem(400, f"{name} is {value[:40]!r}; it must be 0 or 1")
        return value in _TRUE

    def number(self, name: str, default: int, most: int) -> int:
        """A whole number, up to ``most``."""
        value = self.argument(name, str(default))
        if not (value.isascii() and value.isdigit() and len(value) <= 15 and int(value) <= most):
            raise Problem(400, f"{name} is {value[:40]!r}; it must be a whole number from 0 to {most}")
        return int(value)

    def checked(self, path: str) -> str:
        """A path that is well formed, or empty for the whole workspace; opening it may still fail."""
        try:
            return "/".join(components(path or ".", backslashes=True))
        except PathRefused as e:
            self.log.warning("wasm_kernel: refused: %s", e)
            raise Problem(400, str(e)) from None

    def named(self, path: str) -> str:
        """The same, but not empty."""
        found = self.checked(path)
        if not found:
            raise Problem(400, f"path is {path!r}; it must name a file or folder in the workspace")
        return found

    # ---- answering

    def cut_off(self) -> None:
        """End an answer that cannot be completed, so that nobody takes it for complete."""
        stream = getattr(self.request.connection, "stream", None)
        if stream is not None:
            stream.close()
