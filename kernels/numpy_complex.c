// Sums, differences and products of complex numbers: two floats side by side.
//
// The products of parts and their sums are the original's, each rounded by itself: a difference is a sum with one sign flipped.
#include "numpy_loops.h"

typedef struct { f64 real, imaginary; } c128;
typedef struct { f32 real, imaginary; } c64;

// Reductions add pairwise; they are the original's.
#define PARTWISE(NAME, C, T, OP)                                                                             \
  DECLARE(NAME) {                                                                                            \
    index_t n = dimensions[0];                                                                               \
    const T *a = (const T *)args[0], *b = (const T *)args[1];                                                \
    T *out = (T *)args[2];                                                                                   \
    if (binary_operands(args, n, steps, sizeof(C), sizeof(C)) != ARRAYS) { ORIGINAL(NAME); return; }         \
    EACH(i, 2 * n) out[i] = a[i] OP b[i];                                                                    \
  }
PARTWISE(c128_add, c128, f64, +)
PARTWISE(c128_subtract, c128, f64, -)
PARTWISE(c64_add, c64, f32, +)
PARTWISE(c64_subtract, c64, f32, -)

INLINE v128_t product_f64(v128_t x, v128_t y) {
  v128_t by_real = wasm_f64x2_mul(wasm_i64x2_shuffle(x, x, 0, 0), y);
  v128_t by_imaginary = wasm_f64x2_mul(wasm_i64x2_shuffle(x, x, 1, 1), wasm_i64x2_shuffle(y, y, 1, 0));
  return wasm_f64x2_add(by_real, wasm_v128_xor(by_imaginary, wasm_f64x2_const(-0.0, 0.0)));
}

INLINE v128_t product_f32(v128_t x, v128_t y) {
  v128_t by_real = wasm_f32x4_mul(wasm_i32x4_shuffle(x, x, 0, 0, 2, 2), y);
  v128_t by_imaginary = wasm_f32x4_mul(wasm_i32x4_shuffle(x, x, 1, 1, 3, 3), wasm_i32x4_shuffle(y, y, 1, 0, 3, 2));
  return wasm_f32x4_add(by_real, wasm_v128_xor(by_imaginary, wasm_f32x4_const(-0.0f, 0.0f, -0.0f, 0.0f)));
}

// A number that is one for all has a step of 0.
DECLARE(c128_multiply) {
  index_t n = dimensions[0];
  enum operands found = binary_operands(args, n, steps, sizeof(c128), sizeof(c128));
  if (found != ARRAYS && found != SCALAR_FIRST && found != SCALAR_SECOND) { ORIGINAL(c128_multiply); return; }
  const c128 *a = (const c128 *)args[0], *b = (const c128 *)args[1];
  c128 *out = (c128 *)args[2];
  u32 first = found != SCALAR_FIRST, second = found != SCALAR_SECOND, i = 0;
#define ONE(I) STORE(out + (I), product_f64(LOAD(a + (I) * first), LOAD(b + (I) * second)));
  for (; (u32)n - i >= 4; i += 4) { ONE(i) ONE(i + 1) ONE(i + 2) ONE(i + 3) }
  for (; i < (u32)n; i++) ONE(i)
}

DECLARE(c64_multiply) {
  index_t n = dimensions[0];
  if (binary_operands(args, n, steps, sizeof(c64), sizeof(c64)) != ARRAYS) { ORIGINAL(c64_multiply); return; }
  const c64 *a = (const c64 *)args[0], *b = (const c64 *)args[1];
  c64 *out = (c64 *)args[2];
  u32 i = 0;
#define TWO(I) STORE(out + (I), product_f32(LOAD(a + (I)), LOAD(b + (I))));
  for (; (u32)n - i >= 8; i += 8) { TWO(i) TWO(i + 2) TWO(i + 4) TWO(i + 6) }
  for (; i < (u32)n; i++) {
    c64 x = a[i], y = b[i];
    out[i] = (c64){x.real * y.real - x.imaginary * y.imaginary, x.real * y.imaginary + x.imaginary * y.real};
  }
}
