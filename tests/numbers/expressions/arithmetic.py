# What is computed with them.
import numpy as np

i8, i32, u8, u32 = np.array([100] * 3, "int8"), np.array([2**30] * 4, "int32"), np.array([200] * 3, "uint8"), np.array([2**31] * 4, "uint32")
flags, floats, small = np.array([True, False, True]), np.array([1.5, 2.5, -3.5]), np.array([3, 1, 2])
long = np.arange(70000)


def strictly(compute):
    with np.errstate(all="raise"):
        return compute()


np.arange(70000).sum()
np.dot(long, long)
long @ long
(long * long).sum()
(long**2)[-2:]
((long - long[::-1]) ** 2).mean()
np.array([100000]) ** 2
np.array([100000]) * 100000
np.array([100000]) * np.array([100000])
np.arange(3) + 2**31
np.arange(3) - 2**31
np.arange(3) * 2**32
np.arange(3) * np.int32(5)
np.array([2**31 - 1]) + 1
np.array([-2**31]) - 1
np.array([2**63 - 1]) + 1
np.array([1], np.int32) + 2**31
np.array([1], np.int32) + 1
np.array([2**31 - 1], np.int32) + 1
np.int32(2**31 - 1) + 1
np.int64(2**31) * 2
np.power(10, 10)
np.power(2, 62)
np.power([10, 100], 9)
np.power(2, -1)
np.float_power(2, 3)
np.square(100000)
np.multiply(100000, 100000)
np.add(2**31 - 1, 1)
np.add(2**40, 1)
np.add(1, 2)
np.add(1, 2, dtype=int)
np.add(1, 2, dtype=np.int32)
np.add(1, True)
np.add(True, True)
np.subtract(1, 2)
np.negative(5)
np.negative(2**31)
np.positive(5)
np.abs(-5)
np.abs(-2**31)
np.absolute([-3, 2])
np.left_shift(1, 40)
np.right_shift(2**40, 3)
np.array([1]) << 40
np.array([2**40]) >> 35
np.array([1], np.int32) << 5
np.invert(5)
np.invert([5, 2**40])
np.bitwise_or(1, 2)
np.bitwise_and(2**40 + 1, 2**40)
np.bitwise_xor([1, 2], 2**33)
np.bitwise_count(np.array([2**40 - 1, 7]))
np.maximum(1, 2)
np.maximum([1, 5], 2**40)
np.minimum(-2**40, 1)
np.fmax(1, 2)
np.sign(-3)
np.sign([-2**40, 0])
np.mod(7, 3)
np.mod(2**40, 1000)
np.remainder([7, -7], 3)
np.fmod(-7, 3)
np.floor_divide(7, 2)
np.floor_divide(2**40, 3)
np.true_divide(7, 2)
np.divide(2**40, 2)
np.divmod(7, 2)
np.divmod(np.array([7]), 2)[0]
np.array([7]) // 2
np.array([-7]) // 2
np.array([7]) % 4
np.array([7]) / 2
np.array([1, 2]) / np.array([0, 1])
np.array([1, 2]) // np.array([0, 1])
np.sqrt(16)
np.exp(np.array([1])).dtype
np.isfinite([1, 2])
np.equal(1, 1)
np.equal(2**40, 2**40)
np.less([1, 2**40], 2**35)
np.array([1, 2]) == 2**40
np.array([1, 2], np.int8) < 1000
np.logical_and(1, 0)
np.conjugate(3)
np.real(3)
np.rint([1, 2])
np.floor([1, 2])
np.round([15, 25], -1)
np.round(2**40 + 7, -1)
np.around(5)
np.trunc(np.array([1]))
np.reciprocal(2)
np.gcd(12, 8)
np.gcd.reduce([2**40, 2**35])
np.lcm(100000, 99999)
np.lcm.reduce([7, 11, 13, 2**31])
np.hypot(3, 4)
np.ldexp(1.0, 3)
np.ldexp(1.0, np.array([3, 4]))
np.frexp(8.0)
np.frexp([8.0, 3.0])[1]
np.heaviside(1, 0)
np.spacing(1)
flags * 3
flags + 1
flags + flags
flags * 2**40
np.add(flags, 1)
-small
~small
+small
small**2
2**small
small**0.5
10 ** np.array([10])
i8 + 1
i8 * 1
i8 * np.array([1000])
i8 + np.int64(1)
i32 * 2
i32 * 2**1
i32 * np.array(4)
i32 + np.array([1])
u8 + 1
u8 - np.array([201])
u32 * np.array([4])
u32 + 1
np.uint64(5) + 1
np.uint64(5) + np.int64(1)
np.array([5], np.uint64) - 6
np.array([1, 2]) + np.array([1, 2], np.uint64)
i8 + 200
np.array([1]) + 1.5
np.array([1], np.float32) + np.array([1])
np.array([1], np.float32) + 1
np.dot([100000], [100000])
np.vdot([100000], [100000])
np.inner([100000], [100000])
np.outer([100000], [100000])[0]
np.tensordot([100000], [100000], 1)
np.cross([1, 2, 3], [4, 5, 60000000000])
np.convolve([100000, 2], [300000, 4])
np.correlate([100000, 2], [300000, 4])
np.polyfit([0, 1, 2], [1, 3, 5], 1)
np.polyval([1, 0, 0], 100000)
np.polymul([100000, 1], [100000, 1])
np.polyadd([1, 2], [3])
np.polyder([100000, 100000, 1])
np.polynomial.Polynomial([1, 2]).coef
np.einsum("i,i", [100000], [100000])
np.einsum("ij,jk", [[100000]], [[100000]])
np.einsum("i->", long)
np.matmul([[100000]], [[100000]])
np.array([[100000]]) @ np.array([[100000]])
np.linalg.matrix_power([[100000]], 2)
np.linalg.multi_dot([np.array([[100000]]), np.array([[100000]]), np.array([[3]])])
np.linalg.det([[1, 2], [3, 4]])
np.linalg.inv([[1, 2], [3, 4]])
np.linalg.norm([3, 4])
np.linalg.matrix_rank([[1, 2], [3, 4]])
np.linalg.solve([[1, 2], [3, 4]], [1, 2])
np.vecdot([100000, 1], [100000, 1])
np.matvec([[100000]], [100000])
np.kron([100000], [100000])
np.diff([1, 5])
np.diff([0, 2**40])
np.ediff1d([1, 5])
np.gradient([1, 4, 9])
np.clip(small, 0, 2)
np.clip([1, 2**40], 0, 2**35)
np.interp(1, [0, 2], [0, 4])
np.unwrap([0, 7])
np.unwrap([0, 200], period=100)
np.trapezoid([1, 2, 3])
np.cov([1, 2, 3])
np.corrcoef([1, 2, 3], [1, 2, 4])
np.vectorize(lambda x: x * 100000)(np.array([100000]))
np.vectorize(lambda x: x + 1)(small)
np.apply_along_axis(lambda x: x.sum(), 0, np.ones((2, 2), int))
np.apply_over_axes(np.sum, np.ones((2, 2), int), [0, 1])
np.frompyfunc(lambda x: x, 1, 1)(3)
np.piecewise(small, [small > 1], [1, 0])
np.i0(1)
np.sinc(1)
np.nan_to_num([1, 2])
np.real_if_close([1, 2])
np.isclose([2**40], [2**40 + 1])
np.allclose(small, small)
np.flip([1, 2])
np.roll([1, 2], 1)
np.rot90([[1, 2]])
np.sort([3, 1, 2**40])
np.partition([3, 1, 2], 1)
np.packbits([1, 0, 1])
np.unpackbits(np.array([5], np.uint8))
np.cumsum(long)[-1]
long.cumsum()[-1]
np.cumulative_sum(long)[-1]
np.cumulative_prod([10**5, 10**5])
small.sum()
np.sum([100000] * 100000)
np.sum(5)
np.sum(5, dtype=np.int32)
sum(np.arange(70000))
i8.sum()
i32.sum()
u8.sum()
u32.sum()
flags.sum()
np.sum(flags, axis=0)
i8.sum(dtype=np.int8)
i32.sum(dtype="i4")
np.sum(i32, axis=0, keepdims=True)
np.sum(i32, initial=2**40)
np.sum(i32, where=[True, False, True, True])
np.ones((3, 2), "i2").sum(1)
np.ones((3, 2), bool).sum(0)
np.sum([])
np.sum(np.array([], int))
i8.cumsum()
i32.cumsum()
u8.cumsum()
u32.cumsum()
flags.cumsum()
i32.prod()
u32.prod()
flags.prod()
i8.cumprod()
np.prod([1000] * 4)
np.prod([])
np.cumprod([1000] * 4)
np.arange(1, 21).prod()
np.arange(1, 21).cumprod()[-1]
np.add.reduce(i8)
np.add.reduce([1, 2**40])
np.add.accumulate(flags)
np.add.accumulate(i32)
np.add.reduceat(i8, [0, 1])
np.add.reduceat(i32, [0, 2])
np.add.outer([2**31], [2**31])
np.multiply.reduce([1000] * 4)
np.multiply.accumulate(i8)
np.maximum.reduce([1, 2**40])
np.maximum.accumulate(i8)
np.bitwise_or.reduce(i8)
np.logical_or.reduce(flags)
np.subtract.reduce([1, 2**40])
np.nansum(i8)
np.nansum([1, np.nan])
np.nanprod([1000] * 4)
np.nancumsum(i32)
np.nanmax([1, 2])
np.trace(np.ones((2, 2), np.int8))
np.trace([[2**31, 0], [0, 2**31]])
i8.mean()
i32.mean()
i32.std()
i32.var()
np.array([2**31, 2**31 + 2]).mean()
np.mean(flags)
small.max()
small.min()
np.max([1, 2**40])
np.ptp(small)
np.ptp([-2**31, 2**31])
np.median(small)
np.percentile(small, 50)
np.quantile([1, 2**40], 0.5, method="lower")
np.average(small)
np.average(small, weights=[1, 2, 3])
np.any(small)
np.all(small)
np.ma.array([1000] * 4).prod()
np.ma.array([100] * 3, dtype="i1").sum()
np.ma.array([1, 2, 3], mask=[0, 0, 1]).cumsum()
np.lib.stride_tricks.sliding_window_view(small, 2).sum(1)
np.broadcast_to(2**40, 2)
np.nditer([1, 2]).operands[0]
np.ndenumerate([1, 2]).__next__()
np.fft.fft([1, 2]).real
np.fft.fftfreq(4, 1)
np.fft.fftshift([1, 2, 3])
strictly(lambda: np.ones(2) / np.zeros(2))
strictly(lambda: np.ones(2, int) // np.zeros(2, int))
