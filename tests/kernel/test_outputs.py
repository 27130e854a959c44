"""Events of the guest as messages: which, in which order, and that none passes the seal by. No guest."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from wasm_kernel.guest import wire
from wasm_kernel.kernel import outputs
from wasm_kernel.kernel.outputs import Outputs

Message = dict[str, Any]
CELL = {"id": "cell"}
SCRIPT = "<b>x</b><script>alert(1)</script>"
COLOURS, TITLE = "\x1b[31mred\x1b[0m", "\x1b]0;a title\x07"


class Scene:
    """Outputs, what they have published, and what waits for a moment to pass."""

    def __init__(self, *, trusted: bool = False) -> None:
        self.sent: list[tuple[Message, str, Message]] = []
        self.buffers: list[Any] = []
        self.waiting: list[Callable[[], None]] = []
        self.outputs = Outputs(self._publish, lambda seconds, work: self.waiting.append(work))
        self.outputs.trusted = trusted

    def _publish(self, parent: Message, kind: str, content: Message, metadata: Any = None, buffers: Any = None) -> None:
        self.sent.append((parent, kind, content))
        self.buffers.append(buffers)

    def show(self, *events: wire.Event, parent: Message = CELL, **options: Any) -> list[Message]:
        """The contents of what is published at once."""
        before = len(self.sent)
        for event in events:
            self.outputs.show(event, parent, number=7, **options)
        return [content for _, _, content in self.sent[before:]]

    @property
    def kinds(self) -> list[str]:
        return [kind for _, kind, _ in self.sent]


class FakeSeal:
    """Notes what it is asked to seal, and marks it."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.refuses = False
        self.forgot = False

    def _sealed(self, what: str, value: Any) -> Message:
        self.asked.append(what)
        return {"sealed": value}

    def bundle(self, data: Message) -> Message:
        return self._sealed("bundle", data)

    def metadata(self, metadata: Message) -> Message:
        return self._sealed("metadata", metadata)

    def transient(self, transient: Message) -> Message:
        return self._sealed("transient", transient)

    def comm(self, event: wire.Comm) -> wire.Comm | None:
        content = self._sealed("comm", event.content)
        return None if self.refuses else wire.Comm(event.action, content, event.metadata, event.buffers)

    def opened_by_front_end(self, content: Message) -> None:
        self.asked.append("opened by a front end")

    def forget(self) -> None:
        self.forgot = True


@pytest.fixture
def scene() -> Scene:
    return Scene()


@pytest.fixture
def seal(scene: Scene) -> FakeSeal:
    scene.outputs._seal = made = FakeSeal()  # type: ignore[assignment]
    return made


# ---- order


@pytest.mark.parametrize(
    "event",
    [
        wire.DisplayData({"text/plain": "x"}),
        wire.UpdateDisplay({"text/plain": "x"}),
        wire.ExecuteResult({"text/plain": "x"}),
        wire.ClearOutput(),
        wire.ErrorRaised("E", "e", []),
    ],
)
def test_text_is_sent_before_whatever_follows_it(scene: Scene, event: wire.Event) -> None:
    scene.show(wire.Stream("stdout", "a"), wire.Stream("stdout", "b"))
    assert scene.sent == [] and scene.waiting, "text waits for more of its kind"
    scene.show(event, wire.Stream("stderr", "c"))
    scene.outputs.flush()
    assert len(scene.kinds) == 3 and scene.kinds[::2] == ["stream", "stream"]
    assert [scene.sent[n][2] for n in (0, 2)] == [{"name": "stdout", "text": "ab"}, {"name": "stderr", "text": "c"}]


def test_a_comm_comes_after_text_too_even_if_the_cell_is_silent(scene: Scene) -> None:
    scene.outputs.trusted = True
    scene.show(wire.Stream("stdout", "a"))
    scene.show(wire.Comm("comm_open", {"comm_id": "c", "target_name": "t"}), silent=True)
    assert scene.kinds == ["stream", "comm_open"]


