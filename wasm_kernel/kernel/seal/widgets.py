"""The guest's widgets: only those of ipywidgets itself, with every trait checked that the page uses as more than text.

A front end creates the model and the view that a state names. So a model has the view that is its own and keeps it, and
links between traits, which front ends follow by themselves, do not lead into traits that are checked here.

What is checked depends on what a model is, so nothing may make this side take it for another than pages do. Every page
hears of a widget that is opened or closed. All widgets at once are for one page; the others keep those that they have,
also when the guest has started afresh and knows of none.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Any

from wasm_kernel.kernel.seal import markup, stylesheets, tex

State = dict[str, Any]
_BASE, _CONTROLS, _OUTPUT = "@jupyter-widgets/base", "@jupyter-widgets/controls", "@jupyter-widgets/output"
_CORE = (_BASE, _CONTROLS, _OUTPUT)
# Models whose view is named differently, or that have no view.
_VIEWS: dict[str, str | None] = {
    "BoundedFloatTextModel": "FloatTextView",
    "BoundedIntTextModel": "IntTextView",
    "FloatProgressModel": "ProgressView",
    "IntProgressModel": "ProgressView",
    "NaiveDatetimeModel": "DatetimeView",
    "NumbersInputBaseModel": "TagsInputView",
    **dict.fromkeys(("DirectionalLinkModel", "LinkModel", "DOMWidgetModel", "WidgetModel", "BoolModel"), None),
    **dict.fromkeys(("DescriptionModel", "StringModel", "TagsInputBaseModel"), None),
}
_PINNED = (
    "_model_name",
    "_model_module",
    "_model_module_version",
    "_view_name",
    "_view_module",
    "_view_module_version",
)
_VERSION = re.compile(r"[\^~]?\d{1,4}\.\d{1,4}\.\d{1,4}")
_NAME = re.compile(r"[A-Za-z]{1,60}")
_CLASS_NAME = re.compile(r"[A-Za-z_][\w-]{0,100}")
_FORMAT = re.compile(r"[\w.+-]{1,40}")
# A bad value of these ends up in an error message that a click shows as HTML: number formats, names of icons.
_SPELLING = {
    **dict.fromkeys(("format", "readout_format"), re.compile(r"[\w .,:;+()$#%~^=*-]{0,40}")),
    "icon": re.compile(r"[\w -]{0,100}"),
}
_OF_ERRORS = ("msg", "error")  # the model that replaces a broken one shows these as HTML; no other has such traits
_MEDIA = ("ImageModel", "AudioModel", "VideoModel")
_HTML = ("HTMLModel", "HTMLMathModel")
_LINKS = ("LinkModel", "DirectionalLinkModel")
# Traits that a link must not target: what is sent there bypasses these checks.
_CHECKED_MODELS = (*_HTML, *_MEDIA, "LabelModel", "OutputModel", "LayoutModel")
_CHECKED_TRAITS = (
    *("description", "description_allow_html", "layout", "style", "children", "outputs", "icons"),
    *_SPELLING,
    *_OF_ERRORS,
)
_MOST_REFUSED = 1000


@dataclass
class _Model:
    """What we know about an open widget."""

    name: str
    allows_html: bool = False
    format: str = ""


class NotCore(ValueError):
    """A widget from another module than ipywidgets' own; the message names the module."""


