"""The page that uploads: whose it is, what it may do, and that a folder's name does nothing in it."""

from __future__ import annotations

import json
import re

from tests.server.conftest import QUOTA, Session
from wasm_kernel.model.names import key_of


def test_page(session: Session) -> None:
    answer = session.server.get(session.url("upload?path=data"))
    assert answer.status == 200
    assert answer.headers["Content-Type"].startswith("text/html")
    policy = answer.headers["Content-Security-Policy"]
    nonce = re.search("script-src 'nonce-([^']+)'", policy)
    assert nonce is not None
    assert "default-src 'none'" in policy and "unsafe" not in policy and "frame-ancestors 'self'" in policy
    text = answer.body.decode()
    assert text.count(f'nonce="{nonce[1]}"') == 3
    config = json.loads(re.search(r'id="config"[^>]*>(.*?)</script>', text)[1])  # type: ignore[index]
    assert config["files"].startswith("/user/ann/wasm-kernel/sessions/")
    assert config["key"] == "data"
    assert 0 < config["free"] < QUOTA
    assert config["xsrf"]


def test_hostile_folder_names(session: Session) -> None:
    for name in ("</script><img src=x onerror=alert(1)>", "{{ 1 }}\"'\u202e", "a&b"):
        folder = name.replace("/", "\N{FRACTION SLASH}")
        (session.folder / folder).mkdir()
        text = session.server.get(session.url(f"upload?path={key_of(folder)}")).body.decode()
        assert text.count("<script") == text.count("</script>") == 2
        assert "<img" not in text and "\u202e" not in text


def test_refused(session: Session) -> None:
    assert session.server.request("GET", session.url("upload"), login=False).status in (302, 403)
    for path, status in {"nothing": 404, "..": 400, "a.txt": 404, ".metadata.json": 400}.items():
        assert session.server.get(session.url(f"upload?path={path}")).status == status
    assert session.server.get("wasm-kernel/sessions/none/upload").status == 404
