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
    Explanation("There is one thread.", said="can't start new thread|deadlock: the sandbox has one thread"),
    Explanation("No process can be started, and descriptors cannot be duplicated.", said=r"\[Errno 58\] Not supported"),
    Explanation(
        "numpy's test modules in C are not in the runtime; what stands in for them is not the same.",
        test="rational|usertypes|user_dtype|TestUfunc::test_pickle|custom_ufunc|ufunc_at_negative|no_doc_string|third_party",
    ),
    Explanation("WebAssembly has no floating-point exceptions.", said="FloatingPointError not raised"),
    Explanation("The message of the guest's C library is another one.", test="test_file_truncated"),
    Explanation(
        "It is 64 bits, as on a 64-bit machine; the test expects the bits of C's long, or of a 32-bit machine.",
        test="test_integer_dtype|test_integer_repeat|test_choice_return_dtype|test_poisson_exceptions|test_tomaxint|test_ulong"
        "|nullable_min_count_0|TestFactorial|test_sparsefuncs.py::test_count_nonzero",
    ),
    Explanation(
        "np.choose by a subclass of ndarray with int64 gives a plain array.", test="TestRegression::test_attributes"
    ),
    Explanation(
        "A private function of scikit-learn takes np.intp only.", test="test_absolute_errors_precomputation_function"
    ),
)

# With --own, besides.
OWN = (
    Explanation(
        "It gets int64, as people's own code does, where it expects np.intp.",
        said=r"left\]:\s+int64\s+\[right\]:\s+int32|ACTUAL: dtype\('int64'\)\s+DESIRED: .*int32|dtype\('int64'\) == .*int32",
    ),
)
