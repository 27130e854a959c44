"""Users of a hub: their notebooks run on the kernel, are theirs alone, and come back after their servers were stopped."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import psutil
import pytest
from playwright.sync_api import Browser, BrowserContext, expect

from tests.browser.lab import Notebook
from tests.browser.test_files import FILES, Files
from tests.hub.hub import Hub
from tests.sessions.helpers import make_session
from wasm_kernel.model.records import format_time

LogIn = Callable[[str], BrowserContext]


@pytest.fixture(scope="module")
def ann(hub: Hub, browser: Browser, shots: Path) -> Iterator[Notebook]:
    """Ann's notebook, open in her browser; some files are in its session."""
    context = hub.log_in(browser, "ann")
    lab, page = hub.open_lab(context, "ann")
    nb = Notebook.make(lab, page, shots, "ann.ipynb", (FILES, "kept = [41]", "%session files"))
    nb.run_all()
    yield nb
    context.close()


def test_files_are_browsed_downloaded_and_uploaded(ann: Notebook, tmp_path: Path) -> None:
    files = Files(ann, 2)
    files.row("data").dblclick()
    files.row("raw").dblclick()
    files.choose("x.bin")
    expect(files.preview.locator("pre")).to_contain_text("0000  00 01 02 03")
    with ann.page.expect_download() as waiting:
        files.root.locator(".wk-link a").click()
    assert "/user/ann/wasm-kernel/" in waiting.value.url
    assert waiting.value.path().read_bytes() == bytes(range(256)) * 40
    files.press("/app")
    mine = tmp_path / "mine é.bin"
    mine.write_bytes(os.urandom(100_000))
    files.press("Upload")
    files.upload_page.locator("input[type=file]").set_input_files(mine)
    expect(files.row("mine é.bin")).to_have_count(1)
    files.answer("Done")
    assert (ann.folder / "mine é.bin").read_bytes() == mine.read_bytes()
    ann.screenshot("hub_files")


# The guest knows how the words begin, and says what stands behind that in its memory.
_SEARCH = """
import json, numpy, os
canary = 'canary-' + os.urandom(16).hex()
here = numpy.zeros(1, 'u1'); at = here.__array_interface__['data'][0]
below = numpy.lib.stride_tricks.as_strided(here, (at,), (-1,))[::-1]
above = numpy.lib.stride_tricks.as_strided(here, (max(1, (240 << 20) - at),))
found = []
for data in (bytes(below), bytes(above)):
    for word in BEGINNINGS:
        i = data.find(word)
        while i >= 0: found.append(data[i:i + 64].decode('latin-1')); i = data.find(word, i + 1)
print(json.dumps([canary, found, dict(os.environ)]))
"""


def test_tokens_of_the_hub_never_reach_a_guest(ann: Notebook) -> None:
    (kernel,) = [p for p in psutil.process_iter() if _is_kernel(p, ann.kernel_id)]
    given = kernel.environ()
    assert given["JPY_API_TOKEN"] == given["JUPYTERHUB_API_TOKEN"]
    tokens = {given["JUPYTERHUB_API_TOKEN"], ann.lab.token}
    assert all(len(token) >= 32 for token in tokens)
    number = ann.run(_SEARCH.replace("BEGINNINGS", repr([token[:6].encode() for token in tokens] + [b"canary-"])))
    canary, found, environ = json.loads(ann.text(number))
    assert any(canary in text for text in found), "the search finds nothing"
    assert not [text for text in found if any(token in text for token in tokens)]
    assert not [name for name in environ if "TOKEN" in name or name.startswith(("JUPYTERHUB", "HUB", "CONFIGPROXY"))]


def _is_kernel(process: psutil.Process, kernel_id: str) -> bool:
    try:
        return any(f"kernel-{kernel_id}.json" in part for part in process.cmdline())
    except psutil.Error:
        return False


