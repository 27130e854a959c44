"""The protocol beyond jupyter_kernel_test: interrupts, input, comms, queues, order, control, life and death."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
import uuid
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest

from tests.conformance.client import PATIENCE, Kernel, eventually
from wasm_kernel.kernel.channels import PORTS

pytestmark = pytest.mark.filterwarnings("ignore")
SEALED = False  # what sealing changes is tested in kernel/seal
Start = Callable[..., Kernel]
VIEW = "application/vnd.jupyter.widget-view+json"


# ---- interrupts


@pytest.mark.parametrize(
    "code",
    [
        "while True: pass",
        "import time; time.sleep(60)",
        "import asyncio; await asyncio.sleep(60)",
        "import asyncio\nasync def f():\n    while True: pass\nawait f()",
        "import asyncio; asyncio.run(asyncio.sleep(60))",
        "import numpy as np\nwhile True: np.ones((300, 300)) @ np.ones((300, 300))",
        "try:\n    while True: pass\nfinally: print('cleaned up')",
        "while True: print('flood')",
    ],
)
def test_interrupt_ends_a_cell_and_keeps_its_variables(kernel: Kernel, code: str) -> None:
    running = kernel.start(f"before = 5\nprint('go')\n{code}")
    kernel.wait_for("stream", "go")
    time.sleep(0.1)
    kernel.manager.interrupt_kernel()
    cell = kernel.finish(running)
    assert cell.reply["ename"] == "KeyboardInterrupt"
    assert len(cell.of("error")) == 1
    assert kernel.run("before").result == "5"


def test_an_interrupted_await_can_clean_up_and_shows_the_cells_own_line(kernel: Kernel) -> None:
    code = "import asyncio\nprint('go')\ntry:\n    await asyncio.sleep(60)\nfinally:\n    await asyncio.sleep(0.1)\n    print('clean')"
    running = kernel.start(code)
    kernel.wait_for("stream", "go")
    time.sleep(0.3)  # until it waits
    kernel.manager.interrupt_kernel()
    cell = kernel.finish(running)
    assert cell.stdout == "go\nclean\n"
    assert "await asyncio.sleep(60)" in cell.traceback
    assert "CancelledError" not in cell.traceback


def test_interrupt_ends_input(kernel: Kernel) -> None:
    running = kernel.start("input('name? ')", allow_stdin=True)
    kernel.client.get_stdin_msg(timeout=PATIENCE)
    kernel.manager.interrupt_kernel()
    assert kernel.finish(running).reply["ename"] == "KeyboardInterrupt"
    assert kernel.run("input('? ')", answers=("works",)).result == "'works'"


def test_an_interrupt_with_nothing_to_interrupt_does_no_harm(kernel: Kernel) -> None:
    for _ in range(3):
        kernel.ask("interrupt_request", channel="control")
    assert kernel.run("1+1").result == "2"


def test_sigint_interrupts_too(kernel: Kernel) -> None:
    running = kernel.start("print('go')\nwhile True: pass")
    kernel.wait_for("stream", "go")
    os.kill(kernel.pid, signal.SIGINT)
    assert kernel.finish(running).reply["ename"] == "KeyboardInterrupt"


def test_so_it_does_when_the_server_is_a_background_job_that_ignores_it(start: Start) -> None:
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        kernel = start()  # a child ignores what its parent ignored
    finally:
        signal.signal(signal.SIGINT, before)
    test_sigint_interrupts_too(kernel)


def test_interrupt_request_gets_a_reply(kernel: Kernel) -> None:
    assert kernel.ask("interrupt_request", channel="control") == {"status": "ok"}


# ---- input


def test_input_shows_its_prompt_and_returns_the_line(kernel: Kernel) -> None:
    running = kernel.start("name = input('Who? ')\nprint(name[::-1])", allow_stdin=True)
    asked = kernel.client.get_stdin_msg(timeout=PATIENCE)
    assert asked["content"] == {"prompt": "Who? ", "password": False}
    assert asked["parent_header"]["msg_id"] == running
    kernel.client.input("Zoë ☃")
    assert kernel.finish(running).stdout == "☃ ëoZ\n"


def test_getpass_asks_for_a_password(kernel: Kernel) -> None:
    running = kernel.start("import getpass; p = getpass.getpass('Key: '); p", allow_stdin=True)
    assert kernel.client.get_stdin_msg(timeout=PATIENCE)["content"] == {"prompt": "Key: ", "password": True}
    kernel.client.input("s3cret")
    assert kernel.finish(running).result == "'s3cret'"


def test_several_inputs_in_one_cell(kernel: Kernel) -> None:
    assert kernel.run("[input() for _ in range(3)]", answers=("a", "", "c")).result == "['a', '', 'c']"


def test_control_d_is_the_end_of_input(kernel: Kernel) -> None:
    assert kernel.run("input()", answers=("\x04",)).reply["ename"] == "EOFError"


def test_a_client_without_stdin_is_not_asked(kernel: Kernel) -> None:
    for code in ("input()", "import getpass; getpass.getpass()"):
        assert kernel.run(code, allow_stdin=False).reply["ename"] == "StdinNotImplementedError"
    assert not kernel.client.stdin_channel.msg_ready()


# ---- comms and widgets


def test_a_comm_opened_by_the_client_speaks_both_ways_with_buffers(kernel: Kernel) -> None:
    kernel.ok(
        "def opened(comm, message):\n"
        "    comm.send({'hello': message['content']['data']})\n"
        "    @comm.on_msg\n"
        "    def _(m): comm.send({'got': m['content']['data']}, buffers=[bytes(b)[::-1] for b in m['buffers']])\n"
        "    comm.on_close(lambda m: print('closed'))\n"
        "get_ipython().kernel.comm_manager.register_target('echo', opened)"
    )
    assert kernel.open_comm("c1", "echo", {"a": 1}).of("comm_msg")[0]["data"] == {"hello": {"a": 1}}
    assert kernel.ask("comm_info_request", {"target_name": "echo"})["comms"] == {"c1": {"target_name": "echo"}}
    (answer,) = [
        m for m in kernel.comm("c1", {"n": 2}, [b"abc", bytes(range(256))]).messages if m["msg_type"] == "comm_msg"
    ]
    assert answer["content"] == {"comm_id": "c1", "data": {"got": {"n": 2}}}
    assert [bytes(b) for b in answer["buffers"]] == [b"cba", bytes(range(256))[::-1]]
    closed = kernel._without_reply(kernel.send("comm_close", {"comm_id": "c1", "data": {}}))
    assert closed.stdout == "closed\n"
    assert kernel.ask("comm_info_request", {"target_name": "echo"})["comms"] == {}


def test_a_comm_for_an_unknown_target_is_closed(kernel: Kernel) -> None:
    cell = kernel.open_comm("c2", "nobody")
    assert [c["comm_id"] for c in cell.of("comm_close")] == ["c2"]
    assert "c2" not in kernel.ask("comm_info_request")["comms"]
    assert kernel.comm("never-opened", {}).of("comm_msg") == []


def test_a_slider_made_by_a_cell_follows_the_front_end(kernel: Kernel) -> None:
    cell = kernel.ok(
        "import ipywidgets as w\n"
        "slider = w.IntSlider(3, max=20)\n"
        "slider.observe(lambda c: print('now', c['new']), 'value')\n"
        "slider"
    )
    opened = {c["comm_id"]: c["data"]["state"] for c in cell.of("comm_open")}
    model = cell.data[VIEW]["model_id"]
    assert opened[model]["value"] == 3
    assert model in kernel.ask("comm_info_request", {"target_name": "jupyter.widget"})["comms"]
    moved = kernel.comm(model, {"method": "update", "state": {"value": 7}, "buffer_paths": []})
    assert moved.stdout == "now 7\n"
    assert kernel.run("slider.value").result == "7"
    (update,) = [c for c in kernel.ok("slider.value = 9").of("comm_msg") if c["comm_id"] == model]
    assert update["data"]["state"] == {"value": 9}


def test_a_button_calls_back_and_an_output_widget_captures(kernel: Kernel) -> None:
    cell = kernel.ok(
        "import ipywidgets as w\nout, button = w.Output(), w.Button(description='Press')\n"
        "@button.on_click\n"
        "def _(b):\n"
        "    with out: print('pressed')\n"
        "display(button, out)"
    )
    button, out = (shown["data"][VIEW]["model_id"] for shown in cell.of("display_data"))
    click = kernel.comm(button, {"method": "custom", "content": {"event": "click"}, "buffer_paths": []})
    # The front end puts into the widget what arrives, with this parent, while msg_id names it.
    captured = [c["data"]["state"]["msg_id"] for c in click.of("comm_msg") if c["comm_id"] == out]
    parent = click.messages[0]["parent_header"]["msg_id"]
    assert captured == [parent, ""]
    order = [m["msg_type"] for m in click.outputs if m["msg_type"] == "stream" or "msg_id" in str(m["content"])]
    assert order == ["comm_msg", "stream", "comm_msg"]
    assert click.stdout == "pressed\n"


def test_an_error_in_a_callback_is_shown_and_ends_nothing(kernel: Kernel) -> None:
    cell = kernel.ok("import ipywidgets as w\nbad = w.Button()\nbad.on_click(lambda b: 1/0)\nbad")
    click = kernel.comm(cell.data[VIEW]["model_id"], {"method": "custom", "content": {"event": "click"}})
    assert "ZeroDivisionError" in click.said
    assert kernel.run("1+1").result == "2"


def test_interact_runs_the_function_again_for_each_value(kernel: Kernel) -> None:
    cell = kernel.ok("import ipywidgets as w\nw.interact(lambda x: print('x is', x), x=(0, 10));")
    assert "x is 5" in cell.stdout
    (slider,) = [
        c["comm_id"] for c in cell.of("comm_open") if c["data"]["state"].get("_model_name") == "IntSliderModel"
    ]
    moved = kernel.comm(slider, {"method": "update", "state": {"value": 8}, "buffer_paths": []})
    assert "x is 8" in moved.stdout
    assert "clear_output" in moved.kinds


def test_widgets_send_arrays_as_buffers(kernel: Kernel) -> None:
    cell = kernel.ok("import ipywidgets as w\nimage = w.Image(value=bytes(range(200)), format='png')")
    (opened,) = [
        m
        for m in cell.messages
        if m["msg_type"] == "comm_open" and m["content"]["data"]["state"].get("_model_name") == "ImageModel"
    ]
    assert opened["content"]["data"]["buffer_paths"] == [["value"]]
    assert bytes(opened["buffers"][0]) == bytes(range(200))


def test_a_progress_bar_of_tqdm_is_a_widget(kernel: Kernel) -> None:
    cell = kernel.ok("from tqdm.notebook import tqdm\nfor _ in tqdm(range(50)): pass")
    assert VIEW in cell.of("display_data")[0]["data"]
    values = [c["data"]["state"]["value"] for c in cell.of("comm_msg") if "value" in c["data"].get("state", {})]
    assert 50.0 in values
    assert cell.stderr == ""


# ---- displays


def test_clear_output_and_updates_keep_their_order(kernel: Kernel) -> None:
    cell = kernel.ok(
        "from IPython.display import *\n"
        "print('a')\n"
        "h = display('b', display_id='same')\n"
        "clear_output(wait=True)\n"
        "h.update('c')\n"
        "import sys; print('d', file=sys.stderr)\n"
        "update_display('e', display_id='same')\n"
        "'f'"
    )
    assert cell.kinds == [
        "stream",
        "display_data",
        "clear_output",
        "update_display_data",
        "stream",
        "update_display_data",
        "execute_result",
    ]
    assert cell.of("clear_output") == [{"wait": True}]
    assert {c["transient"]["display_id"] for c in cell.of("update_display_data")} == {"same"}


def test_stdout_and_stderr_arrive_in_the_order_they_were_written(kernel: Kernel) -> None:
    cell = kernel.ok("import sys\nfor n in range(50): print(n, file=sys.stdout if n % 2 else sys.stderr)")
    assert "".join(c["text"] for c in cell.of("stream")) == "".join(f"{n}\n" for n in range(50))


def test_output_comes_while_the_cell_runs(kernel: Kernel) -> None:
    running = kernel.start(
        "import os, time\nprint('early', end='')\nwhile not os.path.exists('go'): time.sleep(0.05)\nprint('late')"
    )
    kernel.wait_for("stream", "early")  # it has not ended: it waits for us
    (folder,) = [p for p in kernel.root.iterdir() if p.name != ".wasm-kernel"]
    (folder / "go").touch()
    assert kernel.finish(running).stdout == "earlylate\n"


# ---- execute


def test_busy_input_outputs_result_idle_in_this_order_and_the_reply_before_idle(kernel: Kernel) -> None:
    cell = kernel.ok("print('x')\n1")
    assert [m["msg_type"] for m in cell.messages] == ["status", "execute_input", "stream", "execute_result", "status"]
    states = [c["execution_state"] for c in cell.of("status")]
    assert states == ["busy", "idle"]


def test_silent_shows_nothing_counts_nothing_and_is_no_history(kernel: Kernel) -> None:
    number = kernel.ok("'first'").reply["execution_count"]
    cell = kernel.ok("print('x'); display(1); hidden = 1; 5", silent=True)
    assert [m["msg_type"] for m in cell.messages] == ["status", "status"]
    assert kernel.run("1/0", silent=True).kinds == []
    assert kernel.ok("hidden").reply["execution_count"] == number + 1
    tail = kernel.ask("history_request", {"hist_access_type": "tail", "n": 2, "output": False, "raw": True})
    assert [h[2] for h in tail["history"]] == ["'first'", "hidden"]


def test_without_store_history_nothing_is_counted(kernel: Kernel) -> None:
    number = kernel.ok("1").reply["execution_count"]
    assert kernel.ok("'not kept'", store_history=False).result == "'not kept'"
    assert kernel.ok("_").reply["execution_count"] == number + 1


def test_user_expressions_are_evaluated_after_the_cell(kernel: Kernel) -> None:
    cell = kernel.ok("a = 2", user_expressions={"sum": "a + 1", "bad": "nothing_here"})
    found = cell.reply["user_expressions"]
    assert found["sum"]["status"] == "ok"
    assert found["sum"]["data"]["text/plain"] == "3"
    assert found["bad"]["status"] == "error"
    assert found["bad"]["ename"] == "NameError"


def test_an_error_aborts_the_cells_that_wait(kernel: Kernel) -> None:
    ids = [kernel.start(c) for c in ("import time; time.sleep(.3); 1/0", "ran = 1", "ran = 2")]
    cells = [kernel.finish(i) for i in ids]
    assert [c.reply["status"] for c in cells] == ["error", "aborted", "aborted"]
    assert kernel.run("'next'").result == "'next'"
    assert kernel.run("ran").reply["ename"] == "NameError"


def test_a_cell_sent_in_answer_to_an_error_runs(kernel: Kernel) -> None:
    for _ in range(20):
        kernel.reply_to(kernel.start("1/0"))
        assert kernel.reply_to(kernel.start("1"))["content"]["status"] == "ok"


def test_without_stop_on_error_the_cells_that_wait_run(kernel: Kernel) -> None:
    ids = [kernel.start("import time; time.sleep(.3); 1/0", stop_on_error=False), kernel.start("ran = 3")]
    assert [kernel.finish(i).reply["status"] for i in ids] == ["error", "ok"]


def test_an_interrupt_aborts_the_cells_that_wait(kernel: Kernel) -> None:
    ids = [kernel.start("print('go')\nwhile True: pass"), kernel.start("never = 1")]
    kernel.wait_for("stream", "go")
    kernel.manager.interrupt_kernel()
    assert [kernel.finish(i).reply["status"] for i in ids] == ["error", "aborted"]


def test_requests_that_wait_behind_a_failed_cell_are_still_answered(kernel: Kernel) -> None:
    failing = kernel.start("import time; time.sleep(.3); 1/0")
    assert kernel.ask("kernel_info_request")["status"] == "ok"
    assert not kernel.finish(failing).ok
    kernel.ok("1")


def test_an_empty_cell_is_ok(kernel: Kernel) -> None:
    for code in ("", "   \n", "# only a comment"):
        assert kernel.ok(code).kinds == []


# ---- while a cell runs


@pytest.fixture
def busy(kernel: Kernel):
    running = kernel.start("print('go')\nimport time\ntime.sleep(1000)")
    kernel.wait_for("stream", "go")
    yield kernel
    kernel.manager.interrupt_kernel()
    kernel.finish(running)


@pytest.mark.parametrize("kind", ["kernel_info_request", "usage_request"])
def test_control_is_answered_while_a_cell_runs(busy: Kernel, kind: str) -> None:
    assert busy.ask(kind, channel="control")


def test_small_questions_are_answered_while_a_cell_runs(busy: Kernel) -> None:
    assert busy.ask("kernel_info_request")["status"] == "ok"
    assert busy.ask("complete_request", {"code": "zi", "cursor_pos": 2})["matches"] == []
    assert busy.ask("inspect_request", {"code": "zip", "cursor_pos": 3, "detail_level": 0})["status"] == "ok"
    assert busy.ask("is_complete_request", {"code": "1"})["status"] in ("complete", "unknown")
    assert busy.ask("comm_info_request")["status"] == "ok"
    history = busy.ask("history_request", {"hist_access_type": "tail", "n": 1, "output": False, "raw": True})
    assert history["history"]


def test_a_question_that_comes_while_another_is_answered_does_not_wait_for_the_end_of_the_cell(busy: Kernel) -> None:
    for number in range(200):  # one in fifteen met it
        first = busy.send("history_request", {"hist_access_type": "tail", "n": 1000, "output": False, "raw": True})
        time.sleep(number % 20 / 5000)
        second = busy.send("kernel_info_request")
        assert busy.reply_to(first)["content"]["status"] == "ok"
        assert busy.reply_to(second)["content"]["status"] == "ok"


def test_front_ends_still_see_busy_after_a_question_meanwhile(busy: Kernel) -> None:
    question = busy.send("kernel_info_request")
    assert busy.reply_to(question)
    while busy.wait_for("status", "idle")["parent_header"].get("msg_id") != question:
        pass
    assert busy.wait_for("status", "busy")


def test_the_heart_beats_while_a_cell_runs(busy: Kernel) -> None:
    time.sleep(1.5)  # what it knew before is too old
    assert eventually(busy.client.hb_channel.is_beating)


# ---- what the kernel says of itself


def test_kernel_info(kernel: Kernel) -> None:
    info = kernel.ask("kernel_info_request")
    assert info["implementation"] == "wasm_kernel"
    assert info["protocol_version"].startswith("5.")
    language = info["language_info"]
    assert language["name"] == "python"
    assert language["version"] == kernel.ok("import sys; print('%d.%d.%d' % sys.version_info[:3])").stdout.strip()
    assert {"mimetype", "codemirror_mode", "pygments_lexer", "nbconvert_exporter", "file_extension"} <= set(language)
    assert all(set(link) == {"text", "url"} for link in info["help_links"])
    assert len(info["help_links"]) > 3
    assert info["supported_features"] == []
    assert not info.get("debugger")
    assert "/app" in info["banner"]


def test_usage_counts_the_kernel(kernel: Kernel) -> None:
    usage = kernel.ask("usage_request", channel="control")
    assert usage["pid"] == kernel.pid
    assert usage["kernel_memory"] > 10 << 20
    assert "kernel_cpu" in usage


def test_what_is_not_there_is_answered_politely(kernel: Kernel) -> None:
    debug = kernel.ask("debug_request", {"type": "request", "seq": 1, "command": "initialize"}, channel="control")
    assert debug["status"] == "error"
    assert "%debug" in debug["evalue"]
    assert kernel.ask("create_subshell_request", channel="control")["status"] == "error"
    assert kernel.ask("delete_subshell_request", {"subshell_id": "x"}, channel="control")["status"] == "error"
    assert kernel.ask("list_subshell_request", channel="control") == {"status": "ok", "subshell_id": []}


def test_connect_request_names_the_ports(kernel: Kernel) -> None:
    assert kernel.ask("connect_request")["shell_port"] == kernel.client.shell_port


def test_a_message_of_unknown_type_is_ignored(kernel: Kernel) -> None:
    kernel.send("made_up_request")
    kernel.send("made_up_request", channel="control")
    assert kernel.run("1+1").result == "2"


def test_a_message_with_a_bad_signature_is_ignored(kernel: Kernel) -> None:
    session = kernel.client.session
    for channel in (kernel.client.shell_channel, kernel.client.control_channel):
        frames = session.serialize(session.msg("execute_request", {"code": "forged = 1", "silent": False}))
        frames[frames.index(b"<IDS|MSG>") + 1] = b"0" * 64
        channel.socket.send_multipart(frames)
        channel.socket.send_multipart([b"<IDS|MSG>", b"short"])
        channel.socket.send_multipart([b"rubbish"])
    assert kernel.run("forged").reply["ename"] == "NameError"


def test_a_message_that_was_sent_before_is_refused(kernel: Kernel) -> None:
    session = kernel.client.session
    kernel.ok("times = 0")
    frames = session.serialize(session.msg("execute_request", {"code": "times += 1", "silent": False}))
    kernel.client.shell_channel.socket.send_multipart(frames)
    kernel.client.shell_channel.socket.send_multipart(frames)
    assert kernel.run("times").result == "1"


def test_two_clients_see_the_same_outputs(kernel: Kernel) -> None:
    other = kernel.manager.blocking_client()
    other.start_channels()
    other.wait_for_ready(timeout=PATIENCE)
    cell = kernel.ok("print('to all')")
    assert cell.stdout == "to all\n"
    while True:
        message = other.get_iopub_msg(timeout=PATIENCE)
        if message["msg_type"] == "stream":
            assert message["content"]["text"] == "to all\n"
            break
    other.stop_channels()


# ---- life and death


def test_a_restart_forgets_variables_and_keeps_files_and_history(start: Start) -> None:
    kernel = start(WASM_KERNEL_SESSION=str(uuid.uuid4()))
    kernel.ok("gone = 1\nopen('kept.txt', 'w').write('file')")
    kernel.client.stop_channels()
    kernel.manager.restart_kernel()
    kernel.connect()
    assert kernel.run("gone").reply["ename"] == "NameError"
    cell = kernel.ok("open('kept.txt').read()")
    assert cell.result == "'file'"
    assert cell.reply["execution_count"] == 2
    tail = kernel.ask("history_request", {"hist_access_type": "tail", "n": 3, "output": False, "raw": True})["history"]
    assert [h[2].partition("\n")[0] for h in tail] == ["gone = 1", "gone", "open('kept.txt').read()"]
    assert tail[0][0] == tail[1][0] - 1, "each kernel is a session of history"


def test_shutdown_is_clean_twenty_times(tmp_path: Path) -> None:
    root = tmp_path / "sessions"
    for n in range(20):
        kernel = Kernel(root)
        if n % 2:
            kernel.ok("1+1")
        process = kernel.manager.provisioner.process
        kernel.client.shutdown()
        assert process.wait(timeout=PATIENCE) == 0
        kernel.stop()
    assert [p.name for p in root.iterdir()] == [".wasm-kernel"], "a session without files is not kept"
    assert list((root / ".wasm-kernel" / "locks").iterdir()) == [], "no lock is left"


def test_shutdown_ends_a_running_cell(start: Start) -> None:
    kernel = start()
    kernel.start("print('go')\nwhile True: pass")
    kernel.wait_for("stream", "go")
    process = kernel.manager.provisioner.process
    kernel.client.shutdown()
    assert process.wait(timeout=PATIENCE) == 0


def test_a_session_with_files_is_kept_and_free_after_shutdown(start: Start) -> None:
    kernel = start()
    kernel.ok("open('mine.txt', 'w').write('x')")
    process = kernel.manager.provisioner.process
    kernel.client.shutdown()
    process.wait(timeout=PATIENCE)
    (folder,) = [p for p in kernel.root.iterdir() if p.name != ".wasm-kernel"]
    again = start(WASM_KERNEL_SESSION=folder.name)
    assert again.run("open('mine.txt').read()").result == "'x'"


@pytest.mark.parametrize("sent", [signal.SIGTERM])
def test_a_signal_ends_the_kernel_cleanly(start: Start, sent: signal.Signals) -> None:
    kernel = start()
    process = kernel.manager.provisioner.process
    process.send_signal(sent)
    assert process.wait(timeout=PATIENCE) == 0


ORPHAN = """
import os, shutil, sys, time
from pathlib import Path
from jupyter_client.manager import KernelManager
m = KernelManager(kernel_name='wasm')
m.start_kernel()
c = m.blocking_client(); c.start_channels(); c.wait_for_ready(timeout=60)
c.execute_interactive('1', timeout=60)
if sys.argv[1] == 'gone':
    for folder in Path(os.environ['WASM_KERNEL_WORKSPACE']).iterdir():
        while folder.exists():
            shutil.rmtree(folder, ignore_errors=True)  # the kernel may be writing there
