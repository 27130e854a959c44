"""Run a host: `python -P -m wasm_kernel.apps.kernel_host IDLE_SECONDS`. A kernel that started without one starts it."""

import os
import sys
from pathlib import Path

from wasm_kernel.apps.kernel_host import address, starting


def main() -> int:
    """Be the host of this Python and environment, unless there is one."""
    key = address.key(sys.executable, os.environ)
    path = Path(address.socket_path(os.environ, key))
    if not address.is_private(str(path.parent)):
        return 1
    os.chdir("/")  # no folder stays in use because of it
    os.umask(0o077)
    lock = starting.lock(path)
    if lock is None:
        return 0
    from wasm_kernel.apps.kernel_host.host_process import HostProcess
    from wasm_kernel.apps.kernel_host.preload import preload

    HostProcess(path, key, preload(), float(sys.argv[1]), lock).run()
    return 0


if __name__ == "__main__":
    os.closerange(3, os.sysconf("SC_OPEN_MAX"))  # what was inherited; every kernel would have it
    if os.fork():  # whoever started this waits for it, and the host is to be nobody's child
        os._exit(0)
    sys.exit(main())
