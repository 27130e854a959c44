"""A folder of the host's at /data: shown to a running guest, read-only, and taken away again."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from wasm_kernel import BaseSandbox, OutcomeKind

_LOOK = "import os; print(sorted(os.listdir('/data')))"


@pytest.fixture
def data(tmp_path: Path) -> Path:
    folder = tmp_path / "beside the notebook"
    (folder / "more").mkdir(parents=True)
    (folder / "cities.csv").write_text("city\nBern\n")
    (folder / "more" / "deep.txt").write_text("deep")
    (folder / ".env").write_text("secret")
    return folder


def test_the_guest_reads_it_and_keeps_its_variables(sandbox: BaseSandbox, data: Path) -> None:
    assert sandbox.execute(f"x = 1; {_LOOK}").stdout == "[]\n"
    sandbox._sandbox.show_data(data)
    assert sandbox.execute(_LOOK).stdout == "['cities.csv', 'more']\n"
    result = sandbox.execute("import pandas as pd; print(pd.read_csv('/data/cities.csv').city[0], x)")
    assert result.stdout == "Bern 1\n"
    sandbox._sandbox.show_data(None)
    assert sandbox.execute(_LOOK).stdout == "[]\n"


def test_it_cannot_be_written_and_does_not_count(sandbox: BaseSandbox, data: Path) -> None:
    sandbox._sandbox.show_data(data)
    result = sandbox.execute("open('/data/new', 'w')")
    assert result.error is not None and result.error.name in ("OSError", "PermissionError")
    assert not (data / "new").exists() and result.files_created == []
    assert (sandbox._sandbox.quota().used or 0) < 1 << 16


def test_open_files_survive_a_crash_if_they_are_still_shown(sandbox: BaseSandbox, data: Path) -> None:
    sandbox._sandbox.show_data(data)
    sandbox.execute("f = open('/data/more/deep.txt'); g = open('/data/cities.csv'); g.readline()")
    (data / "more").rename(data / ".more")
    (data / "more").symlink_to(".more")
    assert sandbox.execute("import os; os.abort()").outcome.kind is OutcomeKind.CRASHED
    assert sandbox.execute("print(g.read())").stdout == "Bern\n\n"
    lost = sandbox.execute("print(f.read())")
    assert lost.error is not None and "deep" not in lost.stdout


def test_a_folder_that_is_gone_leaves_the_guest_working(sandbox: BaseSandbox, data: Path) -> None:
    shutil.rmtree(data)
    sandbox._sandbox.show_data(data)
    assert sandbox.execute(_LOOK).stdout == "[]\n"


def test_links_are_listed_but_not_followed(sandbox: BaseSandbox, data: Path) -> None:
    (data / "latest.csv").symlink_to("cities.csv")
    sandbox._sandbox.show_data(data)
    assert sandbox.execute("import os; print(os.path.islink('/data/latest.csv'))").stdout == "True\n"
    result = sandbox.execute("open('/data/latest.csv')")
    assert result.error is not None and result.error.name == "PermissionError"
