"""Tracebacks are made quickly, and their text is what stack_data and pygments make without our changes.

Each exception of a corpus is drawn twice inside the guest, with our changes and without, and both must be equal, every
escape included.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from wasm_kernel import BaseSandbox, create_sandbox

# Drawn twice: `pairs` counts what was the same, and keeps what was not.
_COMPARE = """
import contextlib, json, re, stack_data, stack_data.core as core, stack_data.utils as utils
from pygments.formatters import terminal256

same, different = 0, []
stock_style = core.style_with_executing_node.__wrapped__
stock_setup = terminal256.Terminal256Formatter._setup_styles.__wrapped__

@contextlib.contextmanager
def stock():
    ours = core._pygmented_with_ranges, core.style_with_executing_node, terminal256.Terminal256Formatter._setup_styles
    core._pygmented_with_ranges = core._pygmented_with_ranges.__wrapped__
    stack_data.style_with_executing_node = core.style_with_executing_node = stock_style
    terminal256.Terminal256Formatter._setup_styles = stock_setup
    try:
        yield
    finally:
        core._pygmented_with_ranges, core.style_with_executing_node, terminal256.Terminal256Formatter._setup_styles = ours
        stack_data.style_with_executing_node = core.style_with_executing_node

def without_addresses(lines):  # Verbose evaluates expressions, and makes new objects
    return [re.sub("0x[0-9a-f]+", "0x", line) for line in lines]

def watch(drawer):
    draw = drawer.structured_traceback
    def both(*arguments, **options):
        global same
        quick = draw(*arguments, **options)
        with stock():
            slow = draw(*arguments, **options)
        if without_addresses(quick) == without_addresses(slow):
            same += 1
        else:
            different.append([quick, slow])
        return quick
    drawer.structured_traceback = both

watch(get_ipython().InteractiveTB)
watch(get_ipython().SyntaxTB)
"""

_FAILING = {
    "division": "1 / 0",
    "name": "undefined_name + 1",
    "key": "{'a': 1}['größe']",
    "attribute": "object().nothing_like_this",
    "type": "len(5, *[1, 2], **{'x': 3})",
    "value": "int('ä ☃ \\U0001f600')",
    "long line": "[" + ", ".join(f"'{'x' * 30}{i}'" for i in range(40)) + "][1000]",
    "string": "f\"{(lambda a, *, b=2: a / b)(1, b=0)!r:>{10}}\"  # 'quotes' \\t",
    "numpy": "__import__('numpy').ones(3) @ __import__('numpy').ones(4)",
    "notes": "raise_with_notes(ValueError('noted'))",
    "chained": "chain(KeyError('first'), RuntimeError('second'))",
    "group": "raise_it(ExceptionGroup('several', [ValueError(1), ExceptionGroup('inner', [KeyError('k')])]))",
}

_HELPERS = """
def raise_it(error):
    raise error

def raise_with_notes(error):
    error.add_note('a note')
    error.add_note('another\\nin two lines')
    raise error

def chain(first, second):
    try:
        raise first
    except Exception as e:
        raise second from e

def decorated(function):
    def wrapper(*args, **kwargs):
        '''A wrapper.'''
        return function(*args, **kwargs)
    return wrapper
