# scipy: images, signals, space, clusters, interpolation, linear algebra, integrals.
import io
import numpy as np
from scipy import fft, integrate, interpolate, io as sio, linalg, ndimage, signal, spatial
from scipy.cluster import hierarchy, vq

rng = np.random.default_rng(0)
points, plane = rng.normal(size=(30, 3)), rng.normal(size=(30, 2))
im = np.arange(25).reshape(5, 5)
high, huge = im * 10**10, np.array([[2**40, 1], [3, 4]])
lab, number = ndimage.label(im % 4 > 0)
wave = np.sin(np.arange(100) / 5) + np.arange(100) / 200
peaks = signal.find_peaks(wave)[0]
line, squares = np.arange(10), np.arange(10) ** 2
tree, many = spatial.cKDTree(plane), spatial.KDTree(np.zeros((50000, 1)))
Z = hierarchy.linkage(points, "ward")
S = np.array([[4, 1], [2, 3]])
three = np.ones((3, 3), int)


def round_trip(**arrays):
    """What comes back of arrays in a MATLAB file."""
    file = io.BytesIO()
    sio.savemat(file, arrays)
    file.seek(0)
    return {name: value for name, value in sio.loadmat(file).items() if name in arrays}


def with_backend(name):
    """A transform by the backend that is named."""
    with fft.set_backend(name, only=True):
        return fft.fft([1, 2])


