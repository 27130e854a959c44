"""Fixtures of the tests of sessions."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.sessions.helpers import Log
from wasm_kernel import BaseSandbox, create_session_sandbox, get_session_sandbox


class Opened:
    """Opens sessions below one root and closes them all at the end."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self._sandboxes: list[BaseSandbox] = []

    def create(self, **options: Any) -> tuple[str, BaseSandbox]:
        """A new session."""
        session_id, sandbox = create_session_sandbox(**{"workspace_root": self.root, **options})
        self._sandboxes.append(sandbox)
        return session_id, sandbox

    def get(self, session_id: str, **options: Any) -> BaseSandbox:
        """A session by its id."""
        sandbox = get_session_sandbox(session_id, **{"workspace_root": self.root, **options})
        self._sandboxes.append(sandbox)
        return sandbox

    def close(self) -> None:
        """Close everything that was opened."""
        for sandbox in self._sandboxes:
            sandbox.close()


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """An empty workspace root."""
    folder = tmp_path / "workspace"
    folder.mkdir()
    return folder


@pytest.fixture
def sessions(root: Path) -> Iterator[Opened]:
    """Opens sessions below the root."""
    opened = Opened(root)
    yield opened
    opened.close()


@pytest.fixture
def log() -> Log:
    """A logger whose events can be read back."""
    return Log()
