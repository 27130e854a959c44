"""IPython's shell, speaking to the host instead of to a terminal."""

import builtins
import contextlib
import getpass
import sys
import types

from IPython.core import completerlib, page
from IPython.core.autocall import ZMQExitAutocall
from IPython.core.displayhook import DisplayHook
from IPython.core.displaypub import DisplayPublisher
from IPython.core.error import StdinNotImplementedError, UsageError
from IPython.core.interactiveshell import InteractiveShell
from traitlets import Any, Instance, Type, default
from traitlets.config import Config

from . import aio, comms, door, magics, next_steps, parents, quick_cells, wire
from .shims import NO_PROCESS

_INTERACTIVE_BACKENDS = ("notebook", "widget", "ipympl", "nbagg", "nbAgg", "module://ipympl.backend_nbagg")
allow_stdin = True
_HANDLERS = ("_on_interrupt", "_on_time_limit")  # the driver's, for signals
# What cells are called in the namespace. The base memory has these names and never counts references to them, so that
# looking through a namespace of many cells writes to nothing.
_CELL_NAMES = [sys.intern(f"{kind}{number}") for kind in ("_i", "_") for number in range(1, 2001)]


def text_of(error):
    """An exception's text, whatever it does when asked for it."""
    try:
        return str(error)
    except Exception:
        return "<exception str() failed>"


class Publisher(DisplayPublisher):
    """display(), update_display(), clear_output() as events."""

    _hooks = Any()

    @default("_hooks")
    def _default_hooks(self):
        return []

    def publish(self, data, metadata=None, *, transient=None, update=False, **kwargs):
        content = {"data": data, "metadata": metadata or {}, "transient": transient or {}}
        message = {"msg_type": "update_display_data" if update else "display_data", "content": content}
        for hook in self._hooks:  # ipywidgets.Output, IPython.utils.capture
            message = hook(message)
            if message is None:
                return
        kind = wire.UpdateDisplay if message["msg_type"] == "update_display_data" else wire.DisplayData
        door.send(kind(**message["content"]))

    def clear_output(self, wait=False):
        door.send(wire.ClearOutput(bool(wait)))

    def register_hook(self, hook):
        self._hooks.append(hook)

    def unregister_hook(self, hook):
        if hook in self._hooks:
            self._hooks.remove(hook)
            return True
        return False


class ResultHook(DisplayHook):
    """The value of a cell's last expression as an event."""

    _pending = Any(allow_none=True)

    def start_displayhook(self):
        self._pending = {"data": {}, "metadata": {}, "execution_count": 0}

    def write_output_prompt(self):
        self._pending["execution_count"] = self.prompt_count

    def write_format_data(self, format_dict, md_dict=None):
        self._pending["data"] = format_dict
        self._pending["metadata"] = md_dict or {}

    def finish_displayhook(self):
        pending, self._pending = self._pending, None
        if pending and pending["data"]:
            door.send(wire.ExecuteResult(**pending))


class Kernel:
    """What libraries reach for as ``get_ipython().kernel``; ipywidgets.Output asks for the request's header."""

    implementation = "wasm_kernel"

    @property
    def comm_manager(self):
        return comms.manager

    @property
    def _parent_header(self):
        return parents.current()

    @property
    def _parent_ident(self):
        return parents.idents

    def get_parent(self, channel=None):
        return parents.control if channel == "control" else parents.current()

    def set_parent(self, ident, parent, channel="shell"):
        if channel == "shell":
            parents.use(parent)


