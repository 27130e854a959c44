"""`wasm-kernel config`: the kernel's settings, and where they are written."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING, Any

from wasm_kernel.apps.cli_output import fields, show_json, table
from wasm_kernel.apps.cli_parser import DONE, NOTHING, add
from wasm_kernel.apps.configuration import loaded_app
from wasm_kernel.errors import ConfigurationError
from wasm_kernel.host import administrator
from wasm_kernel.model import limits
from wasm_kernel.model.policy import ExecutionPolicy
from wasm_kernel.model.settings import session_limits
from wasm_kernel.model.units import format_size

if TYPE_CHECKING:
    from wasm_kernel.apps.kernel_app import WasmKernelApp

_Row = tuple[str, str, str]


def register(commands: Any) -> None:
    """Add the command to a parser."""
    made = add(
        commands,
        "config",
        config_command,
        "Show the kernel's settings, or write a file to start from.",
        more="The file is jupyter_wasm_kernel_config.py in Jupyter's configuration folder.\n"
        "Limits are shown as they apply, each with its source; rules come from\n"
        "/etc/wasm-kernel/administrator.toml and the same path below the prefix.",
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
    made.add_argument("--force", action="store_true", help="replace an existing file")


def config_command(options: argparse.Namespace) -> int:
    """Show, locate or create the configuration."""
    app = loaded_app()
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
    held, rules = _what_holds(app)
    if options.json:
        named = [[dict(zip(("name", "value", "from"), row, strict=True)) for row in rows] for rows in (held, rules)]
        found = {"path": path, "files": app.loaded_config_files, "settings": settings}
        show_json({**found, "limits": named[0], "rules": named[1]})
        return DONE
    rows = [(name, _shown(name, value), "set" if name in ours else "default") for name, value in settings.items()]
    table(("WasmKernel.", "value", ""), rows)
    table(("limit", "value", "from"), held)
    if rules:
        table(("administrator's rule", "value", "from"), rules)
    fields(
        [("file" if n == 0 else "", name) for n, name in enumerate(app.loaded_config_files)] or [("file", "none yet")]
    )
    return DONE


def _what_holds(app: WasmKernelApp) -> tuple[list[_Row], list[_Row]]:
    """The limits a kernel would start with, and the administrator's rules; each with its value and its source."""
    ours, ruled = app.config.get("WasmKernel", {}), administrator.rules()
    found = session_limits(ruled.maxima, ours)
    if found.problem:
        read = f" (read: {', '.join(app.loaded_config_files)})" if app.loaded_config_files else ""
        raise ConfigurationError(found.problem + read)
    most, sources = ruled.maxima, ruled.sources
    rules = [
        (name, limits.describe(name, value) if name in most else _written(value), sources[name])
        for name, value in ruled.given().items()
    ]
    wanted = ours.get("limits") or {}
    rows = []
    for name in limits.LIMITS:
        value, source = limits.current(found.policy, name), "default"
        if name in wanted and value == limits.number(name, wanted[name]):
            source = "WasmKernel.limits"
        elif value != limits.current(ExecutionPolicy(), name):
            source = sources[name] if value == most.get(name) else "WasmKernel.maxima"
        rows.append((name, limits.describe(name, value), source))
    return rows, rules


def _shown(name: str, value: Any) -> str:
    """A setting as people write it: a size is not counted in bytes."""
    return format_size(value) if name.endswith("_bytes") and isinstance(value, int) else repr(value)


def _written(value: object) -> str:
    return ", ".join(sorted(map(str, value))) or "none" if isinstance(value, frozenset) else str(value)


def _generate(app: WasmKernelApp, path: Path, *, force: bool) -> int:
    from wasm_kernel.kernel.kernel import WasmKernel

    if path.exists() and not force:
        raise ConfigurationError(f"{str(path)!r} already exists; add --force to replace it")
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(app.generate_config_file([WasmKernel]), encoding="utf-8")
    print(f"Wrote {path}")
    return DONE
