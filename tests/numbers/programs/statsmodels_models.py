# statsmodels: regressions, time series, tests.
import numpy as np, pandas as pd
import statsmodels.api as sm, statsmodels.formula.api as smf
from statsmodels.gam.api import BSplines, GLMGam
from statsmodels.nonparametric.kernel_density import KDEMultivariate
from statsmodels.regression.rolling import RollingOLS
from statsmodels.stats import descriptivestats, diagnostic, inter_rater, multicomp, multitest, power, proportion, stattools, weightstats
from statsmodels.stats.contingency_tables import Table2x2, Table, mcnemar
from statsmodels.stats.outliers_influence import OLSInfluence, variance_inflation_factor
from statsmodels.tsa import stattools as ts
from statsmodels.tsa.forecasting.theta import ThetaModel

rng = np.random.default_rng(0)
X = rng.normal(size=(60, 3))
y = X @ np.arange(3) + rng.normal(size=60)
flags, counts = (y > 0).astype(int), rng.poisson(3, 60)
series = np.cumsum(rng.normal(size=80)) + 10
frame = pd.DataFrame({"v": y, "x": X[:, 0], "i": np.arange(60), "k": list("abc") * 20, "g": np.arange(60) // 10, "n": counts, "f": flags})
dated = pd.Series(series, index=pd.date_range("2020-01", periods=80, freq="MS"))
table = np.array([[8, 2], [1, 5]])
ols = sm.OLS(y, sm.add_constant(X)).fit()

ols.params
ols.rsquared
ols.pvalues
ols.conf_int()
ols.df_resid
ols.nobs
ols.predict(sm.add_constant(X))[:3]
ols.get_prediction().se_mean[:3]
ols.f_test(np.eye(4)[1:]).pvalue
ols.wald_test([0, 1, 0, 0], scalar=True).pvalue
ols.get_robustcov_results("HC1").bse
ols.get_robustcov_results("cluster", groups=frame.g.to_numpy()).bse
OLSInfluence(ols).cooks_distance[0][:3]
OLSInfluence(ols).hat_matrix_diag[:3]
variance_inflation_factor(sm.add_constant(X), 1)
sm.add_constant(np.arange(3))
sm.OLS(np.arange(20), sm.add_constant(np.arange(20) % 7)).fit().params
sm.OLS(np.arange(20) * 10**10, sm.add_constant(np.arange(20))).fit().params
sm.WLS(y, X, weights=np.arange(1, 61)).fit().params
sm.GLS(y, X).fit().params
sm.GLSAR(y, X, 1).iterative_fit(2).params
sm.QuantReg(y, X).fit(0.5).params
sm.RLM(y, X).fit().params
sm.RecursiveLS(y, X).fit().params
RollingOLS(y, X, window=20).fit().params[-1]
smf.ols("v ~ x + C(k)", frame).fit().params
smf.ols("v ~ i * x", frame).fit().params
smf.ols("v ~ np.log(i + 1)", frame).fit().params
smf.ols("i ~ g", frame).fit().params
smf.ols("v ~ C(g)", frame).fit().rsquared
smf.glm("n ~ x", frame, family=sm.families.Poisson()).fit().params
smf.logit("f ~ i", frame).fit(disp=0).params
smf.mixedlm("v ~ x", frame, groups=frame.g).fit().params
smf.gee("v ~ x", "g", frame).fit().params
smf.quantreg("v ~ i", frame).fit().params
sm.stats.anova_lm(smf.ols("v ~ C(k)", frame).fit())
sm.stats.anova_lm(smf.ols("v ~ C(k) + i", frame).fit(), typ=2)
sm.Logit(flags, X).fit(disp=0).params
sm.Logit(flags, X).fit(disp=0).get_margeff().margeff
sm.Probit(flags, X).fit(disp=0).params
sm.MNLogit(counts % 3, X).fit(disp=0).params
sm.Poisson(counts, X).fit(disp=0).params
sm.NegativeBinomial(counts, X).fit(disp=0).params
sm.GeneralizedPoisson(counts, np.ones((60, 1))).fit(disp=0).params
sm.ZeroInflatedPoisson(counts, np.ones((60, 1))).fit(disp=0, maxiter=30).params.shape
sm.ConditionalLogit(flags, X, groups=np.arange(60) // 10).fit(disp=0).params
sm.GLM(counts, X, family=sm.families.Poisson()).fit().params
sm.GLM(flags, X, family=sm.families.Binomial()).fit().params
sm.GLM(counts + 1, np.ones(60), family=sm.families.Gamma(sm.families.links.Log())).fit().params
sm.GLM(np.column_stack([counts, 20 - counts]), X, family=sm.families.Binomial()).fit().params
sm.GEE(y, X, groups=np.arange(60) // 10).fit().params
sm.MixedLM(y, X, groups=np.arange(60) // 10).fit().fe_params
sm.PHReg(np.abs(y) + 0.1, X, status=flags).fit().params
sm.PHReg(np.arange(60) + 1, X, status=flags).fit().params
sm.SurvfuncRight(np.abs(y), flags).surv_prob[:5]
sm.SurvfuncRight(np.arange(60), flags).n_risk[:5]
sm.SurvfuncRight(np.abs(y), flags).n_events[:5]
GLMGam(y, smoother=BSplines(X[:, :1], df=[6], degree=[3])).fit().params
sm.nonparametric.lowess(y, X[:, 0])[:5]
sm.nonparametric.lowess(np.arange(20), np.arange(20))[:3]
(lambda k: (k.fit(), k.density[:4])[1])(sm.nonparametric.KDEUnivariate(y))
KDEMultivariate(X[:, :1], "c").pdf(X[:2, :1])
sm.nonparametric.KernelReg(y, X[:, :1], "c").fit(X[:2, :1])[0]
sm.PCA(X, ncomp=2).eigenvals
sm.Factor(X, n_factor=1).fit().uniqueness
sm.MANOVA(X[:, :2], sm.add_constant(flags)).mv_test().results["x1"]["stat"].iloc[0, 0]
sm.tsa.ARIMA(series, order=(1, 1, 1)).fit().params
sm.tsa.ARIMA(series, order=(2, 0, 0)).fit().forecast(3)
sm.tsa.ARIMA(np.arange(30), order=(1, 0, 0), trend="ct").fit().forecast(2)
sm.tsa.ARIMA(dated, order=(1, 0, 0)).fit().forecast(2)
sm.tsa.ARIMA(series, order=(1, 0, 1)).fit(method="innovations_mle").params
sm.tsa.ARIMA(series, order=(1, 0, 0)).fit(method="yule_walker").params
sm.tsa.ARIMA(series, order=(1, 0, 0)).fit(method="burg").params
sm.tsa.ARIMA(series, order=(1, 0, 1)).fit(method="hannan_rissanen").params
sm.tsa.SARIMAX(series, order=(1, 0, 0), seasonal_order=(1, 0, 0, 4)).fit(disp=0).params
sm.tsa.SARIMAX(np.r_[series[:30], [np.nan] * 3, series[33:]], order=(1, 1, 0)).fit(disp=0).smoothed_state.shape
sm.tsa.SARIMAX(series, order=(1, 0, 0), exog=np.arange(80)).fit(disp=0).params
sm.tsa.UnobservedComponents(series, "llevel").fit(disp=0).params
sm.tsa.UnobservedComponents(series, "lltrend").fit(disp=0).forecast(2)
sm.tsa.VARMAX(X[:40, :2], order=(1, 0)).fit(disp=0, maxiter=5).params.shape
sm.tsa.DynamicFactor(X[:40, :2], k_factors=1, factor_order=1).fit(disp=0, maxiter=3).params.shape
sm.tsa.VAR(X[:, :2]).fit(1).params
sm.tsa.VAR(X[:, :2]).fit(1).forecast(X[-1:, :2], 2)
sm.tsa.VAR(X[:, :2]).select_order(2).aic
sm.tsa.VAR(X[:, :2]).fit(1).irf(2).irfs[1]
sm.tsa.VECM(np.cumsum(X[:, :2], axis=0), k_ar_diff=1).fit().alpha
sm.tsa.AutoReg(series, 2).fit().params
sm.tsa.AutoReg(dated, [1, 3]).fit().forecast(2)
sm.tsa.ARDL(frame.v, 1, frame[["x"]], 1).fit().params
sm.tsa.ExponentialSmoothing(series, trend="add").fit().forecast(2)
sm.tsa.ExponentialSmoothing(dated, seasonal="add", seasonal_periods=4).fit().forecast(2)
sm.tsa.SimpleExpSmoothing(series).fit(smoothing_level=0.5, optimized=False).fittedvalues[-2:]
sm.tsa.Holt(series).fit(smoothing_level=0.5, smoothing_trend=0.1, optimized=False).forecast(2)
sm.tsa.statespace.ExponentialSmoothing(series).fit(disp=0).params
sm.tsa.statespace.ExponentialSmoothing(dated, trend=True).fit(disp=0).forecast(1)
sm.tsa.MarkovRegression(series, 2).fit().params.shape
sm.tsa.MarkovAutoregression(series, 2, order=1).loglike(np.array([0.9, 0.1, 1.0, 2.0, 1.0, 0.5, 0.5]))
sm.tsa.seasonal_decompose(series, period=4).trend[2:5]
sm.tsa.seasonal_decompose(dated, period=12).seasonal.head(3)
sm.tsa.STL(series, period=7).fit().trend[:3]
__import__("statsmodels.tsa.seasonal", fromlist=["x"]).MSTL(series, periods=(4, 7)).fit().trend[:3]
ThetaModel(pd.Series(series), period=4).fit().forecast(2)
sm.tsa.filters.hpfilter(series)[0][:3]
sm.tsa.filters.bkfilter(series)[:3]
sm.tsa.filters.cffilter(series)[0][:3]
sm.tsa.filters.convolution_filter(np.arange(9), [1, 1, 1])[1:4]
sm.tsa.filters.recursive_filter(np.arange(5), 0.5)
sm.tsa.acf(series, nlags=5)
sm.tsa.acf(np.arange(20), nlags=3)
sm.tsa.pacf(series, nlags=5)
sm.tsa.ccf(series, series[::-1])[:3]
sm.tsa.acovf(np.arange(10) * 10**5)[:3]
ts.pacf_ols(series, 3)
ts.levinson_durbin(series, 2)[1]
ts.adfuller(series)[0]
ts.kpss(series)[0]
ts.bds(series)[0]
ts.coint(series, np.arange(80) * 0.1 + series[::-1])[0]
ts.grangercausalitytests(X[:, :2], 1)[1][0]["ssr_ftest"][1]
ts.zivot_andrews(series)[0]
ts.q_stat(ts.acf(series, nlags=3)[1:], 80)[0]
ts.range_unit_root_test(series)[0]
sm.tsa.arma_generate_sample([1, -0.5], [1], 3, distrvs=np.random.RandomState(0).standard_normal)
sm.tsa.ArmaProcess([1, -0.5], [1]).impulse_response(4)
sm.tsa.lagmat(np.arange(5), 2)
sm.tsa.add_trend(np.arange(3), "ct")
sm.tsa.detrend(np.arange(5))
__import__("statsmodels.tsa.deterministic", fromlist=["x"]).DeterministicProcess(dated.index, constant=True, order=1, seasonal=True).in_sample().iloc[0]
sm.tsa.arma_order_select_ic(series, max_ar=1, max_ma=1, ic="bic").bic_min_order
multicomp.pairwise_tukeyhsd(frame.v, frame.k).meandiffs
multicomp.MultiComparison(frame.v, frame.g).allpairtest(__import__("scipy.stats", fromlist=["x"]).ttest_ind)[1][2]
multitest.multipletests([0.01, 0.02, 0.5])
multitest.multipletests([0.01, 0.02, 0.5], method="fdr_bh")[1]
multitest.fdrcorrection([0.01, 0.5])
proportion.proportion_confint(np.array([5, 6]), np.array([10, 10]))
proportion.proportion_confint(5, 10, method="wilson")
proportion.proportions_ztest(np.array([5, 8]), np.array([10, 10]))
proportion.proportions_chisquare([5, 8], [10, 10])[:2]
proportion.proportion_effectsize(0.5, 0.6)
proportion.multinomial_proportions_confint([5, 6, 7])
proportion.binom_test_reject_interval(0.5, 20)
power.tt_ind_solve_power(0.5, power=0.8, alpha=0.05)
power.NormalIndPower().power(0.3, 50, 0.05)
power.FTestAnovaPower().solve_power(0.3, k_groups=3, power=0.8, alpha=0.05)
weightstats.DescrStatsW(np.arange(5), weights=np.arange(5)).mean
weightstats.DescrStatsW(np.arange(5) * 10**10, weights=[1, 2, 3, 4, 5]).var
weightstats.ttest_ind(y[:30], y[30:])
weightstats.ztest(counts, value=3)
weightstats.CompareMeans.from_data(y[:30], y[30:]).tconfint_diff()
diagnostic.het_breuschpagan(ols.resid, sm.add_constant(X))[1]
diagnostic.het_white(ols.resid, sm.add_constant(X))[1]
diagnostic.acorr_ljungbox(series, lags=2)
diagnostic.acorr_breusch_godfrey(ols, 2)[1]
diagnostic.linear_rainbow(ols)[1]
diagnostic.lilliefors(y)[1]
diagnostic.normal_ad(y)[1]
diagnostic.recursive_olsresiduals(ols)[0][-2:]
diagnostic.breaks_cusumolsresid(ols.resid)[0]
diagnostic.het_goldfeldquandt(y, X)[1]
stattools.durbin_watson(ols.resid)
stattools.jarque_bera(y)[1]
stattools.omni_normtest(y)[1]
stattools.medcouple(np.arange(9) ** 2)
stattools.robust_kurtosis(counts)
descriptivestats.describe(frame[["v", "n"]])
descriptivestats.sign_test(counts, 3)
Table2x2(table).oddsratio
Table2x2(table).riskratio
Table(table).test_nominal_association().pvalue
Table(np.array([[8, 2, 1], [1, 5, 3]])).local_oddsratios
mcnemar(table).pvalue
mcnemar(table, exact=False).pvalue
inter_rater.fleiss_kappa(np.array([[3, 0], [1, 2], [0, 3]]))
inter_rater.cohens_kappa(table).kappa
inter_rater.aggregate_raters(np.array([[0, 1], [1, 1]]))[0]
sm.stats.runstest_1samp(y)[1]
sm.robust.mad(np.arange(9))
sm.robust.scale.huber(y)
sm.robust.scale.qn_scale(np.arange(9))
sm.distributions.ECDF(counts)(np.arange(3))
sm.distributions.StepFunction(np.arange(3), np.arange(3))(1.5)
sm.distributions.empirical_distribution.monotone_fn_inverter(np.sqrt, np.arange(5))(1.5)
sm.datasets.macrodata.load_pandas().data.year.sum()
sm.datasets.longley.load_pandas().endog.sum()
sm.datasets.sunspots.load_pandas().data.iloc[-1]
sm.datasets.fair.load_pandas().exog.shape
