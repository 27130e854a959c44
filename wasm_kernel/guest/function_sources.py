"""Tracebacks through libraries: parse the function that a frame is in, not the file of 8,000 lines around it.

stack_data and executing parse whole files, to show ten lines of them: a second for the first KeyError of pandas. What
they look at lies within one function. So they get a text that holds this function at its place, and empty lines
before it; what they show of it is the same.
"""

import linecache
import types

_LIBRARIES = ("/usr/local/lib/", "/site/", "/packages/")


def install(module):
    """Mend ``stack_data.core``."""
    source_class = module.Source
    whole = source_class.for_frame.__func__

    def for_frame(cls, frame, use_cache=True):
        code = frame.f_code
        if in_library(code):
            lines = linecache.getlines(code.co_filename, frame.f_globals)
            source = cls._for_filename_and_lines(code.co_filename, tuple(only_function(code, lines)))
            if source.tree is not None and source.tree.body:
                return source
        return whole(cls, frame, use_cache)

    def code_qualname(self, code):
        return code.co_qualname if in_library(code) else super(source_class, self).code_qualname(code)

    source_class.for_frame = classmethod(for_frame)
    source_class.code_qualname = code_qualname


def in_library(code):
    """Whether it is a function's, or a class's, in a file that nobody changes. A lambda's says not where it begins."""
    return code.co_filename.startswith(_LIBRARIES) and not code.co_name.startswith("<")


def only_function(code, lines):
    """The lines of a file up to the end of a function, with only the function in them."""
    first = code.co_firstlineno
    if not 0 < first <= len(lines):
        return []
    depth = _depth(lines[first - 1])
    last = min(_last_line(code), len(lines))
    while last < len(lines) and (not lines[last].strip() or _depth(lines[last]) > depth):
        last += 1
    before = ["\n"] * (first - 1)
    if depth and before:
        before[-1] = "if 1:\n"  # any depth is right below it
    return before + lines[first - 1 : last]


def _depth(line):
    return len(line) - len(line.lstrip())


def _last_line(code):
    inner = [_last_line(const) for const in code.co_consts if isinstance(const, types.CodeType)]
    ends = (end for _, end, _, _ in code.co_positions() if end is not None)
    return max([code.co_firstlineno, *inner, *ends])
