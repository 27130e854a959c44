"""Widgets: ipywidgets' own are opened, their traits checked; nothing else is."""

from __future__ import annotations

from typing import Any

import ipywidgets
import pytest

from wasm_kernel.guest.wire import Comm
from wasm_kernel.kernel.seal import widgets
from wasm_kernel.kernel.seal.sealed_messages import Seal

BAD = "<img src=x onerror=alert(1)>"
CONTROLS = {"_model_module": "@jupyter-widgets/controls", "_model_module_version": "2.0.0"}


def _state(name: str, **traits: Any) -> dict[str, Any]:
    view = {"_view_module": "@jupyter-widgets/controls", "_view_module_version": "2.0.0"}
    return {"_model_name": f"{name}Model", "_view_name": f"{name}View", **CONTROLS, **view, **traits}


def _open(seal: Seal, comm_id: str, state: dict[str, Any], *buffers: bytes, paths: Any = None) -> Comm | None:
    data = {"state": state, "buffer_paths": [["value"]] * len(buffers) if paths is None else paths}
    content = {"comm_id": comm_id, "target_name": "jupyter.widget", "target_module": "evil", "data": data}
    return seal.comm(Comm("comm_open", content, {"version": "2.1.0", "x": "y"}, buffers))


def _update(seal: Seal, comm_id: str, state: dict[str, Any], *buffers: bytes) -> dict[str, Any]:
    data = {"method": "update", "state": state, "buffer_paths": [["value"]] * len(buffers)}
    sent = seal.comm(Comm("comm_msg", {"comm_id": comm_id, "data": data}, {}, buffers))
    assert sent is not None
    return sent.content["data"]["state"]


def _all_widgets() -> list[type[ipywidgets.Widget]]:
    def below(kind: type[ipywidgets.Widget]) -> list[type[ipywidgets.Widget]]:
        return [kind, *(found for child in kind.__subclasses__() for found in below(child))]

    found = {kind for kind in below(ipywidgets.Widget) if kind.__module__.startswith("ipywidgets.")}
    return sorted(found, key=lambda kind: (kind.__module__, kind.__qualname__))


@pytest.mark.parametrize("kind", _all_widgets(), ids=lambda kind: f"{kind.__module__}.{kind.__name__}")
def test_every_widget_of_the_package_is_opened(kind: type[ipywidgets.Widget]) -> None:
    traits = kind.class_traits(sync=True)
    pinned = {name: traits[name].default_value for name in widgets._PINNED if name in traits}
    sent = _open(Seal(), "a", pinned)
    if pinned["_model_name"] is None:
        pytest.skip("a base class")
    assert sent is not None and sent.content["data"]["state"] == pinned


@pytest.mark.parametrize("kind", _all_widgets(), ids=lambda kind: f"{kind.__module__}.{kind.__name__}")
def test_no_text_of_any_trait_is_html_unless_sealed(kind: type[ipywidgets.Widget]) -> None:
    """Which traits views take for HTML: `value` of two models, and descriptions that say so."""
    traits = kind.class_traits(sync=True)
    state: dict[str, Any] = {name: traits[name].default_value for name in widgets._PINNED if name in traits}
    state |= {name: BAD for name in traits if not name.startswith("_")}
    state["description_allow_html"] = True
    sent = _open(Seal(), "a", state)
    assert sent is not None
    kept = sent.content["data"]["state"]
    name = state["_model_name"]
    html = {"description"} | ({"value"} if name in ("HTMLModel", "HTMLMathModel") else set())
    for trait in html & kept.keys():
        assert "onerror" not in kept[trait]
    if name == "LayoutModel" or name.endswith("StyleModel"):
        assert BAD not in kept.values()
    if name == "OutputModel":
        assert kept["outputs"] == []


def test_only_what_a_front_end_needs_is_passed_on() -> None:
    sent = _open(Seal(), "a", _state("IntSlider", value=3))
    assert sent is not None
    assert set(sent.content) == {"comm_id", "target_name", "data"} and sent.metadata == {"version": "2.1.0"}


