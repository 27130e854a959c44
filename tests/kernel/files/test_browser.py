"""The file browser's widgets, with a kernel that only pretends."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from wasm_kernel import BaseSandbox, ExecutionPolicy
from wasm_kernel.host.files.quota import Quota, measure
from wasm_kernel.kernel.files import exchange, looking, transfer
from wasm_kernel.kernel.files.acts import all_of
from wasm_kernel.kernel.files.browser import Browser
from wasm_kernel.model.snapshot_retention import CheckpointRules
from wasm_kernel.model.units import format_size

Scene = Callable[[Browser], Awaitable[None]]


def play(
    root: Path,
    scene: Scene,
    *,
    result: Any = None,
    checkpoint: bool = True,
    quota: Callable[[], Quota] | None = None,
    **policy: int,
) -> None:
    """Run a scene with a browser of a folder."""

    limits = ExecutionPolicy(**policy)

    async def run() -> None:
        sandbox = SimpleNamespace(quota=quota or (lambda: measure(limits, root)))
        runtime: Any = SimpleNamespace(
            live=SimpleNamespace(folder=root, root=root.parent, session_id=root.name, sandbox=sandbox),
            sandbox=sandbox,
            settled=lambda: asyncio.sleep(0),
            last_result=result,
            rules=CheckpointRules(on=checkpoint),
            running=False,
        )
        browser = Browser(runtime, {})
        await quiet(browser)
        await scene(browser)
        await quiet(browser)
        browser.close()

    asyncio.run(run())


async def quiet(browser: Browser) -> None:
    await browser.acts.settled()


async def choose(browser: Browser, *names: str) -> None:
    paths = [path for _, path in browser._list.options]
    browser._list.index = tuple(n for n, path in enumerate(paths) if path.rpartition("/")[2] in names)
    await quiet(browser)


async def press(browser: Browser, button: Any) -> None:
    button.click()
    await quiet(browser)


def panel_button(browser: Browser, text: str) -> Any:
    found = [w for w in all_of(browser.panel.widget) if getattr(w, "description", None) == text]
    return found[0]


def asked(browser: Browser) -> Any:
    """What is in the panel of questions."""
    return browser.panel.widget.children


def said(browser: Browser) -> str:
    return str(browser.acts._text.value)


def about(browser: Browser) -> str:
    """The preview."""
    return str(browser._pane._about.value)


def save(browser: Browser) -> Any:
    return browser._exchange._save


def upload_field(browser: Browser) -> Any:
    return browser._exchange.uploads.children[-1].children[1].children[0]


def sent(name: str, content: Any) -> dict[str, Any]:
    """A file as a front end sends it."""
    return {"name": name, "content": content, "size": len(content), "type": "", "last_modified": datetime.now(UTC)}


def names(browser: Browser) -> list[str]:
    return [path for _, path in browser._list.options]


@pytest.fixture
def root(tmp_path: Path) -> Path:
    folder = tmp_path / "session"
    (folder / "d").mkdir(parents=True)
    (folder / "d" / "inner.txt").write_text("inside")
    (folder / "a.csv").write_text("x,y\n1,2\n")
    (folder / "b.txt").write_text("hello")
    return folder


def test_goes_in_and_out(root: Path) -> None:
    async def scene(b: Browser) -> None:
        assert names(b) == ["d", "a.csv", "b.txt"]
        assert b._open.disabled
        await choose(b, "d")
        assert not b._open.disabled
        await press(b, b._open)
        assert names(b) == ["d/inner.txt"]
        assert [w.description for w in b._crumbs.children if hasattr(w, "description") and w.description] == [
            "/app",
            "d",
        ]
        await press(b, b._up)
        assert names(b) == ["d", "a.csv", "b.txt"]

    play(root, scene)


def test_previews_the_newest_selection(root: Path) -> None:
    async def scene(b: Browser) -> None:
        await choose(b, "a.csv")
        assert "<th>x</th>" in about(b)
        b._list.index = (1,)
        b._list.index = (2,)
        await quiet(b)
        assert "hello" in about(b)
        await choose(b, "a.csv", "b.txt")
        assert "2 selected" in about(b)

    play(root, scene)


def test_a_changed_file_is_previewed_again_and_stays_selected(root: Path) -> None:
    async def scene(b: Browser) -> None:
        await choose(b, "b.txt")
        (root / "b.txt").write_text("good bye, all")
        (root / "aa.txt").write_text("")
        b.refresh()
        await quiet(b)
        assert "good bye" in about(b)
        assert [names(b)[n] for n in b._list.index] == ["b.txt"]
        (root / "b.txt").unlink()
        b.refresh()
        await quiet(b)
        assert b._list.index == ()
        assert "Select a file" in about(b)

    play(root, scene)


def test_a_folder_that_is_deleted_under_it(root: Path) -> None:
    async def scene(b: Browser) -> None:
        await choose(b, "d")
        await press(b, b._open)
        (root / "d" / "inner.txt").unlink()
        (root / "d").rmdir()
        b.refresh()
        await quiet(b)
        assert names(b) == ["a.csv", "b.txt"]

    play(root, scene)


def test_deletes_what_was_named_not_what_is_selected_by_then(root: Path) -> None:
    async def scene(b: Browser) -> None:
        await choose(b, "a.csv", "d")
        await press(b, b._delete)
        question = asked(b)[0].value
        assert "a.csv" in question
        assert "everything in it" in question
        await choose(b, "b.txt")
        await press(b, panel_button(b, "Delete"))
        assert sorted(p.name for p in root.iterdir()) == ["b.txt"]
        assert "Deleted: d, a.csv" in said(b)

    play(root, scene)


@pytest.mark.parametrize(
    ("checkpoint", "why"), [(True, "no checkpoint has the current version"), (False, "checkpoints are switched off")]
)
def test_says_whether_a_delete_can_be_undone(root: Path, checkpoint: bool, why: str) -> None:
    async def scene(b: Browser) -> None:
        await choose(b, "a.csv")
        await press(b, b._delete)
        assert why in asked(b)[0].value
        await press(b, panel_button(b, "Cancel"))
        assert asked(b) == ()
        assert (root / "a.csv").exists()

    play(root, scene, checkpoint=checkpoint)


def test_makes_folders_renames_and_moves(root: Path) -> None:
    async def scene(b: Browser) -> None:
        await press(b, b._new)
        asked(b)[1].value = "new"
        await press(b, panel_button(b, "Create"))
        await choose(b, "a.csv")
        await press(b, b._rename)
        asked(b)[1].value = "c.csv"
        await press(b, panel_button(b, "Rename"))
        await choose(b, "c.csv", "b.txt")
        await press(b, b._move)
        assert "/app/new" in asked(b)[1].options
        asked(b)[1].value = "/app/new"
        await press(b, panel_button(b, "Move"))
        assert sorted(p.name for p in (root / "new").iterdir()) == ["b.txt", "c.csv"]

    play(root, scene)


@pytest.mark.parametrize("name", ["", "..", "a/b", "/x", "d", ".metadata.json", "x" * 300])
def test_errors_show_in_the_widget(root: Path, name: str) -> None:
    async def scene(b: Browser) -> None:
        await press(b, b._new)
        asked(b)[1].value = name
        await press(b, panel_button(b, "Create"))
        assert "wk-error" in said(b)
        assert asked(b)

    play(root, scene)


def test_even_faults_of_its_own_show(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def scene(b: Browser) -> None:
        monkeypatch.setattr(exchange.transfer, "downloads", lambda *a, **k: 1 / 0)
        await choose(b, "a.csv")
        await press(b, save(b))
        assert "ZeroDivisionError" in said(b)

    play(root, scene)


def test_rename_does_not_overwrite(root: Path) -> None:
    async def scene(b: Browser) -> None:
        await choose(b, "a.csv")
        await press(b, b._rename)
        asked(b)[1].value = "b.txt"
        await press(b, panel_button(b, "Rename"))
        assert "already" in said(b)
        assert (root / "b.txt").read_text() == "hello"

    play(root, scene)


def test_downloads_without_a_server(root: Path) -> None:
    async def scene(b: Browser) -> None:
        await choose(b, "a.csv")
        await press(b, save(b))
        assert 'download="a.csv" href="data:' in asked(b)[0].value
        await choose(b, "a.csv", "d")
        assert save(b).description == "Download zip"
        await press(b, save(b))
        assert 'download="files.zip"' in asked(b)[0].value

    play(root, scene)


def test_links_to_the_servers_part(root: Path) -> None:
    async def scene(b: Browser) -> None:
        b.links = transfer.Links("/base")
        link = b._exchange._link
        await choose(b, "a.csv")
        assert 'href="/base/files/a.csv" download' in link.value
        await choose(b, "a.csv", "d")
        assert 'href="/base/archive?path=d&amp;path=a.csv" download' in link.value
        await choose(b)
        assert "href" not in link.value
        for n in range(60):
            (root / f"{n:02}{'ü' * 100}").touch()
        b.refresh()
        await quiet(b)
        await choose(b, *(path for path in names(b) if "ü" in path))
        assert "href" not in link.value
        assert "Too many names" in link.value

    play(root, scene)


def test_uploads_by_message(root: Path) -> None:
    async def scene(b: Browser) -> None:
        await press(b, b._add)
        upload_field(b).value = (sent("new.txt", memoryview(b"abc")),)
        await quiet(b)
        assert (root / "new.txt").read_bytes() == b"abc"
        await press(b, b._add)
        upload_field(b).value = (sent("b.txt", memoryview(b"mine")),)
        await quiet(b)
        assert "Already exists" in asked(b)[0].value
        assert (root / "b.txt").read_text() == "hello"
        await press(b, panel_button(b, "Keep both"))
        assert (root / "b (2).txt").read_text() == "mine"
        await press(b, b._add)
        upload_field(b).value = (sent("big", bytes(2 << 20)),)
        await quiet(b)
        assert "does not fit" in said(b)
        assert not (root / "big").exists()

    play(root, scene, workspace_bytes=1 << 20)


def test_places_for_uploads_stay_while_one_looks_around(root: Path) -> None:
    async def scene(b: Browser) -> None:
        await press(b, b._add)
        await press(b, b._add)
        field = upload_field(b)
        await choose(b, "d")
        await press(b, b._open)
        await press(b, b._add)
        assert len(b._exchange.uploads.children) == 2
        await press(b, b._up)
        await press(b, b._new)
        field.value = (sent("new.txt", b"abc"),)
        await quiet(b)
        assert (root / "new.txt").read_bytes() == b"abc"
        await press(b, b._add)
        assert len(b._exchange.uploads.children) == 2  # the one that was used is gone

    play(root, scene)


def test_several_browsers_look_once(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    looks: list[str] = []
    see = looking.see
    monkeypatch.setattr(looking, "see", lambda *a: (looks.append(a[1]), see(*a))[1])

    async def scene(b: Browser) -> None:
        others = [Browser(b.runtime, {}, "", b._looks) for _ in range(3)]
        for other in others:
            await quiet(other)
        looks.clear()
        for one in (b, *others):
            one.refresh()
        (root / "late.txt").write_text("x")
        for one in (b, *others):
            await quiet(one)
        assert looks == [""]
        assert all("late.txt" in names(one) for one in (b, *others))
        b.refresh()
        await quiet(b)
        assert looks == ["", ""]

    play(root, scene)


def test_a_part_that_was_done_shows(root: Path) -> None:
    async def scene(b: Browser) -> None:
        (root / "d" / "b.txt").write_text("taken")
        await choose(b, "a.csv", "b.txt")
        await press(b, b._move)
        asked(b)[1].value = "/app/d"
        await press(b, panel_button(b, "Move"))
        assert "already" in said(b)
        assert names(b) == ["d", "b.txt"]

    play(root, scene)


def test_marks_and_the_quota(root: Path) -> None:
    result = SimpleNamespace(
        files_created=["a.csv"], files_modified=["a.csv", "d/inner.txt"], files_deleted=["gone.txt"]
    )

    async def scene(b: Browser) -> None:
        lines = {path: label for label, path in b._list.options}
        assert lines["a.csv"].startswith("+")
        assert lines["d"].startswith("~")
        assert lines["b.txt"].startswith("\xa0")
        assert "deleted: gone.txt" in b._foot.value
        assert "of 4.0 GB" in b._quota.value

    play(root, scene, result=result)


def test_the_bar_shows_what_the_guest_itself_is_held_to(root: Path, make_sandbox: Callable[..., BaseSandbox]) -> None:
    """/tmp, and files that are deleted but open, count there, too."""
    sandbox = make_sandbox(workspace=root, workspace_bytes=8 << 20)
    measured = sandbox._sandbox.quota

    async def scene(b: Browser) -> None:
        for code in (
            "open('/tmp/one', 'wb').write(bytes(2 << 20))",
            "f = open('two', 'wb'); f.write(bytes(3 << 20)); f.flush(); import os; os.remove('two')",
        ):
            assert sandbox.execute(code).success
        await press(b, b._again)
        assert f"{format_size(measured().used or 0)} of 8.0 MB" in b._quota.value
        free = measured().free
        assert (8 << 20) - free > 5 << 20
        assert sandbox.execute(f"open('fits', 'wb').write(bytes({free - 4096}))").success
        assert not sandbox.execute("open('more', 'wb', buffering=0).write(bytes(8192))").success
        await press(b, b._again)
        assert "8.0 MB of 8.0 MB" in b._quota.value
        await press(b, b._add)
        upload_field(b).value = (sent("new.txt", bytes(8192)),)
        await quiet(b)
        assert "does not fit" in said(b)

    play(root, scene, quota=measured)


def test_hostile_names(tmp_path: Path) -> None:
    evil = "<img src=x onerror=alert(1)>"
    odd = [evil, '"onclick="x', "a\u202eb\x1b[31m\nc", "x" * 255, os.fsdecode(b"\xff\xfe.txt"), "back\\slash", "-rf"]
    root = tmp_path / "session"
    root.mkdir()
    for name in odd:
        (root / name).write_text(evil)
    (root / f"{evil}dir").mkdir()

    async def scene(b: Browser) -> None:
        assert len(names(b)) == len(odd) + 1
        for name in [*odd, f"{evil}dir"]:
            await choose(b, name)
            assert len(b._selected) == 1
            for button in (b._rename, b._move, b._delete, save(b)):
                await press(b, button)
            for widget in all_of(b.widget):
                if type(widget).__name__ == "HTML" and "onload" not in widget.value:
                    assert "<img" not in widget.value
                    assert "\u202e" not in widget.value
                    assert 'onclick="x' not in widget.value.replace("&quot;", "'")
        await press(b, b._open)
        assert b.view.folder == f"{evil}dir"
        await press(b, b._up)
        for name in odd:
            await choose(b, name)
            await press(b, b._delete)
            await press(b, panel_button(b, "Delete"))
        assert [p.name for p in root.iterdir()] == [f"{evil}dir"]

    play(root, scene)
