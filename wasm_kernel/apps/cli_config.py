"""`wasm-kernel config`: the kernel's settings, and where they are written."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING, Any

from wasm_kernel.apps.cli_output import fields, show_json, table
from wasm_kernel.apps.cli_parser import DONE, NOTHING, add
from wasm_kernel.errors import ConfigurationError

if TYPE_CHECKING:
    from wasm_kernel.apps.kernel_app import WasmKernelApp


def register(commands: Any) -> None:
    """Add the command to a parser."""
    made = add(
        commands,
        "config",
        config_command,
        "Show the kernel's settings, or write a file to begin with.",
        more="The file is jupyter_wasm_kernel_config.py in Jupyter's configuration folder.",
        examples="wasm-kernel config\nwasm-kernel config --generate\n$EDITOR $(wasm-kernel config path)",
        shape='{"path": "/home/ada/.jupyter/jupyter_wasm_kernel_config.py",\n'
        ' "files": [], "settings": {"checkpoint": true, "checkpoint_count": 30}}',
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
    if options.json:
        show_json({"path": path, "files": app.loaded_config_files, "settings": settings})
        return DONE
    rows = [(name, repr(value), "set" if name in ours else "default") for name, value in settings.items()]
    table(("WasmKernel.", "value", ""), rows)
    fields(
        [("file" if n == 0 else "", name) for n, name in enumerate(app.loaded_config_files)] or [("file", "none yet")]
    )
    return DONE


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
