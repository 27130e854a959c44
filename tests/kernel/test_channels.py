"""IOPub: one socket for all threads, in order."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator

import pytest
import zmq

from wasm_kernel.kernel.channels import IOPub


@pytest.fixture
def pair() -> Iterator[tuple[IOPub, zmq.Socket[bytes]]]:
    context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
    publisher, subscriber = context.socket(zmq.XPUB), context.socket(zmq.SUB)
    port = publisher.bind_to_random_port("tcp://127.0.0.1")
    subscriber.subscribe(b"")
    subscriber.rcvtimeo = 5000
    subscriber.connect(f"tcp://127.0.0.1:{port}")
    assert publisher.poll(5000), "its subscription arrived"
    iopub = IOPub(publisher)
    yield iopub, subscriber
    iopub.close()
    subscriber.close()
    context.term()


@pytest.fixture
def loop() -> Iterator[asyncio.AbstractEventLoop]:
    loop = asyncio.new_event_loop()
    yield loop
    loop.close()


def test_gathered_messages_are_sent_in_order_whichever_thread_they_come_from(
    pair: tuple[IOPub, zmq.Socket[bytes]], loop: asyncio.AbstractEventLoop
) -> None:
    iopub, subscriber = pair
    iopub.send_multipart([b"0"])
    assert subscriber.recv_multipart() == [b"0"]
    with iopub.gathering(loop):
        iopub.send_made(lambda: [b"1", b"busy"])
        other = threading.Thread(target=lambda: iopub.send_multipart([b"2", b"output"]))
        other.start()
        other.join()
        assert not subscriber.poll(50), "they wait"
        iopub.send_gathered()
        iopub.send_multipart([b"3"])
        assert [subscriber.recv_multipart() for _ in range(3)] == [[b"1", b"busy"], [b"2", b"output"], [b"3"]]
    with iopub.gathering(loop):
        iopub.send_multipart([b"4"])
    assert subscriber.recv_multipart() == [b"4"], "at the end at the latest"


def test_gathered_messages_wait_for_a_moment_only(
    pair: tuple[IOPub, zmq.Socket[bytes]], loop: asyncio.AbstractEventLoop
) -> None:
    iopub, subscriber = pair
    with iopub.gathering(loop):
        iopub.send_multipart([b"busy"])
        loop.run_until_complete(asyncio.sleep(0.1))
        assert subscriber.recv_multipart() == [b"busy"]


def test_a_message_that_cannot_be_made_takes_no_other_with_it(pair: tuple[IOPub, zmq.Socket[bytes]]) -> None:
    iopub, subscriber = pair
    iopub.send_made(lambda: ["\ud800".encode()])
    iopub.send_multipart([b"next"])
    assert subscriber.recv_multipart() == [b"next"]


def test_what_waits_is_sent_before_the_socket_is_closed(
    pair: tuple[IOPub, zmq.Socket[bytes]], loop: asyncio.AbstractEventLoop
) -> None:
    iopub, subscriber = pair
    with iopub.gathering(loop):
        iopub.send_multipart([b"last"])
        iopub.close()
        assert subscriber.recv_multipart() == [b"last"]
        iopub.send_multipart([b"too late"])
