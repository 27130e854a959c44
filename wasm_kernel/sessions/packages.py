"""A session's own packages: install, list, uninstall. The host fetches them; the guest sees them read-only."""

from __future__ import annotations

import errno
import functools
import json
import threading
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from importlib.metadata import Distribution
from pathlib import Path, PurePosixPath

from packaging.requirements import Requirement

from wasm_kernel.errors import NotAllowed, PackageError, SandboxError
from wasm_kernel.host import administrator
from wasm_kernel.host.disk import installer, packages
from wasm_kernel.host.image import image
from wasm_kernel.host.runtime.sandbox import Sandbox
from wasm_kernel.model.packages import (
    Package,
    PackageChange,
    applies,
    key_of,
    notes_on,
    parse_requirement,
    plain,
)
from wasm_kernel.model.policy import ExecutionPolicy
from wasm_kernel.model.records import check_session_id
from wasm_kernel.model.units import format_size
from wasm_kernel.sessions.log import SandboxLogger
from wasm_kernel.sessions.sandboxes import DEFAULT_WORKSPACE, ready_image

_MOST_BYTES = 1 << 30  # of one set, and of all that is written while it is made
_COMPILE_SECONDS = 1.0
# Runs in a throwaway guest that has the new set as /app. Large packages have more modules than anybody imports, so it
# starts at the top level and stops when its time is up. Bytecode is not checked against its source: sets never change.
_COMPILE = """
import json, os, py_compile, time
end = time.monotonic() + SECONDS
mode = py_compile.PycInvalidationMode.UNCHECKED_HASH
for path in json.loads(PATHS):
    folder, name = os.path.split(path)
    try:
        if time.monotonic() < end:
            target = os.path.join(folder, "__pycache__", name[:-3] + ".cpython-315.pyc")
            py_compile.compile(path, target, doraise=True, invalidation_mode=mode)
    except Exception:
        pass  # a template, or for another Python
"""

OnProgress = Callable[[str], None]


def install_packages(
    session_id: str,
    requirements: list[str],
    workspace_root: Path | str | None = None,
    *,
    on_progress: OnProgress | None = None,
    upgrade: bool = False,
    cancel: threading.Event | None = None,
    logger: SandboxLogger | None = None,
) -> PackageChange:
    """Install packages, and what they need, for one session: all of them or, with a `PackageError`, none.

    Only pure-Python wheels, from the registry that the user's uv or pip is configured for. A running guest sees them
    at its next turn; modules it has already imported stay as they are.

    Args:
        session_id: The session, in use or not.
        requirements: Names with extras, versions and markers, as in PEP 508; no options, URLs or paths.
        workspace_root: Where the session is.
        on_progress: Called on this thread with short lines for a person.
        upgrade: Take newer versions of these packages, if there are any.
        cancel: Set it, from any thread, to stop; then nothing is changed.
        logger: Where events go.
    """
    rules = administrator.rules()
    if not rules.pip:
        raise NotAllowed(f"the administrator does not allow installing packages here ({rules.sources['pip']})")
    tell = on_progress or (lambda line: None)
    root = _root(session_id, workspace_root)
    wanted = [r for r in map(parse_requirement, requirements) if applies(r)]
    built_in = built_in_packages()
    ours, present = _beyond(wanted, built_in)
    with _changing(root, session_id, tell, cancel) as change:
        before = _packages(change.old)
        earlier = {key_of(parse_requirement(text).name): text for text in packages.requested(change.old)}
        if not upgrade:
            there = [r for r in ours if _satisfied(r, before, earlier)]
            ours = [r for r in ours if r not in there]
            present += [before[key_of(r.name)] for r in there]
        if not ours:
            return PackageChange(present=present)
        now = {**earlier, **{key_of(r.name): plain(r) for r in ours}}
        tell(f"Looking for {', '.join(plain(r) for r in ours)}")
        _fetch(change, ours, now, before, built_in, tell, cancel)
        fresh = change.share_with_old()
        size, odd = packages.measure(change.new)
        if odd:
            raise PackageError("installer", f"a package holds {odd!r}, which is neither a file nor a folder")
        if size > _MOST_BYTES:
            limit = format_size(_MOST_BYTES)
            raise PackageError("disk", f"the session's packages would take {format_size(size)}; the limit is {limit}")
        _byte_compile(change.new, [path for path in fresh if path.endswith(".py")], tell, cancel)
        if cancel is not None and cancel.is_set():
            raise PackageError("cancelled", "the installation was cancelled; nothing was changed")
        after = _packages(change.put_in_use(list(now.values())))
    done = _difference(before, after, present)
    (logger or SandboxLogger()).info(
        "session.packages.installed", session_id=session_id, packages=[str(p) for p in done.added]
    )
    return done


