"""Where sessions are, if nobody rules it."""

from __future__ import annotations

from pathlib import Path

from wasm_kernel.host.workspace_root import default_root


def test_the_configuration_comes_first_then_the_environment_then_the_users_own_folder() -> None:
    named = {"WASM_KERNEL_WORKSPACE": "~/somewhere"}
    assert default_root("~/mine", named) == Path.home() / "mine"
    assert default_root("", named) == default_root(None, named) == Path.home() / "somewhere"
    own = default_root(None, {})
    assert own.is_absolute()
    assert own.name == "workspace"
    assert own != Path.cwd()
