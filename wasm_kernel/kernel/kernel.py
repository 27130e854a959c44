"""The kernel: cells to the sandbox, what they give out to the front ends.

The guest runs on the sandbox's own thread, so the main thread answers while a cell runs: completion (with nothing),
widgets of the host, history. Interrupts come on the control channel's thread.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
import time
from collections.abc import Awaitable, Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any

from traitlets import Bool, Dict, Float, Int, List, Unicode

from wasm_kernel import __version__
from wasm_kernel.errors import ImageMissing, Interrupted, SandboxError, WasmKernelError
from wasm_kernel.guest import wire
from wasm_kernel.host.capture import Notice
from wasm_kernel.host.ledger import state_folder
from wasm_kernel.host.sandbox import Sandbox
from wasm_kernel.kernel import cells
from wasm_kernel.kernel.channels import Channels
from wasm_kernel.kernel.grants import Grants, forbidden
from wasm_kernel.kernel.history import History
from wasm_kernel.kernel.home import Home
from wasm_kernel.kernel.messages import MessageLoop, error_content
from wasm_kernel.kernel.outputs import Outputs, without_private
from wasm_kernel.kernel.questions import Person, Questions
from wasm_kernel.kernel.room import SnapshotRoom
from wasm_kernel.kernel.seal import terminal
from wasm_kernel.kernel.streams import PAUSE
from wasm_kernel.model import limits
from wasm_kernel.model.outcome import Outcome, OutcomeKind, SandboxResult
from wasm_kernel.model.units import format_size
from wasm_kernel.sessions.session import LiveSession

if TYPE_CHECKING:
    from wasm_kernel.kernel.answers import Answer
    from wasm_kernel.kernel.commands import Commands
    from wasm_kernel.kernel.files.browser import Browsers
    from wasm_kernel.kernel.host_comms import HostComms
    from wasm_kernel.kernel.timeline import Timeline
    from wasm_kernel.model.snapshots import Manifest

Message = dict[str, Any]
_SOON = 0.5  # seconds
_ASK_EXIT = {"source": "ask_exit", "keepkernel": False}
_LEAVING = ("exit", "quit", "exit()", "quit()")  # consoles end with these
_END_PATIENCE = 2.0  # seconds a cell has to end when the kernel does
_FOLLOW_SECONDS = 60.0  # between questions to the server whether the notebook was renamed


@dataclass
class _Run:
    """One execute_request on its way."""

    parent: Message
    ident: Any
    code: str
    silent: bool
    allow_stdin: bool
    claims: cells.Claims = field(default_factory=cells.Claims)
    counts: bool = False
    number: int = 0
    afterwards: list[Callable[[], Awaitable[Answer]]] = field(default_factory=list)  # for when the guest is at rest
    cancelled: threading.Event = field(default_factory=threading.Event)

    @property
    def cell(self) -> cells.Cell:
        """What the host has read in its text."""
        return self.claims.cell


class WasmKernel(MessageLoop):
    """A kernel whose code runs sealed in WebAssembly."""

    implementation = "wasm_kernel"
    implementation_version = __version__
    banner = (
        f"wasm-kernel {__version__}: Python in a WebAssembly sandbox. Files live in /app. "
        "numpy's default integer is 32-bit here. Type %session? for help."
    )
    language_info = {
        "name": "python",
        "version": "3.15.0",
        "mimetype": "text/x-python",
        "codemirror_mode": {"name": "ipython", "version": 3},
        "pygments_lexer": "ipython3",
        "nbconvert_exporter": "python",
        "file_extension": ".py",
    }
    help_links = [
        {"text": "Python Reference", "url": "https://docs.python.org/3.15"},
        {"text": "IPython Reference", "url": "https://ipython.org/documentation.html"},
        {"text": "NumPy Reference", "url": "https://docs.scipy.org/doc/numpy/reference"},
        {"text": "SciPy Reference", "url": "https://docs.scipy.org/doc/scipy/reference"},
        {"text": "Matplotlib Reference", "url": "https://matplotlib.org/contents.html"},
        {"text": "pandas Reference", "url": "https://pandas.pydata.org/pandas-docs/stable"},
    ]

    workspace_root = Unicode(
        "", help="Where sessions' folders are. Default: WASM_KERNEL_WORKSPACE, else a folder of the user's own."
    ).tag(config=True)
    limits = Dict(
        help="Limits at the start, by the names of %session limits: {'memory': '2G', 'timeout': '10m', …}."
    ).tag(config=True)
    maxima = Dict(help="What %session limits, and the configuration, may raise each limit to.").tag(config=True)
    retention = Dict(
        help="What to prune when a kernel starts: {'older_than': '30d', 'max_sessions': 200, 'max_total': '20G'}."
    ).tag(config=True)
    allow_pip = Bool(True, help="Whether %pip may install packages.").tag(config=True)
    seal_outputs = Bool(
        True,
        help="Whether what cells show is sealed: no scripts, nothing loaded from elsewhere, until the person trusts "
        "the session.",
    ).tag(config=True)
    grants = List(
        Unicode(),
        help="What cells may do beyond their session without a question: 'trust', 'attach', 'delete', 'prune', "
        "'export', 'list'. Those of WASM_KERNEL_GRANTS are added.",
    ).tag(config=True)
    startup_code = Unicode("", help="Python run in every fresh guest, before the first cell.").tag(config=True)
    checkpoint = Bool(True, help="Whether every cell leaves a checkpoint, to undo it or to go on after a crash.").tag(
        config=True
    )
    checkpoint_count = Int(30, min=2, help="How many checkpoints a session keeps.").tag(config=True)
    checkpoint_bytes = Int(2 << 30, min=0, help="How much space a session's checkpoints take, about.").tag(config=True)
    idle_timeout_seconds = Float(
        900.0, min=0, help="After so long without use the guest's memory goes back to the system; 0: never."
    ).tag(config=True)

    def __init__(self, channels: Channels, home: Home, opening: Future[LiveSession], **kwargs: Any) -> None:
        super().__init__(channels, **kwargs)
        self.home = home
        self._opening: Future[LiveSession] | None = opening
        self._live: LiveSession | None = None
        self._outputs = Outputs(self.publish, self._soon)
        self._questions = Questions(channels.stdin, self._wire)
        self.granted = Grants(self._questions, self.grants, home.environ)
        home.notes += self.granted.problems
        self._history = History(None)
        self._timeline: Timeline | None = None
        self._finished: tuple[_Run, SandboxResult] | None = None  # a cell that wants its checkpoint
        self._restarting = False
        self._commands: Commands | None = None
        self.last_result: SandboxResult | None = None
        self._count = 1
        self._entrance = asyncio.Lock()
        self._guest = asyncio.Lock()  # one request at a time for the guest
        self._running: _Run | None = None
        self._last_run: _Run | None = None
        self._building: Any = None
        self._idle_timer: asyncio.TimerHandle | None = None
        self._ended = threading.Event()
        self._room = SnapshotRoom(self)
        self._browsers: Browsers | None = None
        self._started = False  # whether the guest has run the startup code
        self._pump_timer: asyncio.TimerHandle | None = None
        self._followed = time.monotonic()
        self.watch = False
        for action in ("comm_open", "comm_msg", "comm_close"):
            self.shell_handlers[action] = partial(self._comm, action)

    def busy_with(self) -> Message | None:
        """The request whose cell runs now."""
        return self._running.parent if self._running is not None else None

    def answers_at_once(self, message: Message) -> bool:
        """What needs no guest, widgets of the host among it."""
        return super().answers_at_once(message) or self._is_for_host(message)

    def _is_for_host(self, message: Message) -> bool:
        host, kind = self._outputs.host_comms, message["header"]["msg_type"]
        return host is not None and kind in ("comm_msg", "comm_close") and host.owns(message)

    @property
    def host_comms(self) -> HostComms:
        """The comms of the host's own widgets; made with the first one."""
        if self._outputs.host_comms is None:
            from wasm_kernel.kernel.host_comms import HostComms

            self._outputs.host_comms = HostComms(self)
        return self._outputs.host_comms

    @property
    def browsers(self) -> Browsers:
        """The host's file browsers; ipywidgets is imported with the first one."""
        if self._browsers is None:
            _ = self.host_comms  # before ipywidgets is imported
            from wasm_kernel.kernel.files.browser import Browsers

            self._browsers = Browsers(self)
        return self._browsers

    @property
    def current_parent(self) -> Message:
        """The request that what the host sends now belongs to."""
        parent: Message = self.get_parent("shell")
        return parent

    async def after_request(self) -> None:
        """The front ends have their answer: now the checkpoint, before the next cell may begin."""
        finished, self._finished = self._finished, None
        if finished is not None:
            run, result = finished
            async with self.guest:
                with contextlib.suppress(WasmKernelError):  # a guest that cannot be captured: the last one stays
                    await self.timeline.after_cell(run.number, run.code, result, self._count)
            self._room.after_cell()

    # ---- the session and its guest

    def trust_outputs(self, trusted: bool) -> None:
        """From now on what this session shows passes as it is, or is sealed again."""
        self._outputs.trusted = (trusted or not self.seal_outputs) and not forbidden("trust")

    @property
    def outputs_trusted(self) -> bool:
        """Whether what this session shows passes as it is."""
        return self._outputs.trusted

    async def require(self, grant: str, what: str, details: Sequence[str] = ()) -> None:
        """Come back only if the cell that runs may do something beyond its session; the person is asked if need be."""
        run = self._running
        alone = run is not None and run.cell.only_magics  # else the guest waits for the answer to its magic

        def waits() -> bool:
            here = self._running is run and run is not None and not run.cancelled.is_set()
            return here and (alone or self.live.sandbox.waits_for_answer)

        person = None
        if run is not None and run.allow_stdin and not run.silent:
            person = Person(run.parent, run.ident, waits)
        async with self._guest if alone else contextlib.nullcontext():  # nothing of the guest's runs meanwhile
            await self.granted.require(grant, what, details, person)

    @property
    def guest(self) -> asyncio.Lock:
        """Held by who asks the guest something."""
        return self._guest

    @property
    def commands(self) -> Commands:
        """The host's magics; imported when first needed."""
        if self._commands is None:
            from wasm_kernel.kernel.commands import Commands

            self._commands = Commands(self)
        return self._commands

    @property
    def timeline(self) -> Timeline:
        """The session's snapshots; imported when first needed, which is after the first cell."""
        if self._timeline is None:
            from wasm_kernel.kernel.timeline import Timeline

            self._timeline = Timeline(self)
        return self._timeline

    @property
    def live(self) -> LiveSession:
        """The open session."""
        if self._live is None:
            raise SandboxError("the session is not open yet")
        return self._live

    @property
    def has_session(self) -> bool:
        """Whether the session is open."""
        return self._live is not None

    async def ready(self, parent: Message, *, build: bool = True) -> LiveSession:
        """The open session; the first cell on a machine waits for the image, and sees how far it is."""
        if self._live is None:
            async with self._entrance:  # one opens it, however many requests wait for it
                if self._live is None:
                    await self._open(parent, build)
        return self.live

    async def _open(self, parent: Message, build: bool) -> None:
        opening, self._opening = self._opening, None
        try:
            self._live = await (asyncio.wrap_future(opening) if opening else asyncio.to_thread(self.home.open))
        except ImageMissing:
            if not build:
                raise
            await asyncio.to_thread(self._build_image, parent)
            self._live = await asyncio.to_thread(self.home.open)
        self._moved_in()

    def _build_image(self, parent: Message) -> None:
        from wasm_kernel.kernel.image_progress import ImageBuild

        self._building = ImageBuild(partial(self.publish, parent))
        try:
            self._building.run()
        finally:
            self._building = None

    def _moved_in(self) -> None:
        live = self.live
        self._history.close()
        self._history = History(state_folder(self.home.root) / "history" / live.session_id / "history.sqlite")
        self.granted.moved_in(live)
        self.trust_outputs(self.granted.trusted)
        self.forget_guest()
        self._finished = None
        if self._timeline is not None:
            self._timeline.moved(self.home.resumed)
        if self.home.resumed is not None:
            self.timeline.moved(self.home.resumed)
            self.guest_is_at(self.home.resumed)
            self.home.tell_of_return(self._history)
        if self.idle_timeout_seconds and self._idle_timer is None:
            self._look_whether_idle()
        if self.retention:
            self.loop.run_in_executor(None, self.commands.prune_at_start)
        self._room.look()

    def forget_guest(self) -> None:
        """The guest starts afresh: its widgets are gone, and its cells count from one."""
        self._outputs.forget_guest()
        self._started = False
        self._count = 1

    def guest_is_at(self, manifest: Manifest) -> None:
        """The guest is what it was at a snapshot."""
        self._count = max(1, manifest.snapshot.execution_count)
        self._started = bool(manifest.entry)
        self._finished = None  # the cell that asked for this is undone itself
        self._stop_pump()
        self._schedule_pump()

    async def move(self, how: Callable[[LiveSession], LiveSession]) -> None:
        """Go on in another session; the one that is left can be gone on with later."""
        async with self._guest:
            if self._timeline is not None:
                await self._timeline.settled()
                with contextlib.suppress(WasmKernelError):
                    await asyncio.to_thread(self._timeline.take_at_close)
            self._stop_pump()
            self._live = await asyncio.to_thread(how, self.live)
            self._moved_in()

    async def in_guest(self, begin: Callable[[Sandbox, Callable[[str, Any], None]], None], run: _Run | None) -> Any:
        """Let the guest do something, and wait for it without holding up the loop.

        ``run`` is the cell that this is. Without one, neither a question to the person nor a magic is answered.
        """
        live = await self.ready(run.parent if run else {})
        if self._timeline is not None:
            await self._timeline.awake()
        future: asyncio.Future[Any] = self.loop.create_future()

        def arrived(kind: str, value: Any) -> None:
            self._outputs.flush()
            if kind == "input":
                self.loop.create_task(self._ask_person(run, value))
            elif kind == "magic":
                self.loop.create_task(self._answer_magic(run, value))
            elif future.done():
                return
            elif kind == "error":
                future.set_exception(value)
            else:
                future.set_result(value)

        def deliver(kind: str, value: Any) -> None:
            with contextlib.suppress(RuntimeError):  # the loop is closed: nobody waits any more
                self.loop.call_soon_threadsafe(arrived, kind, value)

        begin(live.sandbox, deliver)
        return await future

    def _show(self, run: _Run | None, event: wire.Event) -> None:
        """What the guest gave, to the front ends. Called on the sandbox's thread."""
        if run is None:
            self._outputs.show(event, {}, number=self.execution_count)
        else:
            self._outputs.show(event, run.parent, number=run.number, silent=run.silent)

    def _soon(self, work: Callable[[], None]) -> None:
        with contextlib.suppress(RuntimeError):  # the loop is closed
            self.loop.call_soon_threadsafe(self.loop.call_later, PAUSE, work)

    # ---- execute

    @property
    def execution_count(self) -> int:
        """The number of the cell that runs, or of the next one. ipykernel's base counts too: that is ignored."""
        return self._count

    @execution_count.setter
    def execution_count(self, value: int) -> None:
        pass

    async def execute_request(self, stream: Any, ident: Any, parent: Message) -> None:
        """A cell. Its number is known when the session is: a kernel that resumes goes on counting."""
        with contextlib.suppress(Exception):  # what is wrong is said when the cell needs the session
            await self.ready(parent, build=False)
        await super().execute_request(stream, ident, parent)

    async def do_execute(
        self,
        code: str,
        silent: bool,
        store_history: bool = True,
        user_expressions: Message | None = None,
        allow_stdin: bool = False,
        *,
        cell_meta: Any = None,
        cell_id: str | None = None,
    ) -> Message:
        """Run a cell. Whatever fails ends in an error reply: a cell never stays at [*]."""
        run = _Run(self.get_parent("shell"), self._shell_parent_ident.get(), code, silent, allow_stdin)
        run.counts = store_history and not silent and bool(code.strip())
        run.number = self._count if run.counts else self._count - 1  # as ipykernel: the last one that counted
        options = {
            "silent": silent,
            "store_history": store_history,
            "user_expressions": user_expressions or {},
            "allow_stdin": allow_stdin,
            "cell_id": cell_id,
            "parent": _header(run.parent),
        }
        number = self._count
        self._running = self._last_run = run
        self._stop_pump()
        try:
            run.claims = cells.Claims(cells.read(code))
            if run.counts and not run.cell.only_magics:
                await self.ready(run.parent)
                self._history.add(number, code, runs=True)  # before: if all of this dies, it says which cell was lost
            reply = await self._run_cell(run, options)
        except asyncio.CancelledError:
            raise
        except Interrupted as e:
            reply = self._failed(run, "KeyboardInterrupt", str(e))
        except WasmKernelError as e:
            reply = self._failed(run, type(e).__name__, str(e))
        except Exception as e:
            self.log.exception("the kernel failed while it ran a cell")
            reply = self._failed(run, type(e).__name__, f"the kernel itself failed: {e}; restart it if this goes on")
        finally:
            self._running = None
            run.claims.ended = True
            self._schedule_pump()
            if self._browsers is not None:
                self._browsers.refresh()
        if run.counts:
            if run.cell.only_magics:
                self._history.add(number, code)
            self._count += self._count == number  # not after a magic that started the guest afresh
        self._read_shell()  # what came before the reply, for `_abort_queues`
        return {**reply, "execution_count": run.number}

    async def _run_cell(self, run: _Run, options: Message) -> Message:
        if run.cell.only_magics:
            return await self._run_magics(run)
        async with self._guest:
            await self.ready(run.parent)
            self._tell_notes(run)
            if not self._started:
                if self.checkpoint and any(p.name[0] != "." for p in self.live.folder.iterdir()):
                    self.timeline.before_first_cell()
                await self._run_startup_code(run)
            options["execution_count"] = self._count
            options["glance"] = self.checkpoint
            result: SandboxResult = await self.in_guest(
                lambda sandbox, deliver: sandbox.begin_execute(
                    run.code, deliver, on_event=partial(self._show, run), options=options
                ),
                run,
            )
            self._after_cell(result)
        if self.checkpoint and not run.silent:
            self._finished = (run, result)
        if result.success:
            for action in run.afterwards:
                self._show_answer(run, await action())
        if self.watch and not run.silent:
            self._show_answer(run, self.commands.changed_files(result))
        return self._reply(run, result)

    def _after_cell(self, result: SandboxResult) -> None:
        self.live.refresh(result, self.home.logger)
        self.last_result = result
        if result.outcome.state_lost:
            self._outputs.comms.clear()
        if time.monotonic() - self._followed > _FOLLOW_SECONDS:
            self._followed = time.monotonic()
            self.loop.run_in_executor(None, self.home.follow, self.live)

    async def _run_startup_code(self, run: _Run) -> None:
        self._started = True
        if self.startup_code:
            quiet = {"silent": False, "store_history": False, "user_expressions": {}, "allow_stdin": False}
            await self.in_guest(
                lambda sandbox, deliver: sandbox.begin_execute(
                    self.startup_code, deliver, on_event=partial(self._show, run), options=quiet
                ),
                None,
            )

    def _tell_notes(self, run: _Run) -> None:
        if not run.silent:
            for note in self.home.told():
                self.publish(run.parent, "stream", {"name": "stderr", "text": f"[wasm-kernel] {note}\n"})

    def _reply(self, run: _Run, result: SandboxResult) -> Message:
        reply: Message = {"user_expressions": {}, "payload": []}
        if result.success:
            expressions, payload = result.reply.get("user_expressions"), result.reply.get("payload")
            trusted = self._outputs.trusted
            if isinstance(expressions, dict) and expressions:
                reply["user_expressions"] = expressions if trusted else self._outputs.seal.expressions(expressions)
            if isinstance(payload, list) and payload:
                reply["payload"] = payload if trusted else self._outputs.seal.payload(payload)
                if not trusted and run.code.strip() in _LEAVING:  # the person's word, not the guest's
                    reply["payload"] += [item for item in payload if item == _ASK_EXIT]
            return {"status": "ok", **reply}
        how, error = result.outcome, result.error
        if result.reply.get("ename") == "UsageError" and not result.reply.get("traceback"):  # its text is on stderr
            return {**error_content("UsageError", str(result.reply.get("evalue", ""))), **reply}
        name, value = (error.name, error.value) if error else (how.cause, how.message)
        traceback = error.traceback if error else []
        step = self._next_step(how)
        if not traceback:  # nothing was shown yet: the guest could not say it itself
            value = "\n→ ".join(part for part in (how.message, step) if part)
            return {**self._failed(run, name, value), **reply}
        said = ([how.message] if how.state_lost else []) + ([f"→ {step}"] if step else [])
        if said and not run.silent:
            self.publish(run.parent, "stream", {"name": "stderr", "text": "\n".join(said) + "\n"})
        content = error_content(name, value, traceback)
        return {**content, **({} if self._outputs.trusted else terminal.defused_error(content)), **reply}

    def _next_step(self, how: Outcome) -> str:
        """What a person can do about it here, where limits are changed by a magic."""
        if how.cause == "MemoryError":
            limit = format_size(self.live.sandbox.policy.memory_bytes)
            return f"the limit is {limit}: free what is no longer needed{self._or_raise('memory')}"
        if how.kind is OutcomeKind.TIME_LIMIT:
            return f"do less in one cell{self._or_raise('timeout')}"
        return how.next_step

    def _or_raise(self, limit: str) -> str:
        if limits.current(self.live.sandbox.policy, limit) == self.home.maxima.get(limit, -1):
            return "; the administrator allows no more"
        return f", or raise the limit with %session limits {limit}=…"

    def _failed(self, run: _Run, name: str, value: str) -> Message:
        """Show an error of ours in the cell, and the reply that goes with it."""
        content = error_content(name, value, [f"\x1b[0;31m{name}\x1b[0m: {value}"])
        if not run.silent:
            self.publish(run.parent, "error", {key: content[key] for key in ("ename", "evalue", "traceback")})
        return content

    # ---- magics of the host

    async def _run_magics(self, run: _Run) -> Message:
        """A cell of nothing but our magics does not need the guest, which may be the reason for them."""
        for magic in run.cell.magics:
            answer = await self.commands.do(magic, run.parent, run.cancelled)
            if answer.afterwards is not None:
                answer = await answer.afterwards()
            self._show_answer(run, answer)
        if self._live is not None:
            self._tell_notes(run)
        return {"status": "ok", "user_expressions": {}, "payload": []}

    async def _answer_magic(self, run: _Run | None, request: wire.HostMagic) -> None:
        """The guest has come to a magic of ours: do it if the text of its cell holds it, and as often as that says."""
        sandbox = self.live.sandbox
        claims = run.claims if run is not None and run is self._running else cells.Claims(ended=True)
        try:
            magic = claims.claim(request.name, request.line)
            if run is None or magic is None:
                sandbox.answer(wire.ANSWER_REFUSED)
                return
            answer = await self.commands.do(magic, run.parent, run.cancelled)
            if answer.afterwards is not None:
                if answer.last and not magic.last:
                    raise WasmKernelError(
                        f"%{magic.name} {magic.line} must be the last line of its cell, and stand there only once"
                    )
                run.afterwards.append(answer.afterwards)
            elif magic.shown:
                self._show_answer(run, answer)
            text = wire.ANSWER_TEXT + answer.json(used=magic.used)
        except Interrupted:
            text = wire.ANSWER_INTERRUPTED
        except Exception as e:
            known = isinstance(e, WasmKernelError | ValueError | OSError)
            if not known:
                self.log.exception("%%%s failed", request.name)
            text = wire.ANSWER_ERROR + (str(e) if known else f"the kernel itself failed: {e}").encode()
        sandbox.answer(text)

    def _show_answer(self, run: _Run, answer: Answer) -> None:
        if not run.silent and (answer.text or answer.html):
            data = {"text/plain": answer.text, **({"text/html": answer.html} if answer.html else {})}
            data |= answer.view() if answer.view is not None else {}
            self.publish(run.parent, "display_data", {"data": data, "metadata": answer.metadata, "transient": {}})

    # ---- input

    async def _ask_person(self, run: _Run | None, request: wire.InputRequest) -> None:
        """Ask the front end for a line; the guest waits, the loop does not."""
        sandbox = self.live.sandbox
        if run is None or run is not self._running or not run.allow_stdin or self._questions.host_asks:
            sandbox.answer(wire.ANSWER_REFUSED)
            return
        person = Person(run.parent, run.ident, lambda: sandbox.waits_for_answer and self._running is run)
        value = await self._questions.ask_for_guest(person, request.prompt, password=request.password)
        if value is not None:
            sandbox.answer(wire.ANSWER_EOF if value == "\x04" else wire.ANSWER_TEXT + value.encode("utf-8", "replace"))

    # ---- small questions to the guest

    async def _ask_guest(self, request: Message, otherwise: Message) -> Message:
        """Ask the guest something small; ``otherwise`` when a cell runs, or it does not come to rest soon."""
        if self._running is not None:
            return otherwise
        try:
            await asyncio.wait_for(self._guest.acquire(), _SOON)  # a checkpoint, a task between cells
        except TimeoutError:
            return otherwise
        try:
            reply = await self.in_guest(lambda sandbox, deliver: sandbox.begin_ask(request, (), deliver), None)
        except WasmKernelError:
            return otherwise
        finally:
            self._guest.release()
        return otherwise if reply.get("status") == "error" else {**otherwise, **reply}

    async def do_complete(self, code: str, cursor_pos: int | None) -> Message:
        """Completions, or none while a cell runs."""
        position = len(code) if cursor_pos is None else cursor_pos
        ours = self.commands.complete(code, position)
        if ours is not None:
            return ours
        nothing = {"status": "ok", "matches": [], "cursor_start": position, "cursor_end": position, "metadata": {}}
        found = await self._ask_guest({"op": "complete", "code": code, "cursor_pos": position}, nothing)
        return found if self._outputs.trusted else self._outputs.seal.completion(found)

    async def do_inspect(
        self, code: str, cursor_pos: int | None, detail_level: int = 0, omit_sections: Any = ()
    ) -> Message:
        """What is known of the object under the cursor."""
        position = len(code) if cursor_pos is None else cursor_pos
        request = {"op": "inspect", "code": code, "cursor_pos": position, "detail_level": detail_level}
        nothing = {"status": "ok", "data": {}, "metadata": {}, "found": False}
        found = await self._ask_guest({**request, "omit_sections": list(omit_sections)}, nothing)
        return found if self._outputs.trusted else self._outputs.seal.inspection(found)

    async def do_is_complete(self, code: str) -> Message:
        """Whether the code could run as it is."""
        return await self._ask_guest({"op": "is_complete", "code": code}, {"status": "unknown"})

    async def history_request(self, stream: Any, ident: Any, parent: Message) -> None:
        """What was run in this session, also by kernels before this one."""
        with contextlib.suppress(WasmKernelError):
            await self.ready(parent)
        content = {"status": "ok", "history": self._history.answer(parent["content"])}
        self._wire.send(stream, "history_reply", content, parent, ident)

    # ---- comms

    async def comm_info_request(self, stream: Any, ident: Any, parent: Message) -> None:
        """Which comms are open: those of the guest went through here."""
        target = parent["content"].get("target_name")
        host = self._outputs.host_comms
        known = {**self._outputs.comms.known(), **(host.known() if host is not None else {})}
        comms = {key: {"target_name": name} for key, name in known.items() if target in (None, name)}
        self._wire.send(stream, "comm_info_reply", {"status": "ok", "comms": comms}, parent, ident)

    async def _comm(self, action: str, stream: Any, ident: Any, parent: Message) -> None:
        """A widget's message: one for the guest waits for the cell that runs."""
        if self._is_for_host(parent):
            self.host_comms.receive(action, parent)
            return
        if self._live is None:  # a page that is older than this kernel: nothing here knows its widgets
            return
        content = without_private(parent["content"])
        request = {
            "op": "comm",
            "action": action,
            "content": content,
            "metadata": parent.get("metadata", {}),
            "parent": _header(parent),
        }
        buffers = tuple(bytes(b) for b in parent.get("buffers", ()))
        run = _Run(parent, ident, "", silent=False, allow_stdin=False)

        def show(event: wire.Event) -> None:  # no front end shows what belongs to a widget's message
            self._show(self._last_run if isinstance(event, Notice) else run, event)

        self._outputs.note_front_end(action, content)
        self._stop_pump()
        async with self._guest:
            with contextlib.suppress(SandboxError):
                await self.in_guest(
                    lambda sandbox, deliver: sandbox.begin_ask(request, buffers, deliver, on_event=show), None
                )
        self._schedule_pump()

    # ---- background tasks of the guest

    def _schedule_pump(self) -> None:
        """asyncio tasks of the guest go on between cells, while they have time left."""
        self._stop_pump()
        sandbox = self._live.sandbox if self._live is not None else None
        if sandbox is not None and sandbox.next_task is not None:
            after = max(sandbox.next_task, sandbox.background_wait, 0.005)
            self._pump_timer = self.loop.call_later(after, lambda: self.loop.create_task(self._pump()))

    def _stop_pump(self) -> None:
        if self._pump_timer is not None:
            self._pump_timer.cancel()
            self._pump_timer = None

    async def _pump(self) -> None:
        if self._running is not None:
            return
        if not self._guest.locked():
            async with self._guest:
                with contextlib.suppress(WasmKernelError):
                    await self.in_guest(
                        lambda sandbox, deliver: sandbox.begin_ask(
                            {"op": "pump"}, (), deliver, on_event=partial(self._show, self._last_run)
                        ),
                        None,
                    )
        self._schedule_pump()

    # ---- interrupting, resting, ending

    def interrupt(self) -> None:
        """KeyboardInterrupt in what runs. Called on any thread."""
        running, building, live = self._running, self._building, self._live
        if running is not None:
            running.cancelled.set()
        if building is not None:
            building.cancel()
        if live is not None:
            live.sandbox.interrupt()

    async def do_shutdown(self, restart: bool) -> Message:
        """Restart means fresh; otherwise the next kernel of this notebook goes on where this one ends."""
        self._restarting = restart
        return await super().do_shutdown(restart)

    def _look_whether_idle(self) -> None:
        """After a while without use the guest's memory goes back to the system."""
        patience = self.idle_timeout_seconds
        self._idle_timer = self.loop.call_later(max(0.2, min(patience / 4, 30)), self._look_whether_idle)
        timeline = self._timeline
        if timeline is None or self._running is not None or self._guest.locked():
            return
        if time.monotonic() - timeline.used > patience:
            self.loop.create_task(self._release())

    async def _release(self) -> None:
        async with self._guest:
            with contextlib.suppress(WasmKernelError):
                if await self.timeline.release():
                    self.log.info("idle: the guest's memory was given back")

    def _leave(self, live: LiveSession) -> None:
        """What this kernel leaves behind for the next."""
        end = time.monotonic() + _END_PATIENCE
        here = threading.current_thread() is threading.main_thread()  # then the loop stands still meanwhile
        while not here and not self._at_rest() and time.monotonic() < end:
            time.sleep(0.01)  # it was interrupted; what it changed so far counts
        if self._restarting:
            live.note(fresh_start=True)
        if self.checkpoint or self._timeline is not None:
            self.timeline.close(take=not self._restarting and not self.home.temporary)
        if not self._restarting and not live.sandbox.fresh:
            self.home.has_begun(live)
        self.home.leave(live)

    def _at_rest(self) -> bool:
        """Whether no cell runs, nor wants its checkpoint, nor anybody asks the guest something."""
        return self._running is None and self._finished is None and not self._guest.locked()

    def end(self) -> None:
        """The guest's memory goes; its files stay."""
        if self._ended.is_set():
            return
        self._ended.set()
        self.interrupt()
        live = self._live
        if live is not None:
            self._leave(live)
        elif self._opening is not None and self._opening.done() and self._opening.exception() is None:
            self.home.leave(self._opening.result())
        self._history.close()


def _header(parent: Message) -> Message:
    """What the guest may know of a request: enough for ipywidgets.Output to capture what it leads to."""
    header = parent.get("header", {})
    return {"msg_id": header.get("msg_id", ""), "msg_type": header.get("msg_type", "")}
