"""Takes one request from the host, does it in the shell, replies. One call of `turn` is one turn of the guest."""

import io
import os
import signal
import sys

import _host

from . import shims, zip_modules

zip_modules.move()
shims.install()  # before IPython is imported, which looks around while it is

from . import (  # noqa: E402
    aio,
    comms,
    door,
    host_tools,
    installed,
    next_steps,
    parents,
    shelf,
    shell,
    shown_values,
    variables,
    warm,
    wire,
    workers,
)

_shell = None
_working = False  # whether there is something to interrupt
_early = None  # what is to be raised once there is


# ---- life


def boot():
    """Everything a base memory holds, from a bare interpreter. Runs once, when the image is built."""
    global _shell
    os.chdir("/app")
    sys.argv = [""]
    _streams()
    aio.install()
    parents.follow_tasks()
    _shell = shell.create()
    sys.path.insert(0, "")
    signal.signal(signal.SIGINT, _on_interrupt)
    signal.signal(signal.SIGXCPU, _on_time_limit)
    sys.setrecursionlimit(3000)


def _streams():
    """stdout and stderr without a buffer: the host gathers what is written, and sees it at once."""
    for name, fd in (("stdout", 1), ("stderr", 2)):
        raw = io.FileIO(fd, "w", closefd=False)
        stream = Stream(raw, encoding="UTF-8", errors="backslashreplace", newline="\n", write_through=True)
        setattr(sys, name, stream)
        setattr(sys, f"__{name}__", stream)


class Stream(io.TextIOWrapper):
    """As ipykernel's: no terminal, of the process that runs the cells."""

    def isatty(self):
        return False

    def _is_master_process(self):
        return True


def _on_interrupt(signum, frame):
    _tell(wire.InterruptSeen())
    error = KeyboardInterrupt()
    if _goes_at_once(error):
        raise error  # here: tracebacks leave out this function, and no other


def _on_time_limit(signum, frame):
    error = door.time_limit = TimeoutError("the time limit of this execution is over")
    if _goes_at_once(error):
        raise error


def _goes_at_once(error):
    """Whether to raise it now; otherwise it is kept for later."""
    global _early
    if door.held:
        door.waiting = error
        return False
    if not _working:
        _early = error
    return _working


def _tell(event):
    try:
        return _host.call(wire.encode_event(event))
    except OSError:
        return b""


def reseed(seed):
    """Randomness of its own, for a guest that starts from a memory which others start from, too."""
    import random

    random.seed(seed)
    numpy = shelf.find("numpy")
    if numpy is not None:
        numpy.random.seed(int.from_bytes(seed[:4], "little"))
        # default_rng() and uuid4() draw from os.urandom each time; sympy's numbers: `traces.py`
    processes = sys.modules.get("multiprocessing.process")
    if processes is not None:
        processes.current_process().authkey = os.urandom(32)
    import tempfile

    tempfile._name_sequence = None


# ---- requests


def do_execute(request, buffers):
    shell.allow_stdin = request.get("allow_stdin", True)
    sh = _shell
    if type(request.get("execution_count")) is int:  # the host counts: some of its magics never come here
        sh.execution_count = request["execution_count"]
    options = {
        "store_history": bool(request.get("store_history", True)) and not request.get("silent"),
        "silent": bool(request.get("silent")),
        "cell_id": request.get("cell_id"),
    }
    if options["store_history"]:
        for inputs in (sh.history_manager.input_hist_parsed, sh.history_manager.input_hist_raw):
            inputs.extend([""] * (sh.execution_count - len(inputs)))  # In[n] is cell n, also after those magics
    if request.get("tools"):
        host_tools.offer(sh, request["tools"])
    result = aio.run_cell(sh, request["code"], options)
    _end_workers(sh, result)
    error = result.error_before_exec if result.error_before_exec is not None else result.error_in_exec
    ok = result.success and not sh.failed_in_displayhook
    reply = {"status": "ok" if ok else "error"}
    if not ok:
        reply.update(ename=type(error).__name__, evalue=shell.text_of(error), traceback=sh.last_traceback or [])
        if isinstance(error, SystemExit):
            reply["exit_code"] = _exit_code(error.code)
    reply["execution_count"] = sh.execution_count - (1 if options["store_history"] else 0)
    reply["user_expressions"] = sh.user_expressions(request.get("user_expressions") or {}) if ok else {}
    reply["payload"] = sh.payload_manager.read_payload()
    sh.payload_manager.clear_payload()
    reply["next_task"] = aio.pump(0.02)
    if request.get("glance"):
        reply["variables"] = variables.summary(sh)
    return reply


def _end_workers(sh, result):
    """What the cell has submitted to process pools is done when the cell is, unless it failed."""
    if not workers.busy():
        return
    try:
        if result.success:
            workers.finish()
        else:
            workers.abandon()
    except BaseException as error:  # an interrupt, a time limit
        result.error_in_exec = error
        sh.showtraceback()


def do_program(request, buffers):
    """Run a file as `python FILE` would, in a fresh `__main__`: plain tracebacks, no last expression."""
    import traceback
    import types

    shell.allow_stdin = request.get("allow_stdin", True)
    name, source = request["name"], request["code"]
    main = types.ModuleType("__main__")
    main.__dict__.update(__builtins__=sys.modules["builtins"], __file__=name)
    before, argv = sys.modules.get("__main__"), sys.argv
    sys.modules["__main__"], sys.argv = main, [name, *request.get("arguments", ())]
    import linecache

    linecache.cache[name] = (len(source), None, source.splitlines(True), name)
    reply = {"status": "ok"}
    try:
        exec(compile(source, name, "exec"), main.__dict__)
        workers.finish()
    except SystemExit as error:
        if error.code is not None and not isinstance(error.code, int):
            print(error.code, file=sys.stderr)
        reply = {
            "status": "error",
            "ename": "SystemExit",
            "evalue": shell.text_of(error),
            "exit_code": _exit_code(error.code),
        }
    except BaseException as error:
        next_steps.add(error)
        where = error.__traceback__.tb_next
        if isinstance(error, SyntaxError) and error.filename == name:
            where = None
        lines = traceback.format_exception(type(error), error, where)
        print("".join(lines), end="", file=sys.stderr)
        reply = {"status": "error", "ename": type(error).__name__, "evalue": shell.text_of(error), "traceback": lines}
    finally:
        if before is not None:
            sys.modules["__main__"] = before
        sys.argv = argv
    return reply


