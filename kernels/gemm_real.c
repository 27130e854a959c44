// The inner loops of real matrix products: OpenBLAS' dgemm_kernel and sgemm_kernel, C += alpha * A * B for packed blocks.
// gemm_tiles.h says how. Tiles have 4x4 doubles or 8x4 floats; the original's have 2x2 and no SIMD.
#include "gemm_tiles.h"

// ---- double

INLINE void tile_f64(const int a_panels, const int b_panels, index_t k, v128_t alpha, const double *a, const double *b,
                     double *c, index_t ldc) {
  sums_f64 sums = sum_f64(a_panels, b_panels, k, a, a + 2 * k, 2, b, b + 2 * k, 2);
  UNROLL for (int j = 0; j < b_panels; j++) {
    UNROLL for (int i = 0; i < a_panels; i++) {
      double *first = c + 2 * i + 2 * j * ldc, *second = first + ldc;
      STORE(first, MULTIPLY_ADD_F64(first_column(&sums, i, j), alpha, LOAD(first)));
      STORE(second, MULTIPLY_ADD_F64(second_column(&sums, i, j), alpha, LOAD(second)));
    }
  }
}

// One panel with another where at least one of them is odd.
INLINE void edge_f64(const int rows, const int columns, index_t k, double alpha, const double *a, const double *b,
                     double *c, index_t ldc) {
  double sum[2][2] = {{0, 0}, {0, 0}};
  for (index_t i = 0; i < k; i++, a += rows, b += columns) {
    UNROLL for (int s = 0; s < rows * columns; s++) sum[s / columns][s % columns] += a[s / columns] * b[s % columns];
  }
  UNROLL for (int s = 0; s < rows * columns; s++) c[s / columns + s % columns * ldc] += alpha * sum[s / columns][s % columns];
}

INLINE void columns_f64(const int panels, index_t m, index_t k, double alpha, const double *a, const double *b, double *c,
                        index_t ldc) {
  v128_t factor = wasm_f64x2_splat(alpha);
  for (; m >= 4; m -= 4, a += 4 * k, c += 4) tile_f64(2, panels, k, factor, a, b, c, ldc);
  if (m & 2) tile_f64(1, panels, k, factor, a, b, c, ldc), a += 2 * k, c += 2;
  if (m & 1) {
    for (int j = 0; j < panels; j++) edge_f64(1, 2, k, alpha, a, b + 2 * j * k, c + 2 * j * ldc, ldc);
  }
}

int dgemm_kernel(index_t m, index_t n, index_t k, double alpha, double *a, double *b, double *c, index_t ldc) {
  for (; n >= 4; n -= 4, b += 4 * k, c += 4 * ldc) columns_f64(2, m, k, alpha, a, b, c, ldc);
  if (n & 2) columns_f64(1, m, k, alpha, a, b, c, ldc), b += 2 * k, c += 2 * ldc;
  if (n & 1) {
    for (; m >= 2; m -= 2, a += 2 * k, c += 2) edge_f64(2, 1, k, alpha, a, b, c, ldc);
    if (m) edge_f64(1, 1, k, alpha, a, b, c, ldc);
  }
  return 0;
}

// ---- float

INLINE v128_t two_panels(const float *first, const float *second) {
  return wasm_v128_load64_lane(second, wasm_v128_load64_zero(first), 1);
}

// 4 or 8 rows with 4 columns.
INLINE void tile_f32(const int vectors, index_t k, v128_t alpha, const float *a, const float *b, float *c, index_t ldc) {
  sums_f32 sums = no_sums_f32();
  const float *a_at[4] = {a, a + 2 * k, a + 4 * k, a + 6 * k}, *b_at[2] = {b, b + 2 * k};
  for (index_t left = k; left > 0;) {
    UNROLL for (int step = 0; step < STEPS; step++) {
      v128_t y = two_panels(b_at[0] + 2 * step, b_at[1] + 2 * step);
      UNROLL for (int i = 0; i < vectors; i++) {
        add_step_f32(&sums, i, two_panels(a_at[2 * i] + 2 * step, a_at[2 * i + 1] + 2 * step), y);
      }
      if (--left == 0) goto done;
    }
    UNROLL for (int i = 0; i < 4; i++) a_at[i] += 2 * STEPS;
    UNROLL for (int i = 0; i < 2; i++) b_at[i] += 2 * STEPS;
  }
done:
  UNROLL for (int i = 0; i < vectors; i++) {
    const v128_t *by = sums.by[i];  // element r of column c is in by[r ^ c]
    v128_t even_first = wasm_i32x4_shuffle(by[0], by[1], 0, 5, 2, 7), odd_first = wasm_i32x4_shuffle(by[1], by[0], 0, 5, 2, 7);
    v128_t even_last = wasm_i32x4_shuffle(by[2], by[3], 0, 5, 2, 7), odd_last = wasm_i32x4_shuffle(by[3], by[2], 0, 5, 2, 7);
    v128_t column[4] = {
        wasm_i64x2_shuffle(even_first, even_last, 0, 3), wasm_i64x2_shuffle(odd_first, odd_last, 0, 3),
        wasm_i64x2_shuffle(even_last, even_first, 0, 3), wasm_i64x2_shuffle(odd_last, odd_first, 0, 3)};
    UNROLL for (int j = 0; j < 4; j++) {
      float *at = c + 4 * i + j * ldc;
      STORE(at, MULTIPLY_ADD_F32(column[j], alpha, LOAD(at)));
    }
  }
}

