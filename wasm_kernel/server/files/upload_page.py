"""The page that uploads files of any size into a session's folder: streamed, with progress."""

from __future__ import annotations

import json
import secrets
from pathlib import Path

from jupyter_server.auth.decorator import authorized
from tornado import web
from tornado.template import Template

from wasm_kernel.host.files.quota import Quota
from wasm_kernel.model.names import key_of, text_of
from wasm_kernel.server.files.session_handler import SessionHandler
from wasm_kernel.server.problems import as_problems


class UploadPageHandler(SessionHandler):
    """The page. ``path``: which folder."""

    content_type = "text/html; charset=utf-8"
    _nonce = ""

    @property
    def content_security_policy(self) -> str:
        """Only its own script, and requests to this server; the guest's text in it is escaped."""
        if not self._nonce:
            return super().content_security_policy
        ours = f"'nonce-{self._nonce}'"
        rules = f"default-src 'none'; script-src {ours}; style-src {ours}; connect-src 'self'; base-uri 'none'"
        return f"{rules}; form-action 'none'; frame-ancestors 'self'"

    @web.authenticated
    @authorized
    async def get(self, session_id: str) -> None:
        """The page."""
        self.files.check_settings()
        path = self.checked(self.argument("path"))
        with as_problems():
            quota = await self.files.in_thread(self._look, session_id, path)
        session = f"{self.base_url.rstrip('/')}/wasm-kernel/sessions/{session_id}"
        config = {
            "files": f"{session}/files/",
            "list": f"{session}/list?limit=0",
            "key": key_of(path),
            "free": quota.free,
            "max_file": quota.max_file,
            "xsrf": self.xsrf_token.decode(),
        }
        self._nonce = secrets.token_urlsafe(16)
        self.set_header("Content-Security-Policy", self.content_security_policy)
        page = Template((Path(__file__).parent / "upload_page.html").read_bytes(), compress_whitespace=False)
        # No folder's name may end the script element.
        safe = json.dumps(config).replace("<", "\\u003c")
        self.finish(page.generate(nonce=self._nonce, folder=_shown(path), config=safe))

    def _look(self, session_id: str, path: str) -> Quota:
        with self.files.open(session_id) as folder:
            if path:
                with folder.enter(path):
                    pass
        return self.files.quota(session_id)


def _shown(path: str) -> str:
    text = "".join(c if c.isprintable() else "\N{REPLACEMENT CHARACTER}" for c in text_of(path))
    return f"/app/{text}".rstrip("/")
