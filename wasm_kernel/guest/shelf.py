"""Packages that are imported already, and do not show until somebody imports them.

The base memory has the whole stack imported; a fresh process has not. That would show: in sys.modules, in
warnings.filters, in the colormaps that seaborn adds to matplotlib's. So each package is put away together with what
importing it added, and is back, with the packages it uses, as soon as one of its modules is imported.
"""

import os
import sys
import types
import warnings
from importlib.machinery import ModuleSpec

_shelf = {}


class _Package:
    """What importing a package adds to a process."""

    def __init__(self, modules, filters=(), environ=None, then=None):
        self.modules, self.filters, self.environ, self.then = modules, filters, environ or {}, then
        self.needs = _used_by(modules.values())


def _used_by(modules):
    """The names of packages whose modules, functions or classes these modules hold."""
    found = set()
    for module in modules:
        for value in list(vars(module).values()):
            try:
                name = value.__name__ if isinstance(value, types.ModuleType) else value.__module__
            except Exception:  # an object with its own idea of attributes, or without a module
                continue
            if isinstance(name, str):
                found.add(name.partition(".")[0])
    return found


def put_away(name, filters=(), environ=None, then=None):
    """Put away a module and those below it. ``then`` is called when they are back."""
    names = [key for key in sys.modules if key == name or key.startswith(name + ".")]
    if names:
        _shelf[name] = _Package({key: sys.modules[key] for key in names}, filters, environ, then)
        for key in names:
            del sys.modules[key]
        for item in filters:
            if item in warnings.filters:
                warnings.filters.remove(item)
        for key in environ or ():
            os.environ.pop(key, None)
        if _Finder not in sys.meta_path:
            sys.meta_path.insert(0, _Finder)


def find(name):
    """A module that is imported, whether it shows or not; None: it is not imported."""
    package = _shelf.get(name.partition(".")[0])
    return package.modules.get(name) if package is not None else sys.modules.get(name)


def _bring_back(name):
    package = _shelf.pop(name, None)
    if package is None:
        return
    for used in package.needs:
        _bring_back(used)
    for key, module in package.modules.items():
        sys.modules.setdefault(key, module)
    for item in reversed(package.filters):
        warnings._add_filter(*item, append=False)
    for key, value in package.environ.items():
        os.environ.setdefault(key, value)
    if package.then is not None:
        package.then()


class _Finder:
    @staticmethod
    def find_spec(name, path=None, target=None):
        known = name if name in _shelf else name.partition(".")[0]
        if known not in _shelf:
            return None
        _bring_back(known)
        module = sys.modules.pop(name, None)  # else importlib would run its code again; it puts it there itself
        return None if module is None else ModuleSpec(name, _Loader(module), is_package=hasattr(module, "__path__"))


class _Loader:
    """Gives the module that is there, as it is."""

    def __init__(self, module):
        self._module, self._spec = module, module.__spec__

    def create_module(self, spec):
        return self._module

    def exec_module(self, module):
        module.__spec__ = self._spec
