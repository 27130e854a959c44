"""Calls for workers, and their results, as bytes. What a worker has is named rather than described (`workers.Team`)."""

import contextlib
import dis
import io
import pickle
import sys
import traceback
import types
import weakref

from . import door, integers, wire, worker_seeds

OK, RAISED, CANNOT_WORK = 1, 0, 2  # how a worker's result is marked
_LARGE = 1 << 20  # bytes of an array that is not pickled, if workers have it
_VERY_LARGE = 16 << 20  # bytes of one for which workers are forked anew
_MOST_TEXT = 1 << 20  # characters of a traceback
_READS = frozenset({"LOAD_GLOBAL", "LOAD_NAME", "LOAD_FROM_DICT_OR_GLOBALS"})


class Newer(Exception):
    """A call needs what the workers do not have."""


class RemoteTraceback(Exception):
    """Where an exception was raised in a worker, as text."""

    def __str__(self):
        return self.args[0]


class Call:
    """Something to be done by a worker. ``deliver(ok, value)`` is called with what came of it."""

    __slots__ = ("arguments", "deliver", "function", "keywords", "size")

    def __init__(self, deliver, function, arguments, keywords):
        self.deliver, self.function, self.arguments, self.keywords = deliver, function, arguments, keywords
        self.size = 0

    def run_here(self):
        """What comes of it without a worker."""
        try:
            return True, integers.call_for_people(self.function, self.arguments, self.keywords)
        except (KeyboardInterrupt, SystemExit):
            raise
        except BaseException as error:
            if error is door.time_limit:
                raise
            return False, error


def pickled(call, team):
    """A call for the workers of a team; `Newer` if they do not have what it needs."""
    file = io.BytesIO()
    _Pickler(file, team).dump((call.function, call.arguments, call.keywords))
    data = worker_seeds.next_one() + file.getvalue()
    if len(data) > wire.MAX_TASK_BYTES:
        raise ValueError(
            f"the arguments of a call have {len(data):,} bytes when pickled; {wire.MAX_TASK_BYTES:,} can be sent to a "
            "worker. Put them in a variable that the function uses, or in a file in /app"
        )
    return data


class _Pickler(pickle.Pickler):
    """Names what workers have, instead of describing it."""

    def __init__(self, file, team):
        super().__init__(file, 5)
        self._team = team

    def reducer_override(self, thing):
        team, kind = self._team, type(thing)
        if kind is types.FunctionType or isinstance(thing, type):
            if not _importable(thing):
                return _known, (team.number, team.refer(thing))
        elif kind.__module__ == "numpy" and kind.__name__ == "ndarray" and thing.dtype != object:
            if thing.nbytes >= _VERY_LARGE or (thing.nbytes >= _LARGE and team.knows(thing)):
                return _known_array, (team.number, team.refer(thing), team.share_arrays)
        elif kind.__name__ in ("DataFrame", "Series") and kind.__module__.startswith("pandas"):
            return self._frame(thing)
        return NotImplemented

    def _frame(self, thing):
        if thing.size * 8 < _LARGE or not self._team.knows(thing):
            return NotImplemented
        return _known_frame, (self._team.number, self._team.refer(thing))


_teams = weakref.WeakValueDictionary()  # by number


def join(team):
    """Let calls name what this team's workers have."""
    _teams[team.number] = team


def team_of(number):
    """A team by its number; None: nobody has it any more."""
    return _teams.get(number)


def teams():
    """All that somebody has."""
    return list(_teams.values())


def _importable(thing):
    """Whether a worker finds a function or a class by its name, in a module that does not change."""
    module = sys.modules.get(thing.__module__)
    if module is None or thing.__module__ == "__main__":
        return False
    found = module
    for name in thing.__qualname__.split("."):
        found = getattr(found, name, None)
    return found is thing