"""

_WRAPPED = {
    "plain": "{code}",
    "middle of a cell": "x = 1\n\nfor i in range(2):\n    x += i  # counts\n{code}\nx = 2\n",
    "function": "def f(a, b=[1, 2]):\n    '''Docstring.'''\n    y = a * 2\n    return {code}\nf(3)",
    "nested": "def outer():\n    def inner():\n        return {code}\n    return inner()\nouter()",
    "method": "class K:\n    @property\n    def p(self):\n        return {code}\nK().p",
    "decorator": "@decorated\ndef f():\n    return {code}\nf()",
    "comprehension": "[{code} for _ in range(3) if True]",
    "generator": "sum(({code} for _ in 'ab'), start=0)",
    "lambda": "(lambda: {code})()",
    "finally": "try:\n    {code}\nfinally:\n    pass",
    "while handling": "try:\n    raise LookupError('before')\nexcept LookupError:\n    {code}",
    "context manager": "import contextlib\nwith contextlib.suppress(UnicodeError):\n    {code}",
    "coroutine": "import asyncio\nasync def c():\n    await asyncio.sleep(0)\n    return {code}\nawait c()",
    "gather": "async def c():\n    return {code}\nawait asyncio.gather(c(), c())",
    "exec": "exec(compile({code!r}, '<made up>', 'exec'))",
    "deep": "def down(n):\n    return down(n - 1) if n else ({code})\ndown(12)",
    "several lines": "result = (\n    1 +\n    # a comment\n    ({code})\n)",
    "match": "match [1, 2]:\n    case [a, b]:\n        {code}",
}

_OTHERS = [
    *["1 +", "def f(:\n    pass", "x = (", "for", "print 'x'", "a b", "'unterminated", "if True:\nx = 1", "\tx\n  y"],
    *["return 1", "await", "f(x=1, x=2)", "lambda: (yield)", "ä = = 1", "%%time\n1 +", "{1: 2, **}", "x = 1 if 2"],
    "def forever(n):\n    return forever(n + 1)\nforever(0)",
    "def ping(n):\n    return pong(n)\ndef pong(n):\n    return ping(n)\nping(0)",
    "%no_such_magic",
    "%%no_such_magic\nx",
    "%timeit 1/0",
    "%%time\n1/0",
    "%%capture\n1/0",
    "open('failing.py', 'w').write('import json\\ndef f():\\n    return json.loads(\"{\")\\nf()\\n')\n%run failing.py",
    "import failing",
    "open('broken.py', 'w').write('x = (\\n')\n%run broken.py",
    "import broken",
    "import pandas as pd\npd.DataFrame({'a': [1]})['missing']",
    "import json; json.loads('[1,')",
    "raise KeyboardInterrupt",
    "raise SystemExit(3)",
    "class Bad(Exception):\n    def __str__(self): raise ValueError\nraise Bad",
    "class R:\n    def __repr__(self): return 1/0\nR()",
    "assert [1, 2] == [1, 3], 'not equal'",
    "import asyncio\nasync with asyncio.TaskGroup() as g:\n    g.create_task(asyncio.sleep(0))\n    1/0",
    "eval('1 +')",
    "raise ValueError('x' * 5000)",
    "\n" * 50 + "1/0" + "\n" * 50,
    "x = 1;" * 300 + "1/0",
]

_MODES = ["%xmode Verbose", "%xmode Plain", "%xmode Context\n%colors linux", "%colors nocolor", "%colors neutral"]


def corpus() -> Iterator[str]:
    for code in _FAILING.values():
        for wrapped in _WRAPPED.values():
            yield wrapped.format(code=code)
    yield from _OTHERS
    for mode in _MODES:
        yield mode
        yield from (_WRAPPED["function"].format(code=code) for code in list(_FAILING.values())[:6])


@pytest.fixture
def sandbox(tmp_path: Path) -> Iterator[BaseSandbox]:
    with create_sandbox(workspace=tmp_path) as made:
        yield made


def test_the_text_is_the_same(sandbox: BaseSandbox) -> None:
    assert sandbox.execute(_HELPERS).success
    assert sandbox.execute(_COMPARE).success
    cells = list(corpus())
    failed = sum(sandbox.execute(cell).outcome.kind.value == "error" for cell in cells)
    assert failed >= 200, "these cells have to fail"
    report = sandbox.execute("print(json.dumps([same, different]))")
    same, different = json.loads(report.stdout)
    assert different == []
    assert same >= 200


def test_classes_are_made_once(sandbox: BaseSandbox) -> None:
    """The work is counted, not the time: a second traceback makes no lexer class and works out no style."""
    counted = (
        "import pygments.lexer as lexer, pygments.style as style\n"
        "made = []\n"
        "def count(meta):\n"
        "    stock = meta.__new__\n"
        "    meta.__new__ = lambda cls, name, *rest, **more: made.append(name) or stock(cls, name, *rest, **more)\n"
        "count(lexer.RegexLexerMeta); count(style.StyleMeta)"
    )
    sandbox.execute("1/0")
    assert sandbox.execute(counted).success
    assert sandbox.execute("1/0").error is not None
    assert sandbox.execute("print(made)").stdout == "[]\n"


def test_another_theme_has_other_colours(sandbox: BaseSandbox) -> None:
    drawn = set()
    for theme in ("linux", "neutral", "lightbg"):
        sandbox.execute(f"%colors {theme}")
        error = sandbox.execute("1/0").error
        assert error is not None
        drawn.add("".join(error.traceback).partition("ZeroDivisionError")[2])
    assert len(drawn) >= 2
