"""Where the guest answers otherwise than a 64-bit machine, by name and with the reason.

A program that is listed and answers as natively fails the test as well: the list is what is left, no more.
"""

from __future__ import annotations

from typing import Any

# Reason: programs whose values are the native ones, while some of their integers have 32 bits.
NARROW: dict[str, tuple[str, ...]] = {
    "Called by map or functools.partial, numpy cannot see that people's code asks.": (
        "list(map(np.argsort, [small]))",
        "functools.partial(np.argsort)(small)",
    ),
    "numpy's loops for strings write lengths and places as np.intp.": (
        "np.char.str_len(words)",
        "np.strings.str_len(words)",
    ),
    "These name C's long and its pointer-sized integer, which have 32 bits here.": (
        "np.dtype(np.long)",
        "np.dtype(np.ulong)",
        'np.dtype("l")',
        'np.dtype("L")',
        "np.dtype(np.intp)",
        'np.dtype("p")',
        'np.dtype("intp")',
    ),
    "scipy gives positions and numbers of neighbours as np.intp.": (
        "ndimage.histogram(im, 0, 25, 5, lab, [1, 2])",
        "np.sort(tree.indices)",
        "spatial.Voronoi(plane).point_region",
    ),
    "scikit-learn gives positions, labels of clusters and codes of classes as np.intp.": (
        "folds(model_selection.StratifiedShuffleSplit(2, random_state=0), y)",
        "folds(model_selection.GroupShuffleSplit(2, random_state=0), y, np.arange(80) % 5)",
        "tree.DecisionTreeClassifier(max_depth=3, random_state=0).fit(X, y).decision_path(X)",
        "tree.DecisionTreeClassifier(max_depth=3, random_state=0).fit(X, y).tree_.children_left",
        "tree.DecisionTreeClassifier(max_depth=3, random_state=0).fit(X, y).tree_.n_node_samples",
        "neighbors.BallTree(X).query_radius(X[:2], 2.0)[0]",
    ),
}

# Reason: programs, and what the guest answers.
OTHER: dict[str, dict[str, Any]] = {
    "A position that does not fit raises before it is clipped.": {
        'np.ravel_multi_index(([2**32], [1]), (2, 2), mode="clip")': ["raises", "ValueError"],
    },
    "Counts are cast as indices are, which is laxer for unsigned ones.": {
        "np.repeat(small, np.array([1, 2, 3], np.uint64))": ["int64[]", [6], [3, 1, 1, 2, 2, 2]],
    },
    "len() of a range counts in the address space, which has 32 bits.": {
        "random.Random(0).sample(range(10**10), 2)": ["raises", "OverflowError"],
    },
    "A seed that is a float is its hash, which has 32 bits.": {
        "random.Random(3.5).random()": ["float", 0.672427469383],
    },
    "Which of two C types of the same size has the plain name is the platform's choice.": {
        "np.intc.__name__": ["str", "intc"],
        "np.longlong.__name__": ["str", "int64"],
    },
    "The guest has no ctypes: nothing can be loaded or called by address.": {
        "np.array([1, 2]).ctypes.data_as(ctypes.POINTER(ctypes.c_int64))[1]": ["raises", "OSError"],
        "np.ctypeslib.as_array((ctypes.c_int64 * 2)(1, 2**40))": ["raises", "OSError"],
    },
    "WebAssembly has no floating-point exceptions.": {
        "strictly(lambda: np.ones(2) / np.zeros(2))": ["float64[]", [2], ["inf", "inf"]],
    },
    "A pointer has 4 bytes.": {
        "df.memory_usage(index=False)": [
            "Series",
            ["int32", "int32[]", [7], [240, 480, 480, 480, 480, 480, 60]],
            [
                "Index",
                [
                    "str",
                    "object[]",
                    [7],
                    [
                        ["str", "k"],
                        ["str", "g"],
                        ["str", "i"],
                        ["str", "big"],
                        ["str", "v"],
                        ["str", "t"],
                        ["str", "flag"],
                    ],
                ],
            ],
        ],
    },
}

# Reason: programs, and how far their floats may be from the native ones.
LOOSE: dict[str, dict[str, float]] = {
    "An optimiser stops where its tolerance lets it.": {
        'optimize.minimize(square, [3, 2], method="COBYLA").x': 1e-3,
        "sm.tsa.ARIMA(series, order=(1, 1, 1)).fit().params": 1e-3,
    },
}
