# pandas: tables, groups, joins, reshaping.
import io, json
import numpy as np, pandas as pd

rng = np.random.default_rng(0)
df = pd.DataFrame({"k": rng.choice(list("abcd"), 60), "g": rng.integers(0, 5, 60), "i": np.arange(60), "big": np.arange(60) * 10**10, "v": rng.normal(size=60), "t": pd.date_range("2026-01-01", periods=60, freq="h")})
df["flag"] = df.v > 0
few = df.head(8)
prices = pd.DataFrame({"g": np.arange(5), "price": np.arange(5) * 3 * 10**9})
by = df.groupby("k")
s, big, gaps = df.i, df.big, pd.Series([1, None, 3, 2**40])
cats = pd.Series(pd.Categorical(["b", "a", "b", None]))
words = pd.Series(["a-1", "bb-22", None, "ccc-333"])
csv = "a,b,c\n1,2.5,x\n3000000000,4,y\n"
double = df.set_index(["k", "g"]).sort_index()

pd.Series([1, 2])
pd.Series(range(3))
pd.Series(np.arange(3))
pd.Series([1, 2], dtype=int)
pd.Series([1.5, 2.5]).astype(int)
pd.Series([3e9]).astype(int)
pd.Series(["5", "6"]).astype(int)
pd.Series(["5000000000"]).astype(int)
pd.Series([True, False]).astype(int)
pd.Series([1, 2**40])
pd.Series({"a": 1, "b": 2})
pd.Series(5, index=[0, 1])
pd.Series([1, 2]).astype("Int64")
pd.Series([1, None], dtype="Int64")
pd.Series([1, 2]).sum()
pd.Series([True, False]).sum()
pd.Series(np.arange(70000)).sum()
(pd.Series(np.arange(70000)) ** 2).sum()
pd.Series(np.arange(70000)).cumsum().iloc[-1]
pd.Series(np.arange(1, 21)).prod()
pd.Series(np.array([2**30] * 4, "i4")).sum()
pd.Series(np.array([100] * 3, "i1")).cumsum()
pd.DataFrame({"a": 1}, index=[0])
pd.DataFrame(np.ones((2, 2), int))
pd.DataFrame(np.arange(4).reshape(2, 2), columns=list("ab"))
pd.DataFrame([[1, 2.5], [3, 4.5]])
pd.DataFrame([{"a": 1}, {"a": 2, "b": 3}])
pd.DataFrame({"a": [1, 2]}).assign(b=lambda d: d.a * 10**10)
df.dtypes
df.shape
df.sum(numeric_only=True)
df.mean(numeric_only=True)
df[["i", "big"]].max()
df.count()
df.nunique()
df.isna().sum()
df.describe()
df.select_dtypes("int64").columns.tolist()
df.select_dtypes("number").columns.tolist()
df.memory_usage(index=False)
df.quantile([0.1, 0.5], numeric_only=True)
df[["i", "v"]].corr()
df[["i", "v"]].cov()
df.i.agg(["min", "max", "sum", "mean"])
df[["i", "big"]].apply(np.sum)
few.apply(lambda row: row.g * 10**10, axis=1)
few.i.apply(lambda x: x * 10**10)
few.i.map({0: 5, 1: 6})
few.i.map(lambda x: x + 1)
few[["i", "g"]].map(lambda x: x * 2)
few.eval("i * 100000 * 100000 + g")
df.query("i > 50 and g == 2")
(s * 10**6 * 10**4).iloc[-1]
(s * 2**31).max()
(big // 3).iloc[-3:]
(big % 7).iloc[-3:]
(s**2).sum()
-s.head(3)
~s.head(3)
s.head(3) << 40
s.head(3) & 2
s / 7
s.div(0).head(3)
s.add(big, fill_value=0).tail(2)
s.where(s > 55, -1)
s.mask(s > 5, 2**40).head(8)
s.clip(5, 9)
big.clip(upper=2**35)
s.replace(3, 2**40).head(5)
s.isin([1, 2, 2**40]).sum()
s.between(3, 7).sum()
s.diff().head(3)
s.shift(1, fill_value=0).head(3)
s.pct_change().iloc[2:5]
s.rank().head(3)
s.rank(method="dense").head(3)
df.v.rank(method="first").head()
s.cummax().tail(2)
big.cumsum().tail(2)
s.idxmax()
s.argmax()
s.argsort().head(3)
df.v.argsort().head(4)
s.searchsorted([5, 9])
s.searchsorted(5)
s.mode()
df.k.mode()
s.sem()
s.skew()
s.kurt()
s.autocorr()
s.nlargest(2)
df.nlargest(3, "v")
df.nsmallest(2, "v").i
s.sample(5, random_state=0)
df.sample(frac=0.1, random_state=1).i
s.repeat(2).head(4)
s.repeat(np.arange(60) % 3).size
s.explode().sum()
pd.Series([[1, 2], [3]]).explode()
s.to_numpy()
s.tolist()[:3]
s.to_dict()[3]
s.items().__iter__().__next__()
s.astype("category").cat.codes
s.astype(str).head(2)
s.astype(float).head(2)
s.astype("i4").sum() * 10**8
s.memory_usage(index=False)
s.nbytes
s.values.dtype
s.value_counts(bins=4, sort=False)
df.g.value_counts().sort_index()
df.g.value_counts(normalize=True).sort_index()
df.k.value_counts().sort_index() * 10**10
df[["k", "g"]].value_counts().sort_index()
df.g.unique()
df.g.factorize()
df.k.factorize()[0]
df.duplicated("k").sum()
df.drop_duplicates("k").i
df.sort_values("v").i
df.sort_values(["k", "v"], ascending=[False, True]).i
df.sort_values("big", ascending=False).i.head()
df.sort_index(ascending=False).i.head(3)
df.set_index("k").sort_index(kind="stable").i.head()
df.loc[df.i > 55, "v"]
df.loc[5, "big"]
df.at[5, "big"]
df.iat[5, 3]
df.iloc[np.arange(3)].i
df.iloc[np.array([5, 1]), np.array([2, 3])]
df.take(np.array([3, 1])).i
df.reindex(np.arange(58, 62)).i
df.reindex([1, 100], fill_value=0).i
df.set_index("big").loc[10**10].i
df.set_index("big").index.get_loc(5 * 10**10)
df.head(2).T
df.tail(2).reset_index().iloc[:, :2]
df.rename(columns={"i": "j"}).columns.tolist()
df.drop(columns="t").iloc[0].tolist()
df.insert(0, "zero", 0) or df.pop("zero").sum()
pd.concat([few, few]).i.sum()
pd.concat([few.i, few.big], axis=1).sum()
pd.concat({"a": few.i, "b": few.i}).loc["b"].sum()
by.size()
by.size() * 10**10
by.i.count()
by.i.sum()
by.big.sum()
by.big.mean()
by.i.prod()
by.v.mean()
by.v.std()
by.v.median()
by.v.describe()
by.i.agg(["min", "max", "nunique", "first", "last"])
by.agg({"v": "max", "i": ["min", "nunique"]})
by.agg(total=("big", "sum"), n=("i", "size"))
by.i.transform("sum")
by.big.transform(lambda x: x - x.min())
by.v.rank()
by.i.cumsum()
by.big.cummax()
by.cumcount()
by.ngroup()
by.i.shift(fill_value=-1)
by.i.diff()
by.head(1).i
by.i.nth(1)
by.i.quantile(0.3)
by.i.apply(lambda x: x.sum() * 10**10)
by[["i", "big"]].apply(lambda x: x.sum())
by.i.rolling(2).sum().head(5)
by.i.expanding().max().tail(3)
by.v.idxmax()
by.i.nunique()
by.i.value_counts().head()
by.g.value_counts().sum()
by.indices["a"]
by.groups["a"]
by.get_group("a").i
by.ngroups
by.filter(lambda x: len(x) > 14).i.sum()
by.sample(1, random_state=0).i
by.v.pct_change().count()
by.flag.sum()
by.flag.any()
by.i.var()
by.i.sem()
by.i.ohlc()
by.big.min()
by.v.cumprod().count()
by.t.max()
by.t.min().astype("i8")
df.groupby(["k", "g"]).size()
df.groupby(["k", "g"]).big.sum().unstack(fill_value=0)
df.groupby("g", as_index=False).big.sum()
df.groupby(df.i // 20).big.sum()
df.groupby(np.arange(60) % 3).i.sum()
df.groupby(pd.cut(df.i, 3), observed=True).i.sum()
df.groupby("k").g.apply(list).iloc[0][:3]
df.groupby("big").i.sum().tail(2)
df.groupby("k", sort=False).i.first()
df.groupby(lambda x: x % 2).i.sum()
df.groupby("flag").agg({"i": "sum", "big": "mean"})
df.groupby("k").agg(lambda x: x.iloc[0]).i
df.groupby("k").pipe(lambda g: g.i.max() - g.i.min())
df.merge(prices, on="g").price.sum()
df.merge(prices, on="g", how="outer").price.count()
df.merge(prices, on="g", how="left").sort_values("i").price.head()
df.merge(prices, left_on="i", right_on="g", how="left").price.head(6)
df.merge(prices, how="cross").shape
df.merge(df, on="k").shape
df.merge(df[["big", "v"]], on="big").i.sum()
df.merge(prices, on="g", indicator=True)._merge.value_counts()
df.join(prices.set_index("g"), on="g").price.sum()
few.merge(few, on=["k", "g"], suffixes=("", "_r")).i_r
pd.merge_asof(df, df[["t", "i"]].iloc[::7], on="t").i_y
pd.merge_asof(df[["i"]], pd.DataFrame({"i": np.arange(0, 60, 9), "q": np.arange(7)}), on="i").q
pd.merge_ordered(prices, prices.iloc[::2], on="g", fill_method="ffill").price_y
prices.combine_first(pd.DataFrame({"price": [7] * 7})).price
prices.compare(prices.assign(price=lambda d: d.price + (d.g == 2)))
df.pivot_table(index="k", columns="g", values="i", aggfunc="sum", fill_value=0)
df.pivot_table(index="k", values="big", aggfunc=["sum", "count"])
df.pivot_table(index="k", values="i", margins=True, aggfunc="sum")
few.pivot(index="i", columns="k", values="big").count()
pd.crosstab(df.k, df.g)
pd.crosstab(df.k, df.g, normalize=True)
pd.crosstab(df.k, df.g, values=df.big, aggfunc="sum").sum()
few.melt(["k"], ["i", "g"]).value
few.set_index(["k", "i"]).v.unstack().shape
few[["i", "big"]].stack()
pd.get_dummies(few.k)
pd.get_dummies(few.k, dtype=int).sum()
pd.get_dummies(few.g, prefix="g", dtype=int)
pd.from_dummies(pd.get_dummies(few.k)).iloc[:, 0].tolist()
pd.cut(df.i, 5).value_counts(sort=False)
pd.cut([1, 5, 9], 2, labels=False)
pd.cut(big, [0, 10**11, 10**12], labels=False).sum()
pd.qcut(df.v, 4, labels=False)
pd.qcut(big, 3).cat.codes
pd.wide_to_long(pd.DataFrame({"a1": [1], "a2": [2], "id": [0]}), "a", "id", "n")
pd.lreshape(pd.DataFrame({"a": [1], "b": [2]}), {"c": ["a", "b"]})
double.loc["a"].i.sum()
double.loc[("a", 1)].i.tolist()
double.xs(2, level="g").i.sum()
double.groupby(level=0).i.sum()
double.index.get_level_values(1).value_counts().sort_index()
double.index.codes[1][:5]
double.swaplevel().sort_index().i.iloc[:3]
double.reset_index().i.sum()
double.index.is_unique
pd.MultiIndex.from_product([np.arange(3), list("ab")])
pd.MultiIndex.from_arrays([[1, 2**40], [3, 4]]).get_loc((2**40, 4))
pd.MultiIndex.from_tuples([(1, 2), (1, 3)]).levels[1]
pd.MultiIndex.from_frame(few[["g", "i"]]).to_frame().i.sum()
pd.RangeIndex(3)
pd.RangeIndex(3).values.dtype
pd.RangeIndex(2**40, 2**40 + 3)
pd.RangeIndex(70000).to_series().sum()
pd.RangeIndex(5)[::2]
pd.Index([1, 2])
pd.Index(np.arange(3)) * 10**10
pd.Index([3, 1, 2]).argsort()
pd.Index([1, 2, 3]).get_indexer([2, 5])
pd.Index([1, 2**40]).get_loc(2**40)
pd.Index([1, 2, 2]).get_indexer_for([2])
pd.Index([1, 2, 2]).get_indexer_non_unique([2, 9])
pd.Index([1, 3]).searchsorted(2)
pd.Index([1, 2]).union([2, 2**40])
pd.Index([1, 2, 3]).intersection([2, 3])
pd.Index([1, 2, 3]).difference([2])
pd.Index([1, 2, 3]).symmetric_difference([3, 4])
pd.Index([1, 2]).join(pd.Index([2, 3]), how="outer")
pd.Index([1, 1, 2]).value_counts()
pd.Index([1, 1, 2]).duplicated()
pd.Index([1, 2, 3]).where(np.array([True, False, True]), 0)
pd.Index([1, 2]).insert(1, 2**40)
pd.Index([1, 2, 3]).delete(np.array([0, 2]))
pd.Index([1, 2, 3]).take(np.array([2, 0]))
pd.Index([1, 2, 3]).isin([2])
pd.Index([1, 2]).map(lambda x: x * 10**10)
pd.Index([1, 2]).astype(str)
pd.Index([1, 2]).to_frame(name="a")
pd.Index([5, 6]).slice_indexer(5, 5)
pd.Index([1, 2, 3]).get_slice_bound(2, "right")
pd.IntervalIndex.from_breaks([0, 1, 2]).get_indexer([0.5, 1.5])
pd.IntervalIndex.from_breaks(np.arange(4)).contains(1)
pd.interval_range(0, 4).mid
pd.interval_range(0, 10**10, periods=2).left
pd.arrays.IntervalArray.from_tuples([(0, 1), (1, 2)]).length
pd.Categorical(["b", "a", "b"])
pd.Categorical([1, 2**40, 1])
pd.Categorical.from_codes(np.array([0, 1, 0]), ["x", "y"])
pd.Categorical.from_codes([0, 1], ["x", "y"]).codes.dtype
cats.cat.codes
cats.value_counts()
cats.cat.reorder_categories(["b", "a"], ordered=True).min()
cats.cat.add_categories("z").cat.categories
cats.groupby(cats, observed=False).size()
pd.api.types.union_categoricals([pd.Categorical(["a"]), pd.Categorical(["b"])])
pd.factorize(np.array([3, 1, 3]))
pd.factorize(["b", "a", None, "b"], sort=True)
pd.unique(np.array([2**40, 1, 2**40]))
pd.array([1, 2])
pd.array([1, None, 2**40])
pd.array([1, 2], dtype="Int32").sum()
pd.array([2**30] * 4, dtype="Int32").sum()
pd.array([1, 2, None]) * 10**10
pd.array([1, 2]).astype("int64")
pd.array([1, None]).fillna(0)
pd.array([True, None]).sum()
pd.arrays.SparseArray([0, 0, 1, 2**40]).sum()
pd.arrays.SparseArray([0, 0, 1, 2])
pd.Series([0, 1, 0], dtype="Sparse[int]").sum()
pd.Series([0, 1, 0], dtype="Sparse[int]").sparse.density
pd.DataFrame.sparse.from_spmatrix(__import__("scipy.sparse", fromlist=["x"]).csr_array([[0, 1], [2, 0]]))
pd.Series([1, 2, None], dtype="Int64").sum()
pd.Series([1, 2], dtype="Int64").groupby([0, 0]).sum()
gaps
gaps.sum()
gaps.fillna(0).astype(int)
gaps.interpolate()
gaps.ffill()
gaps.dropna().astype(int)
gaps.convert_dtypes()
pd.to_numeric(pd.Series(["1", "2"]))
pd.to_numeric(pd.Series(["1", "x"]), errors="coerce")
pd.to_numeric(pd.Series([1, 2]), downcast="integer")
pd.to_numeric(pd.Series(["5000000000"]))
pd.to_numeric("7")
pd.read_csv(io.StringIO(csv))
pd.read_csv(io.StringIO(csv), dtype={"a": int})
pd.read_csv(io.StringIO(csv), index_col="a").index
pd.read_csv(io.StringIO(csv), engine="python")
pd.read_csv(io.StringIO(csv), usecols=["a"], dtype="int64").a.sum()
pd.read_csv(io.StringIO("a b\n1 2"), sep=r"\s+")
pd.read_csv(io.StringIO("a\n1\n\n3"), skip_blank_lines=False)
pd.read_csv(io.StringIO("a\n0x1\n"), header=0).a[0]
pd.read_csv(io.StringIO("t,v\n2026-01-01,1"), parse_dates=["t"])
pd.read_json(io.StringIO('[{"a": 1, "b": 3000000000}]'))
pd.read_json(io.StringIO('{"a": {"0": 1.0, "1": 2.0}}'))
pd.read_fwf(io.StringIO("ab cd\n 1  2"))
pd.json_normalize([{"a": {"b": 1}}, {"a": {"b": 2**40}}])
few.drop(columns="t").to_json()
few.to_csv(index=False)[:80]
json.loads(few[["i", "big"]].to_json(orient="split"))["data"][3]
few.to_records(index=False)["big"]
few.to_dict("records")[1]["big"]
few.to_string(max_cols=4)[:60]
few[["i", "g"]].to_numpy()
few[["i", "v"]].to_numpy().dtype
few[["i", "flag"]].to_numpy().dtype
few.values.dtype
words.str.len()
words.str.split("-").str[1]
words.str.extract(r"(\d+)").astype(float)
words.str.count("b")
words.str.find("-")
words.str.get_dummies("-").sum()
words.dropna().str.extract(r"(\d+)")[0].astype(int)
words.str.repeat(2).iloc[0]
words.str.slice(0, 1)
words.str.pad(5).iloc[0]
words.str.upper().iloc[1]
words.str.isdigit()
pd.Series(["ab", "c"]).str.cat()
pd.Series(["12", "7"]).str.zfill(4).astype(int)
df.rolling(3)[["i", "big"]].sum().tail(2)
df.i.rolling(5).mean().tail(2)
df.i.rolling(5).rank().tail(2)
df.i.rolling(5).quantile(0.5).tail(2)
df.i.rolling(4).apply(np.sum).tail(2)
df.i.rolling(4, min_periods=1).count().head(3)
df.big.rolling(3).max().tail(2)
df.big.rolling(3).median().tail(2)
df.v.rolling(5, win_type="triang").mean().tail(2)
df.v.rolling(5).cov(df.i).tail(2)
df.v.rolling(3, center=True).std().iloc[3:5]
df.v.ewm(span=3).mean().tail(2)
df.v.ewm(halflife=2).var().tail(2)
df.i.expanding(3).sum().tail(2)
df.set_index("t").i.rolling("3h").sum().tail(2)
df.rolling(3, on="t").v.sum().tail(2)
df.i.rolling(pd.api.indexers.FixedForwardWindowIndexer(window_size=2)).sum().head(3)
pd.util.hash_array(np.array([1, 2]))
pd.util.hash_pandas_object(few.i)
pd.util.hash_pandas_object(few.k).sum() % 1000
pd.api.types.is_integer_dtype(np.array([1]))
pd.api.types.infer_dtype([1, 2])
pd.api.extensions.take(np.array([1, 2, 3]), np.array([0, -1]), allow_fill=True)
pd.core.algorithms.rank(np.array([3, 1, 2]))
pd.core.algorithms.mode(np.array([1, 1, 2]))
pd.testing.assert_frame_equal(few, few.copy())
pd.testing.assert_series_equal(pd.Series([1]), pd.Series(np.array([1])))
pd.testing.assert_series_equal(pd.Series([1]), pd.Series(np.array([1], np.int64)))
df.i.equals(pd.Series(np.arange(60), name="i"))
np.asarray(df.i).sum() * 10**10
np.unique(df.g, return_counts=True)[1]
np.where(df.flag, df.i, -1)
np.bincount(df.g)
np.searchsorted(df.i, 7)
np.add.reduce(df.i)
np.log1p(df.i).sum()
np.array(df[["i", "g"]]).T @ np.array(df[["i", "g"]])
few.info(buf=io.StringIO())
double.index.get_locs(["a"]) * 10**10
df.set_index("t").index.indexer_at_time("05:00") * 10**10
df.set_index("t").index.indexer_between_time("05:00", "06:00") * 10**10
few.set_index("k").index.sortlevel()[1] * 10**10
pd.array([3, None, 1]).argsort() * 10**10
pd.array([3, None, 1]).factorize()[0] * 10**10
pd.array(["b", "a"]).searchsorted(["a", "c"]) * 10**10
pd.Categorical(["b", "a"]).argsort() * 10**10
pd.CategoricalIndex(["b", "a"]).argsort() * 10**10
df.t.array.argsort()[:3] * 10**10
np.argsort(few.v) * 10**10
pd.Index([3, 1, 2]).sort_values(return_indexer=True)[1] * 2**33
pd.DatetimeIndex(["2021", "2020"]).sort_values(return_indexer=True)[1]
pd.Index([1, 2]).reindex([2, 5])
pd.CategoricalIndex(["a", "b"]).reindex(["b", "c"])[1]
pd.Index([1, 2]).join(pd.Index([2, 3]), how="outer", return_indexers=True)
pd.date_range("2020", periods=3).asof_locs(pd.DatetimeIndex(["2020-01-02"]), np.ones(3, bool))