ndimage.label([1, 0, 1])
ndimage.label(im > 12)[1]
lab
number
ndimage.label(three, output=np.int64)[0]
ndimage.find_objects(lab)[0]
ndimage.value_indices(np.array([[1, 2], [2, 1]]))[1]
ndimage.sum(im, lab, np.arange(number + 1))
ndimage.sum_labels(high, lab, [1, 2])
ndimage.mean(im, lab, [1])
ndimage.variance(im, lab, np.array([1]))
ndimage.standard_deviation(im, lab, np.array([1]))
ndimage.median(im, lab, [1])
ndimage.minimum(high, lab, [1, 2])
ndimage.maximum(high, lab, [1, 2])
ndimage.maximum_position(im, lab, [1])
ndimage.minimum_position(im, lab, 1)
ndimage.extrema(im, lab, 1)
ndimage.center_of_mass(im, lab, np.array([1]))
ndimage.histogram(im, 0, 25, 5)
ndimage.histogram(im, 0, 25, 5, lab, [1, 2])
ndimage.labeled_comprehension(im, lab, np.arange(1, number + 1), np.sum, int, 0)
ndimage.gaussian_filter(im, 1)
ndimage.gaussian_filter(im.astype(float), 1)
ndimage.gaussian_filter1d(high, 1)
ndimage.median_filter(im, 3)
ndimage.median_filter(high, 3)
ndimage.uniform_filter(im, 3)
ndimage.uniform_filter1d(high, 3)
ndimage.minimum_filter(im, 3)
ndimage.maximum_filter(high, 3)
ndimage.maximum_filter1d(line, 3)
ndimage.rank_filter(im, 2, 3)
ndimage.percentile_filter(im, 50, 3)
ndimage.generic_filter(im, np.sum, 3)
ndimage.generic_filter1d(line.astype(float), lambda i, o: np.copyto(o, i[1:-1]), 3)
ndimage.convolve(im, three)
ndimage.convolve(high, three)
ndimage.correlate(im, three)
ndimage.correlate1d(line, [1, 2, 1])
ndimage.convolve1d(line, [1, 2**33, 1])
ndimage.sobel(im)
ndimage.laplace(im)
ndimage.prewitt(im)
ndimage.gaussian_laplace(im, 1)
ndimage.gaussian_gradient_magnitude(im, 1)
ndimage.rotate(im, 45)
ndimage.rotate(im, 90, reshape=False)
ndimage.zoom(im, 2)
ndimage.zoom(high, 0.5, order=0)
ndimage.shift(im, 1)
ndimage.shift(high, 1, order=0)
ndimage.affine_transform(im, np.eye(2))
ndimage.map_coordinates(im, [[1.5], [2.5]])
ndimage.map_coordinates(high, np.array([[1, 2], [2, 3]]), order=1)
ndimage.geometric_transform(im, lambda c: c)
ndimage.spline_filter(im)
ndimage.binary_dilation(im > 20)
ndimage.binary_erosion(im > 2).sum()
ndimage.binary_opening(im > 5).sum()
ndimage.binary_closing(im > 5).sum()
ndimage.binary_fill_holes(im > 5).sum()
ndimage.binary_propagation(im > 20).sum()
ndimage.binary_hit_or_miss(im > 5).sum()
ndimage.grey_erosion(im, 3)
ndimage.grey_dilation(high, 3)
ndimage.grey_opening(im, 3)
ndimage.morphological_gradient(im, 3)
ndimage.white_tophat(im, 3)
ndimage.black_tophat(im, 3)
ndimage.generate_binary_structure(2, 1)
ndimage.iterate_structure(three, 2)
ndimage.distance_transform_edt(im > 3)
ndimage.distance_transform_edt(im > 3, return_indices=True)[1]
ndimage.distance_transform_cdt(im > 3)
ndimage.distance_transform_cdt(im > 3, return_indices=True)[1]
ndimage.distance_transform_bf(im > 3)
ndimage.watershed_ift((im % 7).astype(np.uint8), lab.astype(np.int16))
ndimage.watershed_ift((im % 7).astype(np.uint8), lab)
ndimage.fourier_gaussian(im.astype(float), 1)
ndimage.fourier_shift(im, 1).real
signal.find_peaks(wave)
signal.find_peaks(wave, distance=20, prominence=0.5)[0]
signal.find_peaks(wave, height=0, width=3)[1]["widths"]
signal.find_peaks(np.array([0, 2**40, 0, 5, 0]))[0]
signal.find_peaks_cwt(wave, np.arange(1, 10))
signal.peak_prominences(wave, peaks)
signal.peak_prominences(wave, np.array([8]))[0]
signal.peak_prominences(wave, [8])[0]
signal.peak_widths(wave, peaks)[0]
signal.peak_widths(wave, np.array([8]))[0]
signal.peak_widths(wave, np.array([8]), prominence_data=(np.array([1.0]), np.array([0]), np.array([20])))[0]
signal.peak_widths(wave, peaks, prominence_data=signal.peak_prominences(wave, peaks))[0]
signal.argrelmax(wave)[0]
signal.argrelextrema(wave, np.less)[0]
signal.butter(2, 0.2)
signal.cheby1(2, 1, 0.2)[0]
signal.lfilter([1, 2], [1], np.arange(5))
signal.lfilter([1], [1, 1], [2**40, 0, 0])
signal.filtfilt(*signal.butter(2, 0.2), wave)[:3]
signal.sosfilt(signal.butter(2, 0.2, output="sos"), wave)[:3]
signal.convolve(np.arange(3), np.arange(3))
signal.convolve([2**33, 1], [2**20, 1])
signal.convolve(np.arange(100), np.arange(100), method="fft").sum()
signal.fftconvolve(np.arange(3), np.arange(3))
signal.oaconvolve(np.arange(30), np.arange(3)).sum()
signal.convolve2d(np.arange(9).reshape(3, 3), np.ones((2, 2), int))
signal.correlate(np.arange(3), np.arange(3))
signal.correlation_lags(3, 4)
signal.correlate2d(im, three)
signal.choose_conv_method(np.arange(3), np.arange(3))
signal.resample(np.arange(8), 4)
signal.resample_poly(wave, 2, 3)[:3]
signal.resample_poly(np.arange(10), 2, 1)
signal.upfirdn([1, 1], np.arange(4), 2)
signal.upfirdn(np.array([1, 2**33]), np.arange(4))
signal.decimate(wave, 2)[:2]
signal.savgol_filter(wave, 5, 2)[:3]
signal.savgol_filter(np.arange(9), 5, 2)
signal.medfilt(np.arange(5))
signal.medfilt(np.array([1, 2**40, 3]), 3)
signal.medfilt2d(im, 3)
signal.wiener(wave)[:2]
signal.order_filter(im, np.ones((3, 3)), 4)
signal.detrend(np.arange(5))
signal.hilbert(np.arange(4))
signal.spectrogram(wave, nperseg=32)[2].shape
signal.welch(wave, nperseg=32)[1][:3]
signal.periodogram(np.arange(8))[1]
signal.stft(wave, nperseg=32)[2].shape
signal.istft(signal.stft(wave, nperseg=32)[2], nperseg=32)[1][:3]
signal.ShortTimeFFT.from_window("hann", 1.0, 16, 8).stft(wave).shape
signal.coherence(wave, wave[::-1], nperseg=32)[1][:2]
signal.csd(wave, wave[::-1], nperseg=32)[1][:2]
signal.lombscargle(np.arange(10), np.arange(10), np.array([1.0, 2]))
signal.max_len_seq(3)
signal.firwin(5, 0.3)
signal.remez(7, [0, 0.1, 0.2, 0.5], [1, 0])
signal.czt(np.arange(4))
signal.zoom_fft(np.arange(8), 0.5)[:2]
signal.residue([1], [1, 3, 2])[0]
signal.freqz([1, 2], [1], 4)[1]
signal.tf2zpk([1, 2], [1, 3])
signal.lsim(([1], [1, 1]), np.ones(5), np.arange(5))[1]
signal.step(([1], [1, 1]), N=4)[1]
signal.dlsim(([1], [1, 1], 1), np.ones(3))[1]
signal.chirp(np.arange(3), 1, 2, 3)
signal.square(np.arange(3))
signal.sawtooth(np.arange(3))
signal.gausspulse(np.arange(2))
signal.unit_impulse(4, 2, dtype=int)
signal.windows.hann(4)
signal.bilinear([1], [1, 2])
signal.cspline1d(np.arange(5.0))
signal.qspline1d_eval(signal.qspline1d(np.arange(5.0)), np.array([1, 2]))
signal.sepfir2d(im.astype(float), [1, 2, 1], [1, 2, 1])
signal.vectorstrength(np.arange(5), 3)
spatial.distance.cdist(plane[:3], plane[:3])
spatial.distance.cdist(np.arange(4).reshape(2, 2), np.array([[2**33, 1]]))
spatial.distance.pdist(np.arange(6).reshape(3, 2))
spatial.distance.pdist(huge, "cityblock")
spatial.distance.squareform([1, 2, 3])
spatial.distance.squareform(np.array([[0, 2**40], [2**40, 0]]))
spatial.distance.hamming([1, 0], [1, 1])
spatial.distance.jaccard([1, 0], [1, 1])
spatial.distance.euclidean([1, 2**33], [3, 4])
spatial.distance.cityblock([1, 2**33], [3, 4])
spatial.distance.chebyshev([1, 2**33], [3, 4])
spatial.distance.sqeuclidean([0, 100000], [100000, 0])
spatial.distance.braycurtis([1, 2], [3, 4])
spatial.distance.canberra([1, 2], [3, 4])
spatial.distance.cosine([1, 2], [3, 4])
spatial.distance.mahalanobis([1, 2], [3, 4], np.eye(2))
spatial.distance.minkowski([1, 2], [3, 4], 3)
spatial.distance.directed_hausdorff(plane[:5], plane[5:9])
spatial.distance_matrix(np.arange(4).reshape(2, 2), [[2**33, 1]])
tree.query(plane[:3], 2)
tree.query(plane[:2], k=[1, 3])[1]
tree.query(plane[:2], k=np.array([1, 3]))[1]
tree.query_ball_point(plane[:2], 0.5)
tree.query_ball_point(plane[0], 0.5, return_length=True)
sorted(tree.query_pairs(0.2))
tree.query_pairs(0.2, output_type="ndarray")
tree.count_neighbors(tree, 0.5)
tree.count_neighbors(tree, np.array([0.5, 1.0]))
many.count_neighbors(many, 1.0)
spatial.KDTree(np.arange(60000)[:, None]).count_neighbors(many, [10, 10**6])
many.count_neighbors(many, [0.5, 1.0], cumulative=False)
tree.sparse_distance_matrix(tree, 0.3).nnz
tree.query_ball_tree(tree, 0.3)[:2]
np.sort(tree.indices)
spatial.KDTree(np.arange(10)[:, None]).query([[3]])
spatial.KDTree(np.array([[0], [2**40]])).query([[2**40]])
spatial.ConvexHull(plane).vertices
spatial.ConvexHull(plane).simplices.sum()
spatial.Delaunay(plane).simplices.shape
spatial.Delaunay(plane).find_simplex(plane[:2])
spatial.Delaunay(plane).neighbors.dtype
spatial.Delaunay(plane).vertex_neighbor_vertices[0]
spatial.Voronoi(plane).vertices.shape
spatial.Voronoi(plane).point_region
spatial.HalfspaceIntersection(np.array([[-1.0, 0, 0], [0, -1, 0], [1, 1, -1]]), np.array([0.2, 0.2])).intersections.shape
spatial.procrustes(plane[:5], plane[5:10])[2]
spatial.transform.Rotation.from_euler("z", 90, degrees=True).as_matrix()
spatial.transform.Rotation.from_quat([0, 0, 1, 1]).apply([1, 2, 3])
spatial.transform.Rotation.random(2, rng=0).magnitude()
spatial.transform.Slerp(np.arange(2), spatial.transform.Rotation.from_rotvec([[0, 0, 0], [0, 0, 1]]))(0.5).as_quat()
spatial.geometric_slerp([1, 0], [0, 1], np.array([0, 0.5]))
spatial.SphericalVoronoi(np.vstack([np.eye(3), -np.eye(3)])).calculate_areas()
spatial.minkowski_distance([1, 2], [3, 4])
Z
hierarchy.fcluster(Z, 3, "maxclust")
hierarchy.fclusterdata(points, 1.0)
hierarchy.dendrogram(Z, no_plot=True)["leaves"]
hierarchy.leaves_list(Z)
hierarchy.cut_tree(Z, 3)
hierarchy.cophenet(Z)[:3]
hierarchy.optimal_leaf_ordering(Z, points)[:2]
hierarchy.inconsistent(Z)[:2]
hierarchy.maxdists(Z)[:2]
hierarchy.maxRstat(Z, hierarchy.inconsistent(Z), 1)[:2]
hierarchy.leaders(Z, hierarchy.fcluster(Z, 3, "maxclust"))
hierarchy.to_tree(Z).count
hierarchy.to_mlab_linkage(Z)[:2]
hierarchy.from_mlab_linkage(hierarchy.to_mlab_linkage(Z))[:2]
hierarchy.is_valid_linkage(Z)
hierarchy.is_isomorphic([1, 2, 2], [3, 4, 4])
hierarchy.linkage(np.arange(6).reshape(3, 2))
hierarchy.linkage(np.array([[0], [2**40], [5]]), "average")
hierarchy.DisjointSet([1, 2]).n_subsets
vq.kmeans2(points, 3, rng=0, minit="++")[1]
vq.kmeans2(points, points[:2], minit="matrix")[1]
vq.kmeans(points, 2, rng=0)[1]
vq.vq(points, points[:3])
vq.whiten(points)[:1]
interpolate.interp1d(line, squares)(2.5)
interpolate.interp1d(line, squares, kind="nearest")(2.4)
interpolate.interp1d(line, squares * 10**10)([2.5, 3])
interpolate.CubicSpline(line, squares)(2.5)
interpolate.PchipInterpolator(line, squares)(2.5)
interpolate.Akima1DInterpolator(line, squares)(2.5)
interpolate.BarycentricInterpolator([0, 1, 2], [0, 1, 4])(1.5)
interpolate.KroghInterpolator([0, 1, 2], [0, 1, 4])(1.5)
interpolate.lagrange([0, 1, 2], [0, 1, 4]).coef
interpolate.approximate_taylor_polynomial(np.sin, 0, 3, 1).coef
interpolate.make_interp_spline(line, squares)(2.5)
interpolate.make_smoothing_spline(line.astype(float), squares)(2.5)
interpolate.make_lsq_spline(line, squares, [0, 0, 0, 0, 5, 9, 9, 9, 9])(2.5)
interpolate.BSpline(np.arange(8), np.arange(4), 3)(3.5)
interpolate.BSpline.design_matrix(np.array([3.5]), np.arange(8.0), 3)
interpolate.splrep(line, squares)[0]
interpolate.splev(2.5, interpolate.splrep(line, squares))
interpolate.splint(0, 2, interpolate.splrep(line, squares))
interpolate.UnivariateSpline(line, squares)(2.5)
interpolate.RectBivariateSpline(line, line, np.outer(line, line))(1.5, 2.5)
interpolate.RegularGridInterpolator((line, line), np.outer(line, line))([[1.5, 2.5]])
interpolate.RegularGridInterpolator((line, line), np.outer(line, line), method="nearest")([[1.4, 2.6]])
interpolate.interpn((line, line), np.outer(line, line), [[1.5, 2.5]])
interpolate.griddata(plane, points[:, 0], [[0, 0]])
interpolate.griddata(plane, np.arange(30), [[0, 0]], method="nearest")
interpolate.LinearNDInterpolator(plane, np.arange(30))(0, 0)
interpolate.NearestNDInterpolator(plane, np.arange(30))(0, 0)
interpolate.CloughTocher2DInterpolator(plane, np.arange(30))(0, 0)
interpolate.RBFInterpolator(plane, np.arange(30))([[0, 0]])
interpolate.PPoly(np.array([[1], [2]]), np.array([0, 1]))(0.5)
interpolate.NdPPoly(np.ones((2, 2, 1, 1)), (np.array([0.0, 1]), np.array([0.0, 1])))([[0.5, 0.5]])
interpolate.AAA(line / 10, np.exp(line / 10))(0.55)
interpolate.pade([1, 1, 0.5], 1)[0].coef
linalg.inv(S)
linalg.det(S)
linalg.det(huge)
linalg.solve(S, [1, 2])
linalg.eig(S)[0]
linalg.eigvalsh(S @ S.T)
linalg.svdvals(S)
linalg.lu(S)[1]
linalg.lu_factor(S)
linalg.lu_solve(linalg.lu_factor(S), np.array([1, 2]))
linalg.cholesky(S @ S.T)
linalg.cho_solve(linalg.cho_factor(S @ S.T), [1, 2])
linalg.qr(S)[1]
linalg.qr(S, pivoting=True)[2]
linalg.schur(S)[0]
linalg.hessenberg(im)[:2, :2]
linalg.expm(S)
linalg.sqrtm(S)
linalg.logm(S)
linalg.fractional_matrix_power(S, 0.5)
linalg.pinv(S)
linalg.null_space(np.ones((2, 2), int)).shape
linalg.orth(S).shape
linalg.norm(S)
linalg.norm(huge)
linalg.lstsq(points, np.arange(30))[0]
linalg.toeplitz([1, 2, 3])
linalg.hankel([1, 2])
linalg.circulant([1, 2])
linalg.hadamard(4)
linalg.pascal(5)
linalg.pascal(40)[-1, -1]
linalg.invpascal(4)
linalg.hilbert(2)
linalg.companion([1, 2, 3])
linalg.leslie([1, 2], [3])
linalg.fiedler([1, 2, 3])
linalg.helmert(3)
linalg.dft(2)
linalg.block_diag(S, S)
linalg.khatri_rao(S, huge)
linalg.convolution_matrix([1, 2], 3)
linalg.solve_banded((1, 1), np.array([[0, 1, 1], [4, 4, 4], [1, 1, 0]]), [1, 2, 3])
linalg.solve_toeplitz([2, 1], [1, 2])
linalg.matmul_toeplitz([1, 2], np.array([1, 2]))
linalg.solve_triangular(S, [1, 2], lower=True)
linalg.solve_sylvester(S, S, S)
linalg.eigh_tridiagonal(np.array([1, 2, 3]), np.array([1, 1]))[0]
linalg.bandwidth(S)
linalg.issymmetric(S)
linalg.polar(S)[1]
linalg.interpolative.interp_decomp(points, 2, rand=False)[0]
linalg.cossin(np.eye(4), 2, 2)[0].shape
linalg.subspace_angles(points[:, :1], points[:, 1:2])
linalg.blas.ddot([1, 2], [3, 4])
linalg.blas.idamax([1, 5, 2])
linalg.lapack.dgesv(S, [1, 2])
linalg.lapack.dgetrf(S)[1]
integrate.quad(np.sin, 0, 1)[0]
integrate.quad(lambda v: v, 0, 10**10)[0]
integrate.dblquad(lambda v, w: v * w, 0, 1, 0, 2)[0]
integrate.fixed_quad(np.sin, 0, 1, n=3)[0]
integrate.quad_vec(lambda v: np.arange(3) * v, 0, 1)[0]
integrate.trapezoid(np.arange(5) * 10**10)
integrate.simpson(np.arange(5))
integrate.romb(np.arange(5))
integrate.cumulative_trapezoid(np.arange(5))
integrate.cumulative_simpson(np.arange(5))
integrate.solve_ivp(lambda t, v: -v, (0, 1), [1]).y[0, -1]
integrate.solve_ivp(lambda t, v: -v, (0, 1), [1], method="BDF", t_eval=np.array([0, 1])).y
integrate.solve_ivp(lambda t, v: -v, (0, 1), [1], method="LSODA").y[0, -1]
integrate.odeint(lambda v, t: -v, 1, np.arange(3))
integrate.ode(lambda t, v: -v).set_initial_value(1).integrate(1)
integrate.solve_bvp(lambda t, v: np.vstack((v[1], -v[0])), lambda a, b: np.array([a[0], b[0] - 1]), np.linspace(0, 1, 5), np.zeros((2, 5))).status
integrate.newton_cotes(3)[0]
integrate.nquad(lambda v, w: v, [[0, 1], [0, 1]])[0]
integrate.tanhsinh(np.sin, 0, 1).integral
integrate.nsum(lambda k: 1 / k**2, 1, np.inf).sum
fft.fft(np.arange(4))
fft.rfft(np.array([2**40, 1]))
fft.dct(np.arange(4))
fft.dst(np.arange(4))
fft.rfft2(np.arange(4).reshape(2, 2))
fft.irfft(np.arange(3))
fft.fftn(im)[0, :2]
fft.hfft(np.arange(3))
fft.fftfreq(4)
fft.rfftfreq(5, 2)
fft.next_fast_len(97)
fft.fftshift(np.arange(4))
fft.fht(np.arange(1, 5), 0.1, 1)
round_trip(a=np.array([1, 2**40]), b=np.array([1, 2], np.int32))
sio.mmread(io.StringIO("%%MatrixMarket matrix coordinate integer general\n2 2 2\n1 1 5\n2 2 3000000000\n")).sum()
linalg.ldl(np.array([[2, 1], [1, 3]]))[2]
linalg.schur(three + S[0, 1], output="complex")
linalg.schur(np.array([[0, 2, 2], [0, 1, 2], [1, 0, 1]]), output="complex")[0]
linalg.qz(S, S.T + 1, output="complex")[:2]
linalg.ordqz(S, S.T + 1, output="complex")[2]
linalg.rsf2csf(np.triu(S), np.eye(2, dtype=int))
linalg.signm(S)
linalg.funm(S, lambda v: v * v)
signal.medfilt2d(im.astype("u1"))
signal.medfilt2d(im.astype("u1"), 5)
signal.medfilt2d(im.astype(float), [3, 5])
signal.medfilt2d(im.astype("f4"), np.array([5, 3]))
signal.find_peaks(wave)[0] * 2**40
signal.peak_widths(wave, peaks, prominence_data=signal.peak_prominences(wave, peaks))
signal.argrelmax(np.array([[0, 1, 0], [2, 0, 3]]), axis=1)
many.query([[1, 0.5]], 2)[1].dtype
spatial.KDTree(plane).query(plane[0])
spatial.KDTree(plane).query_ball_point(plane[:3], 0.5, return_length=True)
with_backend("scipy")
spatial.KDTree(plane).query(plane[:3], 2, workers=-1)
spatial.KDTree(plane).query_ball_point(plane[:3], 0.5, workers=2)
tree.query_ball_point(plane[:3], 0.5, workers=2, return_length=True)
