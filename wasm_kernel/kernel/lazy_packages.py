"""Packages whose submodules are imported without running the package's own ``__init__``.

`ipykernel.kernelbase` needs a few small modules of jupyter_client and IPython. Importing these packages in full costs
more than all the rest of a kernel's start: half a second becomes a quarter. A deferred package becomes the real one as
soon as one of its own names is used.
"""

from __future__ import annotations

import importlib.util
import sys
from types import ModuleType
from typing import Any


class _Deferred(ModuleType):
    """A package that has not run yet."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        self.__class__ = ModuleType  # type: ignore[assignment]  # from here on it is the real one
        spec = self.__spec__
        assert spec is not None
        assert spec.loader is not None
        spec.loader.exec_module(self)
        return getattr(self, name)


def defer(*names: str) -> None:
    """Defer packages that are not imported yet; one that cannot be found fails later, where it is needed."""
    for name in names:
        if name in sys.modules:
            continue
        spec = importlib.util.find_spec(name)
        if spec is not None and spec.loader is not None and spec.submodule_search_locations is not None:
            sys.modules[name] = module = _Deferred(name)
            module.__spec__, module.__loader__, module.__file__ = spec, spec.loader, spec.origin
            module.__path__, module.__package__ = spec.submodule_search_locations, name
