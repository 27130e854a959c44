// Sums of products for tiles of matrix products: what all of OpenBLAS' level 3 comes down to.
//
// OpenBLAS packs A in panels of 2 rows and B in panels of 2 columns, k by k; an odd row or column at the end is a panel of its
// own. A tile takes several panels. Each element is the sum of its products in the order of k, each product and each sum rounded,
// as the definition has it.
//
// A vector of A is multiplied with a vector of B in all its rotations, which needs fewer loads than one number of B at a time.
// So a sum holds elements of several columns, and only in the end they are put in order.
#pragma once
#include "kernels.h"

#define STEPS 16  // of k between two epoch checks, at which wasmtime keeps all sums in memory

// For up to two pairs of numbers of A (x0, x1) with up to two of B (y0, y1):
//   straight[a][b] = sum of (x0 * y0, x1 * y1), crossed[a][b] = sum of (x0 * y1, x1 * y0).
// `a_next` and `b_next` are how far the next k is.
typedef struct {
  v128_t straight[2][2], crossed[2][2];
} sums_f64;

INLINE sums_f64 sum_f64(const int a_pairs, const int b_pairs, index_t k, const double *a, const double *a_second,
                        const int a_next, const double *b, const double *b_second, const int b_next) {
  sums_f64 sums;
  UNROLL for (int i = 0; i < 4; i++) sums.straight[i / 2][i % 2] = sums.crossed[i / 2][i % 2] = wasm_f64x2_const_splat(0);
  const double *a_at[2] = {a, a_second}, *b_at[2] = {b, b_second};
  for (index_t left = k; left > 0;) {
    UNROLL for (int step = 0; step < STEPS; step++) {
      v128_t x[2];
      UNROLL for (int i = 0; i < a_pairs; i++) x[i] = LOAD(a_at[i] + a_next * step);
      UNROLL for (int j = 0; j < b_pairs; j++) {
        v128_t y = LOAD(b_at[j] + b_next * step), swapped = wasm_i64x2_shuffle(y, y, 1, 0);
        UNROLL for (int i = 0; i < a_pairs; i++) {
          sums.straight[i][j] = MULTIPLY_ADD_F64(x[i], y, sums.straight[i][j]);
          sums.crossed[i][j] = MULTIPLY_ADD_F64(x[i], swapped, sums.crossed[i][j]);
        }
      }
      if (--left == 0) return sums;
    }
    UNROLL for (int i = 0; i < 2; i++) a_at[i] += a_next * STEPS, b_at[i] += b_next * STEPS;
  }
  return sums;
}

// The columns of a tile of real numbers, from its sums.
INLINE v128_t first_column(const sums_f64 *sums, int a, int b) {
  return wasm_i64x2_shuffle(sums->straight[a][b], sums->crossed[a][b], 0, 3);
}
INLINE v128_t second_column(const sums_f64 *sums, int a, int b) {
  return wasm_i64x2_shuffle(sums->crossed[a][b], sums->straight[a][b], 0, 3);
}

// For up to two vectors of 4 floats of A with one of B: element i of by[a][q] is the sum of x[i] * y[i ^ q].
typedef struct {
  v128_t by[2][4];
} sums_f32;

INLINE void add_step_f32(sums_f32 *sums, const int a, v128_t x, v128_t y) {
  sums->by[a][0] = MULTIPLY_ADD_F32(x, y, sums->by[a][0]);
  sums->by[a][1] = MULTIPLY_ADD_F32(x, wasm_i32x4_shuffle(y, y, 1, 0, 3, 2), sums->by[a][1]);
  sums->by[a][2] = MULTIPLY_ADD_F32(x, wasm_i32x4_shuffle(y, y, 2, 3, 0, 1), sums->by[a][2]);
  sums->by[a][3] = MULTIPLY_ADD_F32(x, wasm_i32x4_shuffle(y, y, 3, 2, 1, 0), sums->by[a][3]);
}
INLINE sums_f32 no_sums_f32(void) {
  sums_f32 sums;
  UNROLL for (int i = 0; i < 8; i++) sums.by[i / 4][i % 4] = wasm_f32x4_const_splat(0);
  return sums;
}
