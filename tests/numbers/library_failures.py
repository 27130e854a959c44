"""Why tests of the libraries fail in the guest: by the names of the tests and what they say."""

from __future__ import annotations

import re
from dataclasses import dataclass


@dataclass(frozen=True)
class Explanation:
    """One reason, and the failures that have it."""

    why: str
    said: str = ""  # patterns: found in the message,
    test: str = ""  # and in the name

    def matches(self, test: str, said: str) -> bool:
        """Whether it explains this failure."""
        return bool(re.search(self.test, test) and re.search(self.said, said))


EXPLANATIONS = (
    Explanation("There is no ctypes.", said="ctypes"),
    Explanation("Files cannot be mapped into memory.", said="mmap is unavailable"),
    Explanation(
        "The C library cannot duplicate descriptors, by which numpy reads and writes files in C, nor start a process.",
        said=r"\\[Errno 58\\] Not supported",
    ),
    Explanation(
        "numpy's test modules in C are not in the runtime; what stands in for them is not the same.",
        said="rational|Absent|has no attribute 'at'|'NoneType' is not a container|can_cast\\(\\) does not support",
        test="rational|usertypes|test_pickle|custom_ufunc|ufunc_at_negative|no_doc_string|third_party|can_cast_scalars",
    ),
    Explanation("WebAssembly has no floating-point exceptions.", said="FloatingPointError not raised"),
    Explanation(
        "Numbers drawn by RandomState have 64 bits, as they have on a 64-bit machine; the test expects the bits of C's long.",
        test="test_integer_dtype|test_integer_repeat|test_choice_return_dtype|test_ulong",
    ),
)
