"""The sessions that programs have open in this process: one guest each, however many handles there are on it."""

from __future__ import annotations

import threading
import weakref
from pathlib import Path

from wasm_kernel.sessions.session import LiveSession

_live: dict[tuple[Path, str], LiveSession] = {}
_opening: weakref.WeakValueDictionary[tuple[Path, str], threading.Lock] = weakref.WeakValueDictionary()
_guard = threading.RLock()


def opening(root: Path, session_id: str) -> threading.Lock:
    """Held while a session is opened: one thread opens it, and the others share what it opened."""
    with _guard:
        return _opening.setdefault((root, session_id), threading.Lock())


def live_session(session_id: str, root: Path) -> LiveSession | None:
    """The session, if this process has it open."""
    with _guard:
        return _live.get((root, session_id))


def close_session(session_id: str, root: Path) -> bool:
    """Close a session's sandbox if this process has one; whether it did."""
    with _guard:
        live = _live.get((root, session_id))
    if live is None:
        return False
    live.close()
    return True


def entered(root: Path, live: LiveSession) -> LiveSession:
    """Register a session that was just opened with this process; its first handle."""
    key = (root, live.session_id)

    def forget() -> None:
        with _guard:
            if _live.get(key) is live:
                del _live[key]

    live.on_close = forget
    live.enter()
    with _guard:
        _live[key] = live
    return live