def test_text_of_two_requests_is_not_mixed(scene: Scene) -> None:
    scene.show(wire.Stream("stdout", "a"))
    scene.show(wire.Stream("stdout", "b"), parent={"id": "another"})
    scene.outputs.flush()
    assert [(parent["id"], content["text"]) for parent, _, content in scene.sent] == [("cell", "a"), ("another", "b")]


def test_a_silent_cell_shows_nothing_but_its_comms(scene: Scene) -> None:
    scene.show(
        wire.Stream("stdout", "a"), wire.DisplayData({"text/plain": "x"}), wire.ExecuteResult({"text/plain": "x"}),
        wire.ClearOutput(), wire.ErrorRaised("E", "e", []), silent=True,
    )  # fmt: skip
    scene.outputs.flush()
    assert scene.sent == []


def test_what_is_not_for_front_ends_is_not_sent(scene: Scene) -> None:
    scene.show(wire.InputRequest("?"))
    assert scene.sent == []


# ---- messages


def test_the_number_is_the_hosts_not_the_guests(scene: Scene) -> None:
    (content,) = scene.show(wire.ExecuteResult({"text/plain": "x"}, {}, execution_count=999))
    assert content == {"data": {"text/plain": "x"}, "metadata": {}, "execution_count": 7}


def test_displays_keep_their_id_and_have_no_number(scene: Scene) -> None:
    for event in (wire.DisplayData, wire.UpdateDisplay):
        (content,) = scene.show(event({"text/plain": "x"}, {}, {"display_id": "d"}))
        assert content == {"data": {"text/plain": "x"}, "metadata": {}, "transient": {"display_id": "d"}}
    assert scene.kinds == ["display_data", "update_display_data"]


# ---- sealing


def test_every_kind_of_output_goes_through_the_seal(scene: Scene, seal: FakeSeal) -> None:
    data, about = {"text/html": SCRIPT}, {"a": 1}
    for event in (wire.DisplayData(data, about, {"display_id": "d"}), wire.UpdateDisplay(data, about)):
        (content,) = scene.show(event)
        assert content["data"] == {"sealed": data} and content["metadata"] == {"sealed": about}
        assert content["transient"] == {"sealed": event.transient}
    (content,) = scene.show(wire.ExecuteResult(data, about))
    assert content == {"data": {"sealed": data}, "metadata": {"sealed": about}, "execution_count": 7}
    (content,) = scene.show(wire.Comm("comm_open", {"comm_id": "c", "target_name": "t"}, {}, (b"x",)))
    assert list(content) == ["sealed"] and scene.buffers[-1] == [b"x"]
    assert seal.asked == ["bundle", "metadata", "transient"] * 2 + ["bundle", "metadata", "comm"]


def test_the_real_seal_takes_scripts_out(scene: Scene) -> None:
    (content,) = scene.show(wire.DisplayData({"text/html": SCRIPT, "application/javascript": "alert(1)"}))
    shown = content["data"]
    assert "<script>" not in shown["text/html"] and "<iframe sandbox=" in shown["text/html"], "it runs in a frame"
    assert "application/javascript" not in shown


def test_trusted_outputs_pass_as_they_are() -> None:
    scene = Scene(trusted=True)
    (content,) = scene.show(wire.DisplayData({"text/html": SCRIPT}, {"m": 1}, {"t": 2}))
    assert content == {"data": {"text/html": SCRIPT}, "metadata": {"m": 1}, "transient": {"t": 2}}
    (content,) = scene.show(wire.ErrorRaised("E", TITLE, [TITLE]))
    assert content == {"ename": "E", "evalue": TITLE, "traceback": [TITLE]}
    scene.show(wire.Stream("stdout", TITLE))
    scene.outputs.flush()
    assert scene.sent[-1][2]["text"] == TITLE
    scene.outputs.note_front_end("comm_open", {"comm_id": "f", "target_name": "t"})
    assert scene.outputs._seal is None, "it was not needed, and so not imported"