print(m.provisioner.process.pid, flush=True); time.sleep(0.3); os._exit(1)
"""


def gone(folder: Path) -> bool:
    """Delete a folder in which a kernel may be writing at the moment; whether that worked."""
    shutil.rmtree(folder, ignore_errors=True)
    return not folder.exists()


def has_ended(pid: int) -> bool:
    return not psutil.pid_exists(pid) or psutil.Process(pid).status() == "zombie"


@pytest.mark.parametrize("folder", ["there", "gone"])
@pytest.mark.parametrize("env", [{}, {"WASM_KERNEL_SESSION": "thesis"}], ids=["temporary", "named"])
def test_the_kernel_ends_when_its_parent_is_gone(tmp_path: Path, folder: str, env: dict[str, str]) -> None:
    environ = {**os.environ, "WASM_KERNEL_WORKSPACE": str(tmp_path / "sessions"), **env}
    done = subprocess.run(
        [sys.executable, "-c", ORPHAN, folder], env=environ, stdout=subprocess.PIPE, timeout=120, check=False
    )
    pid = int(json.loads(done.stdout))
    assert eventually(lambda: has_ended(pid))


@pytest.mark.parametrize("how", ["SIGTERM", "control", "shell"])
def test_the_kernel_ends_although_its_folder_is_gone(start: Start, how: str) -> None:
    kernel = start()
    kernel.ok("1")
    for folder in kernel.root.iterdir():
        assert eventually(lambda folder=folder: gone(folder))
    process = kernel.manager.provisioner.process
    if how == "SIGTERM":
        process.send_signal(signal.SIGTERM)
    else:
        assert kernel.ask("shutdown_request", {"restart": False}, channel=how)["status"] == "ok"
    assert process.wait(timeout=PATIENCE) == 0


def test_the_kernel_ends_when_its_parent_was_gone_before_it_could_look(tmp_path: Path) -> None:
    """Orphaned while it starts, it gets another parent before it has seen the first."""
    gone = subprocess.Popen([sys.executable, "-c", ""])
    gone.wait()
    connection = {"ip": "127.0.0.1", "transport": "tcp", "key": "", "signature_scheme": "hmac-sha256"}
    (tmp_path / "connection.json").write_text(json.dumps({**connection, **dict.fromkeys(PORTS, 0)}))
    environ = {**os.environ, "WASM_KERNEL_WORKSPACE": str(tmp_path / "sessions"), "JPY_PARENT_PID": str(gone.pid)}
    kernel = subprocess.Popen(
        [sys.executable, "-P", "-m", "wasm_kernel", "-f", tmp_path / "connection.json"], env=environ
    )
    try:
        assert kernel.wait(timeout=PATIENCE) == 0
    finally:
        kernel.kill()
        kernel.wait()


# ---- what runs between cells


def test_a_callback_that_never_ends_can_be_interrupted(start: Start) -> None:
    kernel = start()
    cell = kernel.ok(
        "import ipywidgets as w\nbad = w.Button()\n@bad.on_click\ndef _(b):\n    print('go')\n    while True: pass\nbad"
    )
    click = {"method": "custom", "content": {"event": "click"}}
    kernel.send("comm_msg", {"comm_id": cell.data[VIEW]["model_id"], "data": click})
    kernel.wait_for("stream", "go")
    waiting = kernel.start("'after the callback'")
    kernel.manager.interrupt_kernel()
    assert kernel.finish(waiting).result == "'after the callback'"


def test_a_background_task_that_never_ends_can_be_interrupted(start: Start) -> None:
    kernel = start()
    kernel.ok(
        "import asyncio\n"
        "async def hog():\n"
        "    await asyncio.sleep(0.3)\n"
        "    print('go')\n"
        "    while True: pass\n"
        "task = asyncio.create_task(hog())"
    )
    kernel.wait_for("stream", "go")
    waiting = kernel.start("'after the task'")
    time.sleep(0.3)
    kernel.manager.interrupt_kernel()
    assert kernel.finish(waiting).result == "'after the task'"


def test_a_task_that_hogs_its_own_cell_can_be_interrupted(start: Start) -> None:
    kernel = start()
    running = kernel.start(
        "import asyncio\nasync def hog():\n    print('go')\n    while True: pass\ntask = asyncio.create_task(hog())"
    )
    kernel.wait_for("stream", "go")
    time.sleep(0.2)
    kernel.manager.interrupt_kernel()
    assert kernel.finish(running).reply["status"] in ("ok", "error")
    assert kernel.run("1+1").result == "2"


def test_a_widget_message_waits_for_the_cell_that_runs(kernel: Kernel) -> None:
    cell = kernel.ok("import ipywidgets as w\nquick = w.IntSlider(1)\nquick")
    running = kernel.start("import time; time.sleep(0.5); seen = quick.value")
    update = {"method": "update", "state": {"value": 7}, "buffer_paths": []}
    kernel.send("comm_msg", {"comm_id": cell.data[VIEW]["model_id"], "data": update})
    assert kernel.finish(running).ok
    assert kernel.run("seen, quick.value").result == "(1, 7)"


def test_input_in_a_loop_of_many_questions(kernel: Kernel) -> None:
    answers = tuple(str(n) for n in range(20))
    assert kernel.run("sum(int(input()) for _ in range(20))", answers=answers).result == "190"


def test_a_cell_on_its_way_when_another_fails_is_aborted_and_one_sent_later_is_not(kernel: Kernel) -> None:
    """ "Run all" over a slow line: the second cell was sent right after the first, and arrives when that has failed."""
    client = kernel.client
    request = {"silent": False, "store_history": True, "user_expressions": {}, "allow_stdin": False}
    content = {**request, "stop_on_error": True}
    first = client.session.msg("execute_request", {**content, "code": "import time; time.sleep(0.3); 1/0"})
    second = client.session.msg("execute_request", {**content, "code": "print('second')"})
    client.shell_channel.send(first)
    assert client.get_shell_msg(timeout=60)["content"]["status"] == "error"
    client.shell_channel.send(second)
    assert client.get_shell_msg(timeout=60)["content"]["status"] == "aborted"
    assert kernel.run("print('third')").stdout == "third\n"
