# scipy: sparse matrices, statistics, special functions, optimisation.
import numpy as np
from scipy import optimize, sparse, special, stats
from scipy.sparse import csgraph, linalg as sla

rng = np.random.default_rng(0)
x, y = rng.normal(size=40), rng.normal(size=40)
points, counts = rng.normal(size=(30, 3)), rng.poisson(3, 40)
grid = np.arange(12).reshape(3, 4)
A = sparse.csr_array([[0, 1, 0], [2, 0, 3], [0, 0, 4]])
M = sparse.csr_matrix([[0, 1, 0], [2, 0, 3], [0, 0, 4]])
B = sparse.random_array((20, 20), density=0.2, random_state=np.random.default_rng(1), format="csr")
big = sparse.coo_array((np.array([2**40, 5]), (np.array([0, 1]), np.array([1, 0]))), shape=(2, 2))
graph = sparse.csr_array([[0, 1, 4, 0], [0, 0, 2, 7], [0, 0, 0, 1], [0, 0, 0, 0]])
table = np.array([[8, 2], [1, 5]])


def square(v):
    return ((v - 1) ** 2).sum()


A
M
A.indices.dtype
A.indptr
A.sum()
A.sum(axis=0)
M.sum(axis=1)
(A * 10**10).sum()
A @ np.array([1, 2, 3])
A @ A
A.T.tocsr()
A.tocsc()
A.tocoo()
A.todia()
A.tolil().toarray()
A.todok().sum()
A.tobsr()
A.nnz
A.max()
A.argmax()
A.argmin(axis=0)
A.mean()
A.diagonal()
A.nonzero()
A.count_nonzero()
A.count_nonzero(axis=0)
A[1, 2]
A[np.array([0, 2])]
A[:, np.array([1, 2])]
A[np.array([0, 1]), np.array([1, 0])]
A[A > 1]
A > 1
A + A
A - 1 * A
A.multiply(A)
A.power(2)
A.maximum(A.T.tocsr())
A.astype(float)
A.astype(np.int32).sum()
A.reshape((1, 9))
A.has_sorted_indices
abs(-A)
-A
A.trace()
A.toarray()
A.getformat() if hasattr(A, "getformat") else A.format
big
big.sum()
big.tocsr() @ np.array([1, 2])
big.tocsr().power(1).max()
B.sum()
B @ B
B.T @ np.ones(20)
B[3:7].sum()
B.tocsc()[:, [1, 5]]
sparse.eye_array(3, dtype=int)
sparse.eye(3)
sparse.identity(2, dtype="int")
sparse.diags_array([1, 2, 3])
sparse.diags([1, 2], 1).toarray()
sparse.block_diag([grid, grid])
sparse.block_array([[A, None], [None, A]])
sparse.hstack([A, A])
sparse.vstack([A, A], format="csr")
sparse.kron(A, A)
sparse.kronsum(A, A)
sparse.triu(A)
sparse.tril(A)
sparse.find(A)
sparse.random(5, 5, 0.3, random_state=0)
sparse.rand(4, 4, 0.5, random_state=0).nnz
sparse.coo_array(([1, 2, 3], ([0, 0, 1], [1, 1, 0]))).tocsr()
sparse.coo_matrix(([1, 2], ([0, 1], [0, 1]))).sum()
sparse.csr_array((np.array([1, 2]), np.array([0, 1]), np.array([0, 1, 2])), shape=(2, 2))
sparse.csr_matrix((3, 4), dtype=int).toarray()
sparse.dok_array((2, 2), dtype=int)
sparse.lil_array([[1, 0], [0, 2]]).tocsr()
sparse.save_npz.__name__
sparse.issparse(A)
sparse.get_index_dtype(maxval=10)
sla.spsolve(B + sparse.eye_array(20, format="csr"), np.arange(20))
sla.splu((B + 5 * sparse.eye_array(20)).tocsc()).solve(np.arange(20.0))
sla.eigsh((B + B.T).tocsr(), k=2, v0=np.ones(20))[0]
sla.svds(B, k=2, v0=np.ones(20))[1]
sla.cg((B @ B.T + 20 * sparse.eye_array(20)).tocsr(), np.ones(20))[0]
sla.norm(A)
sla.expm(A.tocsc()).toarray()
sla.inv((B + 5 * sparse.eye_array(20)).tocsc()).sum()
sla.spsolve_triangular((sparse.tril(A) + sparse.eye_array(3)).tocsr(), np.array([1, 2, 3]))
sla.lsqr(A, np.array([1, 2, 3]))[0]
sla.gmres((B + 5 * sparse.eye_array(20)).tocsr(), np.ones(20))[0].sum()
csgraph.connected_components(graph)
csgraph.shortest_path(graph)
csgraph.dijkstra(graph, indices=0)
csgraph.dijkstra(graph, indices=np.array([0, 1]), return_predecessors=True)
csgraph.bellman_ford(graph)
csgraph.johnson(graph)
csgraph.floyd_warshall(graph)
csgraph.minimum_spanning_tree(graph)
csgraph.breadth_first_order(graph, 0)
csgraph.depth_first_order(graph, 0)[0]
csgraph.breadth_first_tree(graph, 0)
csgraph.laplacian(graph)
csgraph.maximum_flow(graph.astype(np.int32), 0, 3).flow_value
csgraph.maximum_flow(sparse.csr_array(graph.toarray()), 0, 3).flow_value
csgraph.maximum_bipartite_matching(graph)
csgraph.min_weight_full_bipartite_matching(sparse.csr_array(np.array([[1, 2], [3, 1]])))
csgraph.reverse_cuthill_mckee(graph)
csgraph.structural_rank(graph)
csgraph.yen(graph, 0, 3, 2)
csgraph.construct_dist_matrix(graph, csgraph.shortest_path(graph, return_predecessors=True)[1])
stats.describe(grid.ravel())
stats.mode([1, 2, 2])
stats.mode(np.array([2**40, 2**40, 1]))
stats.rankdata([1, 3, 2, 2])
stats.rankdata([1, 3, 2], method="ordinal")
stats.rankdata([1, 3, 3], method="dense")
stats.rankdata([2**40, 1, 2**40], method="min")
stats.tiecorrect(stats.rankdata([1, 2, 2]))
stats.percentileofscore([1, 2, 3], 2)
stats.scoreatpercentile([1, 2, 3], 50)
stats.binned_statistic(x, y, "count", bins=3)
stats.binned_statistic(np.arange(9), np.arange(9), "sum", bins=3)[0]
stats.binned_statistic_2d(x, y, None, "count", bins=2)[0]
stats.cumfreq([1, 2, 2, 3], 3)[0]
stats.relfreq([1, 2, 2, 3], 3)[0]
stats.sigmaclip([1, 2, 3])[0]
stats.zscore(np.arange(5))
stats.iqr(np.arange(9))
stats.gmean([1, 2, 2**40])
stats.hmean([1, 2, 3])
stats.pmean([1, 2, 3], 2)
stats.moment(np.arange(9), 2)
stats.skew(np.arange(9) ** 2)
stats.kurtosis(counts)
stats.sem(counts)
stats.variation(counts)
stats.trim_mean(np.arange(10), 0.1)
stats.tmean(np.arange(10), (2, 7))
stats.median_abs_deviation(np.arange(9))
stats.entropy([1, 2, 3])
stats.ttest_ind(x, y).pvalue
stats.ttest_1samp(np.arange(9), 3).pvalue
stats.ttest_rel(x, y).statistic
stats.mannwhitneyu(x, y).pvalue
stats.mannwhitneyu(np.arange(8), np.arange(8) + 3, method="exact").pvalue
stats.wilcoxon(x, y).pvalue
stats.kruskal(x, y).pvalue
stats.friedmanchisquare(x[:10], y[:10], x[10:20]).pvalue
stats.f_oneway(x, y).pvalue
stats.ks_2samp(x, y).pvalue
stats.kstest(x, "norm").pvalue
stats.anderson_ksamp([x, y]).statistic
stats.epps_singleton_2samp(x, y).pvalue
stats.shapiro(x).pvalue
stats.normaltest(x).pvalue
stats.jarque_bera(x).pvalue
stats.bartlett(x, y).pvalue
stats.levene(x, y).pvalue
stats.fligner(x, y).pvalue
stats.ansari(x, y).pvalue
stats.mood(x, y).pvalue
stats.pearsonr(x, y)[0]
stats.spearmanr(x, y)[0]
stats.spearmanr(counts, np.arange(40))[0]
stats.kendalltau(counts, np.arange(40))
stats.weightedtau(x, y)[0]
stats.somersd(table).statistic
stats.pointbiserialr(counts > 3, x)[0]
stats.linregress(np.arange(9), np.arange(9) * 10**10)
stats.theilslopes(y, x)[0]
stats.siegelslopes(y, x)[0]
stats.chi2_contingency(table)
stats.chisquare([16, 18, 16, 14])
stats.power_divergence([16, 18, 16, 14], lambda_="log-likelihood")
stats.fisher_exact(table)
stats.barnard_exact(table).pvalue
stats.boschloo_exact(table).pvalue
stats.contingency.crosstab(counts, counts > 2)[1]
stats.contingency.margins(table)
stats.contingency.odds_ratio(table).statistic
stats.contingency.relative_risk(3, 10, 5, 10).relative_risk
stats.binomtest(7, 20, 0.5).pvalue
stats.poisson_means_test(5, 10, 6, 10).pvalue
stats.cramervonmises(x, "norm").pvalue
stats.cramervonmises_2samp(x, y).pvalue
stats.brunnermunzel(x, y).pvalue
stats.energy_distance(x, y)
stats.wasserstein_distance([0, 1, 3], [5, 6, 8])
stats.page_trend_test([[1, 2, 3], [1, 3, 2]]).pvalue
stats.tukey_hsd(x, y).pvalue
stats.dunnett(x, control=y, random_state=0).pvalue
stats.alexandergovern(x, y).pvalue
stats.false_discovery_control([0.01, 0.02, 0.5])
stats.combine_pvalues([0.01, 0.2])
stats.bootstrap((x,), np.mean, n_resamples=50, random_state=0).standard_error
stats.permutation_test((x[:8], y[:8]), lambda a, b: a.mean() - b.mean(), n_resamples=50, random_state=0).pvalue
stats.bws_test(x[:6], y[:6]).pvalue
stats.multiscale_graphcorr(points[:15, :1], points[:15, 1:2], reps=5, random_state=0).statistic
stats.poisson.rvs(3, size=4, random_state=0)
stats.poisson.rvs(1e10, size=2, random_state=0)
stats.binom.rvs(10, 0.5, size=3, random_state=0)
stats.randint.rvs(0, 9, size=3, random_state=0)
stats.randint.rvs(0, 2**40, size=2, random_state=0)
stats.geom.rvs(0.3, size=3, random_state=0)
stats.nbinom.rvs(5, 0.5, size=3, random_state=0)
stats.hypergeom.rvs(20, 7, 12, size=3, random_state=0)
stats.bernoulli.rvs(0.3, size=5, random_state=0)
stats.zipf.rvs(3, size=3, random_state=0)
stats.logser.rvs(0.5, size=3, random_state=0)
stats.skellam.rvs(3, 2, size=3, random_state=0)
stats.boltzmann.rvs(1.4, 19, size=3, random_state=0)
stats.dlaplace.rvs(0.8, size=3, random_state=0)
stats.multinomial.rvs(5, [0.3, 0.7], size=2, random_state=0)
stats.multivariate_hypergeom.rvs([5, 6], 4, random_state=0)
stats.dirichlet_multinomial.pmf([1, 2], [1, 2], 3)
stats.random_table([5, 5], [4, 6]).rvs(random_state=0)
stats.norm.rvs(size=2, random_state=0)
stats.gamma.rvs(2, size=2, random_state=0)
stats.poisson.pmf(np.arange(4), 2)
stats.poisson.cdf([1, 2**33], 2)
stats.poisson.ppf([0.1, 0.9], 3)
stats.binom.pmf(np.arange(4), 10, 0.3)
stats.binom.cdf(3, 10, 0.3)
stats.binom.interval(0.9, 100, 0.5)
stats.hypergeom.pmf(np.arange(3), 20, 7, 12)
stats.nbinom.cdf(np.arange(3), 5, 0.5)
stats.betabinom.pmf(np.arange(3), 5, 2, 3)
stats.randint.mean(0, 2**40)
stats.norm.fit(x)
stats.expon.fit(np.abs(x))
stats.gaussian_kde(x)(np.arange(3))
stats.ecdf(counts).cdf.quantiles
stats.rv_histogram(np.histogram(x, 5)).cdf(0)
stats.rv_discrete(values=([1, 2], [0.5, 0.5])).rvs(size=4, random_state=0)
stats.probplot(x)[1]
stats.boxcox(np.arange(1, 9))[1]
stats.yeojohnson(x)[1]
stats.circmean([0.1, 6.2])
stats.qmc.Sobol(2, rng=0).random(4)
stats.qmc.Sobol(2, scramble=False).random(4)
stats.qmc.Halton(2, rng=0).random(3)
stats.qmc.LatinHypercube(2, rng=0).random(3)
stats.qmc.PoissonDisk(2, radius=0.2, rng=0).random(3)
stats.qmc.discrepancy(np.array([[0.1, 0.2], [0.5, 0.6]]))
stats.qmc.MultinomialQMC([0.3, 0.7], 5, engine=stats.qmc.Sobol(1, rng=0)).random(2)
stats.sobol_indices(func=lambda v: v.sum(axis=0), n=16, dists=[stats.uniform(), stats.uniform()], rng=0).first_order
stats.logrank(x=np.abs(x), y=np.abs(y)).pvalue
special.comb(5, np.arange(3))
special.comb(40, 20, exact=True)
special.comb(np.array([40, 60]), 20)
special.perm(5, np.arange(3))
special.perm(20, 10, exact=True)
special.factorial(np.arange(5))
special.factorial(np.arange(5), exact=True)
special.factorial(np.array([20]), exact=True)
special.factorial(20, exact=True)
special.factorial2(np.array([7]), exact=True)
special.factorialk(np.array([9]), 3, exact=True)
special.stirling2(5, np.arange(3))
special.stirling2(20, 5, exact=True)
special.binom(np.arange(5), 2)
special.gamma(np.arange(1, 5))
special.gammaln(2**40)
special.poch(np.arange(3), 2)
special.beta(np.arange(1, 4), 2)
special.jn(np.arange(3), 1.0)
special.jv(2, np.arange(3))
special.yn(np.array([1, 2]), 2.0)
special.kn(np.array([1, 2]), 2.0)
special.kn(2, 2.0)
special.spherical_jn(np.arange(3), 1.0)
special.eval_legendre(np.arange(3), 0.5)
special.eval_hermite(np.arange(3), 1.0)
special.eval_chebyt(np.arange(4), 0.5)
special.eval_laguerre(np.array([2, 3]), 0.5)
special.eval_jacobi(np.arange(3), 1, 2, 0.5)
special.eval_genlaguerre(np.arange(3), 1, 0.5)
special.sph_harm_y(np.arange(2), 0, 0.1, 0.2)
special.sph_harm_y(2, 1, 0.1, 0.2)
special.bdtr(np.array([1, 2]), 5, 0.3)
special.bdtr(1, 5, 0.3)
special.pdtr(np.arange(3), 2.0)
special.nbdtr(np.array([1]), 2, 0.3)
special.smirnov(np.array([3, 5]), 0.2)
special.smirnov(3, 0.2)
special.kolmogorov(0.5)
special.expn(np.array([1, 2]), 0.5)
special.exp1(np.arange(1, 3))
special.mathieu_a(np.arange(3), 0.5)
special.zeta(np.arange(2, 5))
special.bernoulli(4)
special.euler(4)
special.roots_legendre(3)[0]
special.roots_hermite(4)[1]
special.softmax(np.arange(3))
special.logsumexp(np.arange(3))
special.logsumexp(2**40)
special.expit(np.arange(3))
special.xlogy(np.arange(3), 2)
special.entr(np.arange(3))
special.hyp2f1(1, 2, 3, 0.5)
special.ellip_harm(1, 2, 1, 1, 0.5)
special.struve(np.arange(3), 2)
special.diric(np.array([1.0, 2]), 3)
special.multigammaln(5, 2)
special.lambertw(np.arange(2))
special.erf(np.arange(3))
special.assoc_legendre_p(np.arange(3), 1, 0.5)
special.legendre_p(np.arange(3), 0.5)
special.legendre(2).coef
special.chebyt(3).coef
special.gammainc(np.arange(1, 3), 2)
special.betainc(1, 2, np.array([0, 1]))
special.agm(1, 2)
special.rel_entr(np.arange(1, 3), 2)
special.boxcox(np.arange(1, 4), 2)
special.log_ndtr(np.arange(2))
special.ndtri(0.3)
special.logit(0.3)
optimize.minimize(square, np.array([3, 2])).x
optimize.minimize(square, [3, 2], method="Nelder-Mead").fun
optimize.minimize(square, [3, 2], method="SLSQP").x
optimize.minimize(square, [3, 2], method="L-BFGS-B").x
optimize.minimize(square, [3, 2], method="COBYLA").x
optimize.minimize(square, [3, 2], method="trust-constr").x
optimize.minimize(square, [3, 2], method="Powell").x
optimize.minimize(square, [3, 2], method="TNC").x
optimize.minimize_scalar(lambda v: (v - 2) ** 2).x
optimize.linprog([1, 2], A_ub=[[-1, -1]], b_ub=[-3]).x
optimize.linprog([-1, -1], bounds=[(0, 2**33), (0, 1)]).fun
optimize.milp([1, 2], constraints=optimize.LinearConstraint([[1, 1]], 3), integrality=[1, 1]).fun
optimize.milp(np.array([-1]), bounds=optimize.Bounds(0, 7.5), integrality=np.array([1])).x
optimize.linear_sum_assignment(np.array([[4, 1], [2, 3]]))
optimize.linear_sum_assignment(np.array([[2**40, 1], [2, 2**40]]))
optimize.curve_fit(lambda v, a: a * v, np.arange(5), np.arange(5) * 3)[0]
optimize.least_squares(lambda v: v - np.arange(3), np.zeros(3, int)).x
optimize.leastsq(lambda v: v - np.arange(3), np.zeros(3, int))[0]
optimize.root(lambda v: v**2 - 4, 3).x
optimize.fsolve(lambda v: v**2 - 4, 3)
optimize.brentq(lambda v: v - 1, 0, 3)
optimize.newton(lambda v: v**2 - 4, np.array([3, 1]))
optimize.nnls(np.eye(2), np.array([1, 2]))[0]
optimize.lsq_linear(np.eye(2), np.array([1, 2])).x
optimize.isotonic_regression([1, 3, 2]).x
optimize.differential_evolution(square, [(-1, 1)] * 2, rng=0, maxiter=5).fun
optimize.dual_annealing(square, [(-1, 2)] * 2, rng=0, maxiter=20).fun
optimize.basinhopping(square, [1, 3], niter=3, rng=0).fun
optimize.shgo(square, [(-1, 2)] * 2).fun
optimize.direct(square, [(-1, 2)] * 2).fun
optimize.brute(square, (slice(0, 3, 1), slice(0, 3, 1)))
optimize.quadratic_assignment(np.eye(3), np.eye(3)).col_ind
optimize.approx_fprime(np.array([1, 2]), square)
optimize.check_grad(lambda v: v[0] ** 2, lambda v: np.array([2 * v[0]]), [3])
optimize.bracket(lambda v: v**2, 1, 2)[:3]
optimize.fixed_point(lambda v: v / 2 + 1, 3)
stats.qmc.discrepancy(stats.qmc.Halton(2, scramble=False).random(20), workers=2)
stats.qmc.discrepancy(stats.qmc.Halton(2, scramble=False).random(20), method="L2-star", workers=-1)
stats.qmc.Halton(2, scramble=False).random(3, workers=2)
stats.qmc.Halton(2, rng=0).random(3, workers=2)
stats.qmc.Halton(2, rng=0).random(3, workers=0)
stats.mstats.describe(np.ma.array([1, 2, 3])).nobs
