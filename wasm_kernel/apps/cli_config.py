"""`wasm-kernel config`: the kernel's settings, and where they are written."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING, Any

from wasm_kernel.apps.cli_output import fields, show_json, table
from wasm_kernel.apps.cli_parser import DONE, NOTHING, add
from wasm_kernel.errors import ConfigurationError
from wasm_kernel.host import administrator

if TYPE_CHECKING:
    from wasm_kernel.apps.kernel_app import WasmKernelApp

_Row = tuple[str, str, str]


def register(commands: Any) -> None:
    """Add the command to a parser."""
    made = add(
        commands,
        "config",
        config_command,
        "Show the kernel's settings, or write a file to begin with.",
        more="The file is jupyter_wasm_kernel_config.py in Jupyter's configuration folder.\n"
        "Limits are shown as they hold, with where each comes from; rules are those in\n"
        "/etc/wasm-kernel/administrator.toml, and in the same place below the prefix.",
        examples="wasm-kernel config\nwasm-kernel config --generate\n$EDITOR $(wasm-kernel config path)",
        shape='{"path": "/home/ada/.jupyter/jupyter_wasm_kernel_config.py",\n'
        ' "files": [], "settings": {"checkpoint": true, "checkpoint_count": 30},\n'
        ' "limits": [{"name": "memory", "value": "2.0 GB", "from": "default"}],\n'
        ' "rules": [{"name": "sessions", "value": "40",\n'
        '            "from": "/etc/wasm-kernel/administrator.toml"}]}',
    )
    what = made.add_mutually_exclusive_group()
    what.add_argument(
        "what", nargs="?", choices=("show", "path"), default="show", help="show the settings (the default), or the path"
    )
    what.add_argument("--generate", action="store_true", help="write a file with every setting, commented out")
    made.add_argument("--force", action="store_true", help="replace a file that is there")


def config_command(options: argparse.Namespace) -> int:
    """Show, locate or begin the configuration."""
    app = _app()
    path = Path(app.config_dir) / f"{app.config_file_name}.py"
    if options.generate:
        return _generate(app, path, force=options.force)
    if options.what == "path" and not options.json:
        print(path)
        return DONE if path.exists() else NOTHING
    from wasm_kernel.kernel.kernel import WasmKernel

    ours = app.config.get("WasmKernel", {})
    traits = WasmKernel.class_own_traits(config=True)
    settings = {name: ours.get(name, trait.default()) for name, trait in traits.items()}
    limits, rules = _what_holds(app)
    if options.json:
        named = [[dict(zip(("name", "value", "from"), row, strict=True)) for row in rows] for rows in (limits, rules)]
        found = {"path": path, "files": app.loaded_config_files, "settings": settings}
        show_json({**found, "limits": named[0], "rules": named[1]})
        return DONE
    rows = [(name, repr(value), "set" if name in ours else "default") for name, value in settings.items()]
    table(("WasmKernel.", "value", ""), rows)
    table(("limit", "value", "from"), limits)
    if rules:
        table(("administrator's rule", "value", "from"), rules)
    fields(
        [("file" if n == 0 else "", name) for n, name in enumerate(app.loaded_config_files)] or [("file", "none yet")]
    )
    return DONE


def _what_holds(app: WasmKernelApp) -> tuple[list[_Row], list[_Row]]:
    """The limits a kernel would start with, and the administrator's rules; each with its value and its source."""
    from wasm_kernel.apps.kernel_app import home_for
    from wasm_kernel.model import limits
    from wasm_kernel.model.policy import ExecutionPolicy

    home = home_for(app.config, Path())
    if home.refused:
        raise ConfigurationError(home.refused)
    given, sources = home.rules.given(), home.rules.sources
    most = home.rules.maxima
    rules = [(n, limits.describe(n, value) if n in most else _written(value), sources[n]) for n, value in given.items()]
    used = not any("WasmKernel.limits" in note for note in home.notes)
    wanted = app.config.get("WasmKernel", {}).get("limits", {}) if used else {}
    rows = []
    for name in limits.LIMITS:
        value = limits.current(home.policy, name)
        source = "WasmKernel.limits" if name in wanted else "default"
        if name not in wanted and value != limits.current(ExecutionPolicy(), name):
            source = sources[name] if value == most.get(name) else "WasmKernel.maxima"
        rows.append((name, limits.describe(name, value), source))
    return rows, rules


def _written(value: object) -> str:
    return ", ".join(sorted(value)) or "none" if isinstance(value, frozenset) else str(value)


def _generate(app: WasmKernelApp, path: Path, *, force: bool) -> int:
    from wasm_kernel.kernel.kernel import WasmKernel

    if path.exists() and not force:
        raise ConfigurationError(f"{str(path)!r} is there already; add --force to replace it")
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(app.generate_config_file([WasmKernel]), encoding="utf-8")
    print(f"Wrote {path}")
    return DONE


def configured_root() -> Path:
    """Where the kernel has its sessions, if nobody says otherwise."""
    from wasm_kernel.kernel.home import default_root

    ruled = administrator.workspace_root()
    if ruled is not None:
        return ruled
    named = _app().config.get("WasmKernel", {}).get("workspace_root")
    return Path(str(named)).expanduser() if named else default_root()


def _app() -> WasmKernelApp:
    """The kernel's application with its configuration, but no kernel."""
    from wasm_kernel.apps.kernel_app import WasmKernelApp

    app = WasmKernelApp(raise_config_file_errors=True)
    try:
        app.load_config_file()
    except Exception as e:  # noqa: BLE001 - it is a program, and may raise anything
        raise ConfigurationError(
            f"the configuration cannot be read: {type(e).__name__}: {e}; mend it, or move it away"
        ) from None
    return app
