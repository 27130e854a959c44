// Sums of floats, in numpy's pairwise order: eight running sums per block of up to 128, blocks added two by two.
//
// The eight sums are lanes of vectors, so every addition is one that the original makes, and the bits are the same.
#include "numpy_loops.h"

#define BLOCK 128

f64 original_f64_pairwise_sum(const char *a, index_t n, index_t step);
f32 original_f32_pairwise_sum(const char *a, index_t n, index_t step);

// The sum of one block, 8 to 128 elements.
INLINE f64 f64_block(const f64 *a, u32 n) {
  v128_t r0 = LOAD(a), r1 = LOAD(a + 2), r2 = LOAD(a + 4), r3 = LOAD(a + 6);
  u32 i = 8;
  for (; n - i >= 16; i += 16) {
    r0 = wasm_f64x2_add(wasm_f64x2_add(r0, LOAD(a + i)), LOAD(a + i + 8));
    r1 = wasm_f64x2_add(wasm_f64x2_add(r1, LOAD(a + i + 2)), LOAD(a + i + 10));
    r2 = wasm_f64x2_add(wasm_f64x2_add(r2, LOAD(a + i + 4)), LOAD(a + i + 12));
    r3 = wasm_f64x2_add(wasm_f64x2_add(r3, LOAD(a + i + 6)), LOAD(a + i + 14));
  }
  if (n - i >= 8) {
    r0 = wasm_f64x2_add(r0, LOAD(a + i)), r1 = wasm_f64x2_add(r1, LOAD(a + i + 2));
    r2 = wasm_f64x2_add(r2, LOAD(a + i + 4)), r3 = wasm_f64x2_add(r3, LOAD(a + i + 6));
    i += 8;
  }
#define PAIR(R) (wasm_f64x2_extract_lane(R, 0) + wasm_f64x2_extract_lane(R, 1))
  f64 sum = (PAIR(r0) + PAIR(r1)) + (PAIR(r2) + PAIR(r3));
  for (; i < n; i++) sum += a[i];
  return sum;
}

INLINE f32 f32_block(const f32 *a, u32 n) {
  v128_t r0 = LOAD(a), r1 = LOAD(a + 4);
  u32 i = 8;
  for (; n - i >= 32; i += 32) {
#define FOUR(R, K) wasm_f32x4_add(wasm_f32x4_add(wasm_f32x4_add(wasm_f32x4_add(R, LOAD(a + i + K)), LOAD(a + i + K + 8)), \
                                                 LOAD(a + i + K + 16)), LOAD(a + i + K + 24))
    r0 = FOUR(r0, 0), r1 = FOUR(r1, 4);
  }
  for (; n - i >= 8; i += 8) r0 = wasm_f32x4_add(r0, LOAD(a + i)), r1 = wasm_f32x4_add(r1, LOAD(a + i + 4));
#define LANE(R, K) wasm_f32x4_extract_lane(R, K)
  f32 sum = ((LANE(r0, 0) + LANE(r0, 1)) + (LANE(r0, 2) + LANE(r0, 3))) +
            ((LANE(r1, 0) + LANE(r1, 1)) + (LANE(r1, 2) + LANE(r1, 3)));
  for (; i < n; i++) sum += a[i];
  return sum;
}

#define PAIRWISE_SUM(T)                                                                             \
  T T##_pairwise_sum(const char *a, index_t n, index_t step) {                                      \
    if (step != sizeof(T) || n < 8) return original_##T##_pairwise_sum(a, n, step);                 \
    if (n <= BLOCK) return T##_block((const T *)a, n);                                              \
    index_t half = n / 2;                                                                           \
    half -= half % 8;                                                                               \
    return T##_pairwise_sum(a, half, step) + T##_pairwise_sum(a + half * step, n - half, step);     \
  }
PAIRWISE_SUM(f64)
PAIRWISE_SUM(f32)
