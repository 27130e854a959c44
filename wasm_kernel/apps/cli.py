"""`wasm-kernel`: build the image, install the kernel, run code, diagnose problems. One function per command."""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from wasm_kernel import __version__
from wasm_kernel.apps import (
    cli_config,
    cli_image,
    cli_sessions,
    cli_snapshots,
    completion,
    host_commands,
    mcp_command,
    remote_commands,
    worker_command,
)
from wasm_kernel.apps.cli_output import complain, console, plainly
from wasm_kernel.apps.cli_parser import (
    DONE,
    EXIT_CODES,
    FAILED,
    INTERRUPTED,
    NOTHING,
    USAGE,
    Command,
    Help,
    NotThere,
    Parser,
    add,
)
from wasm_kernel.errors import ConfigurationError, WasmKernelError
from wasm_kernel.model.units import format_size

_EXAMPLES = """examples:
  wasm-kernel install                           set everything up (once)
  wasm-kernel run analysis.py                   run in a throwaway sandbox
  wasm-kernel sessions list                     all sessions and their sizes
  wasm-kernel prune --older-than 30d --dry-run  show what would be deleted
  wasm-kernel COMMAND --help                    more examples"""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command and return its exit code."""
    arguments = list(sys.argv[1:] if arguments is None else arguments)
    parser = _parser()
    if arguments[:2] == ["completion", "words"]:  # a shell asks; its words may look like options
        with contextlib.suppress(Exception):
            completion.show_words(parser, arguments[2:])
        return DONE
    options = parser.parse_args(arguments)
    if getattr(options, "command", None) is None:
        parser.print_help()
        return USAGE
    command: Command = options.command
    try:
        code = command(options)
        sys.stdout.flush()
        return code
    except BrokenPipeError:  # the reader of our output is gone
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return FAILED
    except (NotThere, FileNotFoundError) as e:
        return complain(plainly(e), NOTHING)
    except ConfigurationError as e:
        return complain(plainly(e), USAGE)
    except (WasmKernelError, OSError) as e:
        return complain(plainly(e), FAILED)
    except KeyboardInterrupt:
        return complain("interrupted; nothing is left half done; run it again to continue", INTERRUPTED)


def _parser() -> argparse.ArgumentParser:
    parser = Parser(
        prog="wasm-kernel",
        description="A Jupyter kernel in which every notebook is its own sealed, resumable computer.",
        epilog=f"{_EXAMPLES}\n\n{EXIT_CODES}",
        formatter_class=Help,
        allow_abbrev=False,
    )
    parser.add_argument("--version", action="version", version=f"wasm-kernel {__version__}")
    commands = parser.add_subparsers(title="commands", metavar="COMMAND")
    for register in (
        _register_install,
        cli_image.register,
        _register_doctor,
        _register_run,
        cli_sessions.register,
        cli_snapshots.register,
        cli_config.register,
        host_commands.register,
        mcp_command.register,
        remote_commands.register,
        worker_command.register,
        completion.register,
    ):
        register(commands)
    return parser


def _register_install(commands: Any) -> None:
    install = add(commands, "install", install_command, "Build the image and register the kernel with Jupyter.")
    place = install.add_mutually_exclusive_group()
    place.add_argument("--user", action="store_true", help="for this user (the default outside a virtual environment)")
    place.add_argument("--sys-prefix", action="store_true", help="into this Python's environment")
    place.add_argument("--prefix", metavar="P", help="into P/share/jupyter/kernels")
    install.add_argument("--name", default="wasm", metavar="N", help="the kernel's name (default: wasm)")
    origin = install.add_mutually_exclusive_group()
    origin.add_argument("--no-image", action="store_true", help="do not build the image now")
    origin.add_argument(
        "--image", metavar="FILE", help="take the image from a pack (`image pack`): a file or an address"
    )
    cli_image.add_hash(install, "--image-sha256")


def _register_doctor(commands: Any) -> None:
    doctor = add(
        commands,
        "doctor",
        doctor_command,
        "Check everything the kernel needs, and say how to fix it.",
        shape='[{"what": "Image", "ok": false, "detail": "not built",\n  "remedy": "run `wasm-kernel install`"}]',
    )
    doctor.add_argument(
        "--deep", action="store_true", help="also read the whole image and compare it with what was built"
    )


def _register_run(commands: Any) -> None:
    run = add(
        commands,
        "run",
        run_command,
        "Run a Python program in a throwaway sandbox.",
        codes=f"{EXIT_CODES}\n  and the program's own exit status",
    )
    run.add_argument("-c", dest="code", metavar="CODE", help="run this code instead of a file")
    run.add_argument("file", nargs="?", metavar="FILE", help="a Python file, or - for standard input")
    run.add_argument("arguments", nargs=argparse.REMAINDER, metavar="ARG", help="the program's sys.argv[1:]")
    run.add_argument("--workspace", metavar="D", help="the folder it sees as /app (default: an empty, temporary one)")
    run.add_argument("--timeout", metavar="S", help="seconds it may take: 90, 5m")
    run.add_argument("--memory", metavar="M", help="memory it may use: 512M, 2G")
    run.add_argument("--json", action="store_true", help="print all its output as one JSON object")


# ---- commands


def install_command(options: argparse.Namespace) -> int:
    """Build the image, register the kernelspec."""
    from wasm_kernel.apps import image_commands, kernelspec

    if options.image is not None:
        image_commands.unpack(options.image, options.image_sha256)
    elif not options.no_image:
        image_commands.build(metered=False, force=False, as_json=False)
    where = kernelspec.install(
        name=options.name, user=options.user, sys_prefix=options.sys_prefix, prefix=options.prefix
    )
    print(f"Installed the kernel {options.name!r} in {where}")
    return DONE


def doctor_command(options: argparse.Namespace) -> int:
    """Check everything."""
    from wasm_kernel.apps import doctor

    findings = list(doctor.examine(deep=options.deep))
    if options.json:
        print(json.dumps([asdict(f) for f in findings], indent=2))
    else:
        screen = console()
        for finding in findings:
            mark = "[green]✓[/]" if finding.ok else "[red]✗[/]"
            screen.print(f"{mark} [bold]{finding.what}[/]: ", end="")
            screen.print(finding.detail, markup=False, highlight=False, soft_wrap=True)
            if not finding.ok:
                screen.print(f"    → {finding.remedy}", markup=False, highlight=False, soft_wrap=True)
    return DONE if all(f.ok for f in findings) else FAILED


def run_command(options: argparse.Namespace) -> int:
    """Run a program and exit with its status."""
    from wasm_kernel.guest import wire
    from wasm_kernel.host import administrator
    from wasm_kernel.host.runtime.sandbox import Sandbox
    from wasm_kernel.model import limits
    from wasm_kernel.model.policy import ExecutionPolicy
    from wasm_kernel.sessions.sandboxes import prepared, ready_image

    name, code, arguments = _program(options)
    maxima = administrator.rules().maxima
    policy = limits.bounded(ExecutionPolicy(), maxima)
    for limit in ("timeout", "memory"):
        if (value := getattr(options, limit)) is not None:
            try:
                policy = limits.changed(policy, {limit: value}, maxima)
            except ConfigurationError as e:
                raise ConfigurationError(f"--{str(e).removeprefix('limit ')}") from None  # as it was typed

    def show(event: wire.Event) -> None:
        if isinstance(event, wire.Stream):
            stream = sys.stdout if event.name == "stdout" else sys.stderr
            stream.write(event.text)
            stream.flush()
        elif isinstance(event, wire.DisplayData):
            print(event.data.get("text/plain", ""), flush=True)

    def ask(request: wire.InputRequest) -> str:
        if request.prompt and not options.json:
            print(request.prompt, end="", flush=True)
        line = sys.stdin.readline()
        if not line:
            raise EOFError
        return line.rstrip("\n")

    with contextlib.ExitStack() as stack:
        folder = options.workspace or stack.enter_context(tempfile.TemporaryDirectory(prefix="wasm-kernel-run-"))
        img = ready_image(metered=policy.fuel_budget is not None)
        sandbox = Sandbox(img, prepared(folder), policy)
        stack.callback(sandbox.close)
        program = {"op": "program", "name": name, "arguments": arguments, "allow_stdin": True}
        result = sandbox.execute(code, on_event=None if options.json else show, on_input=ask, options=program)
    if options.json:
        print(json.dumps({**asdict(result), "reply": None}, indent=2, default=str))
    elif result.outcome.kind not in ("ok", "error", "exit"):
        print(f"wasm-kernel: {result.outcome.message}", file=sys.stderr)
        step = result.outcome.next_step
        if result.outcome.kind == "time_limit":
            step = "give more time with --timeout, or let it do less"
        if step:
            print(f"wasm-kernel: {step}", file=sys.stderr)
    return INTERRUPTED if result.outcome.kind == "interrupted" else result.exit_code


def _program(options: argparse.Namespace) -> tuple[str, str, list[str]]:
    """The program's name, its source and its arguments."""
    if options.code is not None:
        return "<string>", options.code, [a for a in [options.file, *options.arguments] if a is not None]
    if options.file is None:
        raise ConfigurationError("nothing to run; give a FILE, - for standard input, or -c CODE")
    if options.file == "-":
        return "<stdin>", sys.stdin.read(), options.arguments
    try:
        return Path(options.file).name, Path(options.file).read_text(encoding="utf-8"), options.arguments
    except OSError as e:
        raise ConfigurationError(f"cannot read {options.file!r}: {e.strerror}") from None
    except UnicodeDecodeError as e:
        raise ConfigurationError(f"{options.file!r} is not UTF-8 text: {e.reason} at byte {e.start}") from None


def _size(size: int) -> str:
    return format_size(size) if size else "-"


if __name__ == "__main__":
    sys.exit(main())
