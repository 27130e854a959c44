# Statistics of samples so large that products of ranks, counts and positions need more than 32 bits.
import numpy as np
import pandas as pd
import scipy.stats as st
from scipy import ndimage, signal
from scipy.stats import mstats
from sklearn import datasets, ensemble, metrics, model_selection
from statsmodels.graphics import functional
from statsmodels.sandbox.stats import runs
from statsmodels.stats import inter_rater, multicomp
from statsmodels.stats import nonparametric as rank_tests

n = 70000
a = np.arange(n)
f = np.sin(a * a % 10007) + a % 7 / 5
h = np.cos(a * 3 % 10009) + a % 11 / 9
few = a * 7 % 5
tenth = a % 10 == 0
mf, mh, mfew = (np.ma.masked_array(x, tenth) for x in (f, h, few))
both = np.ma.masked_array(np.stack([f, h], 1), np.stack([tenth, a % 11 == 0], 1))
df = pd.DataFrame({"g": few, "x": a})
many = {name: range(10**6) for name in "ab"}

st.anderson_ksamp([f, h], variant="continuous").statistic
st.anderson_ksamp([f, h], variant="right").statistic
st.anderson_ksamp([few, (few + 1) % 5], variant="right").statistic
st.anderson_ksamp([few, (few + 1) % 5], variant="midrank").statistic
st.kendalltau(f, h).statistic
st.kendalltau(few, h).statistic
st.spearmanr(few, h).statistic
st.chatterjeexi(few, h)
st.chatterjeexi(h, few)
st.mannwhitneyu(few, (few + 1) % 5).pvalue
st.wilcoxon(few - 2, zero_method="zsplit").pvalue
st.mood(few, (few + 1) % 4).pvalue
st.kruskal(few, few % 3).statistic
st.brunnermunzel(few, (few + 1) % 4).statistic
mstats.kruskal(mf, mh)
mstats.kruskal(mfew, mfew + 1)
mstats.mannwhitneyu(mfew, mfew + 1)
mstats.skewtest(mf)
mstats.skewtest(both)
mstats.kurtosistest(mf)
mstats.kurtosistest(both)
mstats.normaltest(both)
mstats.skew(both, bias=False)
mstats.kurtosis(both, bias=False)
mstats.spearmanr(mfew, mh)
mstats.ttest_1samp(both, 0)
mstats.describe(both)
mstats.sem(both)
both.count(0) ** 3
np.ma.count(both, 0) ** 3
both.count() ** 3
mfew.var(ddof=1)
np.ma.clump_masked(both[:30, 0])
np.ma.notmasked_contiguous(both[:30, 0])
inter_rater.fleiss_kappa(inter_rater.aggregate_raters(np.stack([few, (few + a % 2) % 5, few], 1))[0])
multicomp.MultiComparison(f, few).kruskal()
rank_tests.rank_compare_2indep(few, (few + 1) % 4).statistic
runs.runstest_1samp(f)
functional.banddepth(np.arange(1e5)[:, None], method="MBD")[50000]
metrics.label_ranking_loss(np.stack([few > 2, few < 1]).repeat(2, 1), np.stack([f, h]).repeat(2, 1))
metrics.roc_auc_score(few > 2, f)
metrics.adjusted_rand_score(few, (few + a % 2) % 5)
metrics.fowlkes_mallows_score(few, (few + a % 2) % 5)
metrics.cohen_kappa_score(few, (few + a % 2) % 5, weights="quadratic")
list(model_selection.ParameterSampler(many, 3, random_state=1))
len(model_selection.ParameterSampler(many, 3, random_state=1))
ensemble.RandomForestClassifier(3, random_state=1).fit(*datasets.load_iris(return_X_y=True)).apply(np.ones((1, 4))) * 10**9
df.groupby("g").indices[1][:3] * 10**9
df.groupby("g")["x"].indices[1][:3] * 10**9
df[:4].set_index(pd.date_range("2020", periods=4, freq="12h")).resample("D").indices
signal.find_peaks(few, prominence=1, plateau_size=1)[1]["left_bases"][:3] * 10**9
signal.find_peaks(few, prominence=1, plateau_size=1)[1]["plateau_sizes"][:3] * 10**9
ndimage.value_indices(few)[3][0][:3] * 10**9
