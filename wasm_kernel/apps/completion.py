"""`wasm-kernel completion`: what can be typed next, found by walking the parser, and the lines a shell needs to ask."""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from wasm_kernel.apps.cli_output import one_line
from wasm_kernel.apps.cli_parser import DONE, add, root_of, session_ids, snapshot_ids

_BASH = """\
_wasm_kernel() {
    local IFS=$'\\n' line
    COMPREPLY=()
    for line in $(wasm-kernel completion words "${COMP_WORDS[@]:1:COMP_CWORD}" 2>/dev/null); do
        COMPREPLY+=("${line%%$'\\t'*}")
    done
}
complete -o bashdefault -o default -F _wasm_kernel wasm-kernel
"""
_ZSH = """\
#compdef wasm-kernel
_wasm_kernel() {
    local -a found
    found=("${(@f)$(wasm-kernel completion words "${(@)words[2,CURRENT]}" 2>/dev/null)}")
    if [[ -n "${found[*]}" ]]; then
        found=("${(@)found//:/\\\\:}")
        found=("${(@)found/$'\\t'/:}")
        _describe 'wasm-kernel' found
    else
        _files
    fi
}
if [[ "${funcstack[1]}" == _wasm_kernel ]]; then _wasm_kernel "$@"; else compdef _wasm_kernel wasm-kernel; fi
"""
_FISH = """\
function __wasm_kernel_complete
    set -l before (commandline -opc)
    set -l last (commandline -ct)
    set -l found (wasm-kernel completion words $before[2..] "$last" 2>/dev/null)
    if test (count $found) -gt 0
        printf '%s\\n' $found
    else
        __fish_complete_path "$last"
    end
end
complete -c wasm-kernel -f -a '(__wasm_kernel_complete)'
"""
SCRIPTS = {"bash": _BASH, "zsh": _ZSH, "fish": _FISH}
_DESCRIBED = 200  # with more sessions than this, their names are not looked up


def register(commands: Any) -> None:
    """Add the command to a parser."""
    made = add(
        commands,
        "completion",
        completion_command,
        "Print a shell script that completes commands and ids.",
        examples="bash: wasm-kernel completion bash >> ~/.bashrc\n"
        'zsh:  wasm-kernel completion zsh > "${fpath[1]}/_wasm-kernel"\n'
        "fish: wasm-kernel completion fish >> ~/.config/fish/config.fish",
    )
    made.add_argument("shell", choices=tuple(SCRIPTS))


def completion_command(options: argparse.Namespace) -> int:
    """Print a shell's completion script."""
    print(SCRIPTS[options.shell], end="")
    return DONE


def show_words(parser: argparse.ArgumentParser, words: Sequence[str]) -> int:
    """Print completions of the last word, one per line, a tab before the description. None: a file, or nothing."""
    for word, meaning in candidates(parser, words):
        print(f"{word}\t{one_line(meaning)}" if meaning else word)
    return DONE


def candidates(parser: argparse.ArgumentParser, words: Sequence[str]) -> list[tuple[str, str]]:
    """Completions of the last word, each with its description."""
    *before, last = [word for word in words if word != "="] or [""]  # bash splits --option=value at the =
    here, option, given = parser, None, 0
    for word in before:
        if option is not None and not word.startswith("-"):
            option = option if option.nargs == "+" else None
            continue
        option = None
        known, commands = here._option_string_actions.get(word), _commands(here)
        if known is not None:
            option = known if known.nargs != 0 else None
        elif commands is not None and word in commands.choices:
            here, given = commands.choices[word], 0
        elif not word.startswith("-"):
            given += 1
    return [pair for pair in _offered(here, option, given, before, last) if pair[0].startswith(last)]


def _offered(
    here: argparse.ArgumentParser, option: argparse.Action | None, given: int, before: list[str], last: str
) -> Iterator[tuple[str, str]]:
    commands = _commands(here)
    if option is not None and not (option.nargs == "+" and last.startswith("-")):
        yield from _values(option, before)
    elif last.startswith("-"):
        for name, action in here._option_string_actions.items():
            if name.startswith("--") and name not in before:
                yield name, (action.help or "").replace("%%", "%")
    elif commands is not None:
        for choice in commands._choices_actions:
            yield choice.dest, choice.help or ""
    else:
        places = [action for action in here._actions if not action.option_strings]
        if places and (given < len(places) or places[-1].nargs == "+"):
            yield from _values(places[min(given, len(places) - 1)], before)


def _commands(parser: argparse.ArgumentParser) -> Any:
    return next((action for action in parser._actions if isinstance(action, argparse._SubParsersAction)), None)


def _values(action: argparse.Action, before: list[str]) -> Iterator[tuple[str, str]]:
    if action.choices is not None:
        yield from ((str(choice), "") for choice in action.choices)
    elif action.metavar in ("SESSION", "SNAPSHOT"):
        named = [word for flag, word in zip(before, before[1:], strict=False) if flag == "--workspace-root"]
        root = root_of(argparse.Namespace(workspace_root=named[-1] if named else None))
        if action.metavar == "SNAPSHOT":
            yield from ((name, f"of session {group}") for name, group in snapshot_ids(root).items())
        else:
            ids = session_ids(root)
            yield from ((name, _called(root / name) if len(ids) <= _DESCRIBED else "") for name in sorted(ids))


def _called(folder: Path) -> str:
    from wasm_kernel.host.disk.records import read_record

    try:
        record = read_record(folder)
    except (ValueError, OSError):
        return ""
    extra = record.extra if record is not None else {}
    return str(extra.get("title") or Path(str(extra.get("notebook") or "")).name)[:60]
