"""The library against a dictionary: whatever is done in whatever order, the files are what they should be."""

from __future__ import annotations

import json
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    Bundle,
    RuleBasedStateMachine,
    consumes,
    initialize,
    invariant,
    multiple,
    precondition,
    rule,
)

from tests.sessions.helpers import leftovers, metadata, set_age, tree, tree_bytes
from wasm_kernel import (
    BaseSandbox,
    PathRefused,
    RetentionPolicy,
    SandboxLogger,
    SessionLocked,
    delete_session_path,
    delete_session_workspace,
    export_session,
    get_session_sandbox,
    import_session,
    list_session_files,
    prune_sessions,
    read_session_file,
    write_session_file,
)
from wasm_kernel.host.disk.locks import SessionLock, is_live, lock_session
from wasm_kernel.model.names import STATE_FOLDER
from wasm_kernel.sessions.catalog import create_session_folder

QUIET = SandboxLogger(level="error")
paths = st.sampled_from(["a", "b", "d", "d/x", "d/e", "d/e/y", "d/e/z", "ü 🙂"])
contents = st.binary(max_size=40)


@dataclass
class Model:
    """What a session should be."""

    files: dict[str, bytes | None] = field(default_factory=dict)  # None: a folder
    hours: float = 0.0
    state: str = "dated"  # or legacy, corrupted
    executions: int = 0
    lock: SessionLock | None = None
    sandbox: BaseSandbox | None = None

    @property
    def live(self) -> bool:
        return self.lock is not None or self.sandbox is not None


def above(path: str) -> list[str]:
    parts = path.split("/")
    return ["/".join(parts[:n]) for n in range(1, len(parts))]


@contextmanager
def raises_if(error: type[Exception] | tuple[type[Exception], ...] | None) -> Iterator[None]:
    if error is None:
        yield
    else:
        with pytest.raises(error):
            yield


