// einsum's inner loops for two operands whose elements lie side by side or are one for all: their names say which.
#include "numpy_loops.h"

#define EINSUM_ARGUMENTS int operands, char **args, const index_t *steps, index_t n

// Products added to a row, as for `ij,jk->ik`. Each element has a sum of its own, so its order stays.
#define ADD_PRODUCTS(NAME, T, FIRST, SECOND)                                                               \
  void original_##NAME(EINSUM_ARGUMENTS);                                                                  \
  void NAME(EINSUM_ARGUMENTS) {                                                                            \
    const T *a = (const T *)args[0], *b = (const T *)args[1];                                              \
    T *out = (T *)args[2];                                                                                 \
    if (!independent(args[0], (FIRST ? n : 1) * sizeof(T), args[2], n * sizeof(T), FIRST) ||               \
        !independent(args[1], (SECOND ? n : 1) * sizeof(T), args[2], n * sizeof(T), SECOND)) {             \
      original_##NAME(operands, args, steps, n);                                                           \
      return;                                                                                              \
    }                                                                                                      \
    EACH(i, n) out[i] = a[FIRST ? i : 0] * b[SECOND ? i : 0] + out[i];                                     \
  }
ADD_PRODUCTS(double_sum_of_products_contig_two, f64, 1, 1)
ADD_PRODUCTS(double_sum_of_products_contig_stride0_outcontig_two, f64, 1, 0)
ADD_PRODUCTS(double_sum_of_products_stride0_contig_outcontig_two, f64, 0, 1)
ADD_PRODUCTS(float_sum_of_products_contig_two, f32, 1, 1)
ADD_PRODUCTS(float_sum_of_products_contig_stride0_outcontig_two, f32, 1, 0)
ADD_PRODUCTS(float_sum_of_products_stride0_contig_outcontig_two, f32, 0, 1)

// One sum of products, as for `ij,ij->i`, here in four vectors of sums: within n * epsilon * sum(|a * b|) of the exact one, as
// any order is, and usually nearer than the original's.
#define SUM_PRODUCTS(NAME, T, SHAPE, LANES, TOTAL)                                                         \
  void NAME(EINSUM_ARGUMENTS) {                                                                            \
    (void)operands, (void)steps;                                                                           \
    const T *a = (const T *)args[0], *b = (const T *)args[1];                                              \
    v128_t s0 = wasm_##SHAPE##_const_splat(0), s1 = s0, s2 = s0, s3 = s0;                                  \
    u32 i = 0;                                                                                             \
    for (; (u32)n - i >= 8 * LANES; i += 8 * LANES) {                                                      \
      MULTIPLY_ADD(SHAPE, LANES, 0, s0) MULTIPLY_ADD(SHAPE, LANES, 1, s1)                                  \
      MULTIPLY_ADD(SHAPE, LANES, 2, s2) MULTIPLY_ADD(SHAPE, LANES, 3, s3)                                  \
      MULTIPLY_ADD(SHAPE, LANES, 4, s0) MULTIPLY_ADD(SHAPE, LANES, 5, s1)                                  \
      MULTIPLY_ADD(SHAPE, LANES, 6, s2) MULTIPLY_ADD(SHAPE, LANES, 7, s3)                                  \
    }                                                                                                      \
    for (; (u32)n - i >= LANES; i += LANES) MULTIPLY_ADD(SHAPE, LANES, 0, s0)                              \
    s0 = wasm_##SHAPE##_add(wasm_##SHAPE##_add(s0, s1), wasm_##SHAPE##_add(s2, s3));                       \
    T sum = TOTAL;                                                                                         \
    for (; i < (u32)n; i++) sum += a[i] * b[i];                                                            \
    *(T *)args[2] += sum;                                                                                  \
  }
#define MULTIPLY_ADD(SHAPE, LANES, K, S)                                                                   \
  S = wasm_##SHAPE##_add(S, wasm_##SHAPE##_mul(LOAD(a + i + K * LANES), LOAD(b + i + K * LANES)));
#define LANE64(K) wasm_f64x2_extract_lane(s0, K)
#define LANE32(K) wasm_f32x4_extract_lane(s0, K)
SUM_PRODUCTS(double_sum_of_products_contig_contig_outstride0_two, f64, f64x2, 2, LANE64(0) + LANE64(1))
SUM_PRODUCTS(float_sum_of_products_contig_contig_outstride0_two, f32, f32x4, 4, (LANE32(0) + LANE32(1)) + (LANE32(2) + LANE32(3)))
