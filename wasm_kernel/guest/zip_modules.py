"""Modules that the interpreter imported from its zip while it started, moved to the folder where their sources are.

So they are as if they had been imported from there: in tracebacks, for `inspect`, for whoever looks at `__file__`.
"""

import _imp
import gc
import importlib.machinery
import os
import sys
import types

_ZIP = "/usr/local/lib/python315.zip"
_FOLDER = "/usr/local/lib/python3.15"


def move():
    """Move what is imported so far."""
    for name, module in list(sys.modules.items()):
        if str(getattr(module, "__file__", "")).startswith(_ZIP):
            _move(name, module)
    gc.unfreeze()  # else those are not among the objects; `warm` freezes everything again
    for function in gc.get_objects():
        if type(function) is types.FunctionType and function.__code__.co_filename.startswith(_ZIP):
            _imp._fix_co_filename(function.__code__, _moved(function.__code__.co_filename))
    sys._stdlib_dir = _FOLDER


def _move(name, module):
    path = _moved(module.__file__.removesuffix("c"))
    loader = importlib.machinery.SourceFileLoader(name, path)
    if not os.path.exists(path):
        path += "c"
        loader = importlib.machinery.SourcelessFileLoader(name, path)
    module.__file__ = path
    spec = module.__spec__
    if hasattr(module, "__path__"):
        module.__path__ = spec.submodule_search_locations = [os.path.dirname(path)]
    if spec.origin != "frozen":  # those are loaded as they would be anywhere
        module.__loader__ = spec.loader = loader
        spec.origin = path


def _moved(path):
    return _FOLDER + path.removeprefix(_ZIP)