class Sessions(RuleBasedStateMachine):
    """Rules over a few sessions; at most two are executed in."""

    ids = Bundle("ids")

    def __init__(self) -> None:
        super().__init__()
        self.top = Path(tempfile.mkdtemp(prefix="wasm-kernel-machine-"))
        self.root = self.top / "root"
        self.model: dict[str, Model] = {}

    @initialize()
    def begin(self) -> None:
        self.root.mkdir()

    def teardown(self) -> None:
        for model in self.model.values():
            if model.sandbox is not None:
                model.sandbox.close()
            if model.lock is not None:
                model.lock.release()
        shutil.rmtree(self.top)

    # ---- sessions

    @rule(target=ids)
    def create(self) -> str:
        session_id, folder, lock = create_session_folder(self.root, QUIET)
        lock.release()
        assert folder == self.root / session_id
        assert session_id not in self.model
        self.model[session_id] = Model()
        return session_id

    @rule(session_id=consumes(ids))
    def delete(self, session_id: str) -> None:
        model = self.model.get(session_id)
        if model is not None and model.lock is not None:
            with pytest.raises(SessionLocked):
                delete_session_workspace(session_id, self.root)
            model.lock.release()
        delete_session_workspace(session_id, self.root)  # closes a sandbox; does nothing when it is gone
        self.model.pop(session_id, None)

    @rule(session_id=ids, hours=st.integers(0, 100))
    def grow_older(self, session_id: str, hours: int) -> None:
        model = self.model.get(session_id)
        if model is not None and model.state == "dated":
            model.hours = hours
            set_age(self.root, session_id, hours)

    @rule(session_id=ids, state=st.sampled_from(["legacy", "corrupted"]))
    def lose_metadata(self, session_id: str, state: str) -> None:
        model = self.model.get(session_id)
        if model is not None and model.state == "dated":
            path = self.root / session_id / ".metadata.json"
            if state == "legacy":
                path.unlink()
            else:
                path.write_bytes(b"{")
            model.state = state

    @rule(session_id=ids)
    def lock_or_release(self, session_id: str) -> None:
        model = self.model.get(session_id)
        if model is None or model.sandbox is not None:
            return
        if model.lock is None:
            model.lock = lock_session(self.root, session_id)
        else:
            model.lock.release()
            model.lock = None

    # ---- files

    @rule(session_id=ids, path=paths, data=contents, overwrite=st.booleans())
    def write(self, session_id: str, path: str, data: bytes, overwrite: bool) -> None:
        model = self.model.get(session_id)
        error: type[Exception] | None = None
        if model is None:
            error = FileNotFoundError
        elif any(model.files.get(parent, b"") is not None and parent in model.files for parent in above(path)):
            error = NotADirectoryError
        elif path in model.files and model.files[path] is None:
            error = PathRefused
        elif path in model.files and not overwrite:
            error = FileExistsError
        with raises_if(error):
            assert write_session_file(session_id, path, data, self.root, overwrite=overwrite) == len(data)
        if error is None and model is not None:
            for parent in above(path):
                model.files[parent] = None
            model.files[path] = data
        elif error is NotADirectoryError and model is not None:
            for parent in above(path):  # those above the file in the way were made
                if model.files.get(parent, None) is not None:
                    break
                model.files[parent] = None

    @rule(session_id=ids, path=paths)
    def read(self, session_id: str, path: str) -> None:
        model = self.model.get(session_id)
        data = None if model is None else model.files.get(path)
        if data is not None:
            assert read_session_file(session_id, path, self.root) == data
        else:
            with pytest.raises((FileNotFoundError, NotADirectoryError, PathRefused)):
                read_session_file(session_id, path, self.root)

    @rule(session_id=ids, path=paths, recursive=st.booleans())
    def delete_path(self, session_id: str, path: str, recursive: bool) -> None:
        model = self.model.get(session_id)
        if model is None or path not in model.files:
            with pytest.raises((FileNotFoundError, NotADirectoryError)):
                delete_session_path(session_id, path, self.root, recursive=recursive)
            return
        below = [name for name in model.files if name.startswith(f"{path}/")]
        if below and not recursive:
            with pytest.raises(OSError, match="recursive"):
                delete_session_path(session_id, path, self.root)
            return
        delete_session_path(session_id, path, self.root, recursive=recursive)
        for name in (path, *below):
            del model.files[name]

    @rule(session_id=ids, bad=st.sampled_from(["../x", "/etc/passwd", "d/../../x", ".metadata.json", "a\0", ""]))
    def misuse(self, session_id: str, bad: str) -> None:
        for act in (read_session_file, delete_session_path):
            with pytest.raises((PathRefused, FileNotFoundError)):
                act(session_id, bad, self.root, logger=QUIET)
        with pytest.raises((PathRefused, FileNotFoundError)):
            write_session_file(session_id, bad, b"x", self.root, logger=QUIET)

    # ---- pruning and archives

    @rule(
        hours=st.none() | st.integers(0, 100),
        most=st.none() | st.integers(0, 4),
        size=st.none() | st.integers(0, 2000),
        deletions=st.none() | st.integers(0, 2),
    )
    def prune(self, hours: int | None, most: int | None, size: int | None, deletions: int | None) -> None:
        policy = RetentionPolicy(max_age_hours=hours, max_sessions=most, max_total_bytes=size)
        dated = {i: m for i, m in self.model.items() if m.state == "dated"}
        sizes = {i: tree_bytes(self.root / i) for i in dated}
        count, total = len(dated), sum(sizes.values())
        expected: list[str] = []
        updated = {i: metadata(self.root, i)["updated_at"] for i in dated}
        for session_id in sorted(dated, key=lambda i: (updated[i], i)):
            model = dated[session_id]
            goes = (
                (hours is not None and model.hours >= hours)
                or (most is not None and count > most)
                or (size is not None and total > size)
            )
            if goes and not model.live and (deletions is None or len(expected) < deletions):
                expected.append(session_id)
                count, total = count - 1, total - sizes[session_id]
        dry = prune_sessions(
            workspace_root=self.root, policy=policy, max_deletions=deletions, dry_run=True, logger=QUIET
        )
        result = prune_sessions(workspace_root=self.root, policy=policy, max_deletions=deletions, logger=QUIET)
        assert result.deleted_sessions == dry.deleted_sessions == expected
        assert result.reclaimed_bytes == dry.reclaimed_bytes == sum(sizes[i] for i in expected)
        assert result.live_sessions == dry.live_sessions
        assert set(result.live_sessions) <= {i for i, m in self.model.items() if m.live}
        assert result.errors == {}
        assert set(result.skipped_sessions) == {i for i, m in self.model.items() if m.state != "dated"}
        for session_id in expected:
            del self.model[session_id]
        assert leftovers(self.root) == []

    @rule(target=ids, session_id=ids, suffix=st.sampled_from(["zip", "tar.zst"]))
    def export_and_import(self, session_id: str, suffix: str) -> object:
        target = self.top / f"archive.{suffix}"
        model = self.model.get(session_id)
        if model is None:
            with pytest.raises(FileNotFoundError):
                export_session(session_id, target, self.root)
            return multiple()
        new_id = import_session(export_session(session_id, target, self.root), self.root)
        assert new_id not in self.model
        self.model[new_id] = Model(dict(model.files), executions=model.executions if model.state == "dated" else 0)
        return new_id

    # ---- guests

    @precondition(lambda self: sum(m.executions for m in self.model.values()) < 4)
    @rule(session_id=ids, data=st.text("abc", max_size=5))
    def execute(self, session_id: str, data: str) -> None:
        model = self.model.get(session_id)
        if model is None or model.state == "corrupted":
            return
        if model.lock is not None:
            with pytest.raises(SessionLocked):
                get_session_sandbox(session_id, workspace_root=self.root)
            return
        if model.sandbox is None:
            model.sandbox = get_session_sandbox(session_id, workspace_root=self.root)
        files = "{p for b, _, n in __import__('os').walk('.') for f in n if (p := b[2:] + '/' + f if b != '.' else f)}"
        result = model.sandbox.execute(f"print(sorted({files})); open('guest.txt', 'w').write({data!r})")
        assert result.success, result.error
        assert result.stdout == f"{sorted(n for n, d in model.files.items() if d is not None)}\n"
        assert result.files_modified == ["guest.txt"]
        model.files["guest.txt"] = data.encode()
        model.executions += 1
        if model.state == "dated":
            model.hours = 0

    @rule(session_id=ids)
    def close(self, session_id: str) -> None:
        model = self.model.get(session_id)
        if model is not None and model.sandbox is not None:
            model.sandbox.close()
            model.sandbox = None

    # ---- what always holds

    @invariant()
    def the_root_holds_what_the_model_says(self) -> None:
        if not self.root.is_dir():
            return
        assert {p.name for p in self.root.iterdir()} - {STATE_FOLDER} == set(self.model)
        for session_id, model in self.model.items():
            found = tree(self.root / session_id)
            said = found.pop(".metadata.json", None)
            assert found == model.files
            listed = list_session_files(session_id, self.root)
            assert listed == sorted(name for name, data in model.files.items() if data is not None)
            assert [f.size for f in listed] == [len(model.files[str(f)] or b"") for f in listed]
            assert is_live(self.root, session_id) == model.live
            if model.state == "legacy":
                assert said is None
            elif model.state == "corrupted":
                assert said == b"{"
            else:
                assert isinstance(said, bytes)
                assert json.loads(said)["session_id"] == session_id
                assert json.loads(said).get("execution_count", 0) == model.executions


TestSessions = Sessions.TestCase
TestSessions.settings = settings(
    max_examples=60,
    stateful_step_count=40,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
