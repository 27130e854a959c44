"""Makes and signs messages, for all threads of a kernel."""

from __future__ import annotations

import itertools
import os
from typing import Any

from jupyter_client.session import Session

_OF_HEADERS = {"msg_id", "msg_type", "session", "username"}


class CountingSession(Session):
    """A `Session` whose message ids are unique across threads, and which spells a request's header once."""

    def __init__(self, **kwargs: Any) -> None:
        self._numbers = itertools.count()
        super().__init__(**kwargs)
        self._pack_anew, self._packed = self.pack, (None, b"")
        self.pack = self._pack

    def _pack(self, value: Any) -> bytes:
        """Pack a part of a message. The header of a request is in all that is sent about it."""
        known, packed = self._packed
        if value is not known:
            packed = self._pack_anew(value)
            if value.keys() >= _OF_HEADERS and value["session"] != self.session:
                self._packed = value, packed
        return packed

    @property
    def msg_id(self) -> str:
        return f"{self.session}_{os.getpid()}_{next(self._numbers)}"