class Widgets:
    """The guest's widgets, as they were opened."""

    def __init__(self, sealed_output: Callable[[Any], Any]) -> None:
        self._sealed_output = sealed_output  # of the Output widget
        self._models: dict[str, _Model] = {}
        self._left: dict[str, _Model] = {}  # of earlier guests: pages may still have them
        self._refused: dict[str, str] = {}

    def forget(self) -> None:
        """The guest has no widgets any more."""
        self._left |= self._models
        self._models.clear()
        self._refused.clear()

    def why_refused(self, comm_id: str) -> str:
        """The module of a widget that was not opened; empty for any other."""
        return self._refused.get(comm_id, "")

    def opened(self, comm_id: str, state: Mapping[str, Any], buffered: Collection[str]) -> State:
        """The state of a widget that is opened, in every page. `NotCore` where it brings scripts of its own.

        ``buffered``: the traits whose values come as bytes beside the state.
        """
        try:
            self._models[comm_id] = _model(state)
        except NotCore as e:
            if len(self._refused) < _MOST_REFUSED:
                self._refused[comm_id] = str(e)
            raise
        self._left.pop(comm_id, None)
        return self._checked(self._models[comm_id], dict(state), buffered)

    def described(self, comm_id: str, state: Mapping[str, Any], buffered: Collection[str]) -> State:
        """A widget's state for a reloaded page. `NotCore` if it is not what other pages have."""
        model = _model(state)
        sealed = self._checked(model, dict(state), buffered)
        if (self._models.get(comm_id) or self._left.get(comm_id) or model) != model:
            raise NotCore(f"{model.name} that was something else")
        self._left.pop(comm_id, None)
        self._models[comm_id] = model
        return sealed

    def changed(self, comm_id: str, state: Mapping[str, Any], buffered: Collection[str]) -> State | None:
        """A part of a state; None for a widget that was never opened."""
        model = self._models.get(comm_id)
        if model is None:
            return None
        return self._checked(model, {k: v for k, v in state.items() if k not in _PINNED}, buffered)

    def is_open(self, comm_id: str) -> bool:
        """Whether a widget with this id is open."""
        return comm_id in self._models

    def _checked(self, model: _Model, kept: State, buffered: Collection[str]) -> State:
        for trait in ("__proto__", *_OF_ERRORS):
            kept.pop(trait, None)
        for trait in _SPELLING.keys() & kept.keys():
            if not _is_spelled(trait, kept[trait]):
                del kept[trait]
        if "icons" in kept:
            kept["icons"] = _icons(kept["icons"])
        if model.name in _LINKS:
            return self._link(kept)
        _check_html(model, kept)
        _check_media(model, kept, buffered)
        if model.name == "OutputModel" and "outputs" in kept:
            outputs = kept["outputs"] if isinstance(kept["outputs"], list | tuple) else []
            kept["outputs"] = [self._sealed_output(output) for output in outputs]
        if model.name == "LayoutModel" or model.name.endswith("StyleModel"):
            kept = {key: value for key, value in kept.items() if key in _PINNED or _harmless_style(value)}
        if "_dom_classes" in kept:
            kept["_dom_classes"] = _classes(kept["_dom_classes"])
        if isinstance(kept.get("children"), list):
            kept["children"] = [child for child in kept["children"] if not self._is_refused(child)]
        return kept

    def closed(self, comm_id: str) -> None:
        """A widget was closed."""
        self._models.pop(comm_id, None)
        self._left.pop(comm_id, None)
        self._refused.pop(comm_id, None)

    def media_stay(self, comm_id: str, buffers: tuple[bytes, ...]) -> tuple[bytes, ...]:
        """The bytes of pictures and audio; anything that refers elsewhere becomes empty."""
        model = self._models.get(comm_id)
        if model is None or model.name not in _MEDIA:
            return buffers
        return tuple(b if _is_medium(model, bytes(b)) else b"" for b in buffers)

    def _is_refused(self, child: Any) -> bool:
        return isinstance(child, str) and child.removeprefix("IPY_MODEL_") in self._refused

    def _link(self, state: State) -> State:
        for end in ("source", "target"):
            if end in state and not self._may_be_linked(state[end]):
                state.pop("source", None)
                state.pop("target", None)
        return state

    def _may_be_linked(self, end: Any) -> bool:
        if not isinstance(end, list | tuple) or len(end) != 2 or not all(isinstance(part, str) for part in end):
            return False
        model = self._models.get(end[0].removeprefix("IPY_MODEL_"))
        if model is None or model.name in _CHECKED_MODELS or model.name.endswith("StyleModel"):
            return False
        return not end[1].startswith("_") and end[1] not in _CHECKED_TRAITS


