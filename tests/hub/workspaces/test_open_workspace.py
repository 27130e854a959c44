"""Where a user's workspace is: names, links and owners. Only the administrator decides where it leads."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from wasm_kernel.errors import ConfigurationError
from wasm_kernel.hub.workspaces.open_workspace import (
    Missing,
    Refused,
    check_template,
    folder_name,
    open_workspace,
    paths,
)

as_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files to others")


@pytest.fixture
def base(tmp_path: Path) -> Path:
    for folder in (tmp_path, *tmp_path.parents):  # as a machine that is well kept has it
        if (
            folder.stat().st_uid == os.geteuid()
            and folder.stat().st_mode & 0o022
            and not folder.stat().st_mode & 0o1000
        ):
            folder.chmod(0o755)
    return tmp_path


def opened(template: str, user: str) -> Path:
    place = open_workspace(template, user)
    try:
        found = os.fstat(place.handle)
        assert (found.st_uid, found.st_gid) == (place.owner, place.group)
        return Path(os.readlink(f"/proc/self/fd/{place.handle}"))
    finally:
        os.close(place.handle)


@pytest.mark.parametrize(
    "template",
    ["/home/ws", "{username}", "home/{username}", "/home/{user}", "/{username}/{x}", "/home/{username}/../x", ""],
)
def test_templates_that_cannot_be(template: str) -> None:
    with pytest.raises(ConfigurationError, match="workspace_template"):
        check_template(template)


@pytest.mark.parametrize(
    "template", ["/home/{username}/ws", "/srv/{username}", "{home}/ws", "/srv/u-{username}/{username}"]
)
def test_templates_that_can_be(template: str) -> None:
    assert check_template(template) == template


@pytest.mark.parametrize(
    ("user", "folder"),
    [
        ("ann", "ann"),
        ("ann@example.org", "ann@example.org"),
        ("../bob", "..%2Fbob"),
        ("a/b", "a%2Fb"),
        ("ann\0", "ann%00"),
        ("Ünal", "%C3%9Cnal"),
        ("{username}", "%7Busername%7D"),
        ("%2e%2e", "%252e%252e"),
    ],
)
def test_names_are_escaped_as_the_hub_does_it(user: str, folder: str) -> None:
    assert folder_name(user) == folder
    assert paths("/home/{username}/ws", user) == (f"/home/{folder}", ["ws"])


@pytest.mark.parametrize("user", ["", ".", ".."])
def test_names_that_no_folder_has(user: str) -> None:
    with pytest.raises(Refused):
        folder_name(user)


def test_a_home_of_the_system() -> None:
    import pwd

    me = pwd.getpwuid(os.geteuid())
    assert paths("{home}/a/b", me.pw_name) == (me.pw_dir, ["a", "b"])
    with pytest.raises(Refused, match="has no user"):
        paths("{home}/a", "nobody-of-this-name")


def test_a_workspace_in_a_home(base: Path) -> None:
    (base / "ann/a/ws").mkdir(parents=True)
    assert opened(f"{base}/{{username}}/a/ws", "ann") == base / "ann/a/ws"
    with pytest.raises(Missing):
        opened(f"{base}/{{username}}/a/ws", "bob")
    with pytest.raises(Missing):
        opened(f"{base}/{{username}}/b", "ann")


def test_a_home_that_is_a_link_of_the_administrators(base: Path) -> None:
    (base / "disk2/ann/ws").mkdir(parents=True)
    (base / "homes").mkdir()
    (base / "homes/ann").symlink_to("../disk2/ann")
    (base / "homes/bob").symlink_to(base / "disk2/ann")
    (base / "homes/eve").symlink_to("eve")
    assert opened(f"{base}/homes/{{username}}/ws", "ann") == base / "disk2/ann/ws"
    assert opened(f"{base}/homes/{{username}}/ws", "bob") == base / "disk2/ann/ws"
    with pytest.raises(Refused, match="too many links"):
        opened(f"{base}/homes/{{username}}/ws", "eve")


@pytest.mark.parametrize("where", ["ann/a", "ann/a/ws"])
def test_no_link_is_followed_in_what_is_the_users(base: Path, where: str) -> None:
    (base / "bob/a/ws").mkdir(parents=True)
    link = base / where
    link.parent.mkdir(parents=True)
    link.symlink_to(base / where.replace("ann", "bob"))
    with pytest.raises(Refused, match="is a link or a file"):
        opened(f"{base}/{{username}}/a/ws", "ann")


def test_a_file_is_no_workspace(base: Path) -> None:
    (base / "ann").mkdir()
    (base / "ann/ws").write_text("")
    with pytest.raises(Refused, match="is a link or a file"):
        opened(f"{base}/{{username}}/ws", "ann")


def test_a_place_that_others_can_write_to(base: Path) -> None:
    (base / "open/ann/ws").mkdir(parents=True)
    template = f"{base}/open/{{username}}/ws"
    (base / "open").chmod(0o777)
    with pytest.raises(Refused, match="others can write to"):
        opened(template, "ann")
    (base / "open").chmod(0o1777)  # as /tmp: nobody can replace what is another's
    assert opened(template, "ann") == base / "open/ann/ws"


@as_root
def test_a_link_of_somebody_else(base: Path) -> None:
    (base / "tmp").mkdir()
    (base / "tmp").chmod(0o1777)
    (base / "bob/ws").mkdir(parents=True)
    (base / "tmp/ann").symlink_to(base / "bob")
    assert opened(f"{base}/tmp/{{username}}/ws", "ann") == base / "bob/ws"
    os.chown(base / "tmp/ann", 12345, 12345, follow_symlinks=False)
    with pytest.raises(Refused, match="not a trusted folder"):
        opened(f"{base}/tmp/{{username}}/ws", "ann")


@as_root
def test_a_home_in_a_folder_of_somebody_else(base: Path) -> None:
    (base / "theirs/ann/ws").mkdir(parents=True)
    os.chown(base / "theirs", 12345, 12345)
    with pytest.raises(Refused, match="in a folder of user 12345"):
        opened(f"{base}/theirs/{{username}}/ws", "ann")


@as_root
@pytest.mark.parametrize("owner", [0, 12346])
def test_what_is_in_a_home_belongs_to_whom_the_home_belongs(base: Path, owner: int) -> None:
    (base / "ann/a/ws").mkdir(parents=True)
    template = f"{base}/{{username}}/a/ws"
    os.chown(base / "ann/a/ws", 12345, 12345)
    assert opened(template, "ann") == base / "ann/a/ws"  # root made the folders above
    os.chown(base / "ann", 12345, 12345)
    os.chown(base / "ann/a", owner, owner)
    with pytest.raises(Refused, match=f"belongs to user {owner}, but the folder above it to user 12345"):
        opened(template, "ann")