class ZMQInteractiveShell(InteractiveShell):
    """The name matters: rich, tqdm and others look for it to learn that they are in a notebook."""

    displayhook_class = Type(ResultHook)
    display_pub_class = Type(Publisher)
    kernel = Any()
    exiter = Instance(ZMQExitAutocall)
    input_transformer_manager = Instance(quick_cells.Transformer, ())
    keepkernel_on_exit = None
    last_traceback = None
    failed_in_displayhook = False

    @default("exiter")
    def _default_exiter(self):
        return ZMQExitAutocall(self)

    def init_environment(self):
        pass

    def init_hooks(self):
        super().init_hooks()
        self.set_hook("show_in_pager", page.as_hook(self._show_in_pager), 99)

    def _show_in_pager(self, text, start=0, screen_lines=0, pager_cmd=None):
        data = text if isinstance(text, dict) else {"text/plain": text}
        self.payload_manager.write_payload({"source": "page", "data": data, "start": max(0, start)})

    def set_next_input(self, text, replace=False):
        self.payload_manager.write_payload({"source": "set_next_input", "text": text, "replace": replace})

    # Which request output belongs to; in ipykernel a thread can have one of its own.

    @property
    def parent_header(self):
        return parents.current()

    @parent_header.setter
    def parent_header(self, message):
        parents.use(message)

    def get_parent(self):
        return parents.current()

    def set_parent(self, parent):
        parents.use(parent)

    def set_thread_parent(self, parent):
        return parents.use(parent)

    def reset_thread_parent(self, token):
        parents.reset(token)

    def ask_exit(self):
        self.exit_now = not self.keepkernel_on_exit
        self.payload_manager.write_payload({"source": "ask_exit", "keepkernel": bool(self.keepkernel_on_exit)})

    def _tee(self, channel):
        """IPython keeps a copy of all that is printed, for %notebook; that costs five times the print itself."""
        return contextlib.nullcontext()

    def _format_exception_for_storage(self, exception, filename=None, running_compiled_code=False):
        """IPython formats each traceback a second time, for %notebook; the one that was shown will do."""
        if self.last_traceback is None:
            return super()._format_exception_for_storage(exception, filename, running_compiled_code)
        return {"ename": type(exception).__name__, "evalue": text_of(exception), "traceback": self.last_traceback}

    def enable_matplotlib(self, gui=None):
        if gui in _INTERACTIVE_BACKENDS:
            print(f"%matplotlib {gui} cannot run in the sandbox; figures are shown inline.")
            gui = "inline"
        return super().enable_matplotlib(gui)

    def enable_gui(self, gui=None):
        if gui not in (None, "inline", "agg"):
            raise UsageError(f"no GUI event loop in the sandbox: {gui}")

    def push(self, variables, interactive=True):
        """As IPython's; names of cells are those that the base memory has."""
        if not interactive and isinstance(variables, dict):
            variables = {sys.intern(name): value for name, value in variables.items()}
        super().push(variables, interactive)

    def should_run_async(self, raw_cell, *, transformed_cell=None, preprocessing_exc_tuple=None):
        if transformed_cell is not None and not quick_cells.may_await(transformed_cell):
            return False
        return super().should_run_async(
            raw_cell, transformed_cell=transformed_cell, preprocessing_exc_tuple=preprocessing_exc_tuple
        )

    def run_cell(self, *args, **kwargs):
        self.last_traceback = None
        self.failed_in_displayhook = False
        return super().run_cell(*args, **kwargs)

    def _get_exc_info(self, exc_tuple=None):
        """An interrupt or a time limit is raised by a function of ours: that is not what the person wants to see."""
        etype, value, tb = super()._get_exc_info(exc_tuple)
        step = tb
        while step is not None and step.tb_next is not None:
            if step.tb_next.tb_frame.f_code.co_name in _HANDLERS and step.tb_next.tb_next is None:
                step.tb_next = None
            step = step.tb_next
        return etype, value, tb

    def showtraceback(self, exc_tuple=None, **options):
        """IPython prints the traceback of an exception group to stderr; a front end should see that it is an error."""
        etype, value, tb = exc_tuple or sys.exc_info()
        if isinstance(value, BaseException):
            next_steps.add(value)
        error = value
        while error is not None and not isinstance(error, BaseExceptionGroup):
            error = error.__context__
        if error is None:
            super().showtraceback(exc_tuple, **options)
            return
        import traceback

        while tb is not None and "/IPython/core/" in tb.tb_frame.f_code.co_filename:
            tb = tb.tb_next
        sys.last_type, sys.last_value, sys.last_traceback = etype, value, tb
        self._showtraceback(etype, value, "".join(traceback.format_exception(etype, value, tb)).splitlines())

    def _showtraceback(self, etype, evalue, stb):
        if self.displayhook._pending is not None:
            self.failed_in_displayhook = True
        lines = [str(line) for line in stb]
        door.send(wire.ErrorRaised(str(etype.__name__), text_of(evalue), lines))
        self.last_traceback = lines

    def system_piped(self, cmd):
        raise UsageError(NO_PROCESS + next_steps.command(cmd))

    system = system_raw = system_piped

    def getoutput(self, cmd, split=True, depth=0):
        raise UsageError(NO_PROCESS + next_steps.command(cmd))

    def init_magics(self):
        super().init_magics()
        magics.register(self)


