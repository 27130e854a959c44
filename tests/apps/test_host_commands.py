"""`wasm-kernel host`."""

from __future__ import annotations

import json
import os
from collections.abc import Callable

from tests.apps.kernel_host.conftest import HostKernel, Place, host, place, start
from tests.apps.terminal import wasm_kernel
from tests.conformance.client import eventually

__all__ = ["host", "place", "start"]


def test_status_and_stop(place: Place, start: Callable[..., HostKernel]) -> None:
    where = {"XDG_RUNTIME_DIR": str(place.folder)}
    none = wasm_kernel("host", "status", **where)
    assert (none.returncode, none.stdout) == (3, "No kernel host runs.\n")
    assert wasm_kernel("host", "stop", **where).returncode == 3
    pid = place.start()
    kernel = start()
    shown = json.loads(wasm_kernel("host", "status", "--json", **where).stdout)
    (state,) = shown
    assert (state["pid"], state["kernels"]) == (pid, [kernel.pid])
    assert str(pid) in wasm_kernel("host", "status", **where).stdout
    assert json.loads(wasm_kernel("host", "stop", "--json", **where).stdout) == {"stopped": [pid]}
    assert eventually(lambda: place.pid is None)
    assert kernel.run("6 * 7").result == "42"
    os.kill(kernel.pid, 0)
