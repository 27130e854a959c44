"""Undoes what trying things out left behind, so that a notebook finds what a fresh process would.

`Traces` looks when the base memory is made, before and after each part of it is warmed; `hide` then puts everything
away that a user could see.
"""

import os
import sys
import warnings

from . import shelf

# Parts of the kernel, or used by what it does for every cell; in ipykernel they are there from the start as well.
_STAY = {"IPython", "asttokens", "comm", "executing", "ipykernel", "ipython_pygments_lexers", "ipywidgets"} | {
    "matplotlib_inline", "pure_eval", "pygments", "stack_data", "traitlets", "wasm_guest", "wcwidth",
}  # fmt: skip
_INLINE = "matplotlib_inline.backend_inline"
_PARAMETERS = ("rcParams", "rcParamsDefault", "rcParamsOrig")


class Traces:
    """What importing and trying out each part added."""

    def __init__(self):
        self._known = set(sys.modules)
        self._filters = {}
        self._environ = {}
        self._colormaps = None
        self._parameters = None

    def imports(self, part):
        """Use as ``with traces.imports(part)``: what is imported there belongs to the package of that name."""
        return _Watch(self, part)

    def imported(self, part, filters, environ):
        """A part's imports are done; before them there were these."""
        added = [item for item in warnings.filters if item not in filters]
        self._filters.setdefault(part, []).extend(added)
        self._environ.setdefault(part, {}).update({k: v for k, v in os.environ.items() if k not in environ})
        matplotlib = sys.modules.get("matplotlib")
        if matplotlib is not None and self._parameters is None:
            self._parameters = {name: dict(dict.items(getattr(matplotlib, name))) for name in _PARAMETERS}
            self._colormaps = set(matplotlib.colormaps)

    def hide(self, shell):
        """Put away what a fresh process would not have."""
        self._hide_figures(shell)
        then = {"seaborn": self._without_colormaps(), "sympy": _sympy_numbers}
        for name in {name.partition(".")[0] for name in set(sys.modules) - self._known}:
            if name not in _STAY and name not in sys.stdlib_module_names and not name.startswith("_"):
                shelf.put_away(name, self._filters.get(name, ()), self._environ.get(name), then.get(name))
        with warnings.catch_warnings():
            pass  # makes it look at its filters again

    def _without_colormaps(self):
        colormaps = sys.modules["matplotlib"].colormaps
        added = {name: colormaps[name] for name in set(colormaps) - self._colormaps}
        for name in added:
            colormaps.unregister(name)

        def add():
            for name, colormap in added.items():
                colormaps.register(colormap, name=name, force=True)

        return add

    def _hide_figures(self, shell):
        """As before the first figure: it is what makes matplotlib interactive, and shows figures after each cell."""
        inline, matplotlib = sys.modules.get(_INLINE), sys.modules.get("matplotlib")
        if inline is None or self._parameters is None:
            return
        pyplot = sys.modules["matplotlib.pyplot"]
        pyplot.uninstall_repl_displayhook()
        pyplot._backend_mod = None
        shell.events.unregister("post_execute", inline.flush_figures)
        for formatter in shell.display_formatter.formatters.values():
            formatter.type_printers.pop(matplotlib.figure.Figure, None)
        for name, parameters in self._parameters.items():
            there = getattr(matplotlib, name)
            dict.clear(there)
            dict.update(there, parameters)
        inline.configure_inline_support.current_backend = "unset"
        vars(shell).pop("_saved_rcParams", None)
        shell.configurables[:] = [c for c in shell.configurables if type(c).__name__ != "InlineBackend"]
        shelf.put_away(_INLINE, then=inline._enable_matplotlib_integration)


def _sympy_numbers():
    """Random numbers of its own, as after an import: every base memory holds the same."""
    symbols, numbers = sys.modules["sympy.core.symbol"], sys.modules["sympy.core.random"]
    for generator in (numbers.rng, numbers._assumptions_rng, symbols.Dummy._prng):
        generator.seed()
    symbols.Dummy._base_dummy_index = symbols.Dummy._prng.randint(10**6, 9 * 10**6)


class _Watch:
    def __init__(self, traces, part):
        self._traces, self._part = traces, part

    def __enter__(self):
        self._before = list(warnings.filters), dict(os.environ)

    def __exit__(self, *error):
        self._traces.imported(self._part, *self._before)