@pytest.mark.parametrize(
    "state",
    [
        _state("Any", _model_module="anywidget", _view_module="anywidget", _esm="export default {}"),
        _state("HTML", _view_module="anywidget"),
        _state("Text", _view_name="HTMLView", value=BAD),
        _state("Label", _view_name="HTMLMathView", value=BAD),
        _state("HTML", _model_module_version="../../evil"),
        _state("HTML", _model_name=["HTMLModel"]),
        {"value": BAD},
    ],
)
def test_other_widgets_are_not_opened(state: dict[str, Any]) -> None:
    seal = Seal()
    assert _open(seal, "a", state) is None
    update = {"comm_id": "a", "data": {"method": "update", "state": {"value": BAD}}}
    assert seal.comm(Comm("comm_msg", update)) is None
    shown = seal.bundle({"application/vnd.jupyter.widget-view+json": {"model_id": "a"}, "text/plain": "x"})
    assert "not opened" in shown["text/plain"] and "%session trust on" in shown["text/html"]


def test_only_widgets_may_open_comms() -> None:
    content = {"comm_id": "a", "target_name": "some-extension", "data": {"state": _state("HTML")}}
    assert Seal().comm(Comm("comm_open", content)) is None
    custom = {"comm_id": "a", "data": {"method": "custom", "content": {}}}
    assert Seal().comm(Comm("comm_msg", custom)) is None


def test_a_widget_stays_what_it_is() -> None:
    seal = Seal()
    _open(seal, "a", _state("Text"))
    assert _update(seal, "a", {"_view_name": "HTMLView", "_model_name": "HTMLModel", "value": BAD}) == {"value": BAD}


def test_later_values_are_sealed_too() -> None:
    seal = Seal()
    _open(seal, "a", _state("HTML", value="<b>x</b>"))
    assert _update(seal, "a", {"value": f"<i>y</i>{BAD}"}) == {"value": "<i>y</i><img>"}
    _open(seal, "b", _state("IntSlider", description=BAD))
    assert _update(seal, "b", {"description_allow_html": True}) == {"description_allow_html": False}
    later = _update(seal, "b", {"description_allow_html": True, "description": f"<b>x</b>{BAD}"})
    assert later == {"description_allow_html": True, "description": "<b>x</b><img>"}
    assert _update(seal, "b", {"description": BAD}) == {"description": "<img>"}


@pytest.mark.parametrize("name", ["Image", "Audio", "Video"])
def test_addresses_of_pictures_lead_nowhere(name: str) -> None:
    seal = Seal()
    sent = _open(seal, "a", _state(name, format="url"), b"http://evil/x")
    assert sent is not None and sent.buffers == (b"",)
    sent = _open(seal, "b", _state(name, format="url"), b"data:image/png;base64,AA==")
    assert sent is not None and sent.buffers == (b"data:image/png;base64,AA==",)
    sent = _open(seal, "c", _state(name, format="png"), b"http://evil/x")
    assert sent is not None and sent.buffers == (b"http://evil/x",)  # bytes of a picture, however odd
    assert _update(seal, "c", {"format": "url"}) == {}  # but they do not become an address
    assert _open(seal, "d", _state(name, format="url", value="http://evil/x")).content["data"]["state"]["value"] == ""


def test_outputs_of_an_output_widget_are_outputs() -> None:
    seal = Seal()
    output = {"_model_module": "@jupyter-widgets/output", "_view_module": "@jupyter-widgets/output"}
    outputs = [
        {
            "output_type": "display_data",
            "data": {"text/html": BAD, "application/pdf": "x"},
            "metadata": {"isolated": 1},
        },
        {"output_type": "stream", "name": "stdout", "text": "\x1b]8;;x\x07"},
        {"output_type": "error", "ename": "E", "evalue": "e", "traceback": ["\x1b]0;x\x07"]},
        {"output_type": "strange"},
        7,
    ]
    sent = _open(seal, "a", _state("Output", outputs=outputs, **output))
    assert sent is not None
    kept = sent.content["data"]["state"]["outputs"]
    assert "onerror" not in kept[0]["data"]["text/html"].partition("srcdoc")[0] and set(kept[0]["data"]) == {
        "text/html"
    }
    assert kept[0]["metadata"] == {} and "\x1b" not in kept[1]["text"] and "\x1b" not in kept[2]["traceback"][0]
    assert [k["output_type"] for k in kept[3:]] == ["stream", "stream"]


