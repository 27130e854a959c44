# Positions, counts and shifts of 2**31 and more in pandas: what raises, and what does not.
import io

import numpy as np
import pandas as pd


def changed(change, array, *rest, **more):
    """The array, changed."""
    change(array, *rest, **more)
    return array


def assigned(array, index, value):
    """The array, with the value there."""
    array[index] = value
    return getattr(array, "obj", array)


pd.Series([1, 2, 3]).iloc[2**32]
pd.Series([1, 2, 3]).iloc[2**32 + 1]
pd.Series([1, 2, 3]).iloc[[2**32 + 1]]
pd.Series([1, 2, 3]).iloc[np.array([2**32 + 1])]
pd.Series([1, 2, 3]).iloc[pd.Index([2**32 + 1])]
pd.Series([1, 2, 3]).iloc[pd.array([2**32 + 1])]
pd.Series([1, 2, 3]).iloc[2**32 :]
pd.Series([1, 2, 3]).iloc[: 2**32 + 1]
pd.Series([1, 2, 3]).iloc[np.uint64(2**32 + 1)]
pd.Series([1, 2, 3]).iat[2**32 + 1]
pd.Series([1, 2, 3]).loc[2**32 + 1]
pd.Series([1, 2, 3]).loc[[2**32 + 1]]
pd.Series([1, 2, 3]).loc[: 2**32 + 1]
pd.Series([1, 2, 3], index=[1, 2**32 + 1, 2]).loc[2**32 + 1]
pd.Series([1, 2, 3], index=[1, 2**32 + 1, 2]).loc[[2**32 + 1, 1]]
pd.Series([1, 2, 3])[2**32 + 1]
pd.Series([1, 2, 3]).at[2**32 + 1]
assigned(pd.Series([1, 2, 3]).iloc, 2**32 + 1, 9)
assigned(pd.Series([1, 2, 3]).iloc, [2**32 + 1], 9)
assigned(pd.Series([1, 2, 3]).iloc, np.array([0, 2**32 + 1]), 9)
assigned(pd.Series([1, 2, 3]).iat, 2**32 + 1, 9)
assigned(pd.Series([1, 2, 3]), 2**32 + 1, 9)
pd.Series([1, 2, 3]).take([2**32 + 1])
pd.Series([1, 2, 3]).take(np.array([-(2**32) - 1]))
pd.Series([1, 2, 3]).reindex([2**32 + 1])
pd.Series([1, 2, 3]).reindex([2**32 + 1, 1])
pd.Series([1, 2, 3]).reindex(range(2**32, 2**32 + 2))
pd.Series([1, 2, 3]).reindex([2**32 + 1], method="ffill")
pd.Series([1, 2, 3]).shift(2**32)
pd.Series([1, 2, 3]).shift(2**32 + 1)
pd.Series([1, 2, 3]).shift(-(2**32) - 1)
pd.Series([1, 2, 3]).shift(np.int64(2**32 + 1))
pd.Series([1, 2, 3]).shift([1, 2**32 + 1])
pd.Series(["a", "b"], dtype="category").shift(2**32 + 1)
pd.Series([1, 2], dtype="Int64").shift(2**32 + 1)
pd.Series(["a", "b"], dtype="string").shift(2**32 + 1)
pd.Series(pd.date_range("2020", periods=3)).shift(2**32 + 1)
pd.Series([1, 2, 3], index=pd.date_range("2020", periods=3)).shift(2**32 + 1, freq="D")
pd.Series([1, 2, 3], index=pd.date_range("2020", periods=3)).shift(2**32 + 1, freq="ns")
pd.DataFrame({"a": [1, 2]}).shift(2**32 + 1)
pd.DataFrame({"a": [1, 2], "b": [1.0, 2]}).shift(2**32 + 1, axis=1)
pd.Series([1, 2, 4]).diff(2**32)
pd.Series([1, 2, 4]).diff(2**32 + 1)
pd.Series([1.0, 2, 4]).diff(-(2**32) - 1)
pd.DataFrame({"a": [1, 2, 4]}).diff(2**32 + 1)
pd.Series([1, 2, 4]).pct_change(2**32 + 1)
pd.Series([1, 2, 4], dtype="Int64").diff(2**32 + 1)
pd.Series([1, 2, 4]).groupby([0, 0, 1]).shift(2**32 + 1)
pd.Series([1, 2, 4]).groupby([0, 0, 1]).diff(2**32 + 1)
pd.Series([1, 2, 4]).groupby([0, 0, 1]).head(2**32 + 1)
pd.Series([1, 2, 4]).groupby([0, 0, 1]).tail(2**32 + 1)
pd.Series([1, 2, 4]).groupby([0, 0, 1]).nth(2**32 + 1)
pd.Series([1, 2, 4]).groupby([0, 0, 1]).nth([2**32])
pd.Series([1, 2, 4]).groupby([0, 0, 1]).nth[2**32 :]
pd.Series([1.0, 2, 4]).groupby([0, 0, 1]).ffill(limit=2**32)
pd.Series([1.0, 2, 4]).groupby([0, 0, 1]).nlargest(2**32 + 1)
pd.Series([1.0, 2, 4]).groupby([0, 0, 1]).std(ddof=2**32 + 1)
pd.Series([1.0, 2, 4]).groupby([0, 0, 2**32]).sum()
pd.Series([1, 2, 4]).groupby([0, 2**32, 2**33]).ngroup()
pd.Series([1, 2, 4]).sum(min_count=2**32 + 1)
pd.Series([1.0, 2, 4]).sum(min_count=2**32)
pd.DataFrame({"a": [1.0, 2]}).sum(min_count=2**32 + 1)
pd.Series([1.0, 2, 4]).std(ddof=2**32)
pd.Series([1, 2, 3]).head(2**32 + 1)
pd.Series([1, 2, 3]).tail(2**32 + 1)
pd.Series([1, 2, 3]).head(-(2**32) - 1)
pd.Series([1, 2, 3]).nlargest(2**32 + 1)
pd.Series([1, 2, 3]).nsmallest(2**32)
pd.DataFrame({"a": [1, 2]}).nlargest(2**32 + 1, "a")
pd.Series([1, 2, 3]).rolling(2**32).sum()
pd.Series([1, 2, 3]).rolling(2**32 + 1, min_periods=1).sum()
pd.Series([1, 2, 3]).rolling(2, min_periods=2**32).sum()
pd.Series([1, 2, 3]).rolling(2**31, min_periods=0).mean()
pd.Series([1, 2, 3]).expanding(2**32 + 1).sum()
pd.Series([1.0, None, 3]).ffill(limit=2**32)
pd.Series([1.0, None, None]).ffill(limit=2**32 + 1)
pd.Series([1.0, None, None, 4]).bfill(limit=2**32 + 1)
pd.Series([1.0, None, None, 4]).interpolate(limit=2**32 + 1)
pd.Series([1.0, None, 3]).fillna(0, limit=2**32 + 1)
pd.Series([1, 2, 3]).autocorr(2**32 + 1)
pd.Series([1, 2, 3]).searchsorted(2**32 + 1)
pd.Series(["abc"]).str[2**32 + 1]
pd.Series(["abc"]).str.slice(2**32 + 1)
pd.Series(["abc"]).str.slice(0, 2**32 + 1)
pd.Series(["abc"]).str.find("c", 2**32)
pd.Series(["abc"]).str.find("c", 0, 2**32 + 1)
pd.Series(["abc"]).str.get(2**32)
pd.Series(["abc"], dtype="string").str.get(2**32 + 1)
pd.Series(["aaa"]).str.wrap(2**32 + 1)
pd.Index([1, 2])[2**32]
pd.Index([1, 2])[[2**32 + 1]]
pd.Index([1, 2])[np.array([2**32 + 1])]
pd.Index([1, 2]).insert(2**32, 9)
pd.Index([1, 2]).insert(2**32 + 1, 9)
pd.Index([1, 2]).delete(2**32 + 1)
pd.Index([1, 2]).delete([2**32 + 1])
pd.Index([1, 2]).putmask([True, False], 2**40)
pd.RangeIndex(2**40)[2**32 + 1]
pd.RangeIndex(0, 2**40, 2**38)
pd.RangeIndex(5)[2**32 + 1]
pd.RangeIndex(5).get_loc(2**32 + 1)
pd.RangeIndex(5).get_indexer([2**32 + 1])
pd.RangeIndex(5).get_indexer([2**32 + 1, 3], method="nearest")
pd.RangeIndex(2**32, 2**32 + 5).get_indexer([2**32 + 1])
pd.RangeIndex(2**32, 2**32 + 5).get_loc(2**32 + 1)
pd.RangeIndex(0, 2**40, 2**36).get_indexer([2**36])
pd.RangeIndex(0, 2**33, 2**31).get_indexer([2**32])
pd.RangeIndex(0, 2**33, 2**31).get_loc(2**32)
pd.RangeIndex(2**32, 2**32 + 5).searchsorted(2**32 + 1)
pd.RangeIndex(2**32, 2**32 + 5).slice_indexer(2**32 + 1, 2**32 + 3)
pd.RangeIndex(2**32, 2**32 + 5)[1:3]
pd.RangeIndex(2**32, 2**32 + 3).union(pd.RangeIndex(2**32 + 1, 2**32 + 5))
pd.RangeIndex(2**32, 2**32 + 3).intersection(pd.RangeIndex(2**32 + 1, 2**32 + 5))
pd.RangeIndex(0, 2**35, 2**32).argsort()
pd.Index([1, 2**32 + 1]).get_indexer([2**32 + 1, 1])
pd.Index([1, 2**32 + 1]).get_loc(2**32 + 1)
pd.Index([1, 2**32 + 1]).isin([1])
pd.Index([1, 2**32 + 1]).duplicated()
pd.Index([1, 2**32 + 1, 1]).factorize()
pd.Index([1, 2**32 + 1], dtype="Int64").get_indexer([2**32 + 1])
pd.MultiIndex.from_arrays([[1, 2], [3, 4]])[2**32 + 1]
pd.MultiIndex.from_arrays([[1, 2], [3, 4]]).take(np.array([2**32 + 1]))
pd.MultiIndex.from_arrays([[1, 2], [3, 4]])[[2**32 + 1]]
pd.MultiIndex.from_arrays([[1, 2], [3, 4]]).insert(2**32, (5, 6))
pd.MultiIndex.from_arrays([[1, 2], [3, 4]]).delete(2**32 + 1)
pd.MultiIndex.from_arrays([[1, 2], [3, 4]]).get_level_values(2**32)
pd.MultiIndex(levels=[[1, 2]], codes=[[2**32]])
pd.MultiIndex(levels=[[1, 2]], codes=[np.array([2**32 + 1])])
pd.MultiIndex(levels=[[1, 2], [3]], codes=[[0, 2**32 + 1], [0, 0]])
pd.MultiIndex.from_arrays([[1, 2], [3, 4]]).set_codes([2**32, 1], level=0)
pd.MultiIndex.from_arrays([[1, 2**32 + 1], [3, 4]]).get_loc((2**32 + 1, 4))
pd.MultiIndex.from_product([range(3), [2**32]]).get_indexer([(1, 2**32)])
pd.Categorical.from_codes([0, 2**32], ["a", "b"])
pd.Categorical.from_codes([0, 2**32 + 1], ["a", "b"])
pd.Categorical.from_codes(np.array([0, 256]), ["a", "b"])
pd.Categorical(["a", "b"])[2**32 + 1]
pd.Categorical(["a", "b"])[[2**32 + 1]]
pd.Categorical(["a", "b"])[np.array([0, 2**32 + 1])]
pd.Categorical(["a", "b"]).insert(2**32, "a")
pd.array([1, 2])[2**32]
pd.array([1, 2])[[2**32]]
pd.array([1, 2])[np.array([2**32])]
pd.array([1, 2])[np.array([0, 2**32])]
pd.array([1, 2])[pd.array([0, 2**32])]
pd.array([1, 2]).take(np.array([0, 2**32 + 1]))
assigned(pd.array([1, 2]), [2**32], 9)
assigned(pd.array([1, 2]), np.array([0, 2**32 + 1]), 9)
assigned(pd.array([1, 2]), 2**32 + 1, 9)
pd.array([1, 2]).insert(2**32, 3)
pd.array([1, 2]).delete(2**32 + 1)
pd.array([1, 2]).delete([0, 2**32 + 1])
pd.array([1, 2]).shift(2**32 + 1)
pd.array([1, 2]).shift(-(2**32) - 1)
pd.array([1.0, 2])[np.array([0, 2**32 + 1])]
pd.array([True, False])[np.array([0, 2**32 + 1])]
pd.array(["a", "b"])[np.array([0, 2**32 + 1])]
pd.array(["a", "b"], dtype="string")[[2**32 + 1]]
pd.array(["a", "b"], dtype="str")[np.array([2**32 + 1])]
assigned(pd.array(["a", "b"], dtype="str"), np.array([2**32 + 1]), "z")
pd.array(pd.date_range("2020", periods=2))[np.array([2**32 + 1])]
assigned(pd.array(pd.date_range("2020", periods=2)), np.array([2**32 + 1]), pd.Timestamp("2021"))
pd.array(pd.period_range("2020", periods=2, freq="D"))[np.array([2**32 + 1])]
pd.arrays.IntervalArray.from_breaks([0, 1, 2])[np.array([2**32 + 1])]
pd.interval_range(0, 5)[np.array([2**32 + 1])]
pd.interval_range(0, 2**34, freq=2**32)
pd.interval_range(0, 2**34, freq=2**32).get_indexer([2**33 + 1])
pd.interval_range(0, 2**34, freq=2**32).get_loc(2**33 + 1)
pd.arrays.SparseArray([0, 1, 0])[2**32 + 1]
pd.arrays.SparseArray([0, 1, 0]).take([2**32 + 1])
pd.arrays.SparseArray([0, 1, 0]).take(np.array([0, 2**32 + 1]))
pd.arrays.SparseArray([0, 1, 0]).take([0, 2**32 + 1], allow_fill=True)
pd.arrays.SparseArray([0, 1, 0]).shift(2**32 + 1)
pd._libs.sparse.IntIndex(3, np.array([1, 2**32 + 2]))
pd.arrays.NumpyExtensionArray(np.array([1, 2]))[np.array([2**32 + 1])]
pd.api.extensions.take(np.array([1, 2]), np.array([0, -(2**32) - 1]))
pd.DataFrame({"a": [1, 2]}).iloc[2**32]
pd.DataFrame({"a": [1, 2]}).iloc[[2**32 + 1]]
pd.DataFrame({"a": [1, 2]}).iloc[:, 2**32]
pd.DataFrame({"a": [1, 2]}).iloc[:, [2**32]]
pd.DataFrame({"a": [1, 2]}).iloc[0, 2**32]
pd.DataFrame({"a": [1, 2]}).iloc[[0], [2**32]]
pd.DataFrame({"a": [1, 2]}).iat[0, 2**32]
pd.DataFrame({"a": [1, 2]}).take([2**32 + 1])
pd.DataFrame({"a": [1, 2]}).take([2**32], axis=1)
assigned(pd.DataFrame({"a": [1, 2]}).iloc, (2**32 + 1, 0), 9)
assigned(pd.DataFrame({"a": [1, 2]}).iloc, ([0, 2**32 + 1], 0), 9)
assigned(pd.DataFrame({"a": [1, 2]}).iloc, ([0], [2**32]), 9)
assigned(pd.DataFrame({"a": [1, 2], "b": [1.0, 2]}).iloc, (np.array([2**32 + 1]), slice(None)), 9)
changed(pd.DataFrame({"a": [1, 2]}).insert, 2**32, "c", 1)
changed(pd.DataFrame({"a": [1, 2]}).insert, 2**32 + 1, "c", 1)
pd.DataFrame({2**32 + 1: [1], 1: [2]})[2**32 + 1]
pd.DataFrame(np.eye(2)).reindex(columns=[2**32])
pd.DataFrame(np.eye(2), columns=[2**32, 0])[[2**32]]
pd.DataFrame(np.eye(2)).drop(2**32)
pd.DataFrame(np.eye(2)).rename({2**32: 5})
pd.DataFrame(np.eye(2)).sort_index(level=2**32)
pd.DataFrame({"a": [1, 2**32 + 1]}).merge(pd.DataFrame({"a": [1, 2**32 + 1], "b": [3, 4]}), on="a")
pd.DataFrame({"a": [1, 2]}).merge(pd.DataFrame({"a": [2**32 + 1], "b": [3]}), on="a", how="outer")
pd.merge_asof(pd.DataFrame({"a": [1, 2**32 + 2]}), pd.DataFrame({"a": [1, 2**32 + 1], "b": [3, 4]}), on="a")
pd.merge_asof(pd.DataFrame({"a": [2**32 + 2]}), pd.DataFrame({"a": [1], "b": [3]}), on="a", tolerance=2**32)
pd.DataFrame({"a": [1, 1], "b": [2**32, 0]}).pivot_table(index="a", columns="b", aggfunc="size")
pd.DataFrame({"a": [1, 2**32 + 1]}).set_index("a").unstack()
pd.DataFrame({"a": [0, 1], "b": [2**32, 0], "c": [1, 2]}).pivot(index="a", columns="b", values="c")
pd.get_dummies([1, 2**32 + 1])
pd.crosstab([1, 2**32 + 1], [1, 1])
pd.cut([1, 2**32 + 1], 3)
pd.cut([1, 2**32 + 1], [0, 2, 2**33])
pd.qcut([1, 2**32 + 1, 5], 2)
pd.factorize([1, 2**32 + 1, 1])
pd.factorize(np.array([1, 2**32 + 1]), size_hint=2**32)
pd.unique(np.array([1, 2**32 + 1]))
pd.Series([1, 2**32 + 1, 1]).value_counts()
pd.Series([1, 2**32 + 1]).value_counts(bins=2)
pd.Series([1, 2**32 + 1]).rank()
pd.Series([2**32 + 1, 1]).argsort()
pd.Series([1, 2**32 + 1]).isin([1])
pd.Series([1, 2**32 + 1]).map({1: "a", 2**32 + 1: "b"})
pd.Series([1, 2**32 + 1]).replace(2**32 + 1, 5)
pd.Series([1, 2**32 + 1]).between(0, 2**32)
pd.Series([1, 2**32 + 1]).clip(0, 2**32)
pd.Series([1, 2**32 + 1]).cumsum()
pd.Series([2**31, 2**31]).sum()
pd.Series([2**31], dtype="int32")
pd.Series([1], dtype="int32") + 2**32
pd.Series([1], dtype="Int32") + 2**32
pd.Series([2**31 - 1], dtype="int32").sum()
pd.Series([2**31 - 1] * 3, dtype="int32").groupby([0, 0, 0]).sum()
pd.Series([2**31 - 1] * 3, dtype="Int32").groupby([0, 0, 0]).sum()
pd.Series([2**31 - 1] * 3, dtype="int32").cumsum()
pd.Series([2**31 - 1] * 3, dtype="int32").groupby([0, 0, 0]).cumsum()
pd.to_numeric(["4294967297"])
pd.to_numeric([2**32 + 1], downcast="integer")
pd.to_numeric(pd.Series([1, 2]), downcast="integer").dtype
pd.to_datetime([2**32 + 1], unit="s")
pd.to_datetime([2**40], unit="ms")
pd.to_timedelta([2**32 + 1], unit="s")
pd.to_timedelta(2**40, unit="us")
pd.Timestamp(2**32 + 1, unit="s")
pd.Timestamp("2020") + pd.Timedelta(2**40)
pd.Timestamp("2020") + pd.Timedelta(days=2**32)
pd.Timestamp("2020") + pd.offsets.Day(2**32 + 1)
pd.Timestamp("2020") + pd.offsets.Nano(2**32 + 1)
pd.Timestamp("2020") + pd.offsets.Second(2**32 + 1)
pd.Timestamp("2020") + pd.offsets.MonthEnd(2**32 + 1)
pd.Timestamp("2020") + pd.offsets.MonthBegin(2**32 + 1)
pd.Timestamp("2020") + pd.offsets.BDay(2**32 + 1)
pd.Timestamp("2020") + pd.offsets.YearEnd(2**32 + 1)
pd.Timestamp("2020") + pd.offsets.QuarterEnd(2**32 + 1)
pd.Timestamp("2020") + pd.offsets.Week(2**32 + 1)
pd.Timestamp("2020") + pd.offsets.Week(2**32 + 1, weekday=2)
pd.Timestamp("2020") + pd.offsets.DateOffset(months=2**32 + 1)
pd.Timestamp("2020") + pd.offsets.DateOffset(days=2**32 + 1)
pd.date_range("2020", periods=2) + pd.offsets.MonthEnd(2**32 + 1)
pd.date_range("2020", periods=2) + pd.offsets.MonthBegin(2**32)
pd.date_range("2020", periods=2) + pd.offsets.QuarterEnd(2**32)
pd.date_range("2020", periods=2) + pd.offsets.YearBegin(2**32)
pd.date_range("2020", periods=2) + pd.offsets.DateOffset(months=2**32)
pd.date_range("2020", periods=2) + pd.offsets.BDay(2**32)
pd.date_range("2020", periods=2) + pd.offsets.Week(2**32, weekday=1)
pd.date_range("2020", periods=2) + pd.Timedelta(2**40)
pd.date_range("2020", periods=2).shift(2**32)
pd.date_range("2020", periods=2).shift(2**32, freq="ns")
pd.date_range("2020", periods=2, freq="MS").shift(2**32)
pd.date_range("2020", periods=2**32 + 1)
pd.date_range("2020", periods=2**32 + 1, freq="MS")
pd.date_range("1970", periods=3, freq="4294967296ns")
pd.date_range("1970", periods=3, freq="4294967297s")
pd.date_range("2020", "2020-01-02", freq="4294967297ns")
pd.date_range("2020", periods=3)[[2**32 + 1]]
pd.date_range("2020", periods=3)[np.array([2**32 + 1])]
pd.date_range("2020", periods=3).insert(2**32, pd.Timestamp("2021"))
pd.date_range("2020", periods=3).delete(2**32 + 1)
pd.timedelta_range("1s", periods=2**32 + 1)
pd.period_range("2020", periods=3, freq="D") + 2**32
pd.period_range("2020", periods=3, freq="D").shift(2**33)
pd.period_range("2020", periods=3, freq="s") + 2**40
pd.Period("2020", "D") + 2**32
pd.Period("2020", "D") + 2**32 + 1
pd.Period("2020", "s") + 2**40
pd.Period("2020", "ns").ordinal
pd.Period("2020", "M") + 2**32
pd.Period(ordinal=2**32 + 1, freq="s")
pd.Period(ordinal=2**40, freq="ns")
pd.Period(year=2**32 + 1, freq="Y")
pd.Period(year=2**31, month=1, freq="M")
pd.Period("2020", "s").asfreq("ns")
pd.Period("2020", "D") - pd.Period("1900", "D")
pd.PeriodIndex.from_ordinals([2**32 + 1], freq="s")
pd.PeriodIndex.from_ordinals([2**40], freq="us").to_timestamp()
pd.PeriodIndex.from_fields(year=[2**32 + 1], month=[1], freq="M")
pd.Timedelta(2**62)
pd.Timedelta(days=2**32)
pd.Timedelta(seconds=2**33)
pd.Timedelta(microseconds=2**50)
pd.Timedelta(1, "D") * 2**32
pd.Timedelta(1) * 2**40
pd.Timedelta(2**40) // 3
pd.Timedelta(2**62).total_seconds()
pd.Timedelta(2**62).days
pd.Timedelta(2**62).components
pd.Timestamp("2020").value
pd.Timestamp("1700").floor("4294967297ns")
pd.Timestamp("2020").round("4294967297ns")
pd.date_range("2020", periods=2).round("4294967297ns")
pd.date_range("2020", periods=2).asi8
pd.date_range("2020", periods=2).values.astype(int)
pd.Timestamp.fromordinal(2**32)
pd.Timestamp(year=2**32 + 2020, month=1, day=1)
pd.Timestamp(2020, 2**32 + 1, 1)
pd.Timestamp("2020").replace(nanosecond=2**32 + 1)
pd.Timestamp("2020").replace(year=2**32 + 2020)
pd.DataFrame({"year": [2**32 + 2020], "month": [1], "day": [1]}).pipe(pd.to_datetime)
pd.read_csv(io.StringIO("a\n4294967297"))
pd.read_csv(io.StringIO("a\n4294967297"), dtype="int")
pd.read_csv(io.StringIO("a\n4294967297"), dtype="int32")
pd.read_csv(io.StringIO("a\n1\n2"), nrows=2**32 + 1)
pd.read_csv(io.StringIO("a\n1\n2"), nrows=2**32)
pd.read_csv(io.StringIO("a\n1\n2"), skiprows=[2**32 + 1])
pd.read_csv(io.StringIO("a\n1\n2"), header=2**32)
pd.read_csv(io.StringIO("a\n1\n2"), header=2**32 + 1)
pd.read_csv(io.StringIO("a\n1\n2"), skipfooter=2**32, engine="python")
pd.read_csv(io.StringIO("a,b\n1,2"), usecols=[2**32 + 1])
pd.read_csv(io.StringIO("a,b\n1,2"), usecols=[2**32])
pd.read_csv(io.StringIO("a,b\n1,2"), index_col=2**32)
pd.read_csv(io.StringIO("a,b\n1,2"), chunksize=2**32 + 1).read()
pd.Series([2**40]).to_json()
pd.Series([1.5]).to_json(double_precision=2**32 + 1)
pd.json_normalize({"a": 2**40})
pd.DataFrame({"a": [2**32 + 1]}).to_csv()
pd.DataFrame({"a": [2**32 + 1]}).to_records(index=False)
pd.DataFrame({"a": [2**32 + 1]}).to_numpy()
pd.DataFrame({"a": [2**32 + 1]}).to_dict()
pd.api.indexers.FixedForwardWindowIndexer(window_size=2**32 + 1).get_window_bounds(3)
pd.Series([1, 2, 3]).rolling(pd.api.indexers.FixedForwardWindowIndexer(window_size=2**32 + 1), min_periods=1).sum()
pd.tseries.frequencies.to_offset("4294967297D").n
pd.tseries.frequencies.to_offset("D") * 2**32
pd.tseries.offsets.Day(2**33).n
pd.tseries.offsets.BDay(2**33).n
pd.tseries.offsets.MonthEnd(2**33).n
pd.tseries.offsets.MonthEnd(2**33) * 2
pd.tseries.offsets.Week(2**33).n
pd.tseries.offsets.Hour(2**33).n
pd.Series([1, 2, 3]).shift(1)
pd.Series([1, 2, 3]).shift(-1)
pd.Series([1, 2, 3]).shift(3)
pd.Series([1, 2, 3]).shift(-3)
pd.Series([], dtype=float).shift(2**40)
pd.Series([1, 2, 3]).shift(1.0)
pd.DataFrame(np.eye(3)).shift(2**40, axis=1)
pd.DataFrame(np.eye(3)).diff(2**40, axis=1)
pd.DataFrame(np.eye(3)).diff(1, axis=1)
pd.Series([1, 4, 9]).diff(-1)
pd.Series([1, 4, 9]).diff(3)
pd.Series([True, False]).diff(2**40)