def test_nobody_reaches_anothers_sessions(hub: Hub, ann: Notebook, log_in: LogIn) -> None:
    token = hub.api("users/bob/tokens", "POST", {"note": "tests"})["token"]
    hers = f"{hub.url}user/ann/wasm-kernel"
    session = ann.folder.name
    browsers = (ann.page.context, log_in("bob"))
    for what in (f"sessions/{session}/files/cities.csv", f"sessions/{session}/list?path=", "api/v0/sandboxes"):
        answers = [browser.request.get(f"{hers}/{what}") for browser in browsers]
        assert answers[1].status == 403, what
        assert "city" not in answers[1].text()
        assert _status(f"{hers}/{what}", token) == 403
        assert answers[0].status == 200, what
    for method in ("PUT", "DELETE"):
        assert _status(f"{hers}/sessions/{session}/files/cities.csv", token, method) == 403
    assert _status(f"{hers}/api/v0/sandboxes/{session}", token, "DELETE") == 403
    assert (ann.folder / "cities.csv").exists()


def _status(url: str, token: str, method: str = "GET") -> int:
    request = urllib.request.Request(
        url, b"x" if method == "PUT" else None, {"Authorization": f"token {token}"}, method=method
    )
    try:
        with urllib.request.build_opener(urllib.request.ProxyHandler({})).open(request, timeout=30) as answer:
            return int(answer.status)
    except urllib.error.HTTPError as e:
        return e.code


def test_the_culler_stops_one_and_its_variables_come_back(hub: Hub, ann: Notebook, log_in: LogIn, shots: Path) -> None:
    lab, page = hub.open_lab(log_in("bob"), "bob")
    bob = Notebook.make(lab, page, shots, "bob.ipynb", ("theirs = 'bob'",))
    bob.run_all()
    number = bob.start("import os, time\nwhile not os.path.exists('stop'):\n    print('.', end='')\n    time.sleep(1)")
    ann.save()
    ann.page.close()  # nobody looks any more; her kernel waits
    culler = _culler(hub, timeout=10)
    try:
        hub.wait_until_stopped("ann")
    finally:
        culler.terminate()
        culler.wait(30)
    assert hub.is_running("bob")
    (bob.folder / "stop").write_text("")
    bob.wait_until_done(number)
    assert "'bob'" in bob.text(bob.run("theirs"))

    lab, page = hub.open_lab(ann.page.context, "ann")
    again = Notebook(lab, page, shots, ann.name)
    again.open()
    number = again.run("kept.append(42); print(kept, len(open('cities.csv').read()))")
    expect(again.output(number)).to_contain_text("[41, 42] 25")
    notices = "() => document.querySelector('.jp-Notification-Status')?.textContent"
    assert "1" in (page.evaluate(notices) or ""), "it says that it continues"
    again.screenshot("hub_resumed")


def test_old_sessions_of_the_stopped_go_and_those_in_use_stay(hub: Hub, log_in: LogIn, shots: Path) -> None:
    lab, page = hub.open_lab(log_in("ann"), "ann")
    nb = Notebook.make(lab, page, shots, "in use.ipynb", ("kept = 'still here'",))
    nb.run_all()
    hub.stop("bob")
    young = make_session(hub.sessions("bob"), 24.0)
    _make_old(nb.folder)
    old = make_session(hub.sessions("bob"), 100 * 24.0, {"work.txt": "of long ago"})
    hub.wait_until(lambda: not (hub.sessions("bob") / old).exists(), "the service pruned")
    assert (hub.sessions("bob") / young).is_dir()
    assert [path for path in (hub.archives / "bob").iterdir() if old in path.name]
    assert nb.folder.is_dir()
    assert "still here" in nb.text(nb.run("kept"))


def _make_old(session: Path) -> None:
    metadata = session / ".metadata.json"
    moment = format_time(datetime.now(UTC) - timedelta(days=100))
    metadata.write_text(json.dumps(json.loads(metadata.read_text()) | {"updated_at": moment}))


def _culler(hub: Hub, *, timeout: int) -> subprocess.Popen[bytes]:
    """The example's culler, with its rights, but in more of a hurry."""
    command = [sys.executable, "-m", "jupyterhub_idle_culler", f"--timeout={timeout}", "--cull-every=2"]
    env = os.environ | {"JUPYTERHUB_API_URL": f"{hub.url}hub/api", "JUPYTERHUB_API_TOKEN": hub.culler_token}
    with hub.log_file.open("ab") as log:
        return subprocess.Popen(command, env=env, stdout=log, stderr=log)