def uninstall_packages(
    session_id: str,
    names: list[str],
    workspace_root: Path | str | None = None,
    *,
    on_progress: OnProgress | None = None,
    cancel: threading.Event | None = None,
    logger: SandboxLogger | None = None,
) -> PackageChange:
    """Remove packages from a session; their dependencies stay. `PackageError` if one is not the session's own."""
    root = _root(session_id, workspace_root)
    keys = [key_of(parse_requirement(name).name) for name in names]
    built_in = built_in_packages()
    with _changing(root, session_id, on_progress or (lambda line: None), cancel) as change:
        before = _packages(change.old)
        for name, key in zip(names, keys, strict=True):
            if key not in before:
                why = "is part of the sandbox and cannot be removed" if key in built_in else "is not installed"
                raise PackageError("unknown", f"{name} {why}")
        doomed = [d for d in packages.installed(change.old) if key_of(d.metadata["Name"]) in keys]
        change.copy_old(but={path for distribution in doomed for path in _paths(distribution)})
        earlier = {key_of(parse_requirement(text).name): text for text in packages.requested(change.old)}
        after = _packages(change.put_in_use([text for key, text in earlier.items() if key not in keys]))
    done = _difference(before, after, [])
    (logger or SandboxLogger()).info(
        "session.packages.removed", session_id=session_id, packages=[str(p) for p in done.removed]
    )
    return done


def list_packages(session_id: str, workspace_root: Path | str | None = None) -> list[Package]:
    """Every package a session can import: the image's and its own, by name."""
    root = _root(session_id, workspace_root)
    if not (root / session_id).is_dir():
        raise FileNotFoundError(f"there is no session {session_id} in {root}")
    own = _packages(packages.set_in_use(root, session_id))
    return sorted([*built_in_packages().values(), *own.values()], key=lambda p: key_of(p.name))


@functools.cache
def built_in_packages() -> dict[str, Package]:
    """The image's packages, by normalised name."""
    parts = ready_image().parts
    folders = [image.library_packages(parts), parts.site.path / "site"]
    found = [d for folder in folders for d in packages.installed(folder)]
    return {key_of(d.metadata["Name"]): Package(d.metadata["Name"], d.version, built_in=True) for d in found}


def _root(session_id: str, workspace_root: Path | str | None) -> Path:
    check_session_id(session_id)
    return Path(workspace_root if workspace_root is not None else DEFAULT_WORKSPACE).absolute()


@contextmanager
def _changing(
    root: Path, session_id: str, tell: OnProgress, cancel: threading.Event | None
) -> Iterator[packages.StagedPackages]:
    """`packages.changing`, with system errors turned into readable ones."""
    if not root.is_dir():
        raise FileNotFoundError(f"there is no session {session_id} in {root}")
    try:
        with packages.changing(
            root, session_id, cancel, lambda: tell("Waiting for another installation to end")
        ) as change:
            yield change
    except InterruptedError:
        raise PackageError("cancelled", "the installation was cancelled; nothing was changed") from None
    except OSError as e:
        if e.errno in (errno.ENOSPC, errno.EDQUOT):
            raise PackageError("disk", "the disk is full; free some space and install again") from None
        raise


