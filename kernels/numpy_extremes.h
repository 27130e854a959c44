// The largest or smallest of some floats, with several accumulators.
//
// PMAX(m, y) is m < y ? y : m, one instruction on x86, and passes over a y that is NaN: NaNs are looked for beside it. Which
// of 0 and -0 it finds, and which NaN was the first, is for the caller to say.
#pragma once
#include "numpy_loops.h"

typedef struct { f64 value; int has_nan; } f64_extreme;
typedef struct { f32 value; int has_nan; } f32_extreme;
#define BETTER_max(M, Y) ((M) < (Y))
#define BETTER_min(M, Y) ((Y) < (M))
#define LANES_f64 2
#define LANES_f32 4

#define EXTREME(T, SHAPE, WHICH)                                                                     \
  INLINE T##_extreme T##_##WHICH##_of(const T *a, u32 n, T start) {                                  \
    v128_t m0 = wasm_##SHAPE##_splat(start), m1 = m0, m2 = m0, m3 = m0, nan = wasm_i32x4_const_splat(0); \
    u32 i = 0;                                                                                       \
    for (; n - i >= 16 * LANES_##T; i += 16 * LANES_##T) {                                           \
      EXTREME_STEPS(T, SHAPE, WHICH, 0) EXTREME_STEPS(T, SHAPE, WHICH, 4)                            \
      EXTREME_STEPS(T, SHAPE, WHICH, 8) EXTREME_STEPS(T, SHAPE, WHICH, 12)                           \
    }                                                                                                \
    m0 = wasm_##SHAPE##_p##WHICH(wasm_##SHAPE##_p##WHICH(m0, m1), wasm_##SHAPE##_p##WHICH(m2, m3));  \
    T##_extreme found = {wasm_##SHAPE##_extract_lane(m0, 0), wasm_v128_any_true(nan)};               \
    EXTREME_LANES_##T(SHAPE, WHICH)                                                                  \
    for (; i < n; i++) {                                                                             \
      if (BETTER_##WHICH(found.value, a[i])) found.value = a[i];                                     \
      found.has_nan |= a[i] != a[i];                                                                 \
    }                                                                                                \
    return found;                                                                                    \
  }
#define EXTREME_STEPS(T, SHAPE, WHICH, K)                                                            \
  EXTREME_STEP(T, SHAPE, WHICH, K, m0) EXTREME_STEP(T, SHAPE, WHICH, K + 1, m1)                      \
  EXTREME_STEP(T, SHAPE, WHICH, K + 2, m2) EXTREME_STEP(T, SHAPE, WHICH, K + 3, m3)
#define EXTREME_STEP(T, SHAPE, WHICH, K, M) {                                                        \
    v128_t y = LOAD(a + i + (K) * LANES_##T);                                                          \
    M = wasm_##SHAPE##_p##WHICH(M, y);                                                               \
    nan = wasm_v128_or(nan, wasm_##SHAPE##_ne(y, y));                                                \
  }
#define EXTREME_LANE(SHAPE, WHICH, K)                                                                \
  if (BETTER_##WHICH(found.value, wasm_##SHAPE##_extract_lane(m0, K))) found.value = wasm_##SHAPE##_extract_lane(m0, K);
#define EXTREME_LANES_f64(SHAPE, WHICH) EXTREME_LANE(SHAPE, WHICH, 1)
#define EXTREME_LANES_f32(SHAPE, WHICH) EXTREME_LANE(SHAPE, WHICH, 1) EXTREME_LANE(SHAPE, WHICH, 2) EXTREME_LANE(SHAPE, WHICH, 3)

EXTREME(f64, f64x2, max)
EXTREME(f64, f64x2, min)
EXTREME(f32, f32x4, max)
EXTREME(f32, f32x4, min)