def test_text_and_tracebacks_keep_their_colours_and_lose_the_rest(scene: Scene) -> None:
    (content,) = scene.show(wire.ErrorRaised(TITLE, COLOURS, [TITLE, COLOURS]))
    assert content["evalue"] == COLOURS and content["traceback"][1] == COLOURS
    assert "\x1b" not in content["ename"] + content["traceback"][0]
    scene.show(wire.Stream("stdout", COLOURS), wire.Stream("stdout", TITLE))
    scene.outputs.flush()
    text = scene.sent[-1][2]["text"]
    assert text.startswith(COLOURS) and "\x1b]" not in text


def test_a_control_sequence_cut_in_two_is_still_one_and_streams_are_apart(scene: Scene) -> None:
    scene.show(wire.Stream("stdout", "a\x1b"), wire.Stream("stderr", "]0;b"), wire.Stream("stdout", "]0;title\x07"))
    scene.outputs.flush()
    assert "\x1b" not in "".join(content["text"] for _, _, content in scene.sent)


# ---- comms


def test_a_comm_that_the_seal_refuses_is_not_sent_and_not_open(scene: Scene, seal: FakeSeal) -> None:
    seal.refuses = True
    assert scene.show(wire.Comm("comm_open", {"comm_id": "c", "target_name": "t"})) == []
    assert scene.outputs.comms.known() == {}


def test_the_hosts_own_widgets_are_not_the_guests_to_speak_for(scene: Scene, seal: FakeSeal) -> None:
    class Host:
        def owns(self, message: Message) -> bool:
            return bool(message["content"]["comm_id"] == "host")

        def states(self) -> tuple[Message, list[list[Any]], list[bytes]]:
            return {"host": {"state": {}}}, [["host", "p"]], [b"theirs"]

    scene.outputs.host_comms = Host()  # type: ignore[assignment]
    for action in ("comm_open", "comm_msg", "comm_close"):
        assert scene.show(wire.Comm(action, {"comm_id": "host", "target_name": "t"})) == []
    assert seal.asked == []
    scene.outputs.trusted = True
    answer = {"method": "update_states", "states": {"mine": {}, "host": {"forged": 1}}, "buffer_paths": [["mine"]]}
    (content,) = scene.show(wire.Comm("comm_msg", {"comm_id": "all", "data": answer}, {}, (b"mine",)))
    assert content["data"]["states"] == {"mine": {}, "host": {"state": {}}}, "the host has the last word on its own"
    assert content["data"]["buffer_paths"] == [["mine"], ["host", "p"]] and scene.buffers[-1] == [b"mine", b"theirs"]
    (content,) = scene.show(
        wire.Comm("comm_msg", {"comm_id": "all", "data": {**answer, "states": 3, "buffer_paths": 4}})
    )
    assert content["data"]["states"] == {"host": {"state": {}}}


def test_a_front_ends_comms_are_known(scene: Scene, seal: FakeSeal) -> None:
    scene.outputs.note_front_end("comm_open", {"comm_id": "f", "target_name": "t"})
    scene.outputs.note_front_end("comm_msg", {"comm_id": "f", "data": {}})
    assert scene.outputs.comms.known() == {"f": "t"} and seal.asked == ["opened by a front end"]
    scene.outputs.forget_guest()
    assert scene.outputs.comms.known() == {} and seal.forgot


def test_every_event_of_the_wire_was_thought_of() -> None:
    """An event that is new is shown, and then sealed, or it is not for front ends."""
    shown = {wire.Stream, wire.Comm, wire.ClearOutput, wire.ErrorRaised, *outputs._MESSAGE_TYPES}
    assert set(wire.Event.__args__) == shown | {wire.InputRequest, wire.Parent}
