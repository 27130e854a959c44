"""Wheels for another Python, fetched by hash: by pip, by uv where pip cannot, and what is said when neither can."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from wasm_kernel import ImageError
from wasm_kernel.host.disk import installer
from wasm_kernel.host.image import image, wheels


def _pinned(*names: str) -> str:
    """Some of what the image's library is made from."""
    lines = image.sources_lock_text().splitlines()
    found = [i for i, line in enumerate(lines) if line.partition("==")[0] in names]
    assert len(found) == len(names)
    return "\n".join(f"{lines[i]}\n{lines[i + 1]}" for i in found)


@pytest.fixture
def broken_pip(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(tmp_path))


def test_pip_fetches_pure_and_foreign_wheels(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(installer, "find_uv", lambda: None)
    parts: list[float] = []
    wheels.install(wheels.WITH_SOURCES, _pinned("cycler", "kiwisolver"), tmp_path / "here", "them", parts.append)
    assert (tmp_path / "here" / "cycler" / "__init__.py").is_file()
    assert (tmp_path / "here" / "kiwisolver" / "exceptions.py").is_file()
    assert parts[0] == 0
    assert parts == sorted(parts)
    assert parts[-1] <= 1


@pytest.mark.parametrize("first", [True, False])
def test_uv_fetches_the_same(tmp_path: Path, broken_pip: None, monkeypatch: pytest.MonkeyPatch, first: bool) -> None:
    """First where it knows the user's registry, else where pip cannot."""
    assert installer.find_uv() is not None, "the development group has it"
    monkeypatch.setattr(installer, "uv_knows_where", lambda: first)
    wheels.install(wheels.WITH_SOURCES, _pinned("cycler", "numpy"), tmp_path / "here", "them", lambda part: None)
    assert (tmp_path / "here" / "numpy" / "linalg" / "_linalg.py").is_file(), "a wheel for macOS 14 and later"


def test_nothing_tells_who_installed_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is in the folder becomes the image: pip's work and uv's must be the same, byte for byte."""
    lines = [line for line in image.lock_text().splitlines() if not line.startswith("#")]
    at = next(i for i, line in enumerate(lines) if line.startswith("jupyter-core=="))  # it has scripts
    for name in ("pip", "uv"):
        with monkeypatch.context() as changed:
            if name == "pip":
                changed.setattr(installer, "find_uv", lambda: None)
            else:
                changed.setenv("PIP_NO_INDEX", "1")
                changed.delenv("PIP_FIND_LINKS", raising=False)
            wheels.install(wheels.PURE, "\n".join(lines[at : at + 3]), tmp_path / name, "it", lambda part: None)
    one, other = ({p.relative_to(f): p.is_file() and p.read_bytes() for p in f.rglob("*")} for f in tmp_path.iterdir())
    assert one == other
    assert not any(path.name in ("bin", "INSTALLER", "REQUESTED") for path in one)


def test_what_has_another_hash_is_not_taken(tmp_path: Path, broken_pip: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("UV_OFFLINE", "1")
    monkeypatch.setenv("UV_CACHE_DIR", str(tmp_path / "uv"))
    with pytest.raises(ImageError, match="they could not be fetched. Check the network and your pip configuration"):
        wheels.install(wheels.PURE, _pinned("cycler"), tmp_path / "here", "they", lambda part: None)
    for name in ("PIP_NO_INDEX", "PIP_FIND_LINKS", "UV_OFFLINE"):
        monkeypatch.delenv(name)
    wrong = f"cycler==0.12.1 --hash=sha256:{'0' * 64}"
    with pytest.raises(ImageError, match="(?s)could not be fetched.*(DO NOT MATCH|hash)"):
        wheels.install(wheels.PURE, wrong, tmp_path / "here", "they", lambda part: None)
    assert not os.path.exists(tmp_path / "here" / "cycler")
