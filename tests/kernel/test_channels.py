"""IOPub: one socket for all threads, in order."""

from __future__ import annotations

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


def test_gathered_messages_are_sent_in_order_whichever_thread_they_come_from(
    pair: tuple[IOPub, zmq.Socket[bytes]],
) -> None:
    iopub, subscriber = pair
    iopub.send_multipart([b"0"])
    assert subscriber.recv_multipart() == [b"0"]
    iopub.gather()
    iopub.send_multipart([b"1", b"busy"])
    other = threading.Thread(target=lambda: iopub.send_multipart([b"2", b"output"]))
    other.start()
    other.join()
    assert not subscriber.poll(50), "they wait"
    iopub.send_gathered()
    iopub.send_multipart([b"3"])
    assert [subscriber.recv_multipart() for _ in range(3)] == [[b"1", b"busy"], [b"2", b"output"], [b"3"]]


def test_what_waits_is_sent_before_the_socket_is_closed(pair: tuple[IOPub, zmq.Socket[bytes]]) -> None:
    iopub, subscriber = pair
    iopub.gather()
    iopub.send_multipart([b"last"])
    iopub.close()
    assert subscriber.recv_multipart() == [b"last"]
    iopub.send_multipart([b"too late"])
    iopub.send_gathered()
