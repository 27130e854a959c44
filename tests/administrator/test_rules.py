"""The administrator's file: what it may say, who may write it, what happens when it cannot be used."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.apps.terminal import Main
from wasm_kernel.apps import doctor
from wasm_kernel.errors import ConfigurationError, NotAllowed
from wasm_kernel.host import administrator
from wasm_kernel.model import limits
from wasm_kernel.model.administrator import NAMES, Rules, combined, parse
from wasm_kernel.model.policy import ExecutionPolicy, processors

Rule = Callable[[str], Path]
GiB = 1 << 30

# ---- what it says


def test_values_are_written_as_people_write_them() -> None:
    rules = parse(
        'memory = "1.5G"\ntimeout = "30m"\ndisk = 1048576\nfiles = 50_000\nfuel = 1_000_000\nsessions = 3\n'
        'snapshot_bytes = "20G"\npip = false\nworkspace_root = "~/boxes"\n',
        "a.toml",
    )
    assert rules.maxima == {
        "memory": 3 * GiB // 2,
        "timeout": 1800,
        "disk": 1 << 20,
        "files": 50_000,
        "fuel": 1_000_000,
    }
    assert (rules.sessions, rules.snapshot_bytes, rules.pip) == (3, 20 * GiB, False)
    assert set(rules.sources.values()) == {"a.toml"}
    assert set(rules.given()) == set(rules.sources)


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ('memory = "lots"', "not a size"),
        ("memory = true", "not a maximum"),
        ('memory = "100M"', "320.0 MB"),
        ('memroy = "1G"', "no such rule; the rules are memory"),
        ("[memory]", "not a maximum"),
        ("[limits]", "no such rule"),
        ("timeout = 0", "leave the line out"),
        ("timeout = [1]", "not a maximum"),
        ("files = 1.5", "whole number"),
        ("sessions = 0", "1 or more"),
        ("sessions = true", "1 or more"),
        ('sessions = "3"', "1 or more"),
        ("snapshot_bytes = 1.5", "20G"),
        ('pip = "no"', "without quotes"),
        ('trust = "no"', "without quotes"),
        ('grants = "trust"', "write a list of the grants"),
        ('grants = ["trust", "everything"]', "trust, attach, delete"),
        ("grants = [[1]]", "write a list of the grants"),
        ("grants = true", "write a list of the grants"),
        ('data_folders = "/srv"', "write a list of folders"),
        ('data_folders = ["srv"]', "write an absolute path"),
        ('data_folders = ["/srv/../etc"]', "write an absolute path"),
        ('image = "../x"', "image info"),
        ('image_cache = "cache"', "an absolute path"),
        ('image_cache = "~/cache"', "share"),
        ('workspace_root = "/a/../b"', "an absolute path"),
        ("memory = 1G", "line 3"),
        ("memory", "line 3"),
    ],
)
def test_a_line_that_is_wrong_is_named(line: str, said: str) -> None:
    with pytest.raises(NotAllowed) as caught:
        parse(f"# rules\npip = true\n{line}\n", "/etc/a.toml") if "pip" not in line else parse(
            f"# rules\n\n{line}\n", "/etc/a.toml"
        )
    text = str(caught.value)
    assert "/etc/a.toml" in text
    assert "line 3" in text
    assert said in text
    assert "Nothing runs here until" in text


@given(st.text(max_size=200))
def test_any_text_gives_rules_or_is_refused(text: str) -> None:
    try:
        assert isinstance(parse(text, "x"), Rules)
    except NotAllowed as e:
        assert "x" in str(e)


def test_of_two_files_the_stricter_value_counts() -> None:
    root = 'workspace_root = "/boxes"\n'
    one = parse(root + 'memory = "1G"\ntimeout = "1h"\nsessions = 5\npip = true\n', "one")
    two = parse(root + 'memory = "2G"\ntimeout = "1m"\nsessions = 4\npip = false\nfiles = 100\n', "two")
    for found in (combined([one, two]), combined([two, one])):
        assert found.maxima == {"memory": GiB, "timeout": 60, "files": 100}
        assert (found.sessions, found.pip) == (4, False)
        assert {name: found.sources[name] for name in ("memory", "timeout", "sessions", "pip", "files")} == {
            "memory": "one",
            "timeout": "two",
            "sessions": "two",
            "pip": "two",
            "files": "two",
        }


def test_of_grants_only_those_that_every_file_lets_through() -> None:
    one = parse('grants = ["trust", "attach", "prune"]', "one")
    two = parse('grants = ["attach", "prune", "export"]\ntrust = true', "two")
    for found in (combined([one, two]), combined([two, one])):
        assert found.grants == {"attach", "prune"}
        assert [found.forbids(name) for name in ("attach", "prune")] == ["", ""]
        assert found.forbids("trust")
        assert found.forbids("export")
    assert combined([one]).forbids("trust") == ""
    assert combined([one, parse("trust = false", "three")]).forbids("trust") == "three"
    assert combined([one, parse("grants = []", "none")]).forbids("attach") == "none"
    assert combined([parse("grants = []", "none"), one]).forbids("attach") == "none"
    assert Rules().forbids("trust") == ""


def test_two_files_cannot_name_two_images() -> None:
    with pytest.raises(NotAllowed, match="remove one of them"):
        combined([parse('image = "aaaaaaaa"', "one"), parse('image = "bbbbbbbb"', "two")])


@pytest.mark.parametrize("line", ["sessions = 3", "snapshots = 3", 'snapshot_bytes = "1G"'])
def test_what_a_user_may_have_in_all_needs_one_place(line: str) -> None:
    with pytest.raises(NotAllowed, match="workspace_root"):
        combined([parse(line, "x")])
    assert combined([parse(f'{line}\nworkspace_root = "~/x"', "x")]).workspace_root == "~/x"


# ---- limits


def test_what_is_at_its_default_is_lowered_and_what_was_asked_for_is_refused() -> None:
    maxima = {"memory": GiB, "timeout": 60, "output": 1 << 20}
    assert limits.within(ExecutionPolicy(), maxima) == ExecutionPolicy(
        memory_bytes=GiB, timeout_seconds=60, stdout_max_bytes=1 << 20, stderr_max_bytes=1 << 20
    )
    asked = ExecutionPolicy(timeout_seconds=5, memory_bytes=GiB // 2, stdout_max_bytes=0, stderr_max_bytes=0)
    assert limits.within(asked, maxima) is asked
    for name, wish in (
        ("memory", {"memory_bytes": 3 * GiB}),
        ("timeout", {"timeout_seconds": 61}),
        ("output", {"stderr_max_bytes": 2 << 20}),
    ):
        with pytest.raises(ConfigurationError, match=f"^{name} is .*; the administrator allows"):
            limits.within(ExecutionPolicy(**wish), maxima)  # type: ignore[arg-type]


def test_time_to_react_does_not_prolong_the_time_limit() -> None:
    with pytest.raises(ConfigurationError, match="interrupt_grace_seconds"):
        limits.within(ExecutionPolicy(timeout_seconds=1, interrupt_grace_seconds=1000), {"timeout": 60})


# ---- who may write it


def test_without_a_file_nothing_is_ruled(rule: Rule) -> None:
    assert administrator.rules() == Rules()
    assert administrator.workspace_root() is None


def test_it_is_read_from_the_prefix(rule: Rule) -> None:
    file = rule('memory = "1G"')
    assert administrator.rules().sources == {"memory": str(file)}
    rule('memory = "512M"')
    assert administrator.rules().maxima == {"memory": GiB // 2}, "a change counts at once"


@pytest.mark.parametrize("mode", [0o664, 0o646, 0o666])
def test_a_file_that_others_can_write_is_refused(rule: Rule, mode: int) -> None:
    file = rule('memory = "1G"')
    file.chmod(mode)
    with pytest.raises(NotAllowed, match=f"chmod go-w {file}"):
        administrator.rules()


@pytest.mark.parametrize("data", [b"\xff\xfe", b"x" * 70_000, b"memory = "])
def test_what_is_no_such_file_is_refused(rule: Rule, data: bytes) -> None:
    rule("").write_bytes(data)
    with pytest.raises(NotAllowed):
        administrator.rules()


def test_a_folder_or_a_pipe_in_its_place_is_refused(rule: Rule) -> None:
    file = rule("")
    file.unlink()
    os.mkfifo(file)
    with pytest.raises(NotAllowed):
        administrator.rules()
    file.unlink()
    file.mkdir()
    with pytest.raises(NotAllowed):
        administrator.rules()


@pytest.mark.skipif(os.getuid() != 0, reason="only root can become somebody else")
def test_a_folder_that_the_user_can_write_but_does_not_own_is_refused(
    rule: Rule, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rule('memory = "1G"').parent.chmod(0o777)
    tmp_path.chmod(0o755)
    child = os.fork()
    if child == 0:
        os.chroot(tmp_path)  # pytest's folders are closed to others
        monkeypatch.setattr(sys, "prefix", "/prefix")
        os.setuid(65534)
        try:
            administrator.rules()
            os._exit(1)
        except NotAllowed as e:
            os._exit(0 if "you can write to its folder" in str(e) else 2)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def test_the_home_is_what_the_system_says(rule: Rule, monkeypatch: pytest.MonkeyPatch) -> None:
    rule('workspace_root = "~/boxes"')
    before = administrator.workspace_root()
    monkeypatch.setenv("HOME", "/elsewhere")
    assert administrator.workspace_root() == before
    assert before is not None
    assert before.name == "boxes"


# ---- what the command line says of it


def test_config_shows_what_holds_and_where_it_comes_from(
    rule: Rule, capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("JUPYTER_CONFIG_DIR", str(tmp_path))
    (tmp_path / "jupyter_wasm_kernel_config.py").write_text(
        "c.WasmKernel.limits = {'timeout': '10m'}; c.WasmKernel.maxima = {'disk': '1G'}"
    )
    file = rule(f'memory = "1G"\ntimeout = "1h"\nsessions = 3\nworkspace_root = "{tmp_path}"')
    found = Main(capsys).json("config")
    assert {row["name"]: (row["value"], row["from"]) for row in found["limits"]} == {
        "memory": ("1.0 GB", str(file)),
        "timeout": ("10 min", "WasmKernel.limits"),
        "fuel": ("no limit", "default"),
        "disk": ("1.0 GB", "WasmKernel.maxima"),
        "file": ("2.0 GB", "default"),
        "files": ("100,000", "default"),
        "open": ("256", "default"),
        "connections": ("64", "default"),
        "transfer": ("1.0 GB", "default"),
        "traffic": ("20.0 GB", "default"),
        "connect": ("30.0 s", "default"),
        "output": ("10.0 MB", "default"),
        "display": ("64.0 MB", "default"),
        "workers": (str(processors()), "default"),
        "cluster": ("256", "default"),
    }
    assert {"name": "sessions", "value": "3", "from": str(file)} in found["rules"]
    assert f"timeout\t60 min\t{file}" in Main(capsys)("config")[1]
    rule("memory = ")
    code, _, said = Main(capsys)("config")
    assert code
    assert f"{file}: " in said
    assert "line 1" in said


def test_doctor_looks_at_it(rule: Rule) -> None:
    assert _finding("Administrator's rules").detail == "none"
    file = rule("pip = false")
    assert _finding("Administrator's rules").detail == f"pip in {file}"
    rule("fuel = 5")
    assert any(f.what == "Fuel" for f in doctor.examine())
    rule('image = "0123456789"')
    found = _finding("Image")
    assert not found.ok
    assert "allows only 0123456789" in found.detail
    rule("nonsense")
    findings = list(doctor.examine())
    assert [f.what for f in findings if not f.ok and f.what != "Kernelspec"] == ["Administrator's rules"]
    assert str(file) in next(f.detail for f in findings if not f.ok)


def _finding(what: str) -> doctor.Finding:
    return next(f for f in doctor.examine() if f.what == what)


def test_every_rule_is_documented_and_the_example_can_be_used() -> None:
    text = (Path(__file__).parents[2] / "docs" / "administrators.md").read_text()
    for name in NAMES:
        assert f"`{name}`" in text, f"docs/administrators.md does not tell of {name}"
    example = re.search(r"```toml\n(.*?)```", text, re.DOTALL)
    assert example is not None
    everything = re.sub(r"^# (\w+ +=)", r"\1", example[1], flags=re.MULTILINE)
    assert set(combined([parse(everything, "example")]).given()) == set(NAMES)
    assert combined([parse(example[1], "example")]).image == ""
