// Arithmetic of floats and integers, and bitwise operations: numpy's loops were compiled without SIMD.
#include "numpy_loops.h"

// Sums of floats depend on their order: reductions are left to the original, which calls numpy_sum.c.
#define FLOATS(T, SUFFIX)                                                 \
  BINARY_LOOP(T##_add, T, T, x + y, , )                                   \
  BINARY_LOOP(T##_subtract, T, T, x - y, , )                              \
  BINARY_LOOP(T##_multiply, T, T, x * y, , )                              \
  BINARY_LOOP(T##_divide, T, T, x / y, , )                                \
  UNARY_LOOP(T##_negative, T, T, -x, CLEAR_STATUS)                        \
  UNARY_LOOP(T##_absolute, T, T, __builtin_fabs##SUFFIX(x), CLEAR_STATUS) \
  UNARY_LOOP(T##_sign, T, T, x > 0 ? 1 : x < 0 ? -1 : x == 0 ? 0 : x, CLEAR_STATUS) \
  UNARY_LOOP(T##_square, T, T, x * x, )                                   \
  UNARY_LOOP(T##_sqrt, T, T, __builtin_sqrt##SUFFIX(x), )                 \
  UNARY_LOOP(T##_floor, T, T, __builtin_floor##SUFFIX(x), )               \
  UNARY_LOOP(T##_ceil, T, T, __builtin_ceil##SUFFIX(x), )                 \
  UNARY_LOOP(T##_trunc, T, T, __builtin_trunc##SUFFIX(x), )               \
  UNARY_LOOP(T##_rint, T, T, __builtin_rint##SUFFIX(x), )
FLOATS(f64, )
FLOATS(f32, f)

// Integers wrap, as numpy's do, and one body serves both signs: the bits are the same.
#define INTEGERS(T)                                                       \
  BINARY_LOOP(T##_add, T, T, x + y, ANY_ORDER(T, x + y), )                \
  BINARY_LOOP(T##_subtract, T, T, x - y, , )                              \
  BINARY_LOOP(T##_multiply, T, T, x * y, ANY_ORDER(T, x * y), )           \
  BINARY_LOOP(T##_bitwise_and, T, T, x & y, ANY_ORDER(T, x & y), )        \
  BINARY_LOOP(T##_bitwise_or, T, T, x | y, ANY_ORDER(T, x | y), )         \
  BINARY_LOOP(T##_bitwise_xor, T, T, x ^ y, ANY_ORDER(T, x ^ y), )        \
  UNARY_LOOP(T##_invert, T, T, ~x, )                                      \
  UNARY_LOOP(T##_negative, T, T, -x, )                                    \
  UNARY_LOOP(T##_square, T, T, x * x, )
INTEGERS(u8)
INTEGERS(u16)
INTEGERS(u32)
INTEGERS(u64)

UNARY_LOOP(i8_absolute, u8, u8, (i8)x < 0 ? -x : x, )
UNARY_LOOP(i16_absolute, u16, u16, (i16)x < 0 ? -x : x, )
UNARY_LOOP(i32_absolute, u32, u32, (i32)x < 0 ? -x : x, )
UNARY_LOOP(i64_absolute, u64, u64, (i64)x < 0 ? -x : x, )

// Shifts by one number. What is shifted out entirely, or by a negative number, is the original's.
#define SHIFT(NAME, T, RESULT)                                                                    \
  DECLARE(NAME) {                                                                                 \
    index_t n = dimensions[0];                                                                    \
    const T *a = (const T *)args[0];                                                              \
    T *out = (T *)args[2], by = *(const T *)args[1];                                              \
    u32 y = by;                                                                                   \
    if (by != (T)y || y >= 8 * sizeof(T) || binary_operands(args, n, steps, sizeof(T), sizeof(T)) != SCALAR_SECOND) { \
      ORIGINAL(NAME);                                                                             \
      return;                                                                                     \
    }                                                                                             \
    EACH(i, n) { T x = a[i]; out[i] = RESULT; }                                                   \
  }
#define SHIFTS(SIZE)                                          \
  SHIFT(u##SIZE##_left_shift, u##SIZE, x << y)                \
  SHIFT(u##SIZE##_right_shift, u##SIZE, x >> y)               \
  SHIFT(i##SIZE##_right_shift, i##SIZE, x >> y)
SHIFTS(8)
SHIFTS(16)
SHIFTS(32)

// numpy's own loops for 64 bits look at the lower 32 of a number of places, where 1 << 2**32 is 1. So no layout is theirs.
#define WIDE_SHIFT(NAME, T, RESULT, ALL_OUT)                                                      \
  DECLARE(NAME) {                                                                                 \
    index_t n = dimensions[0];                                                                    \
    const char *a = args[0], *b = args[1];                                                        \
    char *out = args[2];                                                                          \
    (void)data;                                                                                   \
    if (n && binary_operands(args, n, steps, sizeof(T), sizeof(T)) == SCALAR_SECOND && *(const u64 *)b < 64) { \
      u64 y = *(const u64 *)b;                                                                    \
      EACH(i, n) { T x = ((const T *)a)[i]; ((T *)out)[i] = RESULT; }                             \
      return;                                                                                     \
    }                                                                                             \
    for (index_t i = 0; i < n; i++, a += steps[0], b += steps[1], out += steps[2]) {              \
      T x = *(const T *)a;                                                                        \
      u64 y = *(const u64 *)b;                                                                    \
      *(T *)out = y < 64 ? RESULT : ALL_OUT;                                                      \
    }                                                                                             \
  }
WIDE_SHIFT(u64_left_shift, u64, x << y, 0)
WIDE_SHIFT(u64_right_shift, u64, x >> y, 0)
WIDE_SHIFT(i64_right_shift, i64, x >> y, x >> 63)
