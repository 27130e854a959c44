# pandas: dates, periods, differences of time.
import datetime
import numpy as np, pandas as pd

t = pd.date_range("2026-01-01", periods=50, freq="7h")
s = pd.Series(np.arange(50), index=t)
big = s * 10**10
d, span = pd.Series(t), pd.to_timedelta(np.arange(4) * 5, unit="h")
p = pd.period_range("2026-01", periods=6, freq="M")
zoned = t.tz_localize("UTC").tz_convert("Europe/Berlin")
ns = pd.date_range("2026", periods=2, unit="ns")

t.values.astype(int)[:2]
t.astype(int)[:2]
t.astype("int64")[:2]
t.asi8[:2]
t.view("i8")[:2]
ns.values.astype(int)
ns.astype(int)
ns.view(int)
d.astype(int).head(2)
d.astype("i8").head(2)
(d.astype("i8") // 10**6).head(2)
pd.Timestamp("2026-01-01").value
pd.Timestamp("2026-01-01").timestamp()
pd.Timestamp(2**60)
pd.Timestamp(1767225600, unit="s")
pd.Timestamp("2026-01-01") + pd.Timedelta(days=np.int64(3))
pd.Timedelta(5, "D").value
pd.Timedelta(np.int64(5), "h").total_seconds()
pd.Timedelta("1D") // pd.Timedelta("7h")
pd.to_datetime(np.arange(3), unit="D")
pd.to_datetime(np.array([1767225600, 1767225601]), unit="s")
pd.to_datetime(pd.Series([1767225600000000000]))
pd.to_datetime([2**60])
pd.to_datetime(["2026-01-01", None])
pd.to_datetime(["01/02/2026"], dayfirst=True)
pd.to_datetime(pd.DataFrame({"year": [2026], "month": [1], "day": [2]}))
pd.to_datetime(20260102, format="%Y%m%d")
pd.to_datetime(pd.Series([20260102, 20260103]), format="%Y%m%d")
pd.to_timedelta(np.arange(3), unit="h")
pd.to_timedelta(np.array([10**12]), unit="ns")
pd.to_timedelta(["1D", "2h"]).astype("i8")
span.total_seconds()
span // pd.Timedelta("2h")
span / pd.Timedelta("2h")
span.asi8
span.days
span.seconds
span.components.hours
span.astype("i8")
span.sum()
span.mean()
pd.Series(span).dt.days
pd.Series(span).dt.total_seconds().astype(int)
span * 2
span * np.arange(4)
np.arange(3) * pd.Timedelta("1h")
t.year
t.month[:3]
t.day[:3]
t.hour[:3]
t.dayofweek[:3]
t.dayofyear[:3]
t.quarter[:2]
t.nanosecond[:2]
t.days_in_month[:2]
t.isocalendar().week.head(2)
t.is_month_end.sum()
d.dt.day.head(3)
d.dt.hour.value_counts().sort_index().head(3)
d.dt.isocalendar().day.head(2)
d.dt.year * 10**10
d.dt.dayofweek.sum()
d.dt.floor("D").nunique()
d.dt.round("3h").head(2)
d.dt.strftime("%j").astype(int).head(2)
d.dt.time.iloc[1]
d.dt.month_name().iloc[0]
d.dt.normalize().head(2)
d.dt.to_period("M").head(2)
d.diff().dt.total_seconds().head(3)
d.diff().sum()
d.max() - d.min()
(d - d[0]).dt.days.tail(2)
(d - d[0]) // pd.Timedelta("1D")
(d - pd.Timestamp("1970-01-01")) // pd.Timedelta("1s")
d.rank().head(2)
d.value_counts().sum()
d.sort_values(ascending=False).head(2)
d.searchsorted(pd.Timestamp("2026-01-05"))
d.factorize()[0][:4]
d.argmax()
d.unique().size
d.mean()
d.quantile(0.5)
d.isin([pd.Timestamp("2026-01-01")]).sum()
d.shift(1).isna().sum()
d.groupby(d.dt.date).size().head(3)
d.map(lambda x: x.value).head(2)
s.resample("D").sum()
s.resample("D").count()
s.resample("D").size()
s.resample("W").mean()
s.resample("D").ohlc().head(2)
s.resample("D").agg(["min", "max", "nunique"]).head(2)
s.resample("3h").ffill().sum()
s.resample("3h").asfreq().count()
s.resample("3h").interpolate().sum()
s.resample("D").transform("sum").head(3)
s.resample("D").last().tail(2)
s.resample("ME").sum()
big.resample("D").sum().tail(2)
big.resample("D").mean().tail(2)
big.resample("D").median().tail(2)
s.groupby(pd.Grouper(freq="W")).sum()
s.groupby(s.index.day).sum().head(3)
s.groupby([s.index.month, s.index.day]).size().head(3)
s.asfreq("14h").head(3)
s.shift(2).head(3)
s.shift(freq="h").index[0]
s.loc["2026-01-02"].tolist()
s.loc["2026-01-02":"2026-01-03"].sum()
s.at_time("00:00").size
s.between_time("01:00", "05:00").size
s.first_valid_index()
s.truncate("2026-01-10").size
s.index.get_indexer([t[3], t[7]])
s.index.get_indexer(pd.to_datetime(["2026-01-02"]), method="nearest")
s.index.searchsorted(t[5])
s.index.inferred_freq
s.index.slice_indexer("2026-01-02", "2026-01-03")
s.index.union(s.index + pd.Timedelta("1h")).size
s.index.intersection(s.index[::2]).size
s.index.to_julian_date()[:2]
s.index.difference(s.index[:-1])
s.reindex(t[:2].append(t[-1:])).tolist()
s.rolling("1D").sum().tail(2)
s.rolling("1D").count().tail(2)
s.rolling("2D").max().tail(2)
s.ewm(halflife="1D", times=t).mean().tail(2)
s.tz_localize("UTC").tz_convert("Asia/Tokyo").index[0]
zoned.hour[:3]
zoned.asi8[:2]
zoned.tz_localize(None)[:2]
zoned.normalize()[:2]
zoned.floor("D").nunique()
pd.Series(zoned).dt.hour.sum()
pd.date_range("2026-03-28", periods=3, freq="D", tz="Europe/Berlin").tz_convert("UTC")
pd.Timestamp("2026-10-25 02:30").tz_localize("Europe/Berlin", ambiguous=True)
pd.date_range("2026", periods=3, freq="MS")
pd.date_range("2026", periods=3, freq="B")
pd.date_range("2026-01-01", "2026-01-02", periods=4)
pd.date_range("2026", periods=3) + pd.to_timedelta(np.array([1, 2, 3]), "D")
pd.date_range("2026", periods=3) + np.array([1, 2, 3], "m8[D]")
pd.bdate_range("2026-01-01", periods=3)
pd.date_range("2026", periods=3).shift(2)
pd.date_range("2026", periods=2, freq="W-MON").dayofyear
pd.Timestamp("2026-01-31") + pd.DateOffset(months=np.int64(1))
pd.Timestamp("2026-01-31") + pd.offsets.MonthEnd(2)
pd.Timestamp("2026-01-31") + pd.offsets.BusinessDay(5)
t[:3] + pd.offsets.MonthBegin()
t[:3] + pd.DateOffset(days=1, hours=2)
pd.offsets.Hour(3) * 2
p.asi8
p.astype("i8")
p.year
p.month
p.to_timestamp()
p + 1
p - p[0]
p.asfreq("D").day
p.shift(2)[0]
p.get_indexer([p[2]])
pd.Period("2026-01", "M").ordinal
pd.Period("2026-01", "M") + 3
pd.Period(ordinal=2**20, freq="D")
pd.Series(p).dt.days_in_month
pd.Series(np.arange(6), index=p).resample("Q").sum()
pd.Series(np.arange(6), index=p).loc["2026-02"]
pd.PeriodIndex.from_fields(year=np.array([2026]), month=np.array([3]), freq="M")
pd.PeriodIndex.from_ordinals(np.array([670, 671]), freq="M")
pd.timedelta_range("0D", periods=3).asi8
pd.timedelta_range("0D", "10D", periods=3)
pd.TimedeltaIndex(np.arange(2) * 10**9)
pd.DatetimeIndex(np.arange(2) * 10**18)
pd.DatetimeIndex(np.array([0, 1], "M8[D]")).unit
pd.Series(np.arange(3)).astype("m8[s]")
pd.Series(np.arange(3) * 10**9).astype("M8[ns]")
pd.Series(t).astype("M8[s]").astype("i8").head(2)
pd.Series(t).to_numpy().view("i8")[:2]
pd.DataFrame({"t": t, "v": np.arange(50)}).groupby(pd.Grouper(key="t", freq="2D")).v.agg(["sum", "size"]).tail(2)
pd.DataFrame({"t": t, "v": np.arange(50)}).set_index("t").resample("D").v.apply(lambda x: x.sum() * 10**10).tail(2)
pd.DataFrame({"a": t, "b": t[::-1]}).max(axis=1).head(2)
pd.DataFrame({"t": t}).describe()
pd.merge_asof(pd.DataFrame({"t": t[::3], "a": np.arange(17)}), pd.DataFrame({"t": t[::2], "b": np.arange(25)}), on="t", tolerance=pd.Timedelta("7h"))
pd.concat([s.head(2), s.tail(2)]).index.asi8
pd.cut(d, 3).value_counts(sort=False).tolist()
pd.qcut(d, 4, labels=False).sum()
pd.Series([datetime.date(2026, 1, 1)]).map(lambda x: x.toordinal())
np.datetime64(pd.Timestamp("2026-01-01")).astype(int)
np.array(t)[:2].astype("M8[s]").astype(int)
np.diff(t.values).astype(int)[:2]
np.unique(t.values.astype("M8[D]"), return_counts=True)[1]
