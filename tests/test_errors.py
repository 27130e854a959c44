"""The tree of errors: what is drawn is what there is, and nothing that a caller may see is missing from it."""

from __future__ import annotations

import ast
import builtins
import inspect
import re
from pathlib import Path

import wasm_kernel
from wasm_kernel import errors

PACKAGE = Path(wasm_kernel.__file__).parent
LINE = re.compile(
    r"^    (?P<indent>(?:│   |    )*)(?P<branch>[├└]── )?(?P<name>\w+)(?: \(also (?P<also>\w+)\))?(?:  +\S|$)"
)

# Never seen by a caller: they do not leave the layer that raises them.
INSIDE = {
    "BadAnswer": "the hub's service makes a problem of it",
    "BadConnectionFile": "the kernel's program ends with it",
    "BadFrame": "of the wire: the guest is told, or ends",
    "BadModule": "the build of the image ends with what is wrong with the runtime",
    "BadNumber": "the same: a number in the runtime",
    "UnusableMemory": "the memory is read from the store instead",
    "BadRequest": "the side panel's answer",
    "UnfitKernels": "the build turns it into ImageError",
    "BadPack": "the store makes a DamagedChunk of it",
    "BadRecord": "a session is listed with damaged metadata",
    "Fault": "of a connection: the guest raises it as Python has it",
    "ForeignRecord": "the same, with metadata of another session",
    "LaterRecord": "the same, with metadata of a later version; a repair makes it a ConfigurationError",
    "BuildFailed": "a cell ends with it",
    "CutOff": "a NotDone",
    "HubUnavailable": "the hub's service tells the operator",
    "Missing": "the hub's worker answers so",
    "NewerManifest": "a BadManifest",
    "NotCore": "the seal refuses a widget",
    "NotDone": "the hub's service makes a problem of it",
    "NotShown": "the file browser shows the text",
    "NotThat": "the file browser tries another way",
    "_Enough": "workbook_preview.py: all that is shown has been read",
    "NotThere": "the command line ends with exit code 3",
    "Problem": "the server's answer",
    "RangeNotSatisfiable": "the server's answer",
    "Refused": "the hub's worker answers so",
    "Stop": "ends a guest's call",
    "TooComplicated": "the seal shows text instead",
    "TooMuch": "the guest is told",
    "ZipTooLarge": "the server's answer, or a line in the file browser",
    "Trapped": "becomes an outcome",
    "_BadLog": "the log of cells ends there",
    "_Unreadable": "the seal leaves a style out",
}


def drawn() -> dict[str, tuple[str, str]]:
    """The classes in the docstring's tree: name to what is above it, and what else it is."""
    found: dict[str, tuple[str, str]] = {}
    above: list[str] = []
    assert errors.__doc__ is not None
    for line in errors.__doc__.splitlines():
        match = LINE.match(line)
        if match and (match["branch"] or match["name"] == "WasmKernelError"):
            depth = len(match["indent"]) // 4 + bool(match["branch"])
            del above[depth:]
            found[match["name"]] = (above[-1] if above else "Exception", match["also"] or "")
            above.append(match["name"])
    return found


def exceptions_by_module() -> dict[str, list[str]]:
    """Every class of the host's code that is an exception, and where it is defined."""
    classes: dict[str, list[tuple[str, set[str]]]] = {}
    for path in PACKAGE.rglob("*.py"):
        module = str(path.relative_to(PACKAGE))
        if module.startswith("guest/") and module != "guest/wire.py":
            continue  # runs in the guest
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ClassDef):
                bases = {ast.unparse(base).rpartition(".")[2] for base in node.bases}
                classes.setdefault(node.name, []).append((module, bases))
    known = {
        name for name, value in vars(builtins).items() if isinstance(value, type) and issubclass(value, BaseException)
    }
    known.add("HTTPError")  # tornado's
    while True:
        more = {name for name, places in classes.items() if any(bases & known for _, bases in places)} - known
        if not more:
            return {name: [module for module, _ in places] for name, places in classes.items() if name in known}
        known |= more


def test_the_tree_drawn_is_the_tree_there_is() -> None:
    there = {
        name: (value.__bases__[0].__name__, value.__bases__[1].__name__ if len(value.__bases__) > 1 else "")
        for name, value in vars(errors).items()
        if inspect.isclass(value) and value.__module__ == errors.__name__
    }
    assert drawn() == there


def test_everything_else_stays_inside() -> None:
    outside = {name for name, modules in exceptions_by_module().items() if modules != ["errors.py"]}
    assert outside == set(INSIDE), "put it into errors.py and its tree, or say here why no caller sees it"


def test_every_public_error_is_in_the_tree() -> None:
    classes = {name: getattr(wasm_kernel, name) for name in wasm_kernel.__all__}
    public = {name for name, value in classes.items() if inspect.isclass(value) and issubclass(value, BaseException)}
    assert public <= drawn().keys()
    assert "PathRefused" in public
    for name in public:
        assert wasm_kernel._LATER[name] == "errors"
        assert issubclass(getattr(wasm_kernel, name), errors.WasmKernelError)
        assert getattr(errors, name).__doc__


def test_those_that_also_are_something_else_are_caught_as_that() -> None:
    assert issubclass(errors.PathRefused, ValueError)
    assert issubclass(errors.MountInside, OSError)
    assert issubclass(errors.WorkspaceRootMissing, FileNotFoundError)
