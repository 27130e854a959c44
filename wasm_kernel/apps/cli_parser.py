"""What the commands' parsers share: exit codes, help with examples, one-line complaints, common options."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable, Iterable
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

from wasm_kernel.apps.cli_output import complain
from wasm_kernel.errors import ConfigurationError, WasmKernelError
from wasm_kernel.model.records import is_session_id, is_uuid
from wasm_kernel.model.units import parse_duration, parse_size

if TYPE_CHECKING:
    from wasm_kernel.sessions.log import SandboxLogger

DONE, FAILED, USAGE, NOTHING, INTERRUPTED = 0, 1, 2, 3, 130
EXIT_CODES = """exit codes:
  0    done
  1    failed, or done only in part
  2    the command line is wrong
  3    not found, or nothing to do
  130  interrupted"""
# A prune's report, the same as the REST API's: `model.prune_report`.
PRUNE_SHAPE = """{"dry_run": false, "sessions": [{"session_id": "3f2a9c01-…",
  "action": "archive", "reason": "max_age_hours", "done": true,
  "age_hours": 50.5, "size_bytes": 2048, "snapshot_bytes": 1024,
  "stored_bytes": 4096, "notebook": "/home/ada/a.ipynb", "title": "",
  "archive": "3f2a9c01-….tar.zst", "snapshot_id": null}],
 "totals": {"sessions": 9, "bytes": 65536, "removed": 1,
  "reclaimed_bytes": 3072, "live": 1, "skipped": 0, "errors": 0,
  "snapshots_removed": 1, "snapshot_bytes_freed": 1024,
  "stored_bytes_freed": 4096},
 "errors": {}, "live": ["0c11d2e3-…"], "changed": [],
 "snapshots": ["9e00b1c2-…"]}"""

Command = Callable[[argparse.Namespace], int]
_LEAST_PREFIX = 4


class NotThere(WasmKernelError):
    """What was asked for does not exist."""


class Help(argparse.RawDescriptionHelpFormatter):
    """Keeps paragraphs as written, and each command on one line with its summary."""

    def add_argument(self, action: argparse.Action) -> None:
        """Allow for the indentation of commands, which argparse forgets."""
        super().add_argument(action)
        if isinstance(action, argparse._SubParsersAction):
            self._action_max_length += 2


class Parser(argparse.ArgumentParser):
    """Reports errors in one line."""

    def error(self, message: str) -> NoReturn:
        """Exit with code 2."""
        raise SystemExit(complain(f"{message}; see `{self.prog} --help`", USAGE))


def add(
    where: Any,
    name: str,
    command: Command | None,
    text: str,
    *,
    more: str = "",
    examples: str = "",
    shape: str = "",
    codes: str = EXIT_CODES,
) -> Parser:
    """Add a command. One with a ``shape``, an example of its JSON, has the option --json."""
    parts = [more, f"examples:\n{_indented(examples)}" if examples else ""]
    parts += [f"--json prints:\n{_indented(shape)}" if shape else "", codes]
    made: Parser = where.add_parser(
        name,
        help=text,
        description=text,
        epilog="\n\n".join(part for part in parts if part),
        formatter_class=Help,
        allow_abbrev=False,
    )
    if shape:
        made.add_argument("--json", action="store_true", help="print the result as JSON")
    if command is not None:
        made.set_defaults(command=command)
    return made


def imported_when_run(module: str, name: str) -> Command:
    """A command in another module of this package, imported only when it runs: no --help waits for it."""

    def run(options: argparse.Namespace) -> int:
        command: Command = getattr(import_module(f"wasm_kernel.apps.{module}"), name)
        return command(options)

    return run


def _indented(text: str) -> str:
    return "\n".join(f"  {line}" for line in text.strip().splitlines())


def add_root(parser: Parser) -> None:
    """Add the option that says where the sessions are."""
    parser.add_argument(
        "--workspace-root", metavar="FOLDER", help="the folder with the sessions (default: the kernel's)"
    )


def add_consent(parser: Parser) -> None:
    """Add the options of commands that delete."""
    parser.add_argument("--dry-run", action="store_true", help="only show what would be deleted")
    parser.add_argument("--yes", "-y", action="store_true", help="do not ask; required without a terminal")


def add_id(parser: argparse.ArgumentParser, kind: str, *, many: bool = False) -> None:
    """Add the argument of commands that take a session or a snapshot, or several."""
    if many:
        parser.add_argument(f"{kind}s", nargs="+", metavar=kind.upper(), help="ids, or their first characters")
    else:
        parser.add_argument(kind, metavar=kind.upper(), help="its id, or its first characters")


def add_target(parser: Parser, default: str) -> None:
    """Add the arguments of commands that write a file."""
    parser.add_argument("target", nargs="?", metavar="FILE", help=f"file or folder to write to (default: {default})")
    parser.add_argument("--force", action="store_true", help="replace an existing file")


# ---- values


def duration(text: str) -> float:
    """Parse a duration into seconds."""
    return float(_checked(parse_duration, text))


def size(text: str) -> int:
    """Parse a size into bytes."""
    return int(_checked(parse_size, text))


def number(text: str) -> int:
    """Parse a count."""
    if not (text.isascii() and text.isdigit()):
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number, 0 or more")
    return int(text)


def _checked(parse: Callable[[str], float], text: str) -> float:
    try:
        return parse(text)
    except ConfigurationError as e:
        raise argparse.ArgumentTypeError(str(e)) from None


def root_of(options: argparse.Namespace, *, make: bool = False) -> Path:
    """The workspace root a command works on; it must exist, unless the command may ``make`` it."""
    from wasm_kernel.apps.configuration import configured_root
    from wasm_kernel.sessions.inventory import existing_root

    root = Path(options.workspace_root).expanduser() if options.workspace_root is not None else configured_root()
    if options.workspace_root is None and not make and not root.exists():
        raise NotThere(
            f"there are no sessions yet: {str(root)!r} does not exist; use --workspace-root for another folder"
        )
    return root.absolute() if make else existing_root(root)


def session_ids(root: Path) -> list[str]:
    """Everything below a root that could be a session."""
    with os.scandir(root) as entries:
        return [e.name for e in entries if is_session_id(e.name) and (e.is_dir() or e.is_symlink())]


def snapshot_ids(root: Path) -> dict[str, str]:
    """The ids of all snapshots, each with its session's."""
    from wasm_kernel.host.store import manifests
    from wasm_kernel.model.names import STATE_FOLDER

    return {name: group for group, name in manifests.names(root / STATE_FOLDER / "snapshots" / "manifests", None)}


