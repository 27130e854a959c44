"""The kernel's end of the side panel: answers a person's requests, and tells front ends when the session has changed.

A request comes from the front end, so it is the person's: nothing that the guest sends or shows gets here.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable
from typing import Any

from wasm_kernel import __version__
from wasm_kernel.errors import ConfigurationError, WasmKernelError
from wasm_kernel.kernel.magics.grants import forbidden
from wasm_kernel.kernel.magics.host import Host
from wasm_kernel.kernel.notebook_copy import free_copy_path, write_copy
from wasm_kernel.kernel.side_panel import guest_tables, view
from wasm_kernel.kernel.side_panel import panel_protocol as protocol
from wasm_kernel.kernel.side_panel.panel_notices import PanelNotices
from wasm_kernel.model import limits
from wasm_kernel.model.snapshots import Snapshot
from wasm_kernel.sessions.runtime import SessionRuntime

Message = dict[str, Any]
_MOST_COMMS = 20  # pages that show one notebook
_PAUSE = 0.05  # seconds in which changes are told together


class SidePanel:
    """The comms that front ends opened to it, and what they ask. On the kernel's loop."""

    def __init__(self, host: Host, publish: Callable[[Message, str, Message], None], log: logging.Logger) -> None:
        self._host, self._publish, self._log = host, publish, log
        self._comms: dict[str, str] = {}  # in the order in which they were opened, with why one is told nothing
        self._notices = PanelNotices(host.current, self._send_all)
        self._telling: asyncio.TimerHandle | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self._describing = asyncio.Lock()  # a state that was read earlier is not told later
        self._moving = asyncio.Lock()  # each step in time goes from where the one before it led

    def owns(self, comm_id: Any) -> bool:
        """Whether a front end opened this comm to it."""
        return isinstance(comm_id, str) and comm_id in self._comms

    @property
    def is_open(self) -> bool:
        """Whether a front end listens that speaks our version."""
        return not all(self._comms.values())

    def receive(self, action: str, parent: Message) -> None:
        """A message from a front end; what it asks for goes on after this returns."""
        content = parent["content"]
        comm_id, data = content.get("comm_id"), content.get("data")
        if not isinstance(comm_id, str):
            return
        if action == "comm_close":
            self._comms.pop(comm_id, None)
        elif action == "comm_open":
            self._opened(comm_id, data)
        elif isinstance(data, dict):
            task = asyncio.get_running_loop().create_task(self._answer(comm_id, data, parent))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    def _opened(self, comm_id: str, data: Any) -> None:
        theirs = data.get("version") if isinstance(data, dict) else None
        self._comms[comm_id] = ""
        while len(self._comms) > _MOST_COMMS:
            del self._comms[next(iter(self._comms))]
        self._send(comm_id, {"hello": {"version": protocol.VERSION, "kernel": __version__}})
        if theirs != protocol.VERSION:
            shown = theirs if type(theirs) is int else "unknown"
            why = protocol.OTHER_VERSION.format(kernel=__version__, ours=protocol.VERSION, theirs=shown)
            self._comms[comm_id] = why
            self._log.warning("%s", why)
            return
        self._notices.opened()
        self.changed()

    def changed(self) -> None:
        """The session is, or may be, another one now than what front ends were told."""
        if self._comms and self._telling is None:
            self._telling = asyncio.get_running_loop().call_later(_PAUSE, self._tell)

    def _tell(self) -> None:
        self._telling = None
        task = asyncio.get_running_loop().create_task(self._tell_state())
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _tell_state(self) -> None:
        runtime = self._host.current.runtime
        if runtime is None:
            return
        self._notices.session_opened()
        with contextlib.suppress(WasmKernelError, OSError):  # told with the next change
            async with self._describing:
                state = await view.state(self._host, runtime)
                self._send_all({"state": state})

    def _send(self, comm_id: str, data: Message) -> None:
        self._publish({}, "comm_msg", {"comm_id": comm_id, "data": data})

    def _send_all(self, data: Message) -> None:
        for comm_id, silent in list(self._comms.items()):
            if not silent:
                self._send(comm_id, data)

    # ---- requests

    async def _answer(self, comm_id: str, data: Message, parent: Message) -> None:
        number, request = data.get("request"), None
        answer: Message = {"answer": number}
        try:
            if self._comms.get(comm_id):
                raise protocol.BadRequest(self._comms[comm_id])
            number, request = protocol.parse(data)
            if isinstance(request, protocol.Seen):  # it needs no session, and changes none
                self._notices.seen(request.notice)
                self._send(comm_id, {**answer, "result": {}})
                return
            runtime = await self._host.ready(parent)
            answer |= await self._do(request, runtime)
        except (WasmKernelError, OSError, protocol.BadRequest) as e:
            answer["error"] = str(e)
        except Exception as e:  # noqa: BLE001 - every request gets its answer
            self._log.exception("a request of the side panel failed")
            answer["error"] = f"the kernel itself failed: {e}"
        self._send(comm_id, answer)
        if not isinstance(request, protocol.Values | protocol.Page):  # these change nothing
            self.changed()

    async def _do(self, request: protocol.SessionRequest, runtime: SessionRuntime) -> Message:
        timeline = self._host.current.timeline
        match request:
            case protocol.Look():
                return {"result": {}}
            case protocol.Undo() | protocol.Redo() | protocol.Restore():
                async with self._moving:
                    return await self._move(request, runtime)
            case protocol.Name(row, label):
                await timeline.name(await self._found(row), label.strip())
                return {"result": {}}
            case protocol.Compare(row):
                return {"result": await view.differences(timeline, await self._found(row))}
            case protocol.Fork(row):
                return {"result": {"notebook": await self._fork(await self._found(row), runtime)}}
            case protocol.Trust(on):
                self._trust(on)
                return {"result": {}}
            case protocol.Older(skip, count):
                return {"result": {"rows": await view.older(self._host, skip, count)}}
            case protocol.Reset():
                async with self._moving:
                    await runtime.reset()
                self._host.forget_widgets()
                return {"result": {}}
            case protocol.Limits(change):
                await self._limit(change, runtime)
                return {"result": {}}
            case protocol.Values():
                return await guest_tables.first_values(runtime)
            case protocol.Page():
                return await guest_tables.page(runtime, request)

    async def _move(
        self, request: protocol.Undo | protocol.Redo | protocol.Restore, runtime: SessionRuntime
    ) -> Message:
        if runtime.running:
            raise ConfigurationError("a cell is running; wait for its end or interrupt it, and try again")
        await runtime.save_cell()  # one that has just been answered can be undone, too
        timeline, moment = self._host.current.timeline, runtime.moment
        match request:
            case protocol.Redo():
                return {"result": {"snapshot": (await timeline.redo()).snapshot_id}}
            case protocol.Undo(cells, confirmed):
                target = await timeline.before(cells)
                return await self._go(target, confirmed) or await self._undone(cells)
            case protocol.Restore(row, confirmed):
                target = await self._found(row)
                asks = await self._go(target, confirmed)
                if asks is None:
                    await timeline.restore(target, decided_at=moment)
                return asks or {"result": {"snapshot": target.snapshot_id}}

    async def _found(self, row: str) -> Snapshot:
        timeline = self._host.current.timeline
        await timeline.settled()
        return await asyncio.to_thread(timeline.find, row)

    async def _go(self, target: Snapshot, confirmed: bool) -> Message | None:
        """What to ask the person first, if files would go that no cell made."""
        uploaded = [] if confirmed else await asyncio.to_thread(self._host.current.timeline.uploaded_since, target)
        return {"confirm": {"files": uploaded}} if uploaded else None

    async def _undone(self, cells: int) -> Message:
        return {"result": {"snapshot": (await self._host.current.timeline.undo(cells)).snapshot_id}}

    async def _fork(self, snapshot: Snapshot, runtime: SessionRuntime) -> str:
        """Fork from a snapshot into a copy of the notebook; its name."""
        from wasm_kernel.sessions.snapshots import fork_session

        place = self._host.current.place
        await asyncio.to_thread(place.follow, runtime.live)  # the notebook may have been renamed
        copy, notebook = free_copy_path(place.notebook), place.notebook
        assert notebook is not None  # otherwise there was no path
        made = await asyncio.to_thread(
            fork_session,
            runtime.live.session_id,
            place.root,
            snapshot_id=snapshot.snapshot_id,
            notebook=str(copy),
        )
        await asyncio.to_thread(write_copy, notebook, copy, place.root, made)
        return copy.name

    def _trust(self, on: bool) -> None:
        source = forbidden("trust")
        if on and source:
            raise ConfigurationError(f"trusting outputs is forbidden by the administrator ({source})")
        if on:
            self._host.granted.keep("trust")
        else:
            self._host.granted.revoke("trust")
        self._host.trust_outputs(on)
        if not on and self._host.outputs_trusted:
            raise ConfigurationError("the configuration shows outputs unsealed (WasmKernel.seal_outputs = False)")

    async def _limit(self, change: str, runtime: SessionRuntime) -> None:
        place = self._host.current.place
        wanted = limits.parse_changes(change.split())
        policy = limits.changed(runtime.live.sandbox.policy, wanted, place.maxima)
        async with runtime.guest:
            await asyncio.to_thread(runtime.live.change_policy, policy)
        place.policy = policy