def test_styles_and_classes_of_widgets() -> None:
    seal = Seal()
    base = {"_model_module": "@jupyter-widgets/base", "_view_module": "@jupyter-widgets/base"}
    sent = _open(seal, "l", _state("Layout", width="50%", grid_area="url(http://evil)", border="1px solid red", **base))
    assert sent is not None and "grid_area" not in sent.content["data"]["state"]
    assert sent.content["data"]["state"]["width"] == "50%"
    style = _state(
        "HTMLStyle", _view_name="StyleView", _view_module="@jupyter-widgets/base", background="url(http://evil)"
    )
    sent = _open(seal, "s", style)
    assert sent is not None and "background" not in sent.content["data"]["state"]
    sent = _open(seal, "c", _state("Box", _dom_classes=["mine", "jp-Dialog", "lm-Menu", "a b", 7]))
    assert sent is not None and sent.content["data"]["state"]["_dom_classes"] == ["mine"]


@pytest.mark.parametrize("name", ["Link", "DirectionalLink"])
def test_links_do_not_lead_around_the_seal(name: str) -> None:
    """A front end copies the value by itself: text of a text box must not become HTML."""
    seal = Seal()
    _open(seal, "text", _state("Text", value=BAD))
    _open(seal, "other", _state("Textarea"))
    _open(seal, "html", _state("HTML"))

    def link(target: list[str]) -> dict[str, Any]:
        state = _state(name, _view_name=None, source=["IPY_MODEL_text", "value"], target=target)
        sent = _open(seal, f"link {target}", state)
        assert sent is not None
        return sent.content["data"]["state"]

    assert "target" in link(["IPY_MODEL_other", "value"])
    for target in (
        ["IPY_MODEL_html", "value"],
        ["IPY_MODEL_other", "_view_name"],
        ["IPY_MODEL_other", "description"],
        ["IPY_MODEL_unknown", "value"],
        "value",
    ):
        assert "target" not in link(target)  # type: ignore[arg-type]


@pytest.mark.parametrize("path", [["__proto__", "x"], ["constructor", "prototype", "x"], "value", [], [None]])
def test_buffers_do_not_reach_into_javascript_itself(path: Any) -> None:
    sent = _open(Seal(), "a", _state("Image"), b"x", paths=[path])
    assert sent is not None and sent.content["data"]["buffer_paths"] == [] and sent.buffers == ()


def test_children_that_were_not_opened_are_left_out() -> None:
    seal = Seal()
    _open(seal, "bad", _state("Any", _model_module="anywidget"))
    sent = _open(seal, "box", _state("VBox", children=["IPY_MODEL_bad", "IPY_MODEL_good"]))
    assert sent is not None and sent.content["data"]["state"]["children"] == ["IPY_MODEL_good"]


CONTROL = {"comm_id": "ctl", "target_name": "jupyter.widget.control", "data": {}}


def _all_at_once(seal: Seal, states: dict[str, Any], *buffers: bytes, paths: Any = ()) -> Comm | None:
    """What the guest answers to a page that asks for all widgets."""
    named = ("_model_name", "_model_module", "_model_module_version")
    described = {name: {**{key[1:]: state[key] for key in named}, "state": state} for name, state in states.items()}
    data = {"method": "update_states", "states": described, "buffer_paths": list(paths)}
    return seal.comm(Comm("comm_msg", {"comm_id": "ctl", "data": data}, {}, buffers))


def test_all_widgets_at_once_for_a_page_that_was_loaded_anew() -> None:
    seal = Seal()
    seal.opened_by_front_end(CONTROL)
    states = {
        "html": _state("HTML", value=BAD),
        "image": _state("Image", format="url"),
        "any": _state("Any", _model_module="anywidget"),
    }
    sent = _all_at_once(seal, states, b"http://evil", b"code", paths=[["image", "value"], ["any", "_esm"]])
    assert sent is not None
    kept = sent.content["data"]
    assert set(kept["states"]) == {"html", "image"} and kept["states"]["html"]["state"]["value"] == "<img>"
    assert kept["buffer_paths"] == [["image", "value"]] and sent.buffers == (b"",)


def test_the_guest_does_not_ask_itself_for_all_widgets() -> None:
    seal = Seal()
    _open(seal, "a", _state("HTML"))
    assert seal.comm(Comm("comm_open", CONTROL)) is None
    assert _all_at_once(seal, {"a": _state("Text")}) is None
    assert _update(seal, "a", {"value": BAD}) == {"value": "<img>"}


