"""Thirty kinds of object that a notebook may hold: a cell that makes each, and one that checks it later.

Imported by the tests of snapshots and by the benchmark, which runs the same cells in other kernels. Each check is an
expression, or lines that end in one, and must be True. Names begin with the kind's, so that all can live in one
notebook. Nothing here depends on where it runs; files go to the current folder.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Kind:
    """``make`` is a cell; ``check`` is one whose last line is an expression that must be True."""

    name: str
    make: str
    check: str


def _kind(name: str, make: str, check: str) -> Kind:
    return Kind(name, make.strip("\n"), check.strip("\n"))


KINDS = [
    _kind(
        "generator",
        "def generator_of(n):\n    received = []\n    for i in range(n):\n        received.append((yield i * i))\n    return received\ngenerator_it = generator_of(5); next(generator_it); generator_it.send('a')",
        "generator_it.send('b') == 4 and generator_it.gi_frame.f_locals['received'] == ['a', 'b']",
    ),
    _kind(
        "coroutine",
        "import types\n@types.coroutine\ndef coroutine_pause(v):\n    return (yield v)\nasync def coroutine_of():\n    first = await coroutine_pause(1)\n    second = await coroutine_pause(first + 1)\n    return first + second\ncoroutine_it = coroutine_of(); coroutine_it.send(None)",
        "coroutine_next = coroutine_it.send(10)\ntry:\n    coroutine_it.send(5)\nexcept StopIteration as e:\n    coroutine_value = e.value\n(coroutine_next, coroutine_value) == (11, 15)",
    ),
    _kind(
        "lambda over closures",
        "def lambda_make():\n    count = 0\n    def bump():\n        nonlocal count\n        count += 1\n        return count\n    return bump, lambda: count * 10\nlambda_bump, lambda_read = lambda_make(); lambda_bump(); lambda_bump()",
        "lambda_bump() == 3 and lambda_read() == 30",
    ),
    _kind(
        "class defined in a cell",
        "class ClassBase:\n    made = 0\n    def __init__(self): type(self).made += 1\nclass ClassHere(ClassBase):\n    __slots__ = ('value',)\n    @property\n    def double(self): return self.value * 2\nclass_it = ClassHere(); class_it.value = 21",
        "class_it.double == 42 and type(class_it) is ClassHere and ClassHere.made == 1 and isinstance(class_it, ClassBase)",
    ),
    _kind(
        "open file",
        "open('file_text', 'w').write('one\\ntwo\\nthree\\n')\nfile_read = open('file_text'); file_read.readline()\nfile_write = open('file_out', 'w'); file_write.write('begun,')",
        "file_line = file_read.readline(); file_write.write('ended'); file_write.flush()\nfile_line == 'two\\n' and open('file_out').read() == 'begun,ended'",
    ),
    _kind(
        "sqlite connection and cursor",
        "import sqlite3\nsqlite_db = sqlite3.connect(':memory:'); sqlite_db.execute('create table t (n)')\nsqlite_db.executemany('insert into t values (?)', [(i,) for i in range(5)])\nsqlite_db.create_function('twice', 1, lambda n: 2 * n)\nsqlite_cursor = sqlite_db.execute('select twice(n) from t order by n'); sqlite_cursor.fetchone()",
        "sqlite_cursor.fetchall() == [(2,), (4,), (6,), (8,)] and sqlite_db.in_transaction",
    ),
    _kind(
        "matplotlib figure",
        "import matplotlib; matplotlib.use('agg')\nimport matplotlib.pyplot as plt\nfigure_it, figure_axes = plt.subplots(); figure_line, = figure_axes.plot([1, 2, 3], [4, 1, 9]); figure_axes.set_title('before')",
        "figure_axes.set_title('after'); figure_line.set_ydata([1, 2, 3]); figure_it.canvas.draw()\nfigure_it.axes[0] is figure_axes and plt.figure(figure_it.number) is figure_it and len(bytes(figure_it.canvas.buffer_rgba())) > 1000",
    ),
    _kind(
        "sklearn pipeline",
        "from sklearn.pipeline import make_pipeline\nfrom sklearn.preprocessing import StandardScaler\nfrom sklearn.linear_model import LogisticRegression\nimport numpy as np\nsklearn_x = np.arange(20.0).reshape(10, 2); sklearn_y = np.arange(10) > 4\nsklearn_it = make_pipeline(StandardScaler(), LogisticRegression()).fit(sklearn_x, sklearn_y)\nsklearn_said = sklearn_it.predict_proba(sklearn_x)",
        "bool((sklearn_it.predict_proba(sklearn_x) == sklearn_said).all()) and sklearn_it.score(sklearn_x, sklearn_y) == 1.0",
    ),
    _kind(
        "compiled regex",
        "import re\nregex_it = re.compile(r'(?P<word>\\w+)-(\\d+)'); regex_match = regex_it.search('say abc-42'); regex_scan = regex_it.finditer('a-1 b-2 c-3'); next(regex_scan)",
        "regex_match['word'] == 'abc' and regex_match.re is regex_it and next(regex_scan).group() == 'b-2'",
    ),
    _kind(
        "random number generators",
        "import random, numpy as np\nrandom.seed(7); np.random.seed(7); random_it = np.random.default_rng(7); random_own = random.Random(7)\nrandom_state = random.getstate(), np.random.get_state()[1].copy(), random_it.bit_generator.state, random_own.getstate()",
        "random.getstate() == random_state[0] and bool((np.random.get_state()[1] == random_state[1]).all()) and random_it.bit_generator.state == random_state[2] and random_own.getstate() == random_state[3]",
    ),
    _kind(
        "iterator half consumed",
        "iterator_list = [1, 2, 3, 4]; iterator_it = iter(iterator_list); next(iterator_it)\niterator_dict = iter({'a': 1, 'b': 2}.items()); next(iterator_dict)\niterator_map = map(str.upper, 'abc'); next(iterator_map)",
        "iterator_list.append(5)\nlist(iterator_it) == [2, 3, 4, 5] and next(iterator_dict) == ('b', 2) and ''.join(iterator_map) == 'BC'",
    ),
    _kind(
        "weakrefs",
        "import weakref, gc\nclass WeakThing: pass\nweak_alive = WeakThing(); weak_dead = WeakThing(); weak_calls = []\nweak_refs = weakref.ref(weak_alive), weakref.ref(weak_dead, lambda r: weak_calls.append('gone'))\nweak_dict = weakref.WeakValueDictionary(a=weak_alive)\nweak_final = weakref.finalize(weak_alive, weak_calls.append, 'finalized')",
        "weak_before = weak_refs[0]() is weak_alive and weak_dict['a'] is weak_alive and weak_calls == []\ndel weak_dead, weak_alive; gc.collect()\nweak_before and weak_refs[0]() is None and weak_refs[1]() is None and not weak_dict and sorted(weak_calls) == ['finalized', 'gone']",
    ),
    _kind(
        "circular graphs",
        "class CircularNode:\n    def __init__(self, name): self.name, self.next = name, None\ncircular_nodes = [CircularNode(n) for n in range(1000)]\nfor circular_n, circular_node in enumerate(circular_nodes): circular_node.next = circular_nodes[(circular_n + 1) % 1000]\ncircular_list = [1]; circular_list.append(circular_list); circular_dict = {'list': circular_list}; circular_list.append(circular_dict)",
        "circular_end = circular_nodes[0]\nfor _ in range(1000): circular_end = circular_end.next\ncircular_end is circular_nodes[0] and circular_list[1] is circular_list and circular_list[2]['list'] is circular_list",
    ),
    _kind(
        "memoryview",
        "memory_owner = bytearray(b'0123456789'); memory_it = memoryview(memory_owner)[2:8:2]",
        "memory_it[0] = ord('x')\nmemory_owner == b'01x3456789' and bytes(memory_it) == b'x46' and memory_it.obj is memory_owner",
    ),
    _kind(
        "C-backed iterators",
        "import itertools, io, csv, zlib\nc_count = itertools.count(5, 3); next(c_count)\nc_cycle = itertools.cycle('ab'); next(c_cycle)\nc_tee = itertools.tee(iter(range(5))); next(c_tee[0])\nc_group = itertools.groupby('aabbb'); next(c_group)\nc_csv = csv.reader(io.StringIO('1,2\\n3,4\\n')); next(c_csv)\nc_zip = zip('abc', range(3)); next(c_zip)\nc_inflate = zlib.decompressobj(); c_packed = zlib.compress(b'hello ' * 1000); c_begun = c_inflate.decompress(c_packed[:10])",
        "next(c_count) == 8 and next(c_cycle) == 'b' and [list(t) for t in c_tee] == [[1, 2, 3, 4], [0, 1, 2, 3, 4]] and next(c_group)[0] == 'b' and next(c_csv) == ['3', '4'] and next(c_zip) == ('b', 1) and c_begun + c_inflate.decompress(c_packed[10:]) == b'hello ' * 1000",
    ),
    _kind(
        "contextvars",
        "import contextvars\ncontext_var = contextvars.ContextVar('context_var', default='none')\ncontext_it = contextvars.copy_context(); context_token = context_it.run(context_var.set, 'inside')",
        "context_it.run(context_var.get) == 'inside' and context_var.get() == 'none' and context_it[context_var] == 'inside'",
    ),
    _kind(
        "logging handlers",
        "import logging, io\nlogging_out = io.StringIO(); logging_handler = logging.StreamHandler(logging_out)\nlogging_handler.setFormatter(logging.Formatter('%(levelname)s %(message)s'))\nlogging_it = logging.getLogger('objects.log'); logging_it.addHandler(logging_handler); logging_it.setLevel('INFO'); logging_it.propagate = False\nlogging_it.addFilter(lambda record: 'secret' not in record.msg); logging_it.info('one')",
        "logging.getLogger('objects.log').warning('two'); logging_it.info('secret'); logging_it.debug('three')\nlogging_out.getvalue() == 'INFO one\\nWARNING two\\n'",
    ),
    _kind(
        "monkeypatched modules",
        "import html, textwrap\nmonkey_original = html.escape\nhtml.escape = lambda *a, **k: 'patched ' + monkey_original(*a, **k); textwrap.monkey_extra = 5",
        "import importlib, sys\nmonkey_found = (sys.modules['html'].escape('<'), importlib.import_module('textwrap').monkey_extra)\nhtml.escape = monkey_original\nmonkey_found == ('patched &lt;', 5)",
    ),
    _kind(
        "pandas views sharing memory",
        "import pandas as pd, numpy as np\npandas_base = np.arange(12.0).reshape(4, 3); pandas_frame = pd.DataFrame(pandas_base, columns=list('abc'), copy=False)\npandas_series = pandas_frame['b']; pandas_groups = pandas_frame.groupby(pandas_frame['a'] > 3); pandas_roll = pandas_frame.rolling(2)",
        "pandas_shared = np.shares_memory(pandas_base, pandas_frame.to_numpy()) and np.shares_memory(pandas_frame['b'].to_numpy(), pandas_series.to_numpy())\npandas_base[0, 1] = 99.0\npandas_shared and pandas_frame.loc[0, 'b'] == 99.0 and pandas_series[0] == 99.0 and pandas_groups.ngroups == 2 and len(pandas_roll.sum()) == 4",
    ),
    _kind(
        "numpy views",
        "import numpy as np\nnumpy_base = np.arange(24).reshape(2, 3, 4); numpy_view = numpy_base[:, ::2, 1:]; numpy_turned = numpy_base.T; numpy_window = np.lib.stride_tricks.sliding_window_view(numpy_base.ravel(), 3)\nnumpy_iter = np.nditer(numpy_base); next(numpy_iter)",
        "numpy_base[0, 0, 1] = -1\nint(numpy_view[0, 0, 0]) == -1 and numpy_view.base is not None and np.shares_memory(numpy_turned, numpy_base) and int(numpy_window[1, 0]) == -1 and int(next(numpy_iter)) == -1",
    ),
    _kind(
        "tqdm bar",
        "from tqdm import tqdm\nimport io\ntqdm_out = io.StringIO(); tqdm_it = tqdm(total=10, file=tqdm_out, mininterval=0); tqdm_it.update(3)",
        "tqdm_it.update(4); tqdm_it.set_description('on')\ntqdm_it.n == 7 and '7/10' in tqdm_out.getvalue() and tqdm_it.format_dict['elapsed'] >= 0",
    ),
    _kind(
        "asyncio task pending",
        "import asyncio\nasync def asyncio_work():\n    await asyncio_gate.wait()\n    return 'woken'\nasyncio_gate = asyncio.Event(); asyncio_task = asyncio.ensure_future(asyncio_work()); asyncio_queue = asyncio.Queue(); asyncio_queue.put_nowait(1)\nawait asyncio.sleep(0)",
        "asyncio_pending = not asyncio_task.done(); asyncio_gate.set()\nasyncio_value = await asyncio_task\nasyncio_pending and asyncio_value == 'woken' and asyncio_queue.get_nowait() == 1",
    ),
    _kind(
        "namedtuple",
        "from collections import namedtuple\nfrom typing import NamedTuple\nNamedPoint = namedtuple('NamedPoint', 'x y', defaults=[5])\nclass NamedTyped(NamedTuple):\n    a: int\n    b: str = 'b'\n    def both(self): return f'{self.a}{self.b}'\nnamed_it, named_typed = NamedPoint(1), NamedTyped(2)",
        "named_it == (1, 5) and named_it._replace(y=2).y == 2 and named_typed.both() == '2b' and type(named_it) is NamedPoint",
    ),
    _kind(
        "enum",
        "import enum\nclass EnumColour(enum.Enum):\n    RED = 1\n    CRIMSON = 1\n    BLUE = 2\nclass EnumFlag(enum.Flag):\n    A = enum.auto()\n    B = enum.auto()\nenum_it, enum_flag = EnumColour.RED, EnumFlag.A | EnumFlag.B",
        "enum_it is EnumColour(1) and EnumColour.CRIMSON is enum_it and enum_flag is EnumFlag(3) and EnumFlag.B in enum_flag and {enum_it: 1}[EnumColour.RED] == 1",
    ),
    _kind(
        "dataclass",
        "import dataclasses\n@dataclasses.dataclass(frozen=True, order=True)\nclass DataPoint:\n    x: int\n    tags: list = dataclasses.field(default_factory=list, compare=False)\ndata_it = DataPoint(3, ['t']); data_set = {DataPoint(1)}",
        "dataclasses.replace(data_it, x=4) > data_it and dataclasses.asdict(data_it) == {'x': 3, 'tags': ['t']} and DataPoint(1) in data_set",
    ),
    _kind(
        "lru_cache contents",
        "import functools\ncache_calls = []\n@functools.lru_cache(maxsize=3)\ndef cache_it(n):\n    cache_calls.append(n)\n    return object()\ncache_one, cache_two = cache_it(1), cache_it(2)\ncache_it(1)",
        "cache_it(1) is cache_one and cache_it(2) is cache_two and cache_calls == [1, 2] and cache_it.cache_info()[:2] == (3, 2)",
    ),
    _kind(
        "functools.partial",
        "import functools, operator\npartial_list = []\npartial_it = functools.partial(lambda *a, **k: partial_list.append((a, k)), 1, key=2); partial_it.note = 'kept'; partial_sort = sorted(['b1', 'a2'], key=operator.itemgetter(1))",
        "partial_it(3, other=4)\npartial_list == [((1, 3), {'key': 2, 'other': 4})] and partial_it.note == 'kept' and partial_it.func.__closure__ is None",
    ),
    _kind(
        "re-exported module state",
        "import sys, types, warnings, locale, decimal\nmodule_it = types.ModuleType('made_here'); exec('state = [1]\\ndef add(n):\\n    state.append(n)\\n    return state', module_it.__dict__); sys.modules['made_here'] = module_it\nfrom made_here import add as module_add; module_add(2)\nsys.setrecursionlimit(4321); warnings.filterwarnings('ignore', message='objects module state')",
        "import made_here\nmodule_found = (made_here is module_it, made_here.add(3), sys.getrecursionlimit(), any(f[1] and f[1].pattern == 'objects module state' for f in warnings.filters))\nsys.setrecursionlimit(3000)\nmodule_found == (True, [1, 2, 3], 4321, True)",
    ),
    _kind(
        "ipywidget with observers",
        "import ipywidgets\nwidget_seen = []\nwidget_it = ipywidgets.IntSlider(value=3, max=10); widget_it.observe(lambda change: widget_seen.append(change['new']), names='value')\nwidget_text = ipywidgets.Text(); widget_link = ipywidgets.link((widget_it, 'value'), (widget_text, 'description')) if False else ipywidgets.dlink((widget_it, 'value'), (widget_text, 'value'), str)\nwidget_it.value = 5",
        "widget_it.value = 7\nwidget_seen == [5, 7] and widget_text.value == '7' and widget_it.comm is not None",
    ),
    _kind(
        "deque with maxlen",
        "from collections import deque\ndeque_it = deque(range(5), maxlen=3); deque_iter = iter(deque_it); next(deque_iter)",
        "deque_next = next(deque_iter); deque_it.append(9)\ndeque_next == 3 and list(deque_it) == [3, 4, 9] and deque_it.maxlen == 3",
    ),
    _kind(
        "decimal context",
        "import decimal\ndecimal_own = decimal.Context(prec=5, rounding=decimal.ROUND_UP, traps=[decimal.DivisionByZero]); decimal_value = decimal_own.divide(decimal.Decimal(1), decimal.Decimal(3))\ndecimal.getcontext().prec = 17",
        "decimal_found = (str(decimal_value), decimal_own.prec, decimal_own.flags[decimal.Inexact], decimal.getcontext().prec)\ndecimal.getcontext().prec = 28\ndecimal_found == ('0.33334', 5, True, 17)",
    ),
]
"""In the order of the issue's list."""


def check_cell(kind: Kind) -> str:
    """A cell that prints ``True`` for a kind that is as it was, and what is wrong otherwise."""
    *lines, last = kind.check.splitlines()
    return "\n".join([*lines, f"print(bool({last}))"])
