"""Downloads and uploads of a session's files."""

from __future__ import annotations

import base64
import io
import os
import re
import zipfile
from pathlib import Path

import pytest

from wasm_kernel import ConfigurationError, ExecutionPolicy
from wasm_kernel.host.files.quota import measure
from wasm_kernel.kernel import notebook
from wasm_kernel.kernel.files import transfer
from wasm_kernel.kernel.files.transfer import Links

LINKS = Links("/user/ann/wasm-kernel/sessions/s")


def bytes_of(download: transfer.Download) -> bytes:
    return base64.b64decode(download.href.partition(",")[2])


@pytest.mark.parametrize(
    ("given", "path"),
    [("a.csv", "a.csv"), ("/app/d/a.csv", "d/a.csv"), ("./d//a", "d/a"), ("/app", ""), (".", ""), ("d/", "d")],
)
def test_paths_as_people_write_them(given: str, path: str) -> None:
    assert transfer.relative(given) == path


@pytest.mark.parametrize("given", ["/etc/passwd", "../x", "/app/../x", "a/../../x", "/apple", ".metadata.json", "a\0b"])
def test_paths_outside(given: str) -> None:
    with pytest.raises(ConfigurationError):
        transfer.relative(given)


def test_small_files_need_no_server(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_bytes(b"a,b")
    (tmp_path / 'b"<i>.txt').write_bytes(b"text")
    made = transfer.downloads(tmp_path, ["a.csv", 'b"<i>.txt'], None, as_zip=False)
    assert [bytes_of(d) for d in made] == [b"a,b", b"text"]
    markup = transfer.markup(made)
    assert 'download="a.csv"' in markup
    assert "<i>" not in markup


def test_a_zip_without_a_server(tmp_path: Path) -> None:
    (tmp_path / "d" / "deep").mkdir(parents=True)
    (tmp_path / "d" / "deep" / "con.txt").write_bytes(b"1")
    (tmp_path / "d" / "deep" / "a:b?.txt").write_bytes(b"2")
    (tmp_path / "d" / "out").symlink_to("/etc/passwd")
    (made,) = transfer.downloads(tmp_path, ["d"], None, as_zip=True)
    assert made.name == "d.zip"
    with zipfile.ZipFile(io.BytesIO(bytes_of(made))) as archive:
        assert sorted(n for n in archive.namelist() if not n.endswith("/")) == ["d/deep/_con.txt", "d/deep/a_b_.txt"]
    (made,) = transfer.downloads(tmp_path, [""], None, as_zip=True)
    assert made.name == "files.zip"


@pytest.mark.parametrize(
    ("path", "as_zip", "said"),
    [
        ("gone.csv", False, "no 'gone.csv' in /app"),
        ("gone", True, "no 'gone' in /app"),
        ("d", False, "--zip"),
        ("out", False, "leave the workspace"),
        ("pipe", False, "not an ordinary file"),
        ("large.bin", False, "server extension"),
        ("large.bin", True, "server extension"),
    ],
)
def test_what_cannot_be_downloaded(tmp_path: Path, path: str, as_zip: bool, said: str) -> None:
    (tmp_path / "d").mkdir()
    (tmp_path / "out").symlink_to("/etc/passwd")
    os.mkfifo(tmp_path / "pipe")
    with (tmp_path / "large.bin").open("wb") as file:
        file.truncate(transfer.SMALL + 1)
    with pytest.raises(ConfigurationError, match=re.escape(said)):
        transfer.downloads(tmp_path, [path], None, as_zip=as_zip)


def test_large_files_go_through_the_server(tmp_path: Path) -> None:
    name = os.fsdecode(b"bad\xff name#?.bin")
    with (tmp_path / name).open("wb") as file:
        file.truncate(10 << 30)
    (made,) = transfer.downloads(tmp_path, [name], LINKS, as_zip=False)
    assert made.href == f"{LINKS.base}/files/bad%FF%20name%23%3F.bin"
    assert made.size == 10 << 30
    (made,) = transfer.downloads(tmp_path, [name], LINKS, as_zip=True)
    assert made.href == f"{LINKS.base}/archive?path=bad%FF+name%23%3F.bin"


def test_more_names_than_a_link_takes(tmp_path: Path) -> None:
    names = [f"{n:02}{'ü' * 100}" for n in range(30)]
    for name in names:
        (tmp_path / name).touch()
    with pytest.raises(ConfigurationError, match="too many names"):
        transfer.downloads(tmp_path, names, LINKS, as_zip=True)
    assert transfer.downloads(tmp_path, [""], LINKS, as_zip=True)


def test_a_zip_larger_than_the_server_makes_is_said(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(bytes(1001))
    for links in (Links("/s", zip_bytes=1000), Links("/s", zip_files=0)):
        with pytest.raises(ConfigurationError, match="more than"):
            transfer.downloads(tmp_path, ["a"], links, as_zip=True)


def test_links_have_the_servers_prefix(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        notebook, "server_of", lambda environ: {"base_url": "/user/ann/", "url": "http://127.0.0.1:1/user/ann/"}
    )
    monkeypatch.setattr(
        notebook,
        "ask_server",
        lambda server, environ, what: (
            {"archive": {"max_bytes": 7, "max_files": 8}} if what == "wasm-kernel/sessions/abc" else None
        ),
    )
    assert transfer.find_links({}, "abc") == Links("/user/ann/wasm-kernel/sessions/abc", 7, 8)
    assert transfer.find_links({}, "other") is None
    monkeypatch.setattr(notebook, "server_of", lambda environ: None)
    assert transfer.find_links({}, "abc") is None


def test_uploads_never_overwrite_unasked(tmp_path: Path) -> None:
    assert transfer.upload_names(["..\\x\\a.csv", "dir/a.csv", "../../b", "con"]) == ["a.csv", "a (2).csv", "b", "_con"]
    (tmp_path / "d").mkdir()
    assert transfer.store(tmp_path, "d", {"a.csv": b"1"}) == ["a.csv"]
    assert transfer.existing(tmp_path, "d", ["a.csv", "b"]) == ["a.csv"]
    with pytest.raises(FileExistsError):
        transfer.store(tmp_path, "d", {"a.csv": b"2"})
    assert transfer.store(tmp_path, "d", {"a.csv": memoryview(b"2")}, both=True) == ["a (2).csv"]
    assert transfer.store(tmp_path, "d", {"a.csv": b"3"}, both=True) == ["a (3).csv"]
    assert (tmp_path / "d" / "a.csv").read_bytes() == b"1"
    transfer.store(tmp_path, "d", {"a.csv": b"4"}, replace=True)
    assert (tmp_path / "d" / "a.csv").read_bytes() == b"4"


def test_uploads_keep_to_the_limits(tmp_path: Path) -> None:
    policy = ExecutionPolicy(workspace_bytes=1 << 20, max_file_bytes=1 << 19, max_files=3)
    quota = measure(policy, tmp_path)
    transfer.check_upload(quota, {"a": 1 << 19, "b": 1 << 18})
    with pytest.raises(ConfigurationError, match="does not fit"):
        transfer.check_upload(quota, {"a": 2 << 20})
    with pytest.raises(ConfigurationError, match="larger than the limit for one file"):
        transfer.check_upload(quota, {"a": (1 << 19) + 1})
    with pytest.raises(ConfigurationError, match="more than 3"):
        transfer.check_upload(quota, dict.fromkeys("abcd", 1))
