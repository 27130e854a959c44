"""A kernel that does nothing, on ipykernel's message loop or on ours: what is left is the loop itself.

`python idle_kernel.py ours|ipykernel|no-sleep -f CONNECTION_FILE`. Its cells return at once; one whose text is
``lines N`` publishes N lines from a thread of its own, as the sandbox does, and one of ``wait S`` waits for S seconds.
"""

# Nothing is imported here that only one of the two needs: starts are measured, too.
import asyncio
import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[2]))  # this clone, whichever is installed


class _Nothing:
    """The cells of both kernels."""

    implementation, implementation_version, banner = "nothing", "1", ""
    language_info = {"name": "nothing", "mimetype": "text/plain", "file_extension": ".txt"}

    async def do_execute(self: Any, code: str, *_: Any, **__: Any) -> dict[str, Any]:
        what, _, number = code.partition(" ")
        if what == "wait":
            await asyncio.sleep(float(number))
        elif what == "lines":
            await asyncio.to_thread(self._print, int(number))
        return {"status": "ok", "execution_count": self.execution_count, "payload": [], "user_expressions": {}}

    def _print(self: Any, count: int) -> None:
        for line in range(count):
            self.session.send(
                self.iopub_socket, "stream", {"name": "stdout", "text": f"{line}\n"}, self.get_parent(), ident=b"stream"
            )


def on_ipykernel(*, sleep: bool) -> None:
    """As `IPKernelApp` runs any kernel that is written in Python."""
    from ipykernel.kernelapp import IPKernelApp
    from ipykernel.kernelbase import Kernel

    class Idle(_Nothing, Kernel):
        if not sleep:  # it sleeps half a millisecond before each reply, so that outputs go first
            _execute_sleep = 0

    IPKernelApp.launch_instance(kernel_class=Idle, argv=sys.argv[2:])


def on_ours() -> None:
    """As `apps.kernel_app` runs ours: the sockets first, then what answers."""
    from wasm_kernel.kernel.channels import Channels, read_connection_file
    from wasm_kernel.kernel.lazy_packages import defer

    defer("ipykernel", "jupyter_client", "IPython")
    connection = read_connection_file(Path(sys.argv[3]))
    channels = Channels(connection)
    from wasm_kernel.kernel.counting_session import CountingSession
    from wasm_kernel.kernel.messages import MessageLoop

    class Idle(_Nothing, MessageLoop):
        _running: Any = None

        def busy_with(self) -> Any:
            return self._running

        async def do_execute(self, *arguments: Any, **options: Any) -> dict[str, Any]:
            self._running = self.get_parent()
            try:
                return await super().do_execute(*arguments, **options)
            finally:
                self._running = None

    session = CountingSession(
        key=str(connection["key"]).encode(), signature_scheme=connection["signature_scheme"], username="kernel"
    )
    Idle(channels, session=session).serve()


if __name__ == "__main__":
    if sys.argv[1] == "ours":
        on_ours()
    else:
        on_ipykernel(sleep=sys.argv[1] == "ipykernel")