INLINE void edge_f32(const int rows, const int columns, index_t k, float alpha, const float *a, const float *b, float *c,
                     index_t ldc) {
  float sum[2][2] = {{0, 0}, {0, 0}};
  for (index_t i = 0; i < k; i++, a += rows, b += columns) {
    UNROLL for (int s = 0; s < rows * columns; s++) sum[s / columns][s % columns] += a[s / columns] * b[s % columns];
  }
  UNROLL for (int s = 0; s < rows * columns; s++) c[s / columns + s % columns * ldc] += alpha * sum[s / columns][s % columns];
}

// 4 rows per vector with the 2 columns of one panel, as in sum_f64. OpenBLAS asks for 6 columns at a time, so this is common.
INLINE void tall_tile_f32(const int vectors, index_t k, v128_t alpha, const float *a, const float *b, float *c, index_t ldc) {
  v128_t straight[4], crossed[4];
  const float *a_at[8];
  UNROLL for (int i = 0; i < 4; i++) straight[i] = crossed[i] = wasm_f32x4_const_splat(0);
  UNROLL for (int i = 0; i < 8; i++) a_at[i] = a + 2 * i * k;
  for (index_t left = k; left > 0;) {
    UNROLL for (int step = 0; step < STEPS; step++) {
      v128_t y = wasm_v128_load64_splat(b + 2 * step), swapped = wasm_i32x4_shuffle(y, y, 1, 0, 3, 2);
      UNROLL for (int i = 0; i < vectors; i++) {
        v128_t x = two_panels(a_at[2 * i] + 2 * step, a_at[2 * i + 1] + 2 * step);
        straight[i] = MULTIPLY_ADD_F32(x, y, straight[i]);
        crossed[i] = MULTIPLY_ADD_F32(x, swapped, crossed[i]);
      }
      if (--left == 0) goto done;
    }
    UNROLL for (int i = 0; i < 8; i++) a_at[i] += 2 * STEPS;
    b += 2 * STEPS;
  }
done:
  UNROLL for (int i = 0; i < vectors; i++) {
    float *first = c + 4 * i, *second = first + ldc;
    STORE(first, MULTIPLY_ADD_F32(wasm_i32x4_shuffle(straight[i], crossed[i], 0, 5, 2, 7), alpha, LOAD(first)));
    STORE(second, MULTIPLY_ADD_F32(wasm_i32x4_shuffle(crossed[i], straight[i], 0, 5, 2, 7), alpha, LOAD(second)));
  }
}

INLINE void panel_f32(const int columns, index_t m, index_t k, float alpha, const float *a, const float *b, float *c,
                      index_t ldc) {
  v128_t factor = wasm_f32x4_splat(alpha);
  for (; columns == 2 && m >= 16; m -= 16, a += 16 * k, c += 16) tall_tile_f32(4, k, factor, a, b, c, ldc);
  for (; columns == 2 && m >= 4; m -= 4, a += 4 * k, c += 4) tall_tile_f32(1, k, factor, a, b, c, ldc);
  for (; m >= 2; m -= 2, a += 2 * k, c += 2) edge_f32(2, columns, k, alpha, a, b, c, ldc);
  if (m) edge_f32(1, columns, k, alpha, a, b, c, ldc);
}

int sgemm_kernel(index_t m, index_t n, index_t k, float alpha, float *a, float *b, float *c, index_t ldc) {
  v128_t factor = wasm_f32x4_splat(alpha);
  for (; n >= 4; n -= 4, b += 4 * k, c += 4 * ldc) {
    const float *x = a;
    float *at = c;
    index_t rows = m;
    for (; rows >= 8; rows -= 8, x += 8 * k, at += 8) tile_f32(2, k, factor, x, b, at, ldc);
    if (rows & 4) tile_f32(1, k, factor, x, b, at, ldc), x += 4 * k, at += 4;
    for (int j = 0; j < 2; j++) panel_f32(2, rows & 3, k, alpha, x, b + 2 * j * k, at + 2 * j * ldc, ldc);
  }
  if (n & 2) panel_f32(2, m, k, alpha, a, b, c, ldc), b += 2 * k, c += 2 * ldc;
  if (n & 1) panel_f32(1, m, k, alpha, a, b, c, ldc);
  return 0;
}
