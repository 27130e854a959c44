"""A hub's tokens are in the kernel's environment. They are not in the guest, nor in what it leaves on the disk."""

from __future__ import annotations

import contextlib
import json
import secrets
from pathlib import Path

import pytest

from tests.administrator.conftest import Start
from tests.administrator.environment import ENVIRONMENT_PASSED_ON, Environment, RuledKernel
from wasm_kernel.host.image import image
from wasm_kernel.host.store.chunks import ZERO
from wasm_kernel.model.snapshots import chunks_of
from wasm_kernel.sessions.recorder import snapshot_store

pytestmark = pytest.mark.filterwarnings("ignore")
_NAMES = ("JUPYTERHUB_API_TOKEN", "JPY_API_TOKEN", "JUPYTERHUB_CLIENT_ID", "JUPYTERHUB_COOKIE_SECRET")

# Looks in each place for what begins like a token; the word itself is only made when it runs.
_SEARCH = """
import gc, os, numpy
word = bytes(b ^ 1 for b in b'rdr`ld,')
def tell(place, data):
    at = data.find(word)
    while at >= 0:
        print(place, data[at:at + 39].decode('latin1')); at = data.find(word, at + 1)
def encoded(thing):
    return thing if type(thing) is bytes else thing.encode('utf-8', 'replace')
tell('environment', str(dict(os.environ)).encode())
for top in ('/app', '/tmp', '/dev', '/packages', '/kernel', '/proc', '/etc', '/run', '/root', '/home'):
    for folder, _, names in os.walk(top):
        for name in names:
            try: tell('file', open(os.path.join(folder, name), 'rb').read())
            except OSError: pass
for holder in gc.get_objects():
    for thing in gc.get_referents(holder):
        if type(thing) in (str, bytes) and 39 <= len(thing) < 10_000: tell('object', encoded(thing))
here = numpy.zeros(1, 'u1'); at = here.__array_interface__['data'][0]
below = numpy.lib.stride_tricks.as_strided(here, (at,), (-1,))[::-1]
above = numpy.lib.stride_tricks.as_strided(here, (max(1, SIZE - at),))
for part in (below, above):
    for i in range(0, len(part), 1 << 20): tell('memory', part[i:i + (1 << 20) + 64].tobytes())
"""


class Scene:
    """A notebook's kernel on a hub, all of whose secrets are known to the test."""

    def __init__(self, environment: Environment, start: Start, folder: Path, **env: str) -> None:
        self.root = folder / "sessions"
        self.secrets = {name: f"sesame-{secrets.token_hex(16)}" for name in _NAMES}
        environment.configure("c.Application.log_level = 'DEBUG'\n")
        notebook = folder / "a.ipynb"
        notebook.write_text(json.dumps({"cells": [], "metadata": {}, "nbformat": 4, "nbformat_minor": 5}))
        hub = {
            "JUPYTERHUB_API_URL": "http://127.0.0.1:9/hub/api",
            "JUPYTERHUB_USER": "ann",
            "JPY_SESSION_NAME": str(notebook),
            "WASM_KERNEL_SESSION": "of-a-hub",
        }
        self.kernel: RuledKernel = start(self.root, **self.secrets, **hub, **env)

    def seen_by_guest(self) -> str:
        size = (image.parts().base.path / "base.mem").stat().st_size  # a guest's memory has at least as much
        return self.kernel.ok(_SEARCH.replace("SIZE", str(size))).stdout

    def found_in(self, text: str | bytes) -> list[str]:
        data = text if isinstance(text, bytes) else text.encode()
        # Half of one is found even if it lies across two pages.
        return [n for n, s in self.secrets.items() if s[:20].encode() in data or s[-19:].encode() in data]

    def snapshots(self) -> bytes:
        """Everything the snapshots hold, unpacked."""
        with contextlib.closing(snapshot_store(self.root)) as store:
            bodies = [store.read_manifest(*names) for names in store.manifest_names()]
            names = {name for body in bodies for name in chunks_of(body)} - {ZERO}
            assert names, "nothing was saved"
            return b"".join([*bodies, *(store.read_chunk(name) for name in names)])

    def files(self) -> bytes:
        return b"".join(p.read_bytes() for p in self.root.rglob("*") if p.is_file())


def test_tokens_stay_out(fresh: Environment, start: Start, tmp_path: Path) -> None:
    scene = Scene(fresh, start, tmp_path)
    seen = scene.seen_by_guest()
    assert "memory sesame-" in seen, "the search itself is found: it does look"
    assert scene.found_in(seen) == []
    scene.kernel.ok("%session snapshot kept")
    scene.kernel.run("1/0")
    scene.kernel.stop()
    assert scene.found_in(scene.snapshots()) == []
    assert scene.found_in(scene.files()) == []
    assert scene.found_in(scene.kernel.log.read_bytes()) == []


def test_it_would_be_noticed(fresh: Environment, start: Start, tmp_path: Path) -> None:
    scene = Scene(fresh, start, tmp_path, **ENVIRONMENT_PASSED_ON)
    seen = scene.seen_by_guest()
    for place in ("environment", "object", "memory"):
        there = [line for line in seen.splitlines() if line.startswith(place)]
        assert scene.found_in("\n".join(there)) == list(_NAMES), place
    scene.kernel.ok("%session snapshot kept")
    assert scene.found_in(scene.snapshots()) == list(_NAMES)