def _model(state: Mapping[str, Any]) -> _Model:
    """What a state says it is. `NotCore` unless it is one of ipywidgets' own, with the view that belongs to it."""
    for key in ("_model_module", "_view_module"):
        module = state.get(key)
        if module not in _CORE and not (key == "_view_module" and not module and not state.get("_view_name")):
            raise NotCore(str(module)[:100])
    name, view = state.get("_model_name"), state.get("_view_name")
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise NotCore("a model without a name")
    style = name.endswith("StyleModel") and name != "StyleModel"
    own = "StyleView" if style else _VIEWS.get(name, name.removesuffix("Model") + "View")
    if view not in (own, None):
        raise NotCore(f"{name} with a view that is not its own")
    for key in ("_model_module_version", "_view_module_version"):
        version = state.get(key)
        if version and not (isinstance(version, str) and _VERSION.fullmatch(version)):
            raise NotCore(f"{name} of a strange version")
    return _Model(name)


def _check_html(model: _Model, state: State) -> None:
    if model.name in _HTML and "value" in state:
        state["value"] = _sealed(state["value"], markup.sealed_html)
    if "description_allow_html" in state:
        allows = state["description_allow_html"] is True
        if allows and not model.allows_html and "description" not in state:
            state["description_allow_html"] = False  # it was checked as text only
        else:
            model.allows_html = allows
    if "description" in state:
        seal = markup.sealed_inline if model.allows_html else tex.defused
        state["description"] = _sealed(state["description"], seal)
    if model.name == "LabelModel" and "value" in state:
        state["value"] = _sealed(state["value"], tex.defused)


def _sealed(value: Any, seal: Callable[[str], str]) -> str:
    if not isinstance(value, str):
        return ""
    try:
        return seal(value)
    except markup.TooComplicated as e:
        return f"Not shown: {e}."


def _check_media(model: _Model, state: State, buffered: Collection[str]) -> None:
    """Pictures, audio and video: their bytes, or a data: URL that contains them."""
    if model.name not in _MEDIA:
        return
    given = state.get("format", model.format)
    becomes_address = given == "url" and model.format != "url" and "value" not in state and "value" not in buffered
    if not isinstance(given, str) or not _FORMAT.fullmatch(given) or becomes_address:
        state.pop("format", None)  # bytes that came as a picture must not become a URL
        return
    model.format = given
    if "value" in state:
        text = state["value"] if isinstance(state["value"], str) else ""
        state["value"] = text if _is_medium(model, text.encode("utf-8", "replace")) else ""


def _is_medium(model: _Model, value: bytes) -> bool:
    """Whether a value is the media itself, or a URL that contains it."""
    if model.format == "url":
        return markup.is_media(value[:2000].decode("ascii", "replace"))
    return not markup.is_playlist(value)


def _is_spelled(trait: str, value: Any) -> bool:
    return isinstance(value, str) and _SPELLING[trait].fullmatch(value) is not None


def _icons(value: Any) -> list[str]:
    """The names of icons, each of which becomes class names."""
    names = value if isinstance(value, list | tuple) else []
    return [
        name if _is_spelled("icon", name) and not any(map(markup.is_reserved, name.split())) else "" for name in names
    ]


def _harmless_style(value: Any) -> bool:
    if not isinstance(value, str):
        return value is None or isinstance(value, bool | int | float)
    return len(value) < 1000 and ";" not in value and bool(stylesheets.declarations(f"color:{value}"))


def _classes(value: Any) -> list[str]:
    names = value if isinstance(value, list | tuple) else []
    return [n for n in names if isinstance(n, str) and _CLASS_NAME.fullmatch(n) and not markup.is_reserved(n)]