def _beyond(wanted: list[Requirement], built_in: dict[str, Package]) -> tuple[list[Requirement], list[Package]]:
    """Split into what the image lacks and what it has. `PackageError` for another version of something it has."""
    ours, present = [], []
    for requirement in wanted:
        there = built_in.get(key_of(requirement.name))
        if there is None:
            ours.append(requirement)
            continue
        if not requirement.specifier.contains(there.version, prereleases=True):
            raise PackageError(
                "conflict", f"{there} is part of the sandbox and cannot be replaced by {plain(requirement)}"
            )
        present.append(there)
    return ours, present


def _satisfied(requirement: Requirement, before: dict[str, Package], earlier: dict[str, str]) -> bool:
    key = key_of(requirement.name)
    there = before.get(key)
    if there is None or not requirement.specifier.contains(there.version, prereleases=True):
        return False
    return not requirement.extras or requirement.extras <= parse_requirement(earlier.get(key, key)).extras


def _fetch(
    change: packages.StagedPackages,
    ours: list[Requirement],
    now: dict[str, str],
    before: dict[str, Package],
    built_in: dict[str, Package],
    tell: OnProgress,
    cancel: threading.Event | None,
) -> None:
    """Fetch the whole new set: installed packages keep their versions, unless a new one needs another."""
    named = {key_of(r.name) for r in ours}
    pins = [f"{p.name}=={p.version}" for key, p in before.items() if key not in named]
    for attempt, held in enumerate([pins, []] if pins else [[]]):
        work = change.work / str(attempt)
        work.mkdir()
        try:
            installer.fetch(
                list(now.values()), held, built_in.values(), change.new, work,
                asked=[r.name for r in ours], most_bytes=_MOST_BYTES, on_line=tell, cancel=cancel,
            )  # fmt: skip
            return
        except PackageError as e:
            if not held or e.cause not in ("conflict", "compiled"):
                raise


def _byte_compile(folder: Path, paths: list[str], tell: OnProgress, cancel: threading.Event | None) -> None:
    """Compile new modules with the guest's own Python. Best effort: without it, every import compiles again."""
    if not paths:
        return
    tell("Compiling for the sandbox")
    limits = ExecutionPolicy(timeout_seconds=20 * _COMPILE_SECONDS, interrupt_grace_seconds=1)
    order = json.dumps(sorted(paths, key=lambda path: path.count("/")))
    code = f"SECONDS, PATHS = {_COMPILE_SECONDS}, {order!r}\n{_COMPILE}"
    with closing(Sandbox(ready_image(), folder, limits)) as guest:
        ended = threading.Event()

        def watch() -> None:
            while cancel is not None and not ended.wait(0.1):
                if cancel.is_set():
                    guest.interrupt()

        watcher = threading.Thread(target=watch, daemon=True)
        watcher.start()
        try:
            guest.execute(code)
        except SandboxError:
            pass
        finally:
            ended.set()
            watcher.join()


def _packages(folder: Path | None) -> dict[str, Package]:
    """The packages of a set, by normalised name."""
    asked = {key_of(parse_requirement(text).name) for text in packages.requested(folder)}
    return {
        key_of(d.metadata["Name"]): Package(
            d.metadata["Name"], d.version, requested=key_of(d.metadata["Name"]) in asked
        )
        for d in packages.installed(folder)
    }  # fmt: skip


def _paths(distribution: Distribution) -> Iterator[str]:
    """The files of a distribution, as paths below its set, with their bytecode."""
    for file in distribution.files or []:
        path = PurePosixPath(str(file))
        yield str(path)
        if path.suffix == ".py":
            yield str(path.parent / "__pycache__" / f"{path.stem}.cpython-315.pyc")


def _difference(before: dict[str, Package], after: dict[str, Package], present: list[Package]) -> PackageChange:
    added = [p for key, p in after.items() if key not in before]
    changed = [(before[k], p) for k, p in after.items() if k in before and before[k].version != p.version]
    notes = notes_on([p for p in [*added, *(new for _, new in changed)] if p.requested])
    if changed:
        notes.append("Modules already imported stay at their old version until the kernel is restarted")
    removed = [p for key, p in before.items() if key not in after]
    return PackageChange(added, changed, removed, present, notes)
