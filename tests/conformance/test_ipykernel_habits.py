"""What ipykernel's own tests ask of a kernel, and ours did not do. `make test-ipykernel` runs those tests themselves."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable

import pytest
from jupyter_client.manager import KernelManager

from tests.conformance.client import PATIENCE, Kernel, eventually

SEALED = False  # comms of any target pass

_PRINTS_LATER = """
import asyncio
async def later(name):
    for i in range(3):
        await asyncio.sleep(0.1)
        print(name, i)
    display(name)
task = asyncio.get_running_loop().create_task(later({!r}))
"""


def wait_for_end(kernel: Kernel, shown: str) -> dict[str, str]:
    """What each request printed, once something was shown: text by message id."""
    kernel.wait_for("display_data", shown)
    printed: dict[str, str] = {}
    for message in kernel.others:
        if message["msg_type"] == "stream":
            parent = message["parent_header"]["msg_id"]
            printed[parent] = printed.get(parent, "") + message["content"]["text"]
    return printed


def test_autoawait_asyncio_keeps_top_level_await(kernel: Kernel) -> None:
    kernel.ok("%autoawait asyncio")
    assert kernel.run("import asyncio\nawait asyncio.sleep(0.01, 'awaited')").result == "'awaited'"


def test_a_task_prints_into_the_cell_that_started_it(kernel: Kernel) -> None:
    first = kernel.start(_PRINTS_LATER.format("one"))
    kernel.finish(first)
    later = kernel.ok("print('another cell')")
    assert later.stdout == "another cell\n"
    printed = wait_for_end(kernel, "one")
    assert printed[first] == "one 0\none 1\none 2\n"
    shown = [m for m in kernel.others if m["msg_type"] == "display_data"]
    assert shown[-1]["parent_header"]["msg_id"] == first


def test_tasks_of_two_cells_print_into_their_own_while_a_third_awaits(kernel: Kernel) -> None:
    first = kernel.start(_PRINTS_LATER.format("first"))
    second = kernel.start(_PRINTS_LATER.format("second"))
    third = kernel.start("print('before'); await asyncio.sleep(1); print('after')")
    kernel.finish(first)
    kernel.finish(second)
    cell = kernel.finish(third)
    assert cell.stdout == "before\nafter\n"
    for name, cell_id in (("first", first), ("second", second)):
        texts = [
            m["content"]["text"]
            for m in kernel.others
            if m["msg_type"] == "stream" and m["parent_header"]["msg_id"] == cell_id
        ]
        assert "".join(texts) == f"{name} 0\n{name} 1\n{name} 2\n"


def test_a_result_after_an_await_is_the_cells_own(kernel: Kernel) -> None:
    kernel.ok(_PRINTS_LATER.format("meanwhile"))
    cell = kernel.ok("await asyncio.sleep(0.5); 'mine'")
    assert cell.result == "'mine'"


def test_a_cell_can_print_into_an_earlier_one(kernel: Kernel) -> None:
    first = kernel.start("parent = get_ipython().get_parent()")
    kernel.finish(first)
    cell = kernel.ok(
        "token = get_ipython().set_thread_parent(parent)\nprint('there')\n"
        "get_ipython().reset_thread_parent(token)\nprint('here')"
    )
    assert cell.stdout == "here\n"
    assert kernel.others[-1]["content"]["text"] == "there\n"
    assert kernel.others[-1]["parent_header"]["msg_id"] == first


def test_a_parent_that_is_no_request_is_ignored(kernel: Kernel) -> None:
    code = "import wasm_guest.door as d, wasm_guest.wire as w\nd.send(w.Parent('{}'))\nprint('shown')"
    for name in ("", "no such request", "x" * 100_000):
        assert kernel.run(code.format(name)).stdout == "shown\n"


@pytest.mark.parametrize("how", ["import pdb; pdb.set_trace()", "breakpoint()", "def f():\n    breakpoint()\nf()"])
def test_an_interrupt_ends_the_debugger(kernel: Kernel, how: str) -> None:
    cell = kernel.start(how, allow_stdin=True)
    kernel.client.get_stdin_msg(timeout=PATIENCE)
    kernel.ask("interrupt_request", {}, "control")
    assert "--KeyboardInterrupt--" in kernel.finish(cell).stdout
    assert kernel.run("3 + 4").result == "7"


def test_get_parent_is_the_request(kernel: Kernel) -> None:
    kernel.ask("kernel_info_request", {}, "control")
    code = (
        "k = get_ipython().kernel; p = k.get_parent('shell')\n"
        "(p['header']['session'], p['header']['msg_id'], p['content']['code'][:5], p['metadata'],"
        " type(p['header']['date']).__name__, p['header']['username'], k._parent_ident,"
        " k.get_parent('control')['header']['msg_type'])"
    )
    msg_id = kernel.start(code)
    session = kernel.client.session.session
    ident = {channel: [session.encode()] for channel in ("shell", "control")}
    found = (session, msg_id, "k = g", {}, "datetime", "", ident, "kernel_info_request")
    shown = kernel.finish(msg_id).result
    assert shown is not None
    assert "".join(shown.split()) == "".join(repr(found).split())


def test_streams_belong_to_the_process(kernel: Kernel) -> None:
    assert kernel.run("import sys; sys.stdout._is_master_process(), sys.stderr._is_master_process()").result == (
        "(True, True)"
    )


def test_replies_on_control_say_when_work_began(kernel: Kernel) -> None:
    reply = kernel.reply_to(kernel.send("execute_request", {"code": "1"}, "control"), "control")
    assert reply["content"]["ename"] == "WrongChannel"
    assert reply["metadata"]["started"]


@pytest.mark.parametrize(
    "options", [["--profile-dir", "/nowhere"], ["--profile=x", "--matplotlib=inline", "--no-secure", "--pylab"]]
)
def test_ipykernels_options_do_not_stop_the_kernel(options: list[str], tmp_path: object) -> None:
    manager = KernelManager(kernel_name="wasm")
    manager.start_kernel(extra_arguments=options)
    client = manager.blocking_client()
    client.start_channels()
    try:
        client.wait_for_ready(timeout=PATIENCE)
    finally:
        client.stop_channels()
        manager.shutdown_kernel(now=True)


def test_an_option_that_nobody_knows_is_an_error() -> None:
    command = [sys.executable, "-m", "wasm_kernel", "--no-such-option"]
    assert subprocess.run(command, capture_output=True, timeout=PATIENCE).returncode != 0


@pytest.mark.parametrize("backend", ["notebook", "widget"])
def test_interactive_figures_fall_back_to_inline(kernel: Kernel, backend: str) -> None:
    cell = kernel.ok(f"%matplotlib {backend}")
    assert cell.stdout == f"%matplotlib {backend} cannot run in the sandbox; figures are shown inline.\n"
    assert cell.kinds == ["stream"]
    shown = kernel.ok("import matplotlib.pyplot as plt\nplt.plot([1, 2]);")
    assert "image/png" in shown.of("display_data")[0]["data"]


@pytest.mark.parametrize("code", ["exit()", "quit()", "exit", "quit", "if True:\n    exit()\nprint('goes on')"])
def test_exit_ends_the_kernel_after_the_reply(start: Callable[..., Kernel], code: str) -> None:
    kernel = start()
    kernel.ok("kept = 1")
    cell = kernel.start(code)
    never = kernel.start("print('not run')")
    ended = kernel.finish(cell)
    assert ended.ok
    assert ended.stdout == ("goes on\n" if "print" in code else "")
    assert eventually(lambda: not kernel.manager.is_alive())
    time.sleep(0.2)
    while kernel.client.iopub_channel.msg_ready():
        kernel.others.append(kernel.client.get_iopub_msg(timeout=1))
    assert not [m for m in kernel.others if m["parent_header"].get("msg_id") == never and m["msg_type"] == "stream"]
    assert kernel.manager.provisioner.process is None or kernel.manager.provisioner.process.returncode == 0


def test_exit_can_keep_the_kernel(kernel: Kernel) -> None:
    kernel.ok("exit(keep_kernel=True)")
    assert kernel.run("1 + 1").result == "2"


_AWAITS_A_MESSAGE = """
import asyncio, comm
told = asyncio.get_running_loop().create_future()
widget = comm.create_comm(target_name='test')
def on_msg(message):
    print('in the handler', message['content']['data']['value'], len(message['buffers']))
    told.set_result(message['content']['data']['value'])
