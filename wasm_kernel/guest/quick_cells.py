"""What IPython does to every cell before it runs, left out where it could change nothing.

It reads each cell as tokens, in Python, to find magics and the like, and compiles it only to see whether it awaits
something. For a long cell that takes longer than to run it.
"""

import ast
import re

from IPython.core.inputtransformer2 import TransformerManager

_LINE = r"(?:^|[\n\r\v\f\x1c-\x1e\x85\u2028\u2029])"  # its beginning, as str.splitlines has it
# Where one of IPython's own token transformers could find anything: a question mark; a line that begins with one of
# their signs; `=` and then a magic or a command.
_SPECIAL = re.compile(rf"[?]|=\s*[%!]|{_LINE}\s*[!%,;/]")
_INDENTED = re.compile(rf"{_LINE}[ \t]")
_STOCK = list(TransformerManager().token_transformers)


class Transformer(TransformerManager):
    """IPython's own, which looks for what it could transform before it takes cells apart."""

    def do_token_transforms(self, lines):
        text = "".join(lines)
        if self.token_transformers == _STOCK and not _SPECIAL.search(text) and _has_fine_tokens(text):
            return lines
        return super().do_token_transforms(lines)


def _has_fine_tokens(text):
    """Whether taking it apart raises nothing: only wrong indentation does."""
    if not _INDENTED.search(text):
        return True
    if "\\" in text:  # parsing could warn of it, once more than usual
        return False
    try:
        compile(text, "<cell>", "exec", ast.PyCF_ONLY_AST | ast.PyCF_ALLOW_TOP_LEVEL_AWAIT, dont_inherit=True)
    except Exception:
        return False
    return True


def may_await(cell):
    """Whether a cell could await anything at its top level: nothing does without one of these words."""
    return "await" in cell or "async" in cell