def session_of(root: Path, wanted: str) -> str:
    """The full id of a session, given all of it or its first characters."""
    return _found(wanted, session_ids(root), "session", f"in {str(root)!r}; `wasm-kernel sessions list`")


def snapshot_of(root: Path, wanted: str) -> str:
    """The full id of a snapshot, given all of it or its first characters."""
    return _found(wanted, snapshot_ids(root), "snapshot", f"in {str(root)!r}; `wasm-kernel snapshots list`")


def _found(wanted: str, ids: Iterable[str], what: str, where: str) -> str:
    ids = list(ids)
    if wanted in ids:
        return wanted
    if not is_session_id(wanted.rstrip("-")):
        raise ConfigurationError(f"{wanted!r} is not a {what} id; ids consist of letters, digits and hyphens")
    fitting = (
        [name for name in ids if is_uuid(name) and name.startswith(wanted)] if len(wanted) >= _LEAST_PREFIX else []
    )
    if len(fitting) > 1:
        raise ConfigurationError(f"{wanted!r} matches {len(fitting)} {what}s; type more of the id")
    if not fitting:
        raise NotThere(f"there is no {what} {wanted!r} {where} shows which exist")
    return fitting[0]


def target_of(options: argparse.Namespace, default: str) -> Path:
    """The file to write to."""
    target = Path(options.target or ".")
    target = target / default if target.is_dir() else target
    if not target.parent.is_dir():
        raise ConfigurationError(f"the folder {str(target.parent)!r} does not exist; create it first")
    if target.exists() and not options.force:
        raise ConfigurationError(f"{str(target)!r} already exists; add --force to replace it, or choose another name")
    return target


# ---- consent


def check_consent(options: argparse.Namespace) -> None:
    """Refuse to delete what nobody has agreed to, and nobody can be asked about."""
    if not (options.yes or options.dry_run or (sys.stdin.isatty() and sys.stderr.isatty())):
        raise ConfigurationError("there is no terminal to ask on; add --yes to delete, or --dry-run to look first")


def agreed(options: argparse.Namespace, question: str) -> bool:
    """Whether the user agrees, by --yes or when asked."""
    if options.yes:
        return True
    print(f"{question} [y/N] ", end="", file=sys.stderr, flush=True)
    if sys.stdin.readline().strip().lower() in ("y", "yes"):
        return True
    complain("nothing was deleted", FAILED)
    return False


def quiet() -> SandboxLogger:
    """A logger for errors only: commands report the rest themselves."""
    from wasm_kernel.sessions.log import SandboxLogger

    return SandboxLogger(level="error")
