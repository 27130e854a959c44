"""One image for all users: the administrator builds it, everybody can read it, nobody else can change or replace it."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from wasm_kernel.apps import cli
from wasm_kernel.errors import ImageError
from wasm_kernel.host.image import cache
from wasm_kernel.host.image.cache import Entry

Rule = Callable[[str], Path]
_SOMEBODY, _SOMEBODY_ELSE = 65534, 12345
pytestmark = pytest.mark.skipif(os.getuid() != 0, reason="only root can become somebody else")


def _make(folder: Path) -> dict[str, Any]:
    (folder / "sub").mkdir()
    (folder / "sub" / "code").write_bytes(b"x" * 100)
    return {"fact": 1}


@pytest.fixture
def shared(rule: Rule, tmp_path: Path) -> Iterator[Path]:
    """An entry in a cache of the administrator's, made with a narrow umask."""
    rule(f'image_cache = "{tmp_path}/shared"')
    before = os.umask(0o077)
    try:
        Entry("kind", "abc").build(_make)
        yield tmp_path / "shared"
    finally:
        os.umask(before)


def _as_somebody(folder: Path, look: Callable[[], bool]) -> bool:
    """What somebody finds who sees nothing but a folder, with ``/shared`` as their own choice of a cache."""
    folder.chmod(0o755)
    child = os.fork()
    if child == 0:
        found = False
        try:
            os.chroot(folder)
            os.environ["WASM_KERNEL_CACHE"] = "/shared"
            os.setgid(_SOMEBODY)
            os.setuid(_SOMEBODY)
            found = look()
        finally:
            os._exit(0 if found else 1)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def _usable() -> bool:
    entry = Entry("kind", "abc")
    return entry.manifest() is not None and entry.verify() == []


def test_everybody_can_read_it_and_nobody_else_write(shared: Path, tmp_path: Path) -> None:
    for path in (shared, *shared.rglob("*")):
        assert path.stat().st_mode & 0o777 == (0o755 if path.is_dir() else 0o644), path
    assert _as_somebody(tmp_path, _usable)


def test_a_user_cannot_build_there_and_is_told_who_can(rule: Rule, tmp_path: Path) -> None:
    rule(f'image_cache = "{tmp_path}/shared"')
    cache.private_root()
    os.chown(tmp_path / "shared", _SOMEBODY_ELSE, -1)
    with pytest.raises(ImageError, match="the administrator has to run `wasm-kernel image build`"):
        cache.private_root()


def test_it_stays_open_when_it_is_built_again(shared: Path) -> None:
    Entry("kind", "def").build(_make)
    assert shared.stat().st_mode & 0o777 == 0o755


def test_older_images_stay_as_long_as_nobody_says_whose_sessions_count(
    rule: Rule, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Whose sessions need one is known in nobody's cache but one's own."""
    rule(f'image_cache = "{tmp_path}/shared"\nworkspace_root = "{tmp_path}/root"')
    older = Entry("base", "0123456789abcdef0123")
    older.build(lambda folder: {"made_of": {"runtime": "r", "library": "l", "site": "s"}, "module": "m"})
    Entry("library", "l").build(_make)
    unneeded = Entry("library", "unneeded")
    unneeded.build(_make)
    (tmp_path / "others").mkdir()

    def cleaned(*arguments: str) -> tuple[set[str], list[str]]:
        cli.main(["image", "clean", "--json", *arguments])
        found = json.loads(capsys.readouterr().out)
        return {part["key"] for part in found["deleted"]}, [kept["key"] for kept in found["kept"]]

    named = ["--workspace-root", str(tmp_path / "others")]
    assert cleaned(*named, "--dry-run") == ({older.key, "l", "unneeded"}, [])
    assert cleaned() == ({"unneeded"}, [older.key])
    assert cleaned(*named) == ({older.key, "l"}, [])


@pytest.mark.parametrize(
    ("owner", "mode", "good"),
    [
        (0, 0o755, True),
        (_SOMEBODY, 0o700, True),
        (0, 0o775, False),
        (0, 0o757, False),
        (_SOMEBODY_ELSE, 0o755, False),
    ],
)
def test_who_may_have_made_it(shared: Path, tmp_path: Path, owner: int, mode: int, good: bool) -> None:
    os.chown(shared / "kind" / "abc", owner, -1)
    (shared / "kind" / "abc").chmod(mode)
    assert _as_somebody(tmp_path, _usable) is good


def test_a_cache_without_rules_stays_private(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, rule: Rule) -> None:
    monkeypatch.setenv("WASM_KERNEL_CACHE", str(tmp_path / "own"))
    Entry("kind", "abc").build(_make)
    assert (tmp_path / "own").stat().st_mode & 0o777 == 0o700
    assert Entry("kind", "abc").path.stat().st_mode & 0o777 == 0o700
