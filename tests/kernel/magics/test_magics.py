"""The host's magics with a kernel that only pretends: how words are read, what is refused, what asks first."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.sessions.helpers import make_session
from wasm_kernel.errors import ConfigurationError, NotGranted, WasmKernelError
from wasm_kernel.host.files.quota import Quota
from wasm_kernel.host.network.guest_network import GuestNetwork
from wasm_kernel.kernel.cells import MagicInCell
from wasm_kernel.kernel.magics.answers import Answer
from wasm_kernel.kernel.magics.magics import SUBCOMMANDS, Magics
from wasm_kernel.kernel.magics.network_access import NetworkAccess
from wasm_kernel.model.outcome import Outcome, OutcomeKind, SandboxResult
from wasm_kernel.model.policy import ExecutionPolicy
from wasm_kernel.sessions.log import SandboxLogger


class Pretended:
    """A kernel, as far as its magics know it."""

    def __init__(self, root: Path, *, grants: bool = True) -> None:
        self.grants, self.asked = grants, list[str]()
        self.allow_pip = self.outputs_trusted = False
        self.root, here = root, make_session(root)
        quota = Quota(0, 1 << 30, 0, 100, 1 << 20)
        network = GuestNetwork(lambda: self.sandbox.policy)
        self.sandbox = SimpleNamespace(
            policy=ExecutionPolicy(), base_bytes=1 << 20, quota=lambda: quota, network=network
        )
        live = SimpleNamespace(
            session_id=here,
            folder=root / here,
            root=root,
            sandbox=self.sandbox,
            change_policy=self._change,
            on_older_image=False,
            note=lambda **extra: None,
        )
        place = SimpleNamespace(
            root=root, maxima={"memory": 4 << 30}, policy=ExecutionPolicy(), notebook=None, environ={},
            logger=SandboxLogger(level="error"), folder=root.parent, follow=lambda live: None, check_other=lambda session_id, live: None,
            remote=None,
        )  # fmt: skip
        self.runtime = SimpleNamespace(
            live=live,
            last_result=None,
            count=1,
            sandbox=self.sandbox,
            metadata=SimpleNamespace(write=lambda: None),
            guest=asyncio.Lock(),
        )
        self.current = SimpleNamespace(place=place, runtime=self.runtime)
        self.granted = SimpleNamespace(given=dict)
        self.data_folder = SimpleNamespace(shown=None, described="nothing", find=lambda name: root)
        self.network_access = NetworkAccess(place.logger)
        self.network_access.moved_in(self.runtime)  # type: ignore[arg-type]
        self.here = here

    def _change(self, policy: ExecutionPolicy) -> None:
        self.sandbox.policy = policy

    async def ready(self, parent: Any) -> Any:
        return self.runtime

    async def require(self, grant: str, what: str, details: Sequence[str] = ()) -> None:
        self.asked.append(grant)
        if not self.grants:
            raise NotGranted("refused; nothing was done")

    async def ask_secret(self, prompt: str) -> str:
        self.asked.append("secret")
        return "typed"


@pytest.fixture
def host(tmp_path: Path) -> Pretended:
    return Pretended(tmp_path)


def do(host: Any, line: str, name: str = "session", *, used: bool = False) -> Answer:
    async def run() -> Answer:
        magic = MagicInCell(name, line, shown=True, used=used)
        answer = await Magics(host).do(magic, {}, threading.Event())
        after: Callable[[], Awaitable[Answer]] | None = answer.afterwards
        return answer if after is None else await after()

    return asyncio.run(run())


def test_without_a_word_it_is_info(host: Pretended) -> None:
    assert do(host, "").data["session_id"] == do(host, "info").data["session_id"] == host.here


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ("inof", "there is no %session inof; did you mean info? %session help lists the commands"),
        ("undi", "there is no %session undi; did you mean undo?"),
        ("zzz", "there is no %session zzz; the commands are add, allow, attach, "),
        ("allow a..b", "'a..b' is no host"),
        ("deny a.org", "a.org was not allowed"),
        ("help me", "%session help does not take 'me'"),
        ("info now", "%session info"),
        ("limits memory", "'memory' is not a limit; write NAME=VALUE"),
        ("limits speed=1", "there is no limit 'speed'"),
        ("limits memory=lots", "lots"),
        ("limits memory=8G", "4"),
        ("watch maybe", "write on or off"),
        ("rename", "the name is missing"),
        ("attach", "%session attach ID"),
        ("download", "give files in /app"),
        ("download --all x", "give files in /app"),
        ("export /etc/x.zip", "not a plain file name"),
        ("export .x.zip", "not a plain file name"),
        ("undo 0", "the number of cells to undo"),
        ("undo all", "the number of cells to undo"),
        ("diff", "give one snapshot"),
        ("trust", "write on or off"),
        ("revoke everything", "there is no grant 'everything'"),
        ("'half a quote", "half a quote"),
    ],
)
def test_what_is_wrong_is_said(host: Pretended, line: str, says: str) -> None:
    with pytest.raises(ConfigurationError) as error:
        do(host, line)
    assert says in str(error.value)
    assert not host.asked, "nobody is asked about what cannot be done"


@given(line=st.text(max_size=60))
def test_whatever_is_written_ends_in_an_answer_or_an_error_of_ours(
    tmp_path_factory: pytest.TempPathFactory, line: str
) -> None:
    if line.split()[:1] in (["undo"], ["redo"], ["log"], ["new"]):
        return  # these need a guest
    host = Pretended(tmp_path_factory.mktemp("any"), grants=False)
    before = sorted(p.name for p in host.root.iterdir())
    try:
        do(host, line)
    except WasmKernelError:
        pass
    assert sorted(p.name for p in host.root.iterdir()) == before


def test_limits_are_changed_within_the_maxima(host: Pretended) -> None:
    assert do(host, "limits memory=3G timeout=5").data["memory"] == 3 << 30
    assert host.sandbox.policy.timeout_seconds == 5
    assert host.current.place.policy.memory_bytes == 3 << 30, "also after a restart of the guest"


def test_deleting_another_session_says_what_and_asks(host: Pretended) -> None:
    other = make_session(host.root)
    assert "To do it" in do(host, f"delete {other}").text and not host.asked
    host.grants = False
    with pytest.raises(NotGranted):
        do(host, f"delete {other} --yes")
    assert host.asked == ["delete"] and (host.root / other).is_dir()
    host.grants = True
    do(host, f"delete {other} --yes")
    assert not (host.root / other).exists()


def test_names_of_sessions_go_to_code_only_with_a_grant(host: Pretended) -> None:
    assert do(host, "list").private and not host.asked
    do(host, "list", used=True)
    do(host, "--dry-run", "prune", used=True)
    assert host.asked == ["list", "list"]


def test_prune_without_a_bound_deletes_nothing(host: Pretended) -> None:
    make_session(host.root)
    assert "Say which to delete" in do(host, "--yes --dry-run", "prune").text
    assert do(host, "--yes", "prune").data["deleted"] == [] and not host.asked
    assert do(host, "--max-sessions 1 --yes", "prune").data["deleted"] and host.asked == ["prune"]
    assert (host.root / host.here).is_dir(), "never the session of now"


def test_pip_can_be_switched_off(host: Pretended) -> None:
    with pytest.raises(ConfigurationError, match="switched off"):
        do(host, "install cowsay", "pip")


def test_watched_files_are_shown_after_cells(host: Any) -> None:
    magics = Magics(host)
    result = SandboxResult(success=True, outcome=Outcome(OutcomeKind.OK), exit_code=0, files_created=["a"])
    assert not magics.after_cell(result).text
    asyncio.run(magics.do(MagicInCell("session", "watch on", shown=True), {}, threading.Event()))
    assert "a" in magics.after_cell(result).text


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("%session inf", ["info"]),
        ("x = %session lim", ["limits"]),
        ("1\n%session trust o", ["off", "on"]),
        ("%prune --old", ["--older-than"]),
        ("%pip ins", ["install"]),
        ("%session limits mem", ["memory="]),
    ],
)
def test_completion(host: Any, text: str, found: list[str]) -> None:
    reply = Magics(host).complete(text, len(text))
    assert reply is not None and reply["matches"] == found


def test_completion_is_for_our_magics_only(host: Any) -> None:
    for text in ("sess", "print('%session inf", "%timeit x", "session inf"):
        assert Magics(host).complete(text, len(text)) is None
    assert "undo" in SUBCOMMANDS["session"]
