"""An address that is not the Jupyter server's, for attempts to get something out of a page."""

from __future__ import annotations

import contextlib
import socket
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


class Listener:
    """An address that is none of the Jupyter server's. Whoever calls it has got something out."""

    def __init__(self) -> None:
        self.paths: set[str] = set()
        self._ears: list[socket.socket] = []
        heard = self.paths

        class Handler(BaseHTTPRequestHandler):
            def answer(self) -> None:
                path = self.path.partition("?")[0]
                if path.endswith("/opener"):  # a page, which tells whether it holds the one it was opened from
                    self.send_response(200)
                    self.send_header("Content-Type", "text/html")
                    self.end_headers()
                    self.wfile.write(b"<script>if (opener) new Image().src = location.pathname + '-held'</script>")
                    return
                heard.add(path.removesuffix("/opener-held"))
                self.send_response(204)  # a page that was sent here stays where it is
                self.send_header("Access-Control-Allow-Origin", "*")
                self.end_headers()

            do_GET = do_HEAD = do_POST = do_OPTIONS = answer

            def log_message(self, format: str, *args: Any) -> None:
                """Nobody reads it."""

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._server.server_port}"
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def stun(self, name: str) -> str:
        """An address for calls between browsers, which never use HTTP."""
        ear = socket.socket(type=socket.SOCK_DGRAM)
        ear.bind(("127.0.0.1", 0))
        self._ears.append(ear)
        threading.Thread(target=self._hear, args=(ear, name), daemon=True).start()
        return f"stun:127.0.0.1:{ear.getsockname()[1]}"

    def _hear(self, ear: socket.socket, name: str) -> None:
        with contextlib.suppress(OSError):
            ear.recv(2000)
            self.paths.add(f"/{name}")

    def close(self) -> None:
        """Listen no more."""
        for ear in self._ears:
            ear.close()
        self._server.shutdown()
        self._server.server_close()
