"""The kernel: passes front ends' messages to the running session, and its results back.

The guest runs on the sandbox's own thread, so the main thread can answer while a cell runs: completion (with
nothing), the host's widgets, history. Interrupts arrive on the control channel's thread.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from functools import partial
from typing import TYPE_CHECKING, Any

from traitlets import Bool, Dict, Float, Int, List, Unicode

from wasm_kernel import __version__
from wasm_kernel.errors import Interrupted, WasmKernelError
from wasm_kernel.kernel import cells, identity, render
from wasm_kernel.kernel.asking import Asking
from wasm_kernel.kernel.attribution import Attribution, Request
from wasm_kernel.kernel.cell_run import CellRun, Replies, asks_to_exit
from wasm_kernel.kernel.channels import Channels
from wasm_kernel.kernel.comm_messages import CommMessages
from wasm_kernel.kernel.comms_in_cell import ACTIONS, CommsInCell
from wasm_kernel.kernel.current_session import CurrentSession, SessionSettings
from wasm_kernel.kernel.guest_questions import GuestQuestions
from wasm_kernel.kernel.host_remarks import HostRemarks
from wasm_kernel.kernel.introspection import Introspection
from wasm_kernel.kernel.kept_browsers import WIDGET_CONTROL, KeptBrowsers
from wasm_kernel.kernel.magics.cluster_access import ClusterAccess
from wasm_kernel.kernel.magics.data_folder import DataFolder
from wasm_kernel.kernel.magics.grants import Grants, forbidden
from wasm_kernel.kernel.magics.network_access import NetworkAccess
from wasm_kernel.kernel.messages import MessageLoop
from wasm_kernel.kernel.notebook_session import NotebookSession
from wasm_kernel.kernel.outputs import Outputs
from wasm_kernel.kernel.questions import Questions
from wasm_kernel.model.snapshot_retention import CheckpointRules
from wasm_kernel.sessions.guest_access import Execution
from wasm_kernel.sessions.opening import OpenedSession
from wasm_kernel.sessions.runtime import SessionRuntime

if TYPE_CHECKING:
    from wasm_kernel.kernel.magics.magics import Magics
    from wasm_kernel.kernel.side_panel.panel_comm import SidePanel

Message = dict[str, Any]


class WasmKernel(MessageLoop):
    """A kernel whose cells run in a WebAssembly sandbox."""

    implementation = "wasm_kernel"
    implementation_version = __version__
    banner = identity.BANNER
    language_info = identity.LANGUAGE_INFO
    help_links = identity.HELP_LINKS

    workspace_root = Unicode(
        "", help="The folder that holds the sessions. Default: WASM_KERNEL_WORKSPACE, else a folder in the user's home."
    ).tag(config=True)
    limits = Dict(
        help="Limits a session starts with, named as in %session limits: {'memory': '2G', 'timeout': '10m', …}."
    ).tag(config=True)
    maxima = Dict(help="The highest value of each limit, for %session limits and for the configuration.").tag(
        config=True
    )
    retention = Dict(
        help="Sessions to delete when a kernel starts: {'older_than': '30d', 'max_sessions': 200, 'max_total': '20G'}."
    ).tag(config=True)
    allow_pip = Bool(True, help="Whether %pip may install packages.").tag(config=True)
    seal_outputs = Bool(
        True,
        help="Whether outputs are sealed (no scripts, nothing loaded from elsewhere) until the person trusts "
        "the session.",
    ).tag(config=True)
    grants = List(
        Unicode(),
        help="What cells may do beyond their session without asking: 'trust', 'attach', 'delete', 'prune', "
        "'export', 'list', 'add', 'mount', 'network', 'cluster'. Grants in WASM_KERNEL_GRANTS are added.",
    ).tag(config=True)
    network = List(
        Unicode(),
        help="Hosts that every session may connect to without asking: ['api.github.com', '*.data.gov.uk:443'].",
    ).tag(config=True)
    remote = Unicode(
        "", help="The object store of sessions: 's3://bucket/prefix'. Default: WASM_KERNEL_REMOTE, else none."
    ).tag(config=True)
    remote_interval_seconds = Float(60.0, min=1, help="How often to push while cells run.").tag(config=True)
    remote_close_seconds = Float(2.0, min=0, help="How long a kernel's end waits for the last push.").tag(config=True)
    startup_code = Unicode("", help="Python code run in every fresh interpreter, before the first cell.").tag(
        config=True
    )
    checkpoint = Bool(
        True, help="Whether to take a checkpoint after every cell, for undo and for recovery after a crash."
    ).tag(config=True)
    checkpoint_count = Int(30, min=2, help="How many checkpoints a session keeps.").tag(config=True)
    checkpoint_bytes = Int(
        2 << 30, min=0, help="Roughly how much space a session's checkpoints may take, in bytes."
    ).tag(config=True)
    idle_timeout_seconds = Float(
        900.0, min=0, help="Release the interpreter's memory after this many seconds without use; 0: never."
    ).tag(config=True)

    def __init__(
        self, channels: Channels, place: NotebookSession, opening: Future[OpenedSession], **kwargs: Any
    ) -> None:
        super().__init__(channels, **kwargs)
        self._outputs = Outputs(self.publish, self._later)
        self._replies = Replies(self._outputs, self.publish)
        self._attribution = Attribution(self._outputs)
        answer = lambda *message: self.publish(self.get_parent("shell"), *message)  # noqa: E731
        self._comms = CommMessages(self._outputs, self._attribution, answer, self._make_panel)
        self._questions = Questions(channels.stdin, self._wire)
        self.granted = Grants(self._questions, self.grants, place.environ)
        for problem in self.granted.problems:
            place.announcements.warn(problem)
        kept = CheckpointRules(bool(self.checkpoint), self.checkpoint_count, self.checkpoint_bytes)
        most = place.rules.checkpoint_bytes
        settings = SessionSettings(kept.within(most), self.startup_code, self.idle_timeout_seconds)
        self.current = CurrentSession(place, opening, settings, self.log, self._moved_in, self._notice)
        self.current.on_stored = self._comms.session_changed
        self.data_folder, self.network_access = DataFolder(place, self.granted), NetworkAccess(place.logger)
        self.cluster_access = ClusterAccess(place.logger)
        self._asking = Asking(self._questions, self.granted, lambda: self._running, lambda: self.current.runtime)
        self._remarks = HostRemarks(self.publish, self.current)
        self._introspection = Introspection(self.current, self._outputs, self.busy_with)
        self._in_cell = CommsInCell(self._waiting, self._comms, self._attribution, self.tell_status)
        self.message_waits = self._in_cell.look
        self._guest_questions = GuestQuestions(
            self._questions, self._replies, lambda: self._running, lambda: self.magics, self._in_cell, self.log
        )
        self._running: CellRun | None = None
        self._restarting = self._leaving = False
        self._ended = threading.Event()
        self._magics: Magics | None = None
        self._browsers = KeptBrowsers(self.current, self._comms)
        self.shell_handlers |= {action: partial(self._comm, action) for action in ACTIONS}

    # ---- what the message loop asks

    def busy_with(self) -> Message | None:
        """The request whose cell is running."""
        return self._running.parent if self._running is not None else None

    def stays_busy(self) -> Message | None:
        """The running cell, or the image that is being built while no cell runs."""
        return self.busy_with() or ({} if self.current.build_progress else None)

    def answers_at_once(self, message: Message) -> bool:
        """Whether a message needs no guest, such as one for the host's widgets."""
        return super().answers_at_once(message) or self._comms.is_for_host(message)

    async def after_request(self) -> None:
        """The front ends have their reply: now take the checkpoint, before the next cell may begin."""
        runtime = self.current.runtime
        if runtime is not None:
            with self._remarks.while_storing(self.next_cell):
                await runtime.save_cell()
            self._comms.session_changed()
        if self._leaving:
            self._terminate()

    def interrupt(self) -> None:
        """Raise KeyboardInterrupt in the running code. Called on any thread."""
        running = self._running
        if running is not None:
            running.cancelled.set()
        self.current.interrupt()

    async def do_shutdown(self, restart: bool) -> Message:
        """A restart means a fresh start; otherwise the notebook's next kernel continues where this one ends."""
        self._restarting = restart
        return await super().do_shutdown(restart)

    def end(self) -> None:
        """Release the guest's memory; keep its files."""
        if not self._ended.is_set():
            self._ended.set()
            self.interrupt()
            self.current.close(restarting=self._restarting)
            self.cluster_access.close()

    # ---- the session

    async def ready(self, parent: Message) -> SessionRuntime:
        """The open session; the first cell on a machine waits for the image, and shows its progress."""
        return await self.current.ready(partial(self.publish, parent))

    def _moved_in(self, runtime: SessionRuntime) -> None:
        runtime.on_turn_end = self._outputs.flush
        runtime.on_question = partial(self._guest_questions.arrived, None, runtime.sandbox)
        self.granted.moved_in(runtime.live)
        self.data_folder.moved_in(runtime)
        self.network_access.moved_in(runtime)
        self.cluster_access.moved_in(runtime)
        runtime.live.on_wait = lambda waits: self._remarks.waits_for_files(self._running, waits)
        self.trust_outputs(self.granted.trusted)
        self.forget_widgets()
        if not self._comms.has_panel:  # for front ends that show what belongs to no cell
            for told in self.current.place.announcements.waiting:
                if told.good:
                    self._notice("display_data", render.aside(told.full_text))
        if self.retention:
            self.loop.run_in_executor(None, self.magics.prune_at_start, dict(self.retention))

    def forget_widgets(self) -> None:
        """The guest starts afresh: its widgets are gone."""
        self._outputs.forget_guest()

    def trust_outputs(self, trusted: bool) -> None:
        """Show outputs unsealed from now on, or seal them again."""
        self._outputs.trusted = (trusted or not self.seal_outputs) and not forbidden("trust")

    @property
    def outputs_trusted(self) -> bool:
        """Whether this session's outputs are shown unsealed."""
        return self._outputs.trusted

    async def require(self, grant: str, what: str, details: Sequence[str] = ()) -> None:
        """Return only if the running cell may do something beyond its session; ask the person if needed."""
        await self._asking.require(grant, what, details)

    async def ask_secret(self, prompt: str) -> str:
        """What the person types into a field that does not show it; raises if nobody does."""
        return await self._asking.secret(prompt)

    # ---- parts imported when first needed

    @property
    def magics(self) -> Magics:
        """The host's magics."""
        if self._magics is None:
            from wasm_kernel.kernel.magics.magics import Magics

            self._magics = Magics(self)
        return self._magics

    def _make_panel(self) -> SidePanel:
        from wasm_kernel.kernel.side_panel.panel_comm import SidePanel

        return SidePanel(self, self.publish, self.log)

    def browser(self, folder: str) -> Message:
        """A new file browser, as front ends with widgets show it."""
        return self._browsers.show(folder)

    # ---- execute

    @property
    def execution_count(self) -> int:
        """The number of the running cell, or of the next one. ipykernel's own counter is ignored."""
        return self.current.count

    @execution_count.setter
    def execution_count(self, value: int) -> None:
        pass

    async def execute_request(self, stream: Any, ident: Any, parent: Message) -> None:
        """Execute a cell. Its number is known once the session is open: a resumed kernel continues counting."""
        with contextlib.suppress(Exception):  # reported when the cell needs the session
            await self.current.ready()
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
        """Run a cell. Every failure becomes an error reply: a cell never stays at [*]."""
        run = CellRun(self.get_parent("shell"), self._shell_parent_ident.get(), code, silent, allow_stdin)
        run.counts = store_history and not silent and bool(code.strip())
        run.number = self.current.count - (not run.counts)  # as in ipykernel: the last one that counted
        options = {
            "silent": silent,
            "store_history": store_history,
            "user_expressions": user_expressions or {},
            "allow_stdin": allow_stdin,
            "cell_id": cell_id,
            "parent": run.known_to_guest(self._control_parent, self._control_parent_ident),
        }
        self._running = run
        try:
            run.claims = cells.Claims(cells.read(code))
            reply = await (self._run_magics(run) if run.cell.only_magics else self._run_cell(run, options))
        except asyncio.CancelledError:
            raise
        except WasmKernelError as e:
            name = "KeyboardInterrupt" if isinstance(e, Interrupted) else type(e).__name__
            reply = self._replies.failed(run, name, str(e))
        except Exception as e:
            self.log.exception("the kernel failed while running a cell")
            text = f"the kernel itself failed: {e}; restart it if this happens again"
            reply = self._replies.failed(run, type(e).__name__, text)
        finally:
            self._in_cell.end()
            self._running = None
            run.claims.ended = True
            self._browsers.refresh()
        self._count(run)
        self.about_to_answer()
        return {**reply, "execution_count": run.number}

    def _count(self, run: CellRun) -> None:
        if run.counts:
            if run.cell.only_magics:
                self.current.history.add(run.number, run.code)
            if self.current.runtime is not None:
                self.current.runtime.count_cell(run.number)

    async def _run_cell(self, run: CellRun, options: Message) -> Message:
        """Run a cell in the guest."""
        runtime = await self.ready(run.parent)
        await self.data_folder.check()
        self.network_access.check()
        await self.cluster_access.check()
        row = 0
        if run.counts:  # before it runs: after a crash, this tells which cell was lost
            row = self.current.history.add(run.number, run.code, runs=True)
        if "memory" in self.current.place.maxima:
            options["memory_most"] = int(self.current.place.maxima["memory"])
        async with runtime.guest:
            self._remarks.tell_notes(run)
            answers = partial(self._guest_questions.arrived, run, runtime.sandbox)
            shown = self._attribution.of(Request(run.parent, run.number, run.silent))
            cell = Execution(run.code, run.number, shown, options, answers, run.silent, row, self.has_begun)
            result = await runtime.execute(cell)
        self._leaving = asks_to_exit(result.reply)
        if result.outcome.state_lost:
            self._outputs.comms.clear()
        self.current.follow()
        if result.success:
            for action in run.afterwards:
                self._replies.show(run, await action())
        if self._magics is not None and not run.silent:
            self._replies.show(run, self._magics.after_cell(result))
        await self._remarks.explain(run, result.error)
        return self._replies.reply(run, result, runtime.sandbox.policy, self.current.place.maxima)

    def _notice(self, *message: Any) -> None:
        """Publish what belongs to no cell, while none runs. Called on any thread."""
        if self._running is None:
            self.publish({}, *message)

    def _later(self, seconds: float, work: Callable[[], None]) -> None:
        with contextlib.suppress(RuntimeError):  # the loop is closed
            self.loop.call_soon_threadsafe(self.loop.call_later, seconds, work)

    async def _run_magics(self, run: CellRun) -> Message:
        """Run a cell of nothing but the host's magics without the guest, which may be what needs fixing."""
        for magic in run.cell.magics:
            answer = await self.magics.do(magic, run.parent, run.cancelled)
            if answer.afterwards is not None:
                answer = await answer.afterwards()
            self._replies.show(run, answer)
        if self.current.runtime is not None:
            self._remarks.tell_notes(run)
        return {"status": "ok", "user_expressions": {}, "payload": []}

    # ---- completion, inspection, history

    async def do_complete(self, code: str, cursor_pos: int | None) -> Message:
        """Completions, or none while a cell runs."""
        position = len(code) if cursor_pos is None else cursor_pos
        return self.magics.complete(code, position) or await self._introspection.complete(code, position)

    async def do_inspect(
        self, code: str, cursor_pos: int | None, detail_level: int = 0, omit_sections: Any = ()
    ) -> Message:
        """Information about the object under the cursor."""
        position = len(code) if cursor_pos is None else cursor_pos
        return await self._introspection.inspect(code, position, detail_level, list(omit_sections))

    async def do_is_complete(self, code: str) -> Message:
        """Whether the code is complete."""
        return await self._introspection.is_complete(code)

    async def history_request(self, stream: Any, ident: Any, parent: Message) -> None:
        """The session's input history, including earlier kernels."""
        with contextlib.suppress(WasmKernelError):
            await self.current.ready()
        content = {"status": "ok", "history": self.current.history.answer(parent["content"])}
        self._wire.send(stream, "history_reply", content, parent, ident)

    # ---- comms

    async def comm_info_request(self, stream: Any, ident: Any, parent: Message) -> None:
        """Which comms are open. Some pages ask this for the widgets they had."""
        await self._browsers.reopen()
        comms = self._comms.known(parent["content"].get("target_name"))
        self._wire.send(stream, "comm_info_reply", {"status": "ok", "comms": comms}, parent, ident)

    async def _comm(self, action: str, stream: Any, ident: Any, parent: Message) -> None:
        if parent["content"].get("target_name") == WIDGET_CONTROL:  # a page that was just loaded asks for all widgets
            await self._browsers.reopen()
        await self._comms.receive(action, parent, self.current.runtime)
