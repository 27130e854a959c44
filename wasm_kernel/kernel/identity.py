"""How the kernel describes itself to front ends."""

from __future__ import annotations

from typing import Any

from wasm_kernel import __version__

BANNER = f"wasm-kernel {__version__}: Python in a WebAssembly sandbox. Files live in /app. Type %session? for help."
LANGUAGE_INFO: dict[str, Any] = {
    "name": "python",
    "version": "3.15.0",
    "mimetype": "text/x-python",
    "codemirror_mode": {"name": "ipython", "version": 3},
    "pygments_lexer": "ipython3",
    "nbconvert_exporter": "python",
    "file_extension": ".py",
}
HELP_LINKS = [
    {"text": "Python Reference", "url": "https://docs.python.org/3.15"},
    {"text": "IPython Reference", "url": "https://ipython.org/documentation.html"},
    {"text": "NumPy Reference", "url": "https://docs.scipy.org/doc/numpy/reference"},
    {"text": "SciPy Reference", "url": "https://docs.scipy.org/doc/scipy/reference"},
    {"text": "Matplotlib Reference", "url": "https://matplotlib.org/contents.html"},
    {"text": "pandas Reference", "url": "https://pandas.pydata.org/pandas-docs/stable"},
]