def _exit_code(code):
    if code is None:
        return 0
    return code if isinstance(code, int) else 1


def do_complete(request, buffers):
    from IPython.core.completer import provisionalcompleter, rectify_completions

    code, position = request["code"], request["cursor_pos"]
    with provisionalcompleter():
        found = list(rectify_completions(code, _shell.Completer.completions(code, position)))
    return {
        "status": "ok",
        "matches": [c.text for c in found],
        "cursor_start": found[0].start if found else position,
        "cursor_end": found[0].end if found else position,
        "metadata": {
            "_jupyter_types_experimental": [
                {"start": c.start, "end": c.end, "text": c.text, "type": c.type, "signature": c.signature}
                for c in found
            ]
        },
    }


def do_inspect(request, buffers):
    from IPython.utils.tokenutil import token_at_cursor

    name = token_at_cursor(request["code"], request["cursor_pos"])
    reply = {"status": "ok", "data": {}, "metadata": {}, "found": False}
    try:
        bundle = _shell.object_inspect_mime(
            name, detail_level=request.get("detail_level", 0), omit_sections=request.get("omit_sections", ())
        )
    except KeyError:
        return reply
    if not _shell.enable_html_pager:
        bundle.pop("text/html", None)
    return {**reply, "data": bundle, "found": True}


def do_is_complete(request, buffers):
    status, indent = _shell.input_transformer_manager.check_complete(request["code"])
    return {"status": status, **({"indent": " " * (indent or 0)} if status == "incomplete" else {})}


def do_comm(request, buffers):
    comms.receive(request["action"], request["content"], request.get("metadata") or {}, buffers)
    return {"status": "ok", "next_task": aio.pump(0.02)}


def do_comm_info(request, buffers):
    return {"status": "ok", "comms": comms.known(request.get("target_name"))}


def do_pump(request, buffers):
    return {"status": "ok", "next_task": aio.pump(request.get("seconds", 0.05))}


def do_first_values(request, buffers):
    return {"status": "ok", "values": shown_values.first_values(_shell)}


def do_page(request, buffers):
    return {"status": "ok", **shown_values.page(_shell, request)}


def do_scrub(request, buffers):
    """Tell the host which memory is free: it holds what was there before, which no snapshot should.

    All of it is taken, while the host does not let the memory grow, told of, and given back.
    """
    numpy = shelf.find("numpy")
    spare = numpy.empty(2 << 20, numpy.uint8)  # to write the message with
    held, size = [], 1 << 30
    while size >= request["least"] and len(held) < request["most"]:
        try:
            held.append(numpy.empty(size, numpy.uint8))
        except MemoryError:
            size //= 2
    del spare
    _tell(wire.Unused([[block.__array_interface__["data"][0], block.nbytes] for block in held]))
    return {"status": "ok"}


def do_warm(request, buffers):
    return {**warm.up(_shell, request["part"]), "entry": id(turn)}


def do_objects(request, buffers):
    from . import immortal

    return {"status": "ok", "buffers": [immortal.addresses()]}


_REQUESTS = {
    "execute": do_execute,
    "program": do_program,
    "complete": do_complete,
    "inspect": do_inspect,
    "is_complete": do_is_complete,
    "comm": do_comm,
    "comm_info": do_comm_info,
    "pump": do_pump,
    "first_values": do_first_values,
    "page": do_page,
    "scrub": do_scrub,
    "warm": do_warm,
    "objects": do_objects,
}


def turn():
    """One request, one reply. An interrupt before its work begins waits until then; one after that is too late."""
    global _working, _early
    request, buffers = wire.decode(_host.call(wire.encode_event(wire.NextRequest())))
    parents.begin(request)
    start = request.get("fresh")
    if start is not None:
        reseed(bytes.fromhex(start["seed"]))
        os.environ.update(start["env"])
    elif "reseed" in request:
        reseed(bytes.fromhex(request["reseed"]))
    door.time_limit = door.waiting = None
    door.held = False
    workers.begin_turn(request.get("workers", 0))
    installed.use(request.get("packages", ""))
    next_steps.in_notebook, next_steps.memory_limit = bool(request.get("parent")), request.get("memory_limit", 0)
    next_steps.memory_most = request.get("memory_most", 0)
    try:
        _working = True
        if _early is not None:
            raise _early
        reply = _REQUESTS[request["op"]](request, buffers)
        _working = False
    except BaseException as error:
        _working = False
        import traceback

        reply = {
            "status": "error",
            "ename": type(error).__name__,
            "evalue": shell.text_of(error),
            "traceback": traceback.format_exc().splitlines(),
        }
    door.flush()
    try:
        _host.call(wire.encode_event(wire.Reply(reply, tuple(reply.pop("buffers", ()))), default=door.as_json))
    except OSError:  # refused: too large
        small = {
            key: reply.get(key)
            for key in ("status", "ename", "execution_count", "exit_code", "next_task")
            if key in reply
        }
        _tell(wire.Reply({**small, "evalue": "the reply was too large", "traceback": []}))
    _early = None
