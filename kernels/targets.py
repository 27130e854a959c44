"""Which functions of the runtime a kernel replaces, where its own name is not the answer.

A kernel without an entry replaces the one function of its name. Names are those of the runtime's name section, where
C++ is spelled out.
"""

from __future__ import annotations

from kernels.numpy_targets import NUMPY
from kernels.sort_targets import SORTS

TARGETS: dict[str, list[str]] = {**NUMPY, **SORTS}
