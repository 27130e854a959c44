"""How the JupyterLab extension is built: small, with the licences of what is in it, and only when it has to be."""

from __future__ import annotations

import importlib.util
import json
import re
from pathlib import Path
from types import ModuleType

import pytest

HERE = Path(__file__).parents[1] / "labextension"
MOST = 300 << 10
PERMISSIVE = {"MIT", "BSD-2-Clause", "BSD-3-Clause", "ISC", "Apache-2.0"}


@pytest.fixture
def building(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """The module that builds it; nothing of Node's starts."""
    spec = importlib.util.spec_from_file_location("labextension_build", HERE / "build.py")
    assert spec is not None and spec.loader is not None
    made = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(made)

    def refuse(*arguments: str) -> None:
        raise AssertionError(f"npm {arguments}")

    monkeypatch.setattr(made, "_npm", refuse)
    return made


def test_the_bundle_is_small(building: ModuleType) -> None:
    scripts = list((building.OUTPUT / "static").glob("*.js"))
    assert scripts, "run labextension/build.py"
    assert sum(script.stat().st_size for script in scripts) < MOST


def test_the_licences_of_what_is_bundled_are_listed(building: ModuleType) -> None:
    listed = (building.OUTPUT / building.LICENCES).read_text()
    rows = dict(re.findall(r"^\| (\S+) \| \d\S* \| (\S+) \|$", listed, re.MULTILINE))
    told = json.loads((building.OUTPUT / "static" / "third-party-licenses.json").read_text())["packages"]
    assert set(rows) == {each["name"] for each in told} | {"webpack"}
    assert set(rows.values()) <= PERMISSIVE
    for name in rows:
        text = listed.split(f"\n## {name}\n")[1].split("\n## ")[0]
        assert "Copyright" in text and "WITHOUT WARRANTY" in text, name
    # What says in the bundle whose it is, is in the list: React's, with its banner.
    for banner in (building.OUTPUT / "static").glob("*.LICENSE.txt"):
        assert all(owner.lower() in rows for owner in re.findall(r"@license (\w+)", banner.read_text()))


def test_a_package_without_a_licence_is_not_bundled(
    building: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "static").mkdir()
    package = {"name": "left-pad", "versionInfo": "1.0.0", "licenseId": None, "extractedText": ""}
    (tmp_path / "static" / "third-party-licenses.json").write_text(json.dumps({"packages": [package]}))
    (tmp_path / "node_modules/webpack").mkdir(parents=True)
    (tmp_path / "node_modules/webpack/package.json").write_text('{"version": "5.0.0", "license": "MIT"}')
    (tmp_path / "node_modules/webpack/LICENSE").write_text("Copyright")
    monkeypatch.setattr(building, "OUTPUT", tmp_path)
    monkeypatch.setattr(building, "HERE", tmp_path)
    with pytest.raises(SystemExit, match="left-pad"):
        building._licences()


def test_what_is_current_is_not_built_again(
    building: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(building, "OUTPUT", tmp_path)
    (tmp_path / "built-from").write_text(building._sources())
    assert building.is_current()
    building.build()
    (tmp_path / "built-from").write_text("something else")
    monkeypatch.setattr(building, "_install", lambda: building._npm("ci"))
    with pytest.raises(AssertionError, match="npm"):
        building.build()
    # In a source distribution without the sources, what is built is what there is.
    monkeypatch.setattr(building, "HERE", tmp_path)
    assert building.is_current()
