// Integers floor-divided by one number: numpy's loop divides one by one, and a vector has no integer division.
//
// The floor of x / y is that of (x + 0.5) / y (x - 0.5 for a negative y), which is at least 0.5 / |y| away from any integer.
// Multiplying by 1 / y as a float is off by less than |x + 0.5| / |y| / 2**22 (f32) or 2**51 (f64), so that its floor is exact
// for |x| below 2**21 and 2**50. Division by 0 sets a status and the lowest number divided by -1 overflows; both are the
// original's.
#include "numpy_loops.h"

#define FLOOR_DIVIDE(T, WIDE, FLOAT, FLOOR)                                               \
  DECLARE(T##_floor_divide) {                                                             \
    index_t n = dimensions[0];                                                            \
    const T *a = (const T *)args[0];                                                      \
    T y = *(const T *)args[1], *out = (T *)args[2];                                       \
    if (y == 0 || y == (T)-1 || binary_operands(args, n, steps, sizeof(T), sizeof(T)) != SCALAR_SECOND) { \
      ORIGINAL(T##_floor_divide);                                                         \
      return;                                                                             \
    }                                                                                     \
    FLOAT reciprocal = (FLOAT)1 / y, half = y < 0 ? -0.5 : 0.5;                           \
    EACH(i, n) { FLOAT x = a[i]; out[i] = (T)(WIDE)FLOOR((x + half) * reciprocal); }      \
  }
FLOOR_DIVIDE(i8, i32, f32, __builtin_floorf)
FLOOR_DIVIDE(u8, i32, f32, __builtin_floorf)
FLOOR_DIVIDE(i16, i32, f32, __builtin_floorf)
FLOOR_DIVIDE(u16, i32, f32, __builtin_floorf)
FLOOR_DIVIDE(i32, i32, f64, __builtin_floor)
FLOOR_DIVIDE(u32, u32, f64, __builtin_floor)

// WebAssembly converts no vectors between i64 and f64, but adding 1.5 * 2**52 does, for numbers below 2**51.
#define LIMIT (INT64_C(1) << 50)
#define SHIFTED 6755399441055744.0               // 1.5 * 2**52, whose bits are:
#define SHIFTED_BITS INT64_C(0x4338000000000000)

INLINE i64 floor_quotient(i64 x, i64 y) {
  i64 quotient = x / y;
  return quotient - ((x % y != 0) & ((x < 0) != (y < 0)));
}

DECLARE(i64_floor_divide) {
  index_t n = dimensions[0];
  const i64 *a = (const i64 *)args[0];
  i64 y = *(const i64 *)args[1], *out = (i64 *)args[2];
  if (y == 0 || y == -1 || binary_operands(args, n, steps, 8, 8) != SCALAR_SECOND) {
    ORIGINAL(i64_floor_divide);
    return;
  }
  u32 i = 0;
  v128_t bits = wasm_i64x2_const_splat(SHIFTED_BITS), shifted = wasm_f64x2_const_splat(SHIFTED), half = wasm_f64x2_splat(y < 0 ? -0.5 : 0.5);
  v128_t limit = wasm_i64x2_const_splat(LIMIT), reciprocal = wasm_f64x2_splat(1.0 / y);
  if (-LIMIT < y && y < LIMIT)
    for (; n - i >= 8; i += 8) {
      v128_t beyond = wasm_i64x2_const_splat(0);
      _Pragma("clang loop unroll(full)") for (int k = 0; k < 8; k += 2)
        beyond = wasm_v128_or(beyond, wasm_u64x2_shr(wasm_i64x2_add(LOAD(a + i + k), limit), 51));
      if (wasm_v128_any_true(beyond)) {
        for (int k = 0; k < 8; k++) out[i + k] = floor_quotient(a[i + k], y);
        continue;
      }
      _Pragma("clang loop unroll(full)") for (int k = 0; k < 8; k += 2) {
        v128_t x = wasm_f64x2_sub(wasm_i64x2_add(LOAD(a + i + k), bits), shifted);
        v128_t quotient = wasm_f64x2_floor(wasm_f64x2_mul(wasm_f64x2_add(x, half), reciprocal));
        STORE(out + i + k, wasm_i64x2_sub(wasm_f64x2_add(quotient, shifted), bits));
      }
    }
  for (; i < (u32)n; i++) out[i] = floor_quotient(a[i], y);
}