@pytest.mark.parametrize("afresh", [False, True])
@pytest.mark.parametrize(
    ("opened", "later"),
    [
        (_state("HTML"), _state("Text")),
        (_state("Checkbox", description_allow_html=True, description="x"), _state("Checkbox")),
        (_state("Image", format="url", value=""), _state("Image", format="png")),
    ],
)
def test_what_one_page_is_told_does_not_change_what_another_has(
    opened: dict[str, Any], later: dict[str, Any], afresh: bool
) -> None:
    seal = Seal()
    seal.opened_by_front_end(CONTROL)
    _open(seal, "text", _state("Text", value=BAD))
    _open(seal, "a", opened)
    if afresh:
        seal.forget()
        seal.opened_by_front_end(CONTROL)
    link = _state("Link", _view_name=None, source=["IPY_MODEL_text", "value"], target=["IPY_MODEL_a", "value"])
    sent = _all_at_once(seal, {"link": link, "a": later})
    assert sent is not None and set(sent.content["data"]["states"]) == {"link"}
    sent = _all_at_once(seal, {"a": opened})
    assert sent is not None and set(sent.content["data"]["states"]) == {"a"}


def test_a_link_among_all_widgets_leads_to_what_its_end_is() -> None:
    seal = Seal()
    seal.opened_by_front_end(CONTROL)
    _open(seal, "a", _state("Text", value=BAD))
    _open(seal, "b", _state("Text"))
    link = _state("Link", _view_name=None, source=["IPY_MODEL_a", "value"], target=["IPY_MODEL_b", "value"])
    sent = _all_at_once(seal, {"link": link, "b": _state("HTML")})
    assert sent is not None and set(sent.content["data"]["states"]) == {"link"}


def test_errors_of_widgets_show_nothing_of_the_guest_s() -> None:
    """A front end puts a model for errors in the place of one that it cannot make, and what it says is HTML."""
    seal = Seal()
    broken = _state("IntSlider", readout_format=BAD, msg=BAD, error={"stack": BAD})
    sent = _open(seal, "a", broken)
    assert sent is not None and BAD not in str(sent.content)
    assert _update(seal, "a", {"readout_format": BAD, "msg": BAD, "error": {"stack": BAD}}) == {}
    assert _update(seal, "a", {"readout_format": "$,.2f"}) == {"readout_format": "$,.2f"}
    for name, trait, good in (("FloatsInput", "format", ".3f"), ("ToggleButton", "icon", "check")):
        for bad in (BAD, [BAD], {"a": BAD}):
            sent = _open(seal, name, _state(name, **{trait: bad}))
            assert sent is not None and trait not in sent.content["data"]["state"]
        assert _update(seal, name, {trait: good}) == {trait: good}


def test_the_names_of_pictures_are_no_classes_of_the_page() -> None:
    sent = _open(Seal(), "a", _state("ToggleButtons", icons=["check", "x jp-Dialog", BAD, 7, "x"]))
    assert sent is not None and sent.content["data"]["state"]["icons"] == ["check", "", "", "", "x"]


def test_text_does_not_become_mathematics_by_a_link() -> None:
    seal = Seal()
    _open(seal, "text", _state("Text", value=r"$\unicode[x; background: url(http://evil)]{x41}$"))
    _open(seal, "label", _state("Label"))
    state = _state("Link", _view_name=None, source=["IPY_MODEL_text", "value"], target=["IPY_MODEL_label", "value"])
    sent = _open(seal, "link", state)
    assert sent is not None and "target" not in sent.content["data"]["state"]


@pytest.mark.parametrize("name", ["Audio", "Video"])
def test_a_list_of_films_elsewhere_is_no_film(name: str) -> None:
    playlist = b"#EXTM3U\n#EXTINF:5,\nhttp://evil/x.ts\n"
    seal = Seal()
    sent = _open(seal, "a", _state(name, format="mp4"), playlist)
    assert sent is not None and sent.buffers == (b"",)
    assert _update(seal, "a", {"value": playlist.decode()}) == {"value": ""}
    assert _update(seal, "a", {"value": [playlist.decode()]}) == {"value": ""}
    seal.opened_by_front_end(CONTROL)
    states = {"a": _state(name, format="mp4")}
    sent = _all_at_once(seal, states, playlist, paths=[["a", "value"]])
    assert sent is not None and sent.buffers == (b"",)


def test_a_style_is_short() -> None:
    base = {"_model_module": "@jupyter-widgets/base", "_view_module": "@jupyter-widgets/base"}
    sent = _open(Seal(), "l", _state("Layout", width="(" * 10**7, **base))
    assert sent is not None and "width" not in sent.content["data"]["state"]
