"""Start the kernel: `python -m wasm_kernel -f CONNECTION_FILE`."""

import sys

from wasm_kernel.apps.kernel_host.launcher import main

if __name__ == "__main__":
    sys.exit(main())