widget.on_msg(on_msg)
print('awaiting')
value = await {}
print('got', value)
"""


@pytest.mark.parametrize("how", ["told", "asyncio.wait_for(told, 30)"])
def test_a_widgets_message_reaches_a_cell_that_awaits_it(kernel: Kernel, how: str) -> None:
    cell = kernel.start(_AWAITS_A_MESSAGE.format(how))
    opened = kernel.wait_for("comm_open")
    next_cell = kernel.start("value + 1")
    message = kernel.send("comm_msg", {"comm_id": opened["content"]["comm_id"], "data": {"value": 42}}, buffers=[b"x"])
    done = kernel.finish(cell)
    assert done.stdout == "awaiting\ngot 42\n"
    assert kernel.finish(next_cell).result == "43"
    of_message = [m for m in kernel.others if m["parent_header"].get("msg_id") == message]
    assert [m["content"].get("execution_state") or m["content"]["text"] for m in of_message] == [
        "busy",
        "in the handler 42 1\n",
        "idle",
    ]


def test_messages_reach_a_cell_whose_tasks_never_rest(kernel: Kernel) -> None:
    cell = kernel.start(
        "import asyncio, comm\nseen = []\nw = comm.create_comm(target_name='busy')\n"
        "w.on_msg(lambda m: seen.append(m['content']['data']))\n"
        "while len(seen) < 3:\n    await asyncio.sleep(0)\nprint(seen)"
    )
    comm_id = kernel.wait_for("comm_open")["content"]["comm_id"]
    for i in range(3):
        kernel.send("comm_msg", {"comm_id": comm_id, "data": i})
    assert kernel.finish(cell).stdout == "[0, 1, 2]\n"


def test_messages_wait_for_a_cell_that_awaits_nothing(kernel: Kernel) -> None:
    cell = kernel.start(
        "import comm, time\nw = comm.create_comm(target_name='later'); seen = []\n"
        "w.on_msg(lambda m: seen.append(1))\ntime.sleep(0.5); print(seen)"
    )
    comm_id = kernel.wait_for("comm_open")["content"]["comm_id"]
    kernel.send("comm_msg", {"comm_id": comm_id, "data": {}})
    assert kernel.finish(cell).stdout == "[]\n"
    assert kernel.run("seen").result == "[1]"


@pytest.mark.parametrize("what", ["asyncio.sleep(60)", "asyncio.Future()", "asyncio.gather(asyncio.sleep(60))"])
def test_an_interrupt_ends_what_a_cell_awaits(kernel: Kernel, what: str) -> None:
    cell = kernel.start(f"import asyncio; print('waits'); await {what}")
    kernel.wait_for("stream", "waits")
    kernel.ask("interrupt_request", {}, "control")
    assert kernel.finish(cell).reply["ename"] in ("KeyboardInterrupt", "CancelledError")
    assert kernel.run("await asyncio.sleep(0.01, 'goes on')").result == "'goes on'"


def test_a_guest_that_waits_for_nonsense_harms_nobody(kernel: Kernel) -> None:
    code = "import wasm_guest.door as d, wasm_guest.wire as w\nd.send(w.Waiting({}))"
    for seconds in ("float('nan')", "-1.0", "0.0", "1e-9"):
        kernel.ok(code.format(seconds))
    assert kernel.run("1 + 1").result == "2"