def identity(thing):
    """What tells something from everything else, while it is in a team's `known`."""
    if type(thing) is types.FunctionType and not (
        thing.__closure__ or thing.__defaults__ or thing.__kwdefaults__ or thing.__dict__
    ):
        return id(thing.__code__)  # a lambda in a loop is another function each time, and always the same
    return id(thing)


def _known(team, place):
    return _teams[team].known[place]


def _known_array(team, place, shared):
    array = _teams[team].known[place]
    if not shared:
        return array.copy(order="K")
    view = array.view()
    view.flags.writeable = False
    return view


def _known_frame(team, place):
    return _teams[team].known[place].copy(deep=False)  # copied when it is written to


def run(data):
    """Run a pickled call, in a worker: how it ended, and the pickled result."""
    try:
        worker_seeds.use(data[: worker_seeds.SIZE])
        function, arguments, keywords = pickle.loads(memoryview(data)[worker_seeds.SIZE :])
        found = pickle.dumps(integers.call_for_people(function, arguments, keywords), 5)
        if len(found) > wire.MAX_RESULT_BYTES:
            raise ValueError(
                f"the result of a call has {len(found):,} bytes when pickled; {wire.MAX_RESULT_BYTES:,} can be handed "
                "back. Write it to a file in /app, and return the file's name"
            )
        return OK, found
    except BaseException as error:
        return RAISED, _raised(error)


def _raised(error):
    """An exception and where it was raised, pickled; what it says, if it cannot be handed back itself."""
    text = text_of(error)[-_MOST_TEXT:]
    try:
        found = pickle.dumps((error, text), 5)
        if len(found) <= wire.MAX_RESULT_BYTES:
            pickle.loads(found)
            return found
    except BaseException:  # whatever its own code does
        pass
    said = "".join(traceback.format_exception_only(error)).strip()
    return pickle.dumps((RuntimeError(said[:_MOST_TEXT]), text), 5)


def result(status, data):
    """What a worker handed in, unpickled: whether the call returned, and what it returned or raised.

    A worker can hand in anything: what cannot be read is an error of its call.
    """
    try:
        value = pickle.loads(data)
        if status == OK:
            return True, value
        error, text = value
        error.__cause__ = RemoteTraceback(f'\n"""\n{text}"""')
    except (Exception, SystemExit) as unreadable:
        if unreadable is door.time_limit:
            raise
        return False, unreadable
    return False, error


def text_of(error):
    """A traceback, without the frames of this file."""
    below = error.__traceback__.tb_next or error.__traceback__
    return "".join(traceback.format_exception(type(error), error, below))


# ---- what functions of the notebook use


def namespace():
    """The notebook's variables."""
    return sys.modules["__main__"].__dict__


def add_names(thing, found):
    """Add the variables of the notebook that a function or a class reads, and those that these read."""
    _add_names(thing, found, set())


def _add_names(thing, found, seen):
    if isinstance(thing, type):
        for member in list(vars(thing).values()):
            _add_names(getattr(member, "__func__", member), found, seen)
        return
    if type(thing) is not types.FunctionType or id(thing) in seen:
        return
    seen.add(id(thing))
    for cell in thing.__closure__ or ():  # such as what a decorator has wrapped
        with contextlib.suppress(ValueError):  # an empty one
            _add_names(cell.cell_contents, found, seen)
    known = namespace()
    if thing.__globals__ is not known:
        return
    for name in _names_in(thing.__code__):
        if name in known and name not in found:
            found[name] = known[name]
            value = found[name]
            if type(value) is types.FunctionType or (isinstance(value, type) and value.__module__ == "__main__"):
                _add_names(value, found, seen)


def _names_in(code):
    """The global variables that code reads. Not `co_names`, which has the names of attributes, too."""
    for step in dis.get_instructions(code):
        if step.opname in _READS:
            yield step.argval
    for constant in code.co_consts:
        if type(constant) is types.CodeType:
            yield from _names_in(constant)
