"""`wasm-kernel-hub` at the command line: settings from everywhere, one run, exit codes."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.hub.town import Town, town_in
from tests.sessions.helpers import make_session
from wasm_kernel.errors import ConfigurationError
from wasm_kernel.hub.app import WasmKernelHub, main, run_scheduled
from wasm_kernel.hub.hubapi import HubUnavailable

Command = Callable[..., tuple[int, str, str]]


@pytest.fixture(scope="module")
def town(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Town]:
    with town_in(tmp_path_factory.mktemp("town")) as town:
        yield town


@pytest.fixture
def command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> Iterator[Command]:
    """Runs the command in a folder of its own; exit code, output, errors."""
    monkeypatch.chdir(tmp_path)
    for name in ("JUPYTERHUB_API_URL", "JUPYTERHUB_API_TOKEN", "JUPYTERHUB_OAUTH_ACCESS_SCOPES"):
        monkeypatch.delenv(name, raising=False)

    def run(*arguments: str) -> tuple[int, str, str]:
        WasmKernelHub.clear_instance()
        code = main(list(arguments))
        out, err = capfd.readouterr()
        return code, out, err

    yield run
    WasmKernelHub.clear_instance()


def test_once(town: Town, command: Command) -> None:
    ann, bob = town.settle("ann", "bob")
    old = make_session(town.root(ann), 100)
    where = (f"--workspace-template={town.template}", f"--users={ann}", f"--users={bob}")
    policy = "--policy=max_age=1d"
    code, out, _ = command("--once", "--dry-run", *where, policy)
    assert (code, out.split(",")[0]) == (0, "would delete 1 session")
    assert (town.root(ann) / old).is_dir()
    code, out, _ = command("--once", "--json", *where, policy)
    found = json.loads(out)
    assert code == 0
    assert list(found["users"][ann]["deleted"]) == [old]
    assert (found["actor"], found["failures"], found["dry_run"]) == ("command line", 0, False)
    assert not (town.root(ann) / old).exists()


def test_a_user_that_fails_is_told_and_the_others_are_done(town: Town, command: Command) -> None:
    ann, bob = town.settle("ann", "bob")
    broken, fine = make_session(town.root(ann), 100), make_session(town.root(bob), 100)
    (town.root(ann) / ".wasm-kernel").mkdir()
    (town.root(ann) / ".wasm-kernel/trash").touch()
    code, out, _ = command(
        "--once",
        "--json",
        f"--workspace-template={town.template}",
        f"--users={ann}",
        f"--users={bob}",
        "--policy=max_age=1d",
    )
    found = json.loads(out)["users"]
    assert code == 1
    assert "trash" in str(found[ann]["errors"]) and not found[ann]["deleted"]
    assert list(found[bob]["deleted"]) == [fine]
    assert (town.root(ann) / broken).is_dir()


def test_where_settings_come_from(
    town: Town, command: Command, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def settings(*arguments: str) -> WasmKernelHub:
        app = WasmKernelHub()
        app.initialize(list(arguments))
        return app

    assert settings().breadth == 4
    monkeypatch.setenv("WASM_KERNEL_HUB_BREADTH", "5")
    monkeypatch.setenv("WASM_KERNEL_HUB_LOCKS_VISIBLE", "true")
    monkeypatch.setenv("WASM_KERNEL_HUB_POLICY", '{"max_age": "30d", "archive": true}')
    monkeypatch.setenv("WASM_KERNEL_HUB_USERS", '["ann"]')
    found = settings()
    assert (found.breadth, found.locks_visible, found.users) == (5, True, ["ann"])
    assert found.policy == {"max_age": "30d", "archive": True}
    (tmp_path / "wasm_kernel_hub_config.py").write_text("c.WasmKernelHub.breadth = 6\n")
    assert settings().breadth == 6
    assert settings("--WasmKernelHub.breadth=7").breadth == 7
    (tmp_path / "other.py").write_text("c.WasmKernelHub.breadth = 8\n")
    assert settings("--config=other.py").breadth == 8


def test_generate_config(command: Command, tmp_path: Path) -> None:
    code, out, _ = command("--generate-config")
    path = tmp_path / "wasm_kernel_hub_config.py"
    assert (code, out) == (0, f"Wrote {path}\n")
    text = path.read_text()
    for name in WasmKernelHub.class_own_traits(config=True):
        assert f"c.WasmKernelHub.{name} = " in text
    code, _, err = command("--generate-config")
    assert (code, "already exists" in err) == (2, True)
    code, _, err = command("--once")  # all of it is commented out
    assert "there is no hub" in err


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["--once"], "there is no hub"),
        (["--once", "--users=ann", "--workspace-template=/home/ws"], "workspace_template is '/home/ws'"),
        (["--once", "--users=ann", "--policy=max_age=x"], "policy['max_age'] is 'x'"),
        (["--once", "--users=ann", "--policy=archive=true"], "set archive_folder"),
        (["--once", "--users=ann", "--WasmKernelHub.remote=True"], "remote needs a hub"),
        (["--config=none.py"], "there is no file"),
        (["--WasmKernelHub.breadth=0"], "breadth"),
        (["--WasmKernelHub.census_age=soon", "--once", "--users=ann"], "'soon' is not a duration"),
    ],
)
def test_settings_that_cannot_be(command: Command, arguments: list[str], told: str) -> None:
    code, _, err = command(*arguments)
    assert code == 2
    assert told in err


def test_an_environment_that_cannot_be(command: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WASM_KERNEL_HUB_POLICY", "max_age=3d")
    code, _, err = command("--once", "--users=ann")
    assert code == 2
    assert "WASM_KERNEL_HUB_POLICY is 'max_age=3d'" in err


def test_nobody_has_access_if_it_is_not_known_who_may(command: Command) -> None:
    app = WasmKernelHub(users=["ann"], workspace_template="/home/{username}")
    with pytest.raises(ConfigurationError, match="JUPYTERHUB_OAUTH_ACCESS_SCOPES"):

        async def make() -> None:
            app.make_web(app.make_service())

        asyncio.run(make())


def test_a_run_that_cannot_be_done_does_not_end_the_schedule(town: Town) -> None:
    (ann,) = town.settle("ann")
    service, citizens = town.service([ann], {"max_age": "1d"})
    log = logging.getLogger("test")

    async def unavailable() -> None:
        raise HubUnavailable("the hub is away")

    listing, citizens.users = citizens.users, unavailable  # type: ignore[method-assign, assignment]
    asyncio.run(run_scheduled(service, log))
    assert service.trouble == "the hub is away"
    assert 'runs_total{result="failed"} 1.0' in service.metrics.text().decode()
    citizens.users = listing  # type: ignore[method-assign]
    old = make_session(town.root(ann), 100)
    asyncio.run(run_scheduled(service, log))
    assert service.trouble == ""
    assert service.last_run is not None
    assert list(service.last_run.users[ann].deleted) == [old]
