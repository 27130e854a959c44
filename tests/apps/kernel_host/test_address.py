"""Where hosts are."""

from __future__ import annotations

import os
import socket
from pathlib import Path

from wasm_kernel.apps.kernel_host import address


def test_a_socket_has_a_path_that_can_be_bound(tmp_path: Path) -> None:
    """However long the user's folder for such files is: no host could ever start there, and each kernel would try."""
    long = tmp_path / ("x" * 80)
    long.mkdir(mode=0o700)
    environ = {"XDG_RUNTIME_DIR": str(long)}
    assert address.folder(environ) == f"/tmp/wasm-kernel-{os.getuid()}"
    most = "/" + "x" * (address._LONGEST - 1)
    path = os.fsencode(address.socket_path(environ, "key").replace(address.folder(environ), f"{most}/wasm-kernel"))
    with socket.socket(socket.AF_UNIX) as tried:
        assert tried.connect_ex(path) != 0  # and not: the path is too long
