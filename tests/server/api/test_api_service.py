"""A server that nobody asks for the API does not pay for it."""

from __future__ import annotations

import asyncio
import logging
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from wasm_kernel.model.settings import session_limits
from wasm_kernel.server.api import openapi
from wasm_kernel.server.api.api_service import ApiService, ApiSettings

_LOADED = """
import sys
import wasm_kernel.server.extension
heavy = {"wasmtime", "wasm_kernel.host.runtime.engine", "wasm_kernel.server.api.pool", "wasm_kernel.server.api.views"}
print(sorted(heavy & set(sys.modules)))
"""


def test_the_extension_starts_without_what_runs_guests() -> None:
    done = subprocess.run([sys.executable, "-c", _LOADED], capture_output=True, text=True, timeout=60)
    assert done.stdout == "[]\n", done


def test_the_document_is_loaded_once_and_not_before_it_is_needed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    loads = []
    load = openapi.document

    def counted(*args: Any) -> dict[str, Any]:
        loads.append(args)
        return load(*args)

    monkeypatch.setattr(openapi, "document", counted)

    async def scene() -> None:
        limits = session_limits({}, {"maxima": {"memory": "1G", "output": "1G"}})
        service = ApiService(ApiSettings(tmp_path, limits, 5, 1, None), "/user/ann/", logging.getLogger("test"))
        assert not loads
        await asyncio.gather(*(service.load_document() for _ in range(5)))
        assert "createTask" in service.operations
        await service.close()

    asyncio.run(scene())
    assert loads == [("/user/ann/wasm-kernel/api/v0", {"memory": 1 << 30, "output": 8 << 20, "display": 8 << 20}, 5)]