def create():
    """The shell, once."""
    # IPython has a process module for a platform without processes; with it nothing reaches for termios.
    import IPython.utils._process_emscripten as without_processes

    sys.modules["IPython.utils._process_posix"] = without_processes
    config = Config()
    config.HistoryManager.hist_file = ":memory:"  # the host keeps history
    config.HistoryManager.db_cache_size = 100  # not a transaction per cell
    config.IPKernelApp.tqdm = "in a kernel"  # tqdm.autonotebook looks for this section
    config.IPCompleter.use_jedi = False  # imports what it completes, 1.6 s cold; knows no 3.15
    config.AliasManager.default_aliases = []
    config.AliasManager.user_aliases = []
    ZMQInteractiveShell.__module__ = "ipykernel.zmqshell"
    shell = ZMQInteractiveShell.instance(config=config)
    shell.loop_runner = aio.run_coroutine
    shell.loop_runner_map["asyncio"] = (aio.run_coroutine, True)  # for %autoawait asyncio
    _interruptible_pdb()
    shell.kernel = Kernel()
    shell.kernel.shell = shell
    shell.extension_manager.load_extension("storemagic")
    _stand_in_for_ipykernel()
    _complete_module_names()
    comms.install()
    builtins.input = _input
    getpass.getpass = _getpass
    return shell


def _stand_in_for_ipykernel():
    """Libraries look for ipykernel in sys.modules, or import its Comm; nothing needs the real one."""
    for name in ("ipykernel", "ipykernel.zmqshell", "ipykernel.comm", "ipykernel.kernelapp"):
        module = sys.modules[name] = types.ModuleType(name)
        module.__path__ = []
        if "." in name:
            setattr(sys.modules["ipykernel"], name.partition(".")[2], module)
    package = sys.modules["ipykernel"]
    package.__version__, package.version_info = "7.4.0", (7, 4, 0)
    package.zmqshell.ZMQInteractiveShell = ZMQInteractiveShell
    package.comm.Comm, package.comm.CommManager = comms.GuestComm, comms.CommManager


def _interruptible_pdb():
    """As in ipykernel: pdb's own prompt takes an interrupt for a wish to be asked again, so that nothing ends it."""
    import pdb

    from IPython.core import debugger

    debugger.Pdb = pdb.Pdb = debugger.InterruptiblePdb
    pdb.set_trace = debugger.set_trace


def _complete_module_names():
    """IPython offers sys.builtin_module_names, which here holds every linked extension, dotted."""
    import _imp
    import pkgutil

    def module_list(path):
        return [m.name for m in pkgutil.iter_modules([path or "."]) if m.name.isidentifier()]

    cache = {}

    def get_root_modules():
        names = {n for n in (*sys.builtin_module_names, *_imp._frozen_module_names()) if "." not in n}
        for path in sys.path:
            if path in ("", ".") or path not in cache:
                cache[path] = module_list(path)
            names.update(cache[path])
        return sorted(names)

    completerlib.module_list = module_list
    completerlib.get_root_modules = get_root_modules


def _ask(prompt, password):
    if not allow_stdin:
        asked = "getpass" if password else "raw_input"  # ipykernel's words
        raise StdinNotImplementedError(f"{asked} was called, but this frontend does not support input requests.")
    answer = door.send(wire.InputRequest(str(prompt), password))
    kind, text = answer[:1], answer[1:]
    if kind == wire.ANSWER_TEXT:
        return text.decode("utf-8", "replace")
    if kind == wire.ANSWER_INTERRUPTED:
        raise KeyboardInterrupt
    if kind == wire.ANSWER_EOF:
        raise EOFError("EOF when reading a line")
    raise StdinNotImplementedError("input was requested, but nobody is there to answer.")


_real_input = builtins.input


def _input(prompt="", /):
    if sys.stdin is not sys.__stdin__:  # somebody put another file there: that is asked, as everywhere
        return _real_input(prompt)
    return _ask(prompt, False)


def _getpass(prompt="Password: ", stream=None, *, echo_char=None):
    return _ask(prompt, True)
