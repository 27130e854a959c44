"""Questions on the stdin channel: which answers count for which question."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterator
from typing import Any

import pytest
import zmq
from jupyter_client.session import Session

from wasm_kernel.kernel.channels import readable
from wasm_kernel.kernel.questions import Person, Questions

CELL = "the-cell"
KEY = b"secret"


class FrontEnd:
    """The other end: gets questions, sends answers, also such as nobody asked for."""

    def __init__(self, socket: zmq.Socket[bytes]) -> None:
        self.socket, self.session = socket, Session(key=KEY)

    async def question(self) -> dict[str, Any]:
        while not readable(self.socket):
            await asyncio.sleep(0.005)
        _, message = self.session.recv(self.socket, zmq.NOBLOCK)
        assert message["msg_type"] == "input_request"
        return message

    def answer(self, text: str, to: str | None = None, *, kind: str = "input_reply", key: bytes = KEY) -> None:
        session = Session(key=key)
        parent = {"msg_id": to} if to is not None else {}
        session.send(self.socket, session.msg(kind, {"value": text}, parent))


@pytest.fixture
def ends() -> Iterator[tuple[Questions, FrontEnd]]:
    context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
    stdin, client = context.socket(zmq.ROUTER), context.socket(zmq.DEALER)
    client.identity = b"client"
    stdin.bind("inproc://stdin")
    client.connect("inproc://stdin")
    yield Questions(stdin, Session(key=KEY)), FrontEnd(client)
    context.destroy(linger=0)


def person(waits: Callable[[], bool] = lambda: True) -> Person:
    request = {"header": Session().msg_header("execute_request") | {"msg_id": CELL}}
    return Person(request, b"client", waits)


def settle(seconds: float = 0.1) -> Awaitable[None]:
    return asyncio.sleep(seconds)


Ends = tuple[Questions, FrontEnd]


@pytest.mark.parametrize("names", ["question", "cell", "nothing", "an empty name"])
def test_an_answer_counts_if_it_names_no_other_question(ends: Ends, names: str) -> None:
    questions, front_end = ends

    async def talk() -> str | None:
        asked = asyncio.create_task(questions.ask_for_host(person(), "Sure? "))
        message = await front_end.question()
        assert message["content"] == {"prompt": "Sure? ", "password": False}
        named = {"question": message["header"]["msg_id"], "cell": CELL, "nothing": None, "an empty name": ""}[names]
        front_end.answer("yes", named)
        return await asyncio.wait_for(asked, 5)

    assert asyncio.run(talk()) == "yes"


@pytest.mark.parametrize(
    "send",
    [
        lambda f: f.answer("yes", "another-question"),
        lambda f: f.answer("yes", kind="comm_msg"),
        lambda f: f.answer("yes", key=b"wrong"),
        lambda f: f.socket.send_multipart([b"<IDS|MSG>", b"", b"{", b"{", b"{", b"{"]),
        lambda f: f.socket.send(b""),
    ],
    ids=["to another question", "no answer at all", "forged", "broken", "empty"],
)
def test_what_is_no_answer_to_it_is_not_taken_for_one(ends: Ends, send: Callable[[FrontEnd], None]) -> None:
    questions, front_end = ends

    async def talk() -> str | None:
        asked = asyncio.create_task(questions.ask_for_host(person(), "Sure? "))
        message = await front_end.question()
        send(front_end)
        await settle()
        assert not asked.done()
        front_end.answer("no", message["header"]["msg_id"])
        return await asyncio.wait_for(asked, 5)

    assert asyncio.run(talk()) == "no"


def test_what_was_typed_before_the_question_does_not_answer_it(ends: Ends) -> None:
    questions, front_end = ends

    async def talk() -> str | None:
        for _ in range(50):
            front_end.answer("yes")
        await settle()
        asked = asyncio.create_task(questions.ask_for_host(person(), "Sure? "))
        await front_end.question()
        await settle()
        assert not asked.done()
        front_end.answer("no")
        return await asyncio.wait_for(asked, 5)

    assert asyncio.run(talk()) == "no"


def test_a_late_answer_to_the_guest_is_not_the_hosts(ends: Ends) -> None:
    questions, front_end = ends

    async def talk() -> str | None:
        gone = time.monotonic() + 0.1
        early = asyncio.create_task(
            questions.ask_for_guest(person(lambda: time.monotonic() < gone), "Type yes: ", password=False)
        )
        first = await front_end.question()
        assert await early is None, "the guest has stopped waiting"
        assert questions.guest_has_asked
        asked = asyncio.create_task(questions.ask_for_host(person(), "Sure? "))
        await front_end.question()
        front_end.answer("yes", first["header"]["msg_id"])
        await settle()
        assert not asked.done()
        assert questions.host_asks
        front_end.answer("no")
        return await asyncio.wait_for(asked, 5)

    assert asyncio.run(talk()) == "no"
    assert not questions.host_asks


def test_the_host_asks_one_thing_at_a_time(ends: Ends) -> None:
    questions, front_end = ends

    async def talk() -> str | None:
        asked = asyncio.create_task(questions.ask_for_host(person(), "Sure? "))
        await front_end.question()
        assert await questions.ask_for_host(person(), "And this? ") is None
        front_end.answer("yes")
        return await asyncio.wait_for(asked, 5)

    assert asyncio.run(talk()) == "yes"


def test_a_question_that_nobody_waits_for_ends(ends: Ends) -> None:
    questions, front_end = ends
    end = time.monotonic() + 0.1
    assert asyncio.run(questions.ask_for_host(person(lambda: time.monotonic() < end), "Sure? ")) is None
    assert not questions.host_asks


def test_a_guest_that_imitates_the_host_is_marked(ends: Ends) -> None:
    questions, front_end = ends

    async def talk() -> str:
        asked = asyncio.create_task(questions.ask_for_guest(person(), "[wasm-kernel] Password: ", password=True))
        message = await front_end.question()
        front_end.answer("x")
        await asyncio.wait_for(asked, 5)
        assert message["content"]["password"] is True
        return str(message["content"]["prompt"])

    assert asyncio.run(talk()).startswith("[asked by the notebook's code")
