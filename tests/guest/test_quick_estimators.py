"""Names of estimators' parameters, read off the code of constructors: as scikit-learn finds them."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from wasm_kernel import BaseSandbox, create_sandbox

SETUP = """
import inspect
from functools import wraps
import sklearn.base
from sklearn.base import BaseEstimator, clone
from sklearn.ensemble import RandomForestClassifier
from sklearn.utils import all_estimators
here = BaseEstimator._get_param_names.__func__
stock = here.__wrapped__
def caught(function, *arguments):
    try: return function(*arguments)
    except Exception as e: return f'{type(e).__name__}: {e}'
def same(*kinds): return [caught(here, kind) == caught(stock, kind) for kind in kinds]
class Own(BaseEstimator):
    def __init__(self, a, /, b=1, *, c=2, **rest): self.a = a
class Nothing(BaseEstimator): pass
class Any(BaseEstimator):
    def __init__(self, *things): pass
def passing(init):
    @wraps(init)
    def wrapper(*arguments, **words): return init(*arguments, **words)
    return wrapper
class Wrapped(BaseEstimator):
    @passing
    def __init__(self, d, e=1): pass
class Builtin(BaseEstimator, dict): pass
"""


@pytest.fixture(scope="module")
def guest() -> Iterator[BaseSandbox]:
    with create_sandbox() as sandbox:
        result = sandbox.execute(SETUP)
        assert result.success, result.error
        yield sandbox


def said(guest: BaseSandbox, code: str) -> list[str]:
    result = guest.execute(code)
    assert result.success, result.error
    return result.stdout.splitlines()


def test_names_are_those_of_the_signature(guest: BaseSandbox) -> None:
    assert said(guest, """
found = same(*(kind for _, kind in all_estimators())); print(len(found) > 150, all(found))
print(same(Own, Nothing, Any, Wrapped, Builtin), here(Own), here(Wrapped), caught(here, Any)[:40])
def init(self, f): pass
Own.__init__ = init; print(here(Own), here(Own) is here(Own))
Own.__init__.__signature__ = inspect.Signature(); print(same(Own), here(Own))
""") == [
        "True True",
        "[True, True, True, True, True] ['a', 'b', 'c'] ['d', 'e'] RuntimeError: scikit-learn estimators sh",
        "['f'] False",
        "[True] []",
    ]  # fmt: skip


def test_a_clone_asks_for_no_signature(guest: BaseSandbox) -> None:
    assert said(guest, """
asked = []
real = sklearn.base.inspect
class Watched:
    def __getattr__(self, name): return getattr(real, name)
    def signature(self, *arguments): asked.append(arguments); return real.signature(*arguments)
sklearn.base.inspect = Watched()
try: print(clone(RandomForestClassifier(7)).set_params(max_depth=3), asked)
finally: sklearn.base.inspect = real
""") == ["RandomForestClassifier(max_depth=3, n_estimators=7) []"]  # fmt: skip
