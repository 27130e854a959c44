# Positions, counts and shapes of 2**31 and more in scipy: what raises, and what does not.
import numpy as np
import scipy.sparse as sp
import scipy.sparse.csgraph
from scipy import ndimage, signal


def changed(change, array, *rest, **more):
    """The array, changed."""
    change(array, *rest, **more)
    return array


def assigned(array, index, value):
    """The array, with the value there."""
    array[index] = value
    return getattr(array, "obj", array)


sp.csr_array((3, 2**40)).shape
sp.coo_array((2**32, 2**32)).shape
sp.coo_array(([1.0], ([2**32 + 1], [0])), shape=(2**33, 3))
sp.coo_array(([1.0], ([2**32 + 1], [0])), shape=(3, 3))
sp.coo_array(([1.0], ([2**32 + 1], [0]))).shape
sp.coo_array(([1.0], ([0], [2**32 + 1])), shape=(3, 2**33)).tocsr()
sp.coo_array(([1.0], ([0], [2**32 + 1])), shape=(3, 2**33)).tocsr().sum()
sp.coo_array(([1.0], ([0], [2**32 + 1])), shape=(3, 2**33)).tocsr()[0, 2**32 + 1]
sp.coo_array(([1.0], ([0], [2**32 + 1])), shape=(3, 2**33)).tocsr()[:, 2**32 + 1]
sp.coo_array(([1.0], ([0], [2**32 + 1])), shape=(3, 2**33)).tocsr()[0, 1]
sp.coo_array(([1.0], ([0], [2**32 + 1])), shape=(3, 2**33)).T.shape
sp.coo_array(([1.0], ([0], [2**32 + 1])), shape=(3, 2**33)).reshape(2**33, 3).coords
sp.coo_array(([1.0], ([0], [2**20])), shape=(2**20, 2**21)).reshape(2**21, 2**20).coords
sp.coo_array(([1.0], ([2**19], [2**20])), shape=(2**20, 2**21)).reshape(2**21, 2**20).coords
sp.csr_array(([1.0], ([2**19], [2**20])), shape=(2**20, 2**21)).reshape(2**22, 2**19)
sp.csr_array(([1.0], [2**32 + 1], [0, 1]), shape=(1, 3))
sp.csr_array(([1.0], np.array([2**32 + 1]), np.array([0, 1])), shape=(1, 2**33))
sp.csr_array(([1.0, 2.0], np.array([0, 2**32]), np.array([0, 2])))
sp.csr_array(([1.0, 2.0], np.array([0, 1]), np.array([0, 2**32 + 2])), shape=(1, 2))
sp.csr_array(([1.0, 2.0], np.array([0, 1], "i8"), np.array([0, 2], "i8"))).sum(0)
sp.csr_array(([1.0, 2.0], np.array([0, 1], "i8"), np.array([0, 2], "i8"))) @ np.ones(2)
sp.csr_array(np.eye(3))[2**32 + 1]
sp.csr_array(np.eye(3))[2**32 + 1, 0]
sp.csr_array(np.eye(3))[0, 2**32 + 1]
sp.csr_array(np.eye(3))[[2**32 + 1]]
sp.csr_array(np.eye(3))[np.array([0, 2**32 + 1])]
sp.csr_array(np.eye(3))[:, [2**32 + 1]]
sp.csr_array(np.eye(3))[[0], [2**32]]
sp.csr_array(np.eye(3))[2**32 :]
sp.csr_array(np.eye(3))[:, : 2**32 + 1]
sp.csc_array(np.eye(3))[:, [2**32 + 1]]
sp.csc_array(np.eye(3))[[2**32 + 1]]
sp.lil_array(np.eye(3))[2**32 + 1]
sp.lil_array(np.eye(3))[[0], [2**32 + 1]]
assigned(sp.lil_array(np.eye(3)), ([0], [2**32 + 1]), 9)
assigned(sp.csr_array(np.eye(3)), (0, 2**32 + 1), 9)
assigned(sp.csr_array(np.eye(3)), ([0], [2**32 + 1]), 9)
assigned(sp.dok_array(np.eye(3)), (0, 2**32 + 1), 9)
assigned(sp.dok_array((2**40, 2**40)), (2**32 + 1, 2**33), 9.0)
sp.dok_array(np.eye(3))[0, 2**32 + 1]
sp.dok_array((2**40, 2**40)).shape
sp.eye_array(3, k=2**32)
sp.eye_array(3, k=2**32 + 1)
sp.diags_array([1.0], offsets=2**32 + 1, shape=(3, 3))
sp.dia_array((np.ones((1, 3)), [2**32 + 1]), shape=(3, 3))
sp.dia_array((np.ones((1, 3)), [2**32]), shape=(3, 3)).todense()
sp.dia_array((np.ones((1, 3)), np.array([2**32 + 1])), shape=(3, 3)).tocsr()
sp.dia_array((np.ones((1, 3)), np.array([2**32 + 1])), shape=(3, 3)) @ np.ones(3)
sp.csr_array(np.eye(3)).diagonal(2**32)
sp.csr_array(np.eye(3)).diagonal(2**32 + 1)
sp.coo_array(np.eye(3)).diagonal(-(2**32))
sp.csr_array(np.eye(3)).trace(2**32)
sp.csr_array(np.eye(3)).setdiag(1, 2**32)
sp.csr_array(np.eye(3)).setdiag(1, 2**32 + 1)
sp.csr_array(np.eye(3)).reshape(2**32 + 9, 1)
sp.tril(np.eye(3), 2**32)
sp.triu(np.eye(3), 2**32 + 1)
sp.triu(np.eye(3), -(2**32))
sp.kron(sp.coo_array(([1.0], ([2**20], [0])), shape=(2**21, 1)), sp.coo_array(([1.0], ([2**20], [0])), shape=(2**21, 1))).coords
sp.kron(sp.eye_array(3), sp.eye_array(3))
sp.vstack([sp.coo_array(([1.0], ([2**30], [0])), shape=(2**31 - 1, 1))] * 3).coords
sp.vstack([sp.csr_array((2**24, 1)), sp.csr_array(np.eye(1))]).shape
sp.hstack([sp.coo_array(([1.0], ([0], [2**30])), shape=(1, 2**31 - 1))] * 3).coords
sp.hstack([sp.csr_array(([1.0], ([0], [2**30])), shape=(1, 2**31 - 1))] * 3).indices
sp.hstack([sp.csc_array(([1.0], ([0], [2])), shape=(1, 3))] * 3).indices
sp.block_diag([sp.coo_array(([1.0], ([0], [2**30])), shape=(1, 2**31 - 1))] * 3).coords
sp.csr_array(np.eye(3)).power(2**32 + 1).todense()
sp.linalg.matrix_power(sp.csr_array(np.eye(2)), 2**32 + 1).todense()
sp.csr_array(np.eye(3)).sum(axis=2**32)
sp.csr_array(np.eye(3)).sum(dtype="i4")
sp.csr_array(np.array([[2**40, 1]])).sum()
sp.csr_array(np.array([[2**31 - 1] * 3], "i4")).sum()
sp.csr_array(np.array([[2**31 - 1] * 3], "i4")).sum(0)
sp.csr_array(np.array([[2**31 - 1] * 3], "i4")).sum(1)
sp.csr_array(np.array([[2**31 - 1] * 3], "i4")).mean()
sp.csr_array(np.array([[2**40, 1]])).max()
sp.csr_array(np.array([[2**40, 1]])).argmax()
sp.coo_array(([1.0], ([2**19], [2**19])), shape=(2**20, 2**20)).argmax()
sp.csr_array(([1.0], ([2**19], [2**19])), shape=(2**20, 2**20)).argmax()
sp.csr_array(([1.0], ([2**19], [2**19])), shape=(2**20, 2**20)).nonzero()
sp.csr_array(([1.0], ([2**19], [2**19])), shape=(2**20, 2**20)).count_nonzero()
sp.find(sp.coo_array(([1.0], ([2**32 + 1], [0])), shape=(2**33, 3)))
sp.bsr_array((np.ones((1, 1, 1)), [2**32], [0, 1]), shape=(1, 1))
sp.bsr_array((2**33, 2**33), blocksize=(2**32, 2**32)).shape
sp.bsr_array(np.eye(4), blocksize=(2**32 + 2, 2))
sp.csr_array(np.eye(3)).tobsr((2**32 + 1, 1))
sp.csgraph.dijkstra(np.ones((3, 3)), indices=2**32)
sp.csgraph.dijkstra(np.ones((3, 3)), indices=[0, 2**32 + 1])
sp.csgraph.shortest_path(np.ones((3, 3)), indices=[2**32 + 1])
sp.csgraph.bellman_ford(np.ones((3, 3)), indices=[2**32 + 1])
sp.csgraph.breadth_first_order(np.ones((3, 3)), 2**32)
sp.csgraph.breadth_first_order(np.ones((3, 3)), 2**32 + 1)
sp.csgraph.depth_first_order(np.ones((3, 3)), 2**32 + 1)
sp.csgraph.breadth_first_tree(np.ones((3, 3)), 2**32 + 1)
sp.csgraph.maximum_flow(sp.csr_array(np.array([[0, 2**31 - 1], [0, 0]], "i4")), 0, 1).flow_value
sp.csgraph.maximum_flow(sp.csr_array(np.array([[0, 2**40], [0, 0]])), 0, 1).flow_value
sp.csgraph.maximum_flow(sp.csr_array(np.array([[0, 2**32 + 5], [0, 0]])), 0, 1).flow_value
sp.csgraph.maximum_flow(sp.csr_array(np.array([[0, 5], [0, 0]], "i4")), 2**32, 1).flow_value
sp.csgraph.reconstruct_path(sp.csr_array(np.ones((3, 3))), [-9999, 2**32, 0])
sp.csgraph.connected_components(sp.csr_array(([1.0], [1], [0, 1, 1]), shape=(2, 2)))
sp.csgraph.connected_components(sp.csr_array(([1.0], np.array([1]), np.array([0, 1, 1])), shape=(2, 2)))
ndimage.shift(np.arange(5.0), 2**32 + 1)
ndimage.uniform_filter1d(np.arange(5.0), 3, origin=2**32)
ndimage.rank_filter(np.arange(5.0), 2**32 + 1, 3)
ndimage.rank_filter(np.arange(5.0), -(2**32) - 1, 3)
ndimage.minimum_filter(np.arange(5.0), 3, origin=2**32)
ndimage.correlate1d(np.arange(5.0), [1, 2, 1], origin=2**32)
ndimage.correlate(np.arange(5.0), [1, 2, 1], origin=2**32)
ndimage.convolve(np.arange(5.0), [1, 2, 1], axes=2**32)
ndimage.label([0, 1, 1, 0, 2**40])
ndimage.label(np.array([0, 2**32, 0]))
ndimage.sum_labels([1, 2, 3], [1, 2**32 + 1, 1], [1, 2**32 + 1])
ndimage.sum_labels([1, 2, 3], np.array([1, 2**32 + 1, 1]), 1)
ndimage.mean([1, 2, 3], np.array([1, 2**32 + 1, 1]), [1])
ndimage.maximum_position([1, 2, 3], np.array([1, 2**32 + 1, 1]), [1])
ndimage.center_of_mass(np.ones(3), np.array([1, 2**32 + 1, 1]), [1])
ndimage.binary_dilation([0, 1, 0], iterations=2**32 + 1)
ndimage.binary_erosion([0, 1, 1, 1, 0], iterations=2**32)
ndimage.binary_erosion([1, 1, 1, 1, 1], iterations=2**32 + 1)
ndimage.binary_erosion([0, 1, 1, 1, 0], origin=2**32)
ndimage.generate_binary_structure(2, 2**32 + 1)
ndimage.spline_filter(np.arange(5.0), order=2**32 + 3)
ndimage.map_coordinates(np.arange(5.0), [[2**32 + 1]])
ndimage.map_coordinates(np.arange(5.0), [[2**32 + 1]], order=0)
ndimage.map_coordinates(np.arange(5.0), [[1]], order=2**32 + 1)
ndimage.distance_transform_edt([0, 1, 1])
ndimage.watershed_ift(np.array([0, 1, 0], "u1"), np.array([1, 0, 2**32 + 2]))
signal.peak_widths([0, 1, 0, 2, 0], 1)
signal.peak_prominences([0, 1, 0, 2, 0], 1)
signal.resample_poly([1.0, 2, 3], 2**33, 2**32)
signal.lfilter([1.0], [1.0], [2**32 + 1])
signal.lfilter([1.0], [1.0], np.eye(2), axis=2**32 + 1)
signal.convolve([2**32, 1], [2**31, 1])
signal.convolve([2**32, 1], [2**31, 1], method="direct")
signal.convolve2d([[2**32, 1]], [[2**31, 1]])
signal.correlate2d([[2**32, 1]], [[2**31, 1]])
signal.convolve2d([[2**40]], [[1]], fillvalue=2**40, boundary="fill")
signal.order_filter(np.arange(5.0), [1, 1, 1], 2**32 + 1)
signal.sosfilt([[1, 0, 0, 1, 0, 0]], [2**32 + 1])
signal.peak_widths([0, 1, 0, 2, 0], np.array(1))
signal.peak_widths([0, 1, 0, 2, 0], [[1]])
signal.peak_widths([0, 1, 0, 2, 0], [1.5])
signal.peak_widths([0, 1, 0, 2, 0], [])
ndimage.map_coordinates(np.arange(5.0), [[2**32 + 1]], order=1, mode="constant")
ndimage.map_coordinates(np.arange(5.0), [[1.5, 2.0]], order=3, mode="wrap")
ndimage.shift(np.arange(5.0), 2, mode="wrap")
ndimage.zoom(np.arange(5.0), 2, mode="grid-wrap")
sp.lil_array(np.eye(3))[[0, 1], [0, 1]]
assigned(sp.lil_array(np.eye(3)), ([0], [2]), 9)
