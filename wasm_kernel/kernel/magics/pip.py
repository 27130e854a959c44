"""`%pip`: the session's own packages."""

from __future__ import annotations

import asyncio
import threading

from wasm_kernel.errors import ConfigurationError, Interrupted, PackageError
from wasm_kernel.kernel.magics.answers import Answer, Message, ProgressLine, none, say, table
from wasm_kernel.kernel.magics.host import Group
from wasm_kernel.model.units import counted


class PipMagic(Group):
    """Installs, lists and uninstalls packages."""

    async def do(self, words: list[str], parent: Message, cancelled: threading.Event) -> Answer:
        """``cancelled``: set when the cell is interrupted."""
        from wasm_kernel.sessions.packages import install_packages, list_packages, uninstall_packages

        if not self._host.allow_pip:
            raise ConfigurationError("%pip is switched off here (WasmKernel.allow_pip = False)")
        action, words = (words[0], words[1:]) if words else ("", [])
        live = (await self._host.ready(parent)).live
        root = self._place.root
        if action == "list":
            none(words, "%pip list")
            found = await asyncio.to_thread(list_packages, live.session_id, root)
            data = [{"name": p.name, "version": p.version, "built_in": p.built_in} for p in found]
            rows = [(p.name, p.version, "" if p.built_in else "this session's own") for p in found]
            return table(data, ("package", "version", ""), rows, caption=counted(len(found), "package"), most=1000)
        quiet = {"-q", "--quiet", "-y", "--yes"}
        upgrade = bool({"-U", "--upgrade"} & set(words))
        names = [w for w in words if w not in {*quiet, "-U", "--upgrade"}]
        if action not in ("install", "uninstall") or not names:
            raise ConfigurationError("write %pip install NAME …, %pip list or %pip uninstall NAME …; see %pip?")
        shown = ProgressLine(self._host.publish, parent, silent=bool(quiet & {"-q", "--quiet"} & set(words)))
        try:
            if action == "uninstall":
                done = await asyncio.to_thread(uninstall_packages, live.session_id, names, root, cancel=cancelled)
            else:
                done = await asyncio.to_thread(
                    install_packages,
                    live.session_id,
                    names,
                    root,
                    on_progress=shown.tell,
                    upgrade=upgrade,
                    cancel=cancelled,
                )
        except PackageError as e:
            if e.cause == "cancelled":
                raise Interrupted(str(e)) from None
            raise
        finally:
            shown.clear()
        changes = {"added": [str(p) for p in done.added], "removed": [str(p) for p in done.removed]}
        return say("\n".join([str(done), *done.notes]), changes)
