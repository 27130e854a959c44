// Loops from elements of 4 or 8 bytes to booleans, 16 at a time.
//
// clang narrows masks in more steps than it takes: pairs of 64-bit masks are joined by one shuffle, then halved by packs.
// TEST is an expression of x and y that C understands for numbers and, element by element, for clang's vectors.
#pragma once
#include "numpy_loops.h"

typedef f64 f64_vector __attribute__((vector_size(16)));
typedef i64 i64_vector __attribute__((vector_size(16)));
typedef u64 u64_vector __attribute__((vector_size(16)));
typedef f32 f32_vector __attribute__((vector_size(16)));
typedef i32 i32_vector __attribute__((vector_size(16)));
typedef u32 u32_vector __attribute__((vector_size(16)));

#define LANES(T) ((u32)(16 / sizeof(T)))
#define UNROLL _Pragma("clang loop unroll(full)")

// 16 bytes of 0 and 1 from the masks of 16 elements, in 8 vectors or in 4.
INLINE v128_t narrow_masks(const v128_t *mask, int vectors) {
  v128_t quad[4];
  UNROLL for (int k = 0; k < 4; k++)
    quad[k] = vectors == 8 ? wasm_i32x4_shuffle(mask[2 * k], mask[2 * k + 1], 0, 2, 4, 6) : mask[k];
  v128_t low = wasm_i16x8_narrow_i32x4(quad[0], quad[1]), high = wasm_i16x8_narrow_i32x4(quad[2], quad[3]);
  return wasm_v128_and(wasm_i8x16_narrow_i16x8(low, high), wasm_i8x16_const_splat(1));
}

#define SIXTEEN(T, X, Y, TEST, START) {                                                \
    v128_t mask[16 / LANES(T)];                                                        \
    UNROLL for (u32 k = 0; k < 16 / LANES(T); k++) {                                   \
      u32 at = (START) + k * LANES(T);                                                 \
      T##_vector x = X, y = Y;                                                         \
      mask[k] = (v128_t)(TEST);                                                        \
      (void)x, (void)y, (void)at;                                                      \
    }                                                                                  \
    STORE(out + (START), narrow_masks(mask, 16 / LANES(T)));                           \
  }
#define SIXTEENS(T, X, Y, TEST)                                                        \
  for (; (u32)n - i >= 32; i += 32) { SIXTEEN(T, X, Y, TEST, i) SIXTEEN(T, X, Y, TEST, i + 16) }
#define ALL(T, V) ((T##_vector){} + (V))  // one value in every element (-0 + 0 is 0, which compares the same)
#define VECTOR(T, FROM) ((T##_vector)LOAD(FROM + at))

#define BOOLEAN_BINARY(NAME, T, TEST, AFTER)                                                                  \
  DECLARE(NAME) {                                                                                             \
    index_t n = dimensions[0];                                                                                \
    const T *a = (const T *)args[0], *b = (const T *)args[1];                                                 \
    u8 *out = (u8 *)args[2];                                                                                  \
    u32 i = 0;                                                                                                \
    switch (binary_operands(args, n, steps, sizeof(T), 1)) {                                                  \
      case ARRAYS:                                                                                            \
        SIXTEENS(T, VECTOR(T, a), VECTOR(T, b), TEST)                                                         \
        for (; i < (u32)n; i++) { T x = a[i], y = b[i]; out[i] = TEST; }                                      \
        break;                                                                                                \
      case SCALAR_FIRST: {                                                                                    \
        T x = *a; T##_vector all = ALL(T, x);                                                                 \
        SIXTEENS(T, all, VECTOR(T, b), TEST)                                                                  \
        for (; i < (u32)n; i++) { T y = b[i]; out[i] = TEST; }                                                \
        break;                                                                                                \
      }                                                                                                       \
      case SCALAR_SECOND: {                                                                                   \
        T y = *b; T##_vector all = ALL(T, y);                                                                 \
        SIXTEENS(T, VECTOR(T, a), all, TEST)                                                                  \
        for (; i < (u32)n; i++) { T x = a[i]; out[i] = TEST; }                                                \
        break;                                                                                                \
      }                                                                                                       \
      default: ORIGINAL(NAME); return;                                                                        \
    }                                                                                                         \
    AFTER;                                                                                                    \
  }
#define BOOLEAN_UNARY(NAME, T, TEST, AFTER)                                                                   \
  DECLARE(NAME) {                                                                                             \
    index_t n = dimensions[0];                                                                                \
    const T *a = (const T *)args[0];                                                                          \
    u8 *out = (u8 *)args[1];                                                                                  \
    u32 i = 0;                                                                                                \
    if (!unary_operands(args, n, steps, sizeof(T), 1)) { ORIGINAL(NAME); return; }                            \
    SIXTEENS(T, VECTOR(T, a), x, TEST)                                                                        \
    for (; i < (u32)n; i++) { T x = a[i]; out[i] = TEST; }                                                    \
    AFTER;                                                                                                    \
  }
