"""Objects that kernels share because nobody counts references to them."""

from __future__ import annotations

import subprocess
import sys

import pytest

from wasm_kernel.apps.kernel_host import fixed_counts

_PROGRAM = """
import json, sys, textwrap
from wasm_kernel.apps.kernel_host import fixed_counts
assert fixed_counts.fix_all() > 10_000
def changed(thing):
    before = sys.getrefcount(thing)
    held = [thing] * 1000
    return sys.getrefcount(thing) - before
assert changed(json) == changed(json.dumps) == changed(json.dumps.__code__) == changed(textwrap.dedent.__doc__) == 0
assert changed(textwrap.dedent.__code__.co_consts) == 0
assert changed(object()) == 1000  # what comes later is counted
made = []
class Seen:
    def __del__(self):
        made.append("freed")
for _ in range(3):
    Seen()
assert made == ["freed"] * 3
assert json.loads(json.dumps({"a": [1, 2.5, None]})) == {"a": [1, 2.5, None]}
print("fine")
"""


@pytest.mark.skipif(sys.version_info < (3, 12), reason="objects are immortal since Python 3.12")
def test_what_is_there_is_no_longer_counted() -> None:
    done = subprocess.run([sys.executable, "-c", _PROGRAM], capture_output=True, text=True)
    assert done.stdout == "fine\n", done.stderr


@pytest.mark.skipif(sys.version_info >= (3, 12), reason="before Python 3.12")
def test_nothing_is_done_where_objects_are_always_counted() -> None:
    assert not fixed_counts.can_be_fixed()
    assert fixed_counts.fix_all() == 0
