"""Copies within a session, and what is said of one file or folder."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.server.conftest import QUOTA, Session
from wasm_kernel.server.files import listing


def test_files_and_folders_are_copied(session: Session) -> None:
    assert session.post("a.txt", "?copy_to=data/a-Copy1.txt").status == 201
    assert (session.folder / "data/a-Copy1.txt").read_text() == "0123456789"
    (session.folder / "data/empty").mkdir()
    (session.folder / "data/link").symlink_to("b.csv")
    answer = session.post("data", "?copy_to=again%20%C3%A4")
    assert answer.status == 201 and answer.json["key"] == "again%20%C3%A4"
    copied = session.folder / "again ä"
    assert (copied / "deep/c.bin").read_bytes() == bytes(range(256))
    assert sorted(os.listdir(copied)) == ["a-Copy1.txt", "b.csv", "deep", "empty"], "links are not copied"
    assert session.post("data/link", "?copy_to=behind.csv").status == 201
    assert (session.folder / "behind.csv").read_text() == "x,y\n1,2\n"
    assert not session.leftovers()


def test_what_is_not_copied(session: Session) -> None:
    os.mkfifo(session.folder / "pipe")
    (session.folder / "out").symlink_to("/etc/passwd")
    assert session.post("nothing", "?copy_to=x").status == 404
    assert session.post("a.txt", "?copy_to=data/b.csv").status == 409
    assert session.post("data", "?copy_to=data").status == 409
    assert session.post("pipe", "?copy_to=x").status == 403
    assert session.post("out", "?copy_to=x").status == 403
    for bad in ("..%2Fx", "%2Fx", ".metadata.json"):
        assert session.post("a.txt", f"?copy_to={bad}").status == 400
    assert session.post("a.txt", "?copy_to=x&move_to=y").status == 400
    assert session.server.request("POST", session.file("a.txt") + "?copy_to=x", login=False).status == 403
    assert not (session.folder / "x").exists()


def test_a_folder_copied_into_itself_ends(session: Session) -> None:
    assert session.post("data", "?copy_to=data/inside").status == 201
    assert sorted(str(p.relative_to(session.folder)) for p in (session.folder / "data").rglob("*") if p.is_file()) == [
        "data/b.csv",
        "data/deep/c.bin",
        "data/inside/b.csv",
        "data/inside/deep/c.bin",
    ]


def test_a_copy_that_does_not_fit_is_refused(session: Session) -> None:
    with (session.folder / "large").open("wb") as file:
        os.posix_fallocate(file.fileno(), 0, QUOTA // 2 + (1 << 20))
    answer = session.post("large", "?copy_to=larger")
    assert answer.status == 413 and "room for" in answer.json["detail"]
    assert not (session.folder / "larger").exists() and not session.leftovers()


def test_about_one(session: Session) -> None:
    def about(path: str) -> dict[str, object]:
        answer = session.get(path, "?about=1")
        assert answer.status == 200
        return dict(answer.json)

    listed = {e["name"]: e for e in session.server.get(session.url("list")).json["entries"]}
    assert about("a.txt") == listed["a.txt"]
    assert about("data")["kind"] == "folder"
    for name, target in (("to-file", "data/b.csv"), ("to-folder", "data/deep"), ("nowhere", "x"), ("out", "/etc")):
        (session.folder / name).symlink_to(target)
    os.mkfifo(session.folder / "pipe")
    kinds = {name: about(name)["kind"] for name in ("to-file", "to-folder", "nowhere", "out", "pipe")}
    assert kinds == {"to-file": "file", "to-folder": "folder", "nowhere": "link", "out": "link", "pipe": "other"}
    assert about("to-file")["size"] == 8
    assert session.get("nothing", "?about=1").status == 404
    assert session.get("a.txt/b", "?about=1").status == 404
    assert session.get(".metadata.json", "?about=1").status == 400


def test_a_version_changes_with_each_write(session: Session) -> None:
    def version() -> object:
        return session.get("a.txt", "?about=1").json["version"]

    first = version()
    os.utime(session.folder / "a.txt", ns=(0, 5))  # as unpacking an archive does: the past
    second = version()
    assert session.put("a.txt", b"other", "?overwrite=1").status == 200
    assert len({first, second, version()}) == 3
    os.link(session.folder / "a.txt", session.folder / "linked")  # as a snapshot may
    assert version() == session.get("linked", "?about=1").json["version"]


def test_a_listing_looks_behind_links_for_a_moment(session: Session) -> None:
    (session.folder / "to-folder").symlink_to("data")
    (session.folder / "nowhere").symlink_to("x")

    def targets(query: str) -> dict[str, str]:
        entries = session.server.get(session.url(f"list?{query}")).json["entries"]
        return {e["name"]: e["target"] for e in entries if "target" in e}

    assert targets("links=1") == {"to-folder": "folder", "nowhere": "link"}
    assert targets("") == {}
    assert "quota" not in session.server.get(session.url("list?quota=0")).json


def test_links_made_to_be_slow_are_not_followed_for_long(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from wasm_kernel.host.files.folder import Folder

    (tmp_path / "d").mkdir()
    for number in range(50):
        (tmp_path / f"l{number}").symlink_to("d")
    seconds = iter(range(100))
    monkeypatch.setattr(listing.time, "monotonic", lambda: next(seconds) * 0.05)
    with Folder(tmp_path) as folder:
        assert len(listing.behind_links(folder, folder.items(recursive=False))) == 3
