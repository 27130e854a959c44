# What numpy gives as positions and counts, and what it takes as such.
import functools, operator
from concurrent.futures import ThreadPoolExecutor
import numpy as np

flags, floats, small = np.array([True, False, True]), np.array([1.5, 2.5, -3.5]), np.array([3, 1, 2])
square, words = np.arange(9).reshape(3, 3), np.array(["x", "y", "xx"])
masked = np.ma.array(square, mask=square % 4 == 0)
here, wide = np.array([0, 1]), np.array([0, 1], np.int64)


def after(change, array=small):
    """The array, changed."""
    array = array.copy()
    change(array)
    return array


np.argsort(small)
small.argsort(kind="stable")
np.argsort(["b", "a"])
np.argsort(*[small])
np.argsort(small, **{"kind": "stable"}) * 10**10
small.argsort(*[0])
small.argsort(**{"kind": "stable"}) * 10**10
list(map(np.argsort, [small]))
functools.partial(np.argsort)(small)
small.argmax()
small.argmin()
np.argmax(square, axis=0)
np.argmin(square, axis=1)
np.argmax(square, axis=0, out=np.zeros(3, int))
np.argmax(square, axis=0, keepdims=True)
np.nanargmax(floats)
np.nonzero(small)[0]
np.where(flags)[0]
np.flatnonzero(small)
np.argwhere(small)
np.searchsorted(small, 2)
np.searchsorted([1, 2, 3], [2])
np.searchsorted([1, 2, 3], [2], side="right")
np.searchsorted([1, 2**40], 2**39)
np.searchsorted(small, 2, sorter=np.array([1, 2, 0]))
np.digitize([0.5, 1.5], [0, 1])
np.digitize(0.5, [0, 1])
np.bincount([0, 1, 1])
np.bincount(small)
np.bincount(small, minlength=6)
np.bincount(small, weights=floats)
np.bincount(np.array([1, 2], np.int64))
np.bincount(np.array([1, 2], np.uint8))
np.bincount(np.array([1, 2], np.uint64))
np.bincount([])
np.bincount([1], minlength=np.int64(3))
np.bincount([0, 0, 0]) * 10**10
np.bincount([0] * 100000) ** 2
np.histogram([1, 2, 2], bins=2)[0]
np.histogram([1, 2, 2], bins=2)[0] * 10**10
np.histogram([1, 2, 2], bins=[0, 2, 3])[0]
np.histogram(np.array([1, 2, 2**40]), bins=3)[0]
np.histogram([1, 2, 2], bins=2, weights=[1, 2, 3])[0]
np.histogram([1, 2, 2], bins=2, density=True)[0]
np.histogram_bin_edges([1, 2, 2**40], 2)
np.histogram2d([1, 2], [1, 2], bins=2)[0]
np.histogramdd(square, bins=2)[0].dtype
np.unique([1, 2, 2])
np.unique([1, 2, 2], return_counts=True)[1]
np.unique([1, 2, 2], return_counts=True)[1] * 10**10
np.unique([1, 2, 2], return_inverse=True)[1]
np.unique([1, 2, 2], return_index=True)[1]
np.unique_counts([1, 2, 2]).counts
np.unique_all([1, 2, 2]).indices
np.unique([[1, 2], [1, 2]], axis=0, return_counts=True)[1]
np.unique(words, return_counts=True)[1]
np.lexsort(([1, 2], [2, 1]))
np.argpartition(small, 1)
np.ravel_multi_index([[0], [1]], (2, 2))
np.ravel_multi_index((0, 1), (2, 2))
np.unravel_index(3, (2, 2))[0]
np.unravel_index([3], (2, 2))[0]
np.triu_indices(2)[0]
np.tril_indices(2)[0]
np.triu_indices_from(square)[0]
np.diag_indices(2)[0]
np.mask_indices(2, np.triu)[0]
np.ix_([0, 1])[0]
np.ix_(flags)[0]
np.count_nonzero(flags)
np.count_nonzero(square, axis=0)
np.count_nonzero(square, axis=0) * 10**10
np.char.str_len(words)
np.strings.str_len(words)
np.strings.find(words, "x")
np.strings.index(np.array(["ax"]), "x")
np.char.count(words, "x")
np.strings.count(words, "x") * 10**10
np.intersect1d([1, 2], [2], return_indices=True)[1]
np.union1d([1], [2])
np.setdiff1d([1, 2], [2])
np.isin([1, 2], [2, 2**40])
np.argsort(small) * 10**10
np.argsort(small) + 2**31
np.nonzero(small)[0] * 2**32
np.arange(3)[small.argmax()] * 10**10
small.argmax() * 10**10
small.argmax() + 2**31
np.flatnonzero(flags) * 100000 * 100000
np.where(flags)[0] ** 2
np.where(flags)[0].sum()
np.argsort(small).sum()
np.argsort(small).cumsum()
np.argsort(small).mean()
np.argsort(small).astype(int)
np.cumsum(np.bincount(small))
np.cumsum(np.unique(small, return_counts=True)[1])
np.bincount(small).sum()
np.bincount(small).prod()
np.bincount(small).max()
np.bincount(small).max() * 10**10
np.bincount(small).dot(np.arange(4)) * 10**10
np.dot(np.bincount(small), np.bincount(small))
np.bincount(small) * small.sum()
np.bincount(small) * np.arange(4) * 10**10
np.bincount(small) / 3
np.bincount(small).tolist()
np.bincount(small)[0]
np.bincount(small) == 1
np.histogram(small, 3)[0].cumsum()
np.argsort(small).tolist()
int(small.argmax())
small.shape[0]
small.size
np.ndim(small)
np.shape(square)
len(small) * 10**10
np.size(square) * 10**10
square.shape[0] * 10**10
[1, 2, 3][np.argmax(small)]
list(range(3))[np.array(1)]
range(10)[np.int64(3)]
operator.index(np.array(5))
operator.index(np.int64(2**40))
"ab" * np.array(2)
[1] * np.int64(2)
np.take(small, here)
np.take(small, wide)
np.take(small, [-1])
np.take(small, np.array([5]), mode="wrap")
np.take(small, np.array([2**40]), mode="clip")
np.take(small, here, out=np.zeros(2, int))
np.take(square, here, axis=1)
small[here]
small[wide]
small[here.astype("u8")]
small[np.array([0], np.int8)]
small[np.int64(1)]
small[np.array(1)]
small[[True, False, True]]
small[np.argsort(small)]
square[here, here]
square[np.ix_(here, here)]
square[here][:, wide]
square[..., np.array([0])]
small[np.array([2**32])]
small[[2**32]]
small[2**32]
small[2**31]
small[-2**32]
small[np.array([-2**32])]
small[np.array([2**32 + 1])]
small[np.array([2**63 - 1])]
square[np.array([2**32]), np.array([0])]
small.take(2**32)
small.take([2**32])
np.take(small, np.array([2**32 + 1]))
after(lambda a: a.__setitem__(np.array([2**32]), 9))
after(lambda a: a.__setitem__(2**32, 9))
after(lambda a: np.put(a, [2**32], 9))
after(lambda a: np.put(a, np.array([0]), 9))
after(lambda a: np.put(a, here, [7, 8]))
after(lambda a: a.put(np.array([5]), 9, mode="wrap"))
after(lambda a: np.place(a, a > 1, [7]))
after(lambda a: np.putmask(a, a > 1, 7))
after(lambda a: np.copyto(a, 7))
after(lambda a: np.copyto(a, np.array([1, 2, 3], np.int32)))
after(lambda a: a.__setitem__(here, 2**40))
after(lambda a: np.add.at(a, np.array([0, 0]), 1))
after(lambda a: np.add.at(a, np.array([2**32]), 1))
after(lambda a: np.put_along_axis(a, np.array([0]), 9, 0))
after(lambda a: np.fill_diagonal(a, 7), square)
after(lambda a: a.fill(2**40))
after(lambda a: a.sort())
after(lambda a: a.partition(np.array([1])))
after(lambda a: a.__iadd__(2**40))
after(lambda a: a.__iadd__(1.5))
after(lambda a: a.__itruediv__(2))
after(lambda a: a.__ilshift__(33))
after(lambda a: a.itemset(0, 1))
np.repeat([1, 2], here)
np.repeat(small, [1, 2, 3])
np.repeat(small, np.array([1, 2, 3]))
np.repeat(small, np.int64(2))
np.repeat(small, np.array([1, 2, 3], np.uint64))
np.repeat(small, np.array([1, 2, 3], np.uint8))
np.repeat(small, np.array([1.0, 2.0, 3.0]))
np.repeat(small, -1)
np.repeat(small, np.bincount([0, 1, 2]))
small.repeat(np.array([2]))
np.choose(np.array([0, 1, 0]), [small, small * 10])
np.choose([0, 1, 0], [[1, 2, 3], [4, 5, 6]])
np.choose(np.array([5, 1, 0]), [small, small], mode="wrap")
np.compress([0, 1, 1], small)
np.extract(small > 1, small)
np.add.reduceat(small, here)
np.add.reduceat(small, wide)
np.split(np.arange(6), np.array([2, 4]))[0]
np.array_split(small, np.int64(2))[0]
np.delete(small, np.array([0]))
np.delete(small, 2**32)
np.insert(small, np.array([1]), 5)
np.zeros(np.array([2, 2])).shape
np.zeros(np.int64(2)).shape
np.zeros(2**63)
np.reshape(np.arange(4), np.array([2, 2])).shape
np.arange(4).reshape(np.int64(-1), 2).shape
np.arange(4).reshape(2**32, -1)
np.roll(small, np.int64(1))
np.roll(small, np.array([1]))
np.roll(small, 2**32)
np.roll(square, np.array([1, 1]), axis=(0, 1))
np.rollaxis(np.ones((2, 3)), np.int64(1)).shape
np.partition(small, np.array([1]))
np.unravel_index(np.array([3]), (2, 2))[0]
np.unravel_index(2**32, (2, 2))
np.ravel_multi_index((np.array([0]), np.array([1])), (2, 2))
np.ravel_multi_index(([2**32], [1]), (2, 2), mode="clip")
np.take_along_axis(small, np.argsort(small), 0)
np.take_along_axis(square, np.array([[0, 1, 2]]), 0)
np.moveaxis(np.ones((2, 3)), np.array([0]), np.array([1])).shape
np.transpose(np.ones((2, 3)), np.array([1, 0])).shape
np.expand_dims(small, np.int64(0)).shape
np.swapaxes(square, np.int64(0), 1)
np.broadcast_to(small, (np.int64(2), 3)).shape
np.broadcast_shapes((2, 1), (np.int64(3),))
np.sum(square, axis=np.int64(0))
np.sum(square, axis=tuple(here))
np.strings.multiply(words, np.array([1, 2, 3]))
np.char.multiply(words, np.array([1, 2, 0]))
np.char.find(words, "x", np.array([0, 0, 1]))
np.strings.find(words, "x", np.array([0, 1, 0]), np.array([1, 2, 3]))
np.strings.ljust(words, np.array([3, 2, 1]))
np.strings.zfill(words, np.array([3, 2, 1]))
np.strings.center(words, 5)
np.strings.startswith(words, "x", np.array([0, 0, 1]))
np.strings.slice(words, np.array([0, 0, 1]))
np.char.replace(words, "x", "zz", count=np.array([1, 1, 1]))
np.char.expandtabs(np.array(["a\tb"]), np.array([4]))
np.interp(small, small, small)
np.ndarray(3, int).shape
np.nditer(small).itersize
np.nditer(small, flags=["c_index"]).index
np.ndindex(2, 2).__next__()
np.lib.stride_tricks.as_strided(small, (2,), (8,))
np.lib.stride_tricks.sliding_window_view(small, np.int64(2))
np.array([1, 2, 3])[:: np.int64(2)]
np.arange(10)[np.int64(2) : np.int64(5)]
np.arange(10)[2**31 :]
np.arange(10)[-2**32 : 2**32]
slice(np.int64(1), None).indices(5)
np.tril(square, np.int64(-1))
np.diagonal(square, np.int64(1))
np.eye(3, k=np.int64(1), dtype=int)
np.searchsorted(np.arange(5), np.array([1, 2**40]))
np.busday_offset("2026-01-01", 20)
np.ma.count(masked) * 10**10
masked.count() * 10**10
masked.count(axis=0) * 10**10
masked.argsort(axis=1)
np.ma.argsort(masked)
np.argsort(masked)
masked.argmax(axis=0)
masked.nonzero()[0]
np.ma.where(masked > 3)[1]
np.ma.unique(masked, return_inverse=True)[1]
np.ma.flatnotmasked_edges(masked)
np.ma.notmasked_edges(masked[0])
np.matrix(square).argmax(axis=1)
np.matrix(square).argmin(axis=0) * 10**10
np.char.array(words).find("x")
np.char.array(words).argsort()
np.ma.clump_unmasked(masked[1])
np.ix_(flags, [0, 2])[0] * 2**40
np.ix_(flags, np.array([1], "i4"))[1]
np.ix_(np.array([], bool), [])
list(ThreadPoolExecutor(2).map(np.argsort, [small, small[::-1]]))
ThreadPoolExecutor(2).submit(np.nonzero, flags).result()
