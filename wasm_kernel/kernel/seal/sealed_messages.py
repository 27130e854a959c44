"""The guest's messages, sealed: what `Outputs` sends, and what replies contain."""

from __future__ import annotations

import html
from collections.abc import Mapping
from typing import Any

from wasm_kernel.guest import wire
from wasm_kernel.kernel.seal import bundles, terminal
from wasm_kernel.kernel.seal.widgets import NotCore, Widgets

Message = dict[str, Any]
_WIDGET, _CONTROL = "jupyter.widget", "jupyter.widget.control"
_TYPES = ("stream", "display_data", "execute_result", "error")
_TYPES_OF_MATCHES = "_jupyter_types_experimental"
_OF_A_MATCH = {"start": int, "end": int, "text": str, "type": str, "signature": str}
_PROTOTYPES = ("__proto__", "constructor", "prototype")


class Seal:
    """Seals what one kernel's guest shows. Called on the sandbox's thread, and for replies on the main one."""

    def __init__(self) -> None:
        self._widgets = Widgets(self._output)
        self._controls: set[str] = set()

    def forget(self) -> None:
        """The guest starts afresh: it has no widgets."""
        self._widgets.forget()
        self._controls.clear()

    def bundle(self, data: Mapping[str, Any], *, frame: bool = True) -> Message:
        """A mime bundle. A widget that was not opened is named instead."""
        kept = bundles.sealed_bundle(data, frame=frame)
        view = kept.get(bundles.WIDGET_VIEW)
        module = self._widgets.why_refused(view["model_id"]) if view else ""
        if module:
            text = (
                f"This widget brings scripts of its own ({module}), so it is not opened. To open it: %session trust on"
            )
            return {"text/plain": text, "text/html": f"<div>{html.escape(text)}, then run the cell again.</div>"}
        return kept

    def metadata(self, metadata: Mapping[str, Any]) -> Message:
        """A bundle's metadata."""
        return bundles.sealed_metadata(metadata)

    def transient(self, transient: Mapping[str, Any]) -> Message:
        """The display id, under which an output can be replaced."""
        name = transient.get("display_id")
        return {"display_id": name} if isinstance(name, str) else {}

    def payload(self, items: list[Any]) -> list[Message]:
        """What a reply asks the front end to do: show a page, or suggest the next cell."""
        kept: list[Message] = []
        for item in items:
            source = item.get("source") if isinstance(item, dict) else None
            if source == "page" and isinstance(item.get("data"), dict):
                start = item.get("start")
                data = self.bundle(item["data"], frame=False)
                kept.append({"source": "page", "data": data, "start": start if type(start) is int else 0})
            elif source == "set_next_input" and isinstance(item.get("text"), str):
                replace = item.get("replace") is True
                kept.append({"source": "set_next_input", "text": item["text"], "replace": replace})
        return kept

    def expressions(self, results: Mapping[str, Any]) -> Message:
        """The values of user_expressions, or their errors."""
        kept: Message = {}
        for name, result in results.items():
            if not isinstance(result, dict):
                continue
            if result.get("status") == "ok" and isinstance(result.get("data"), dict):
                kept[name] = {"status": "ok", "data": self.bundle(result["data"], frame=False), "metadata": {}}
            else:
                kept[name] = {"status": "error", **terminal.defused_error(result)}
        return kept

    def inspection(self, reply: Message) -> Message:
        """The reply to an inspection."""
        data = reply.get("data")
        shown = self.bundle(data, frame=False) if isinstance(data, dict) else {}
        return {"status": "ok", "found": reply.get("found") is True, "data": shown, "metadata": {}}

    def completion(self, reply: Message) -> Message:
        """The reply to a completion: texts and positions, nothing else."""
        matches, metadata = reply.get("matches"), reply.get("metadata")
        types = metadata.get(_TYPES_OF_MATCHES) if isinstance(metadata, dict) else None
        described = [
            {key: value for key, value in item.items() if key in _OF_A_MATCH and type(value) is _OF_A_MATCH[key]}
            for item in (types if isinstance(types, list) else ())
            if isinstance(item, dict)
        ]
        places = {key: reply[key] for key in ("cursor_start", "cursor_end") if type(reply.get(key)) is int}
        return {
            "status": "ok",
            "matches": [m for m in matches if isinstance(m, str)] if isinstance(matches, list) else [],
            "cursor_start": 0,
            "cursor_end": 0,
            **places,
            "metadata": {_TYPES_OF_MATCHES: described} if described else {},
        }

    # ---- widgets

    def comm(self, event: wire.Comm) -> wire.Comm | None:
        """A widget's message, or None if it must not be sent."""
        comm_id, data = event.content.get("comm_id"), event.content.get("data")
        if not isinstance(comm_id, str):
            return None
        data = data if isinstance(data, dict) else {}
        if event.action == "comm_open":
            return self._opened(event, comm_id, data)
        if event.action == "comm_close":
            self._widgets.closed(comm_id)
            self._controls.discard(comm_id)
            return _with(event, {"comm_id": comm_id, "data": {}})
        if comm_id in self._controls:
            return self._states(event, comm_id, data)
        return self._changed(event, comm_id, data)

    def opened_by_front_end(self, content: Mapping[str, Any]) -> None:
        """A page asks for all widgets, or has created one: expect the guest's answer."""
        comm_id, data = content.get("comm_id"), content.get("data")
        if isinstance(comm_id, str) and content.get("target_name") == _CONTROL:
            self._controls.add(comm_id)
        elif isinstance(comm_id, str) and isinstance(data, dict):
            self._opened(wire.Comm("comm_open", dict(content)), comm_id, data)

    def _opened(self, event: wire.Comm, comm_id: str, data: Message) -> wire.Comm | None:
        target, state = event.content.get("target_name"), data.get("state")
        if target != _WIDGET or not isinstance(state, dict):
            return None
        paths = _paths(data, event)
        try:
            sealed = self._widgets.opened(comm_id, state, {str(path[0]) for path in paths})
        except NotCore:
            return None
        content = {"comm_id": comm_id, "target_name": target, "data": {"state": sealed, "buffer_paths": paths}}
        return _with(event, content, self._widgets.media_stay(comm_id, event.buffers if paths else ()))

    def _changed(self, event: wire.Comm, comm_id: str, data: Message) -> wire.Comm | None:
        method, state = data.get("method"), data.get("state")
        if method in ("update", "echo_update") and isinstance(state, dict):
            paths = _paths(data, event)
            sealed = self._widgets.changed(comm_id, state, {str(path[0]) for path in paths})
            if sealed is None:
                return None
            content = {"comm_id": comm_id, "data": {"method": method, "state": sealed, "buffer_paths": paths}}
            return _with(event, content, self._widgets.media_stay(comm_id, event.buffers if paths else ()))
        if method == "custom" and self._widgets.is_open(comm_id):  # of core widgets: focus and blur, play and pause
            return _with(event, {"comm_id": comm_id, "data": {"method": method, "content": data.get("content")}})
        return None

    def _states(self, event: wire.Comm, comm_id: str, data: Message) -> wire.Comm | None:
        """All widgets at once, for a reloaded page."""
        states = data.get("states")
        if data.get("method") != "update_states" or not isinstance(states, dict):
            return None
        kept: Message = {}
        all_paths = _paths(data, event)
        for model_id, described in states.items():
            state = described.get("state") if isinstance(described, dict) else None
            if not isinstance(state, dict):
                continue
            named = {f"_{key}": described.get(key) for key in ("model_name", "model_module", "model_module_version")}
            try:
                buffered = {str(path[1]) for path in all_paths if path[0] == model_id and len(path) > 1}
                sealed = self._widgets.described(model_id, {**state, **named}, buffered)
            except NotCore:
                continue
            kept[model_id] = {**{key[1:]: value for key, value in named.items()}, "state": sealed}
        paths: list[list[Any]] = []
        buffers: list[bytes] = []
        for path, buffer in zip(all_paths, event.buffers, strict=False):
            if path[0] in kept:
                paths.append(path)
                buffers += self._widgets.media_stay(path[0], (buffer,))
        sealed_data = {"method": "update_states", "states": kept, "buffer_paths": paths}
        return _with(event, {"comm_id": comm_id, "data": sealed_data}, tuple(buffers))

    def _output(self, output: Any) -> Message:
        """One output, as notebooks and the Output widget keep them."""
        kind = output.get("output_type") if isinstance(output, dict) else None
        if kind == "stream":
            name = "stderr" if output.get("name") == "stderr" else "stdout"
            text = output.get("text")
            return {"output_type": kind, "name": name, "text": terminal.defused(text if isinstance(text, str) else "")}
        if kind == "error":
            return {"output_type": kind, **terminal.defused_error(output)}
        if kind in _TYPES and isinstance(output.get("data"), dict):
            count = output.get("execution_count")
            number = {"execution_count": count if type(count) is int else None} if kind == "execute_result" else {}
            data, metadata = self.bundle(output["data"]), output.get("metadata")
            about = bundles.sealed_metadata(metadata) if isinstance(metadata, dict) else {}
            return {"output_type": kind, "data": data, "metadata": about, **number}
        return {"output_type": "stream", "name": "stderr", "text": "[an output of an unknown kind]"}


def _paths(data: Message, event: wire.Comm) -> list[list[Any]]:
    """Where a message's buffers belong in its state; empty if one would reach into JavaScript's own objects."""
    paths = data.get("buffer_paths")
    if not isinstance(paths, list) or len(paths) != len(event.buffers) or not all(map(_is_path, paths)):
        return []
    return paths


def _is_path(path: Any) -> bool:
    return (
        isinstance(path, list)
        and bool(path)
        and all(type(part) in (str, int) and part not in _PROTOTYPES for part in path)
    )


def _with(event: wire.Comm, content: Message, buffers: tuple[bytes, ...] = ()) -> wire.Comm:
    version = event.metadata.get("version")
    metadata = {"version": version} if isinstance(version, str) and len(version) < 20 else {}
    return wire.Comm(event.action, content, metadata, buffers)
