"""The command line as a person or a script uses it: output, exit codes, complaints."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from tests.apps.terminal import Main
from wasm_kernel.apps import cli, doctor


def wasm_kernel(*arguments: str, stdin: str = "", **env: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "wasm_kernel.apps.cli", *arguments],
        input=stdin,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
        env={**os.environ, **env},
    )


# ---- run


def test_run_streams_and_exits_with_the_programs_status(tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text(
        "import sys\nname = input('name? ')\nprint('hello', name, sys.argv[1:], __name__)\nprint('oops', file=sys.stderr)\nsys.exit(5)"
    )
    done = wasm_kernel("run", str(program), "a", "--b", stdin="Ada\n")
    assert done.stdout == "name? hello Ada ['a', '--b'] __main__\n"
    assert done.stderr == "oops\n"
    assert done.returncode == 5


def test_run_of_code_of_standard_input_and_of_an_error() -> None:
    assert wasm_kernel("run", "-c", "print(6 * 7)").stdout == "42\n"
    assert wasm_kernel("run", "-", stdin="print('from stdin')").stdout == "from stdin\n"
    done = wasm_kernel("run", "-c", "def f():\n    1/0\nf()")
    assert done.returncode == 1
    assert done.stderr.startswith("Traceback (most recent call last):")
    assert "ZeroDivisionError" in done.stderr
    assert "driver.py" not in done.stderr
    done = wasm_kernel("run", "-c", "x = (")
    assert done.returncode == 1
    assert "SyntaxError" in done.stderr


def test_run_keeps_a_workspace_it_is_given_and_no_other(tmp_path: Path) -> None:
    done = wasm_kernel("run", "--workspace", str(tmp_path / "w"), "-c", "open('made.txt', 'w').write('x')")
    assert done.returncode == 0
    assert (tmp_path / "w" / "made.txt").read_text() == "x"


def test_run_within_limits() -> None:
    done = wasm_kernel("run", "--timeout", "0.5", "-c", "while True: pass")
    assert done.returncode == 1
    assert "limit of 0.5 s" in done.stderr
    assert "give more time with --timeout" in done.stderr
    done = wasm_kernel("run", "--memory", "400M", "-c", "x = bytearray(1 << 30)")
    assert done.returncode == 1
    assert "MemoryError" in done.stderr


def test_run_as_json() -> None:
    done = wasm_kernel("run", "--json", "-c", "print('x'); open('f', 'w').close(); raise SystemExit(3)")
    assert done.returncode == 3
    result: dict[str, Any] = json.loads(done.stdout)
    assert result["stdout"] == "x\n"
    assert result["outcome"]["kind"] == "exit"
    assert result["files_created"] == ["f"]


def test_control_c_ends_the_program_with_130() -> None:
    process = subprocess.Popen(
        [sys.executable, "-m", "wasm_kernel.apps.cli", "run", "-c", "print('go')\nwhile True: pass"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "go\n"
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=30)
    assert process.returncode == 130
    assert "KeyboardInterrupt" in errors


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["run"], "nothing to run"),
        (["run", "/no/such/file.py"], "cannot read"),
        (["run", "--timeout", "soon", "-c", "1"], "--timeout: 'soon' is not a duration"),
        (["run", "--memory", "lots", "-c", "1"], "'lots' is not a size"),
        (["run", "--memory", "1M", "-c", "1"], "memory is '1M'; it must be from 320.0 MB to 4.0 GB"),
        (["run", "--timeout", "0.0001", "-c", "1"], "wasm-kernel: --timeout is '0.0001'; it must be from 1 ms"),
        (["run", "--workspace", "/dev/null", "-c", "1"], "not a folder"),
    ],
)
def test_bad_usage_is_told_with_exit_code_2(arguments: list[str], complaint: str) -> None:
    done = wasm_kernel(*arguments)
    assert done.returncode == 2
    assert complaint in done.stderr
    assert "Traceback" not in done.stderr


def test_a_file_that_is_no_text(tmp_path: Path) -> None:
    (tmp_path / "binary.py").write_bytes(b"\xff\xfe\x00")
    done = wasm_kernel("run", str(tmp_path / "binary.py"))
    assert done.returncode == 2
    assert "UTF-8" in done.stderr


# ---- help


def _all_parsers(parser: Any) -> list[Any]:
    found = [parser]
    for action in parser._actions:
        if hasattr(action, "choices") and isinstance(action.choices, dict):
            for child in action.choices.values():
                found += _all_parsers(child)
    return found


def _documented() -> dict[str, set[str]]:
    """The commands of docs/command-line.md, and the options that are named with each."""
    text = (Path(__file__).parents[2] / "docs" / "command-line.md").read_text()
    rows = re.findall(r"^\| `(wasm-kernel(?: [a-z]+)+)(.*?)` \|", text, re.MULTILINE)
    return {command: set(re.findall(r"--[a-z0-9-]+", rest)) for command, rest in rows}


def test_every_command_and_option_is_in_the_docs_and_no_other() -> None:
    documented = _documented()
    everywhere = {"--help", "--json", "--workspace-root"}  # said once, below the tables
    there = {}
    for parser in _all_parsers(cli._parser()):
        if parser._defaults.get("command"):
            there[parser.prog] = {name for name in parser._option_string_actions if name.startswith("--")}
    # `completion bash|zsh|fish`: the shells are arguments, and look like commands
    documented = {next((c for c in there if name.startswith(f"{c} ")), name): o for name, o in documented.items()}
    assert documented.keys() == there.keys()
    for command, options in there.items():
        assert documented[command] == options - everywhere, command


def test_every_command_has_help_with_the_exit_codes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    for parser in _all_parsers(cli._parser()):
        text = parser.format_help()
        assert "exit codes" in text, parser.prog
        assert max(map(len, text.splitlines())) <= 80, f"{parser.prog}:\n{text}"


def test_what_deletes_has_a_dry_run_and_what_looks_has_json() -> None:
    for parser in _all_parsers(cli._parser()):
        known = parser._option_string_actions
        name = parser.prog.split()[-1]
        if name in ("delete", "prune", "clean"):
            assert "--dry-run" in known, parser.prog
        if parser._defaults.get("command") and name not in ("install", "completion", "mcp", "worker"):
            assert "--json" in known, parser.prog
        if parser.prog.split()[1:2] in (["sessions"], ["snapshots"], ["prune"]) and parser._defaults.get("command"):
            assert "--workspace-root" in known, parser.prog


def test_no_command_shows_the_help() -> None:
    done = wasm_kernel()
    assert done.returncode == 2
    assert "install" in done.stdout


# ---- image, doctor, install


def test_image_info_and_clean(tmp_path: Path) -> None:
    info = json.loads(wasm_kernel("image", "info", "--json").stdout)
    built = {part["part"] for part in info["parts"] if part["built"] and part["bytes"]}
    assert built >= {"runtime", "library", "site", "code", "filter", "base"}
    assert "runtime" in wasm_kernel("image", "info").stdout
    empty = str(tmp_path / "empty")
    assert wasm_kernel("image", "info", WASM_KERNEL_CACHE=empty).returncode == 3
    assert wasm_kernel("image", "clean", WASM_KERNEL_CACHE=empty).returncode == 3
    old = tmp_path / "cache" / "base" / "0123"
    old.mkdir(parents=True)
    (old / "base.mem").write_bytes(bytes(2000))
    place = str(tmp_path / "cache")
    dry = wasm_kernel("image", "clean", "--dry-run", WASM_KERNEL_CACHE=place)
    assert "2.0 KB" in dry.stdout
    assert old.exists()
    assert wasm_kernel("image", "clean", WASM_KERNEL_CACHE=place).returncode == 0
    assert not old.exists()


def test_doctor_finds_each_fault_and_says_what_to_do(tmp_path: Path) -> None:
    healthy = {f["what"]: f for f in json.loads(wasm_kernel("doctor", "--json").stdout)}
    assert healthy["Image"]["ok"]
    assert healthy["wasmtime"]["ok"]
    sick = wasm_kernel(
        "doctor", WASM_KERNEL_CACHE=str(tmp_path / "empty"), JUPYTER_PATH="", JUPYTER_DATA_DIR=str(tmp_path)
    )
    assert sick.returncode == 1
    assert "→ run `wasm-kernel install`" in sick.stdout
    foreign = tmp_path / "open"
    foreign.mkdir()
    foreign.chmod(0o777)
    sick = wasm_kernel("doctor", "--json", WASM_KERNEL_CACHE=str(foreign))
    cache = next(f for f in json.loads(sick.stdout) if f["what"] == "Cache folder")
    assert not cache["ok"]
    assert "WASM_KERNEL_CACHE" in cache["remedy"]


def test_doctor_looks_at_the_extensions(tmp_path: Path) -> None:
    def found(**env: str) -> dict[str, dict[str, str]]:
        return {f["what"]: f for f in json.loads(wasm_kernel("doctor", "--json", **env).stdout)}

    healthy = found()
    assert healthy["Server extension"]["ok"]
    assert healthy["Lab extension"]["ok"]
    assert healthy["Side panel"]["ok"]
    configuration = tmp_path / "config"
    (configuration / "labconfig").mkdir(parents=True)
    (configuration / "jupyter_server_config.json").write_text(
        '{"ServerApp": {"jpserver_extensions": {"wasm_kernel": false}}}'
    )
    off = {"@jupyter-widgets/jupyterlab-manager": True, "wasm-kernel": True}
    (configuration / "labconfig" / "page_config.json").write_text(json.dumps({"disabledExtensions": off}))
    sick = found(JUPYTER_CONFIG_DIR=str(configuration), JUPYTER_PREFER_ENV_PATH="0")
    for what, remedy in (
        ("Server extension", "jupyter server extension enable wasm_kernel"),
        ("Lab extension", "jupyter labextension enable @jupyter-widgets/jupyterlab-manager"),
        ("Side panel", "jupyter labextension enable wasm-kernel"),
    ):
        assert not sick[what]["ok"]
        assert "is disabled" in sick[what]["detail"]
        assert remedy in sick[what]["remedy"]


def test_doctor_misses_extensions(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor, "jupyter_config_path", lambda: [str(tmp_path)])
    monkeypatch.setattr(doctor, "jupyter_path", lambda *names: [str(tmp_path)])
    findings = {f.what: f for f in doctor.examine()}
    assert (findings["Server extension"].ok, findings["Lab extension"].ok) == (False, False)
    assert "is not enabled" in findings["Server extension"].detail
    assert "pip install jupyterlab_widgets" in findings["Lab extension"].remedy
    assert not findings["Side panel"].ok


def test_doctor_reads_the_image_when_asked() -> None:
    findings = {f.what: f for f in doctor.examine(deep=True)}
    assert findings["Image's bytes"].ok, findings["Image's bytes"].detail


def test_install_registers_the_kernel(tmp_path: Path) -> None:
    done = wasm_kernel("install", "--no-image", "--prefix", str(tmp_path), "--name", "sealed")
    assert done.returncode == 0, done.stderr
    spec = json.loads((tmp_path / "share/jupyter/kernels/sealed/kernel.json").read_text())
    assert spec["argv"][0] == sys.executable
    assert spec["interrupt_mode"] == "message"
    assert spec["display_name"] == "Python (WebAssembly sandbox)"


def test_a_build_can_be_interrupted_and_leaves_nothing(tmp_path: Path) -> None:
    env = {**os.environ, "WASM_KERNEL_CACHE": str(tmp_path / "cache")}
    process = subprocess.Popen(
        [sys.executable, "-m", "wasm_kernel.apps.cli", "image", "build", "--json"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=env,
    )
    assert process.stdout is not None
    first = json.loads(process.stdout.readline())
    assert first["step"] == "fetch"
    time.sleep(0.5)
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=30)
    assert process.returncode == 130
    left = [p for kind in ("runtime", "site", "code", "base") for p in (tmp_path / "cache" / kind).glob("*")]
    assert left == []


# ---- config


def test_config(root: Path, main: Main, tmp_path: Path) -> None:
    file = tmp_path / "jupyter" / "jupyter_wasm_kernel_config.py"
    code, out, _ = main("config", "path")
    assert (code, out) == (3, f"{file}\n")
    assert main.json("config")["settings"]["checkpoint_count"] == 30
    assert main("config", "--generate")[0] == 0
    assert "c.WasmKernel.workspace_root" in file.read_text()
    assert main("config", "path")[0] == 0
    assert main("config", "--generate")[0] == 2, "it would replace the file"
    file.write_text("c.WasmKernel.checkpoint_count = 7")
    assert main.json("config", "show")["settings"]["checkpoint_count"] == 7
    assert main.json("config")["files"] == [str(file)]
    assert "checkpoint_count\t7\tset" in main("config")[1]
    assert "checkpoint_bytes\t2.0 GB\tdefault" in main("config")[1]
    assert main("config", "--generate", "--force")[0] == 0
    assert main("config", "what")[0] == 2


def test_image_and_doctor_as_json(root: Path, main: Main, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    main.json("image", "info")
    main.json("doctor", code=main("doctor")[0])
    monkeypatch.setenv("WASM_KERNEL_CACHE", str(tmp_path / "cache"))
    (tmp_path / "cache" / "base" / "0123").mkdir(parents=True)
    dry = main.json("image", "clean", "--dry-run")
    assert main.json("image", "clean") == {**dry, "dry_run": False}
    assert main.json("image", "clean", code=3)["deleted"] == []
