// The inner loops of complex matrix products, OpenBLAS' zgemm_kernel_* and cgemm_kernel_*: C += alpha * A * B for packed blocks,
// where A (_l), B (_r) or both (_b) are conjugated. gemm_tiles.h says how blocks are packed; a number here is a pair.
//
// With x = (xr, xi) and y = (yr, yi), tiles give sums of (xr * yr, xi * yi) and (xr * yi, xi * yr). What is conjugated only
// decides how these are put together, so all four have the same loop.
#include "gemm_tiles.h"

// ---- complex double

// C += alpha * (straight0 -+ straight1, +-crossed0 +- crossed1)
INLINE void put_f64(const int conjugate_a, const int conjugate_b, v128_t straight, v128_t crossed, double alpha_r,
                    double alpha_i, double *c) {
  double s0 = wasm_f64x2_extract_lane(straight, 0), s1 = wasm_f64x2_extract_lane(straight, 1);
  double c0 = wasm_f64x2_extract_lane(crossed, 0), c1 = wasm_f64x2_extract_lane(crossed, 1);
  double real = conjugate_a == conjugate_b ? s0 - s1 : s0 + s1;
  double imaginary = (conjugate_b ? -c0 : c0) + (conjugate_a ? -c1 : c1);
  c[0] = c[0] + real * alpha_r - imaginary * alpha_i;
  c[1] = c[1] + imaginary * alpha_r + real * alpha_i;
}

INLINE void complex_tile_f64(const int rows, const int columns, const int conjugate_a, const int conjugate_b, index_t k,
                             double alpha_r, double alpha_i, const double *a, const double *b, double *c, index_t ldc) {
  sums_f64 sums = sum_f64(rows, columns, k, a, a + 2, 2 * rows, b, b + 2, 2 * columns);
  UNROLL for (int j = 0; j < columns; j++) {
    UNROLL for (int i = 0; i < rows; i++) {
      put_f64(conjugate_a, conjugate_b, sums.straight[i][j], sums.crossed[i][j], alpha_r, alpha_i, c + 2 * i + 2 * j * ldc);
    }
  }
}

#define ZGEMM(name, conjugate_a, conjugate_b)                                                                      \
  int name(index_t m, index_t n, index_t k, double alpha_r, double alpha_i, double *a, double *b, double *c,       \
           index_t ldc) {                                                                                          \
    for (; n > 0; n -= 2, b += 4 * k, c += 4 * ldc) {                                                              \
      const double *x = a;                                                                                         \
      double *at = c;                                                                                              \
      for (index_t i = m; i > 0; i -= 2, x += 4 * k, at += 4) {                                                    \
        if (n > 1 && i > 1) complex_tile_f64(2, 2, conjugate_a, conjugate_b, k, alpha_r, alpha_i, x, b, at, ldc);  \
        else if (n > 1) complex_tile_f64(1, 2, conjugate_a, conjugate_b, k, alpha_r, alpha_i, x, b, at, ldc);      \
        else if (i > 1) complex_tile_f64(2, 1, conjugate_a, conjugate_b, k, alpha_r, alpha_i, x, b, at, ldc);      \
        else complex_tile_f64(1, 1, conjugate_a, conjugate_b, k, alpha_r, alpha_i, x, b, at, ldc);                 \
      }                                                                                                            \
    }                                                                                                              \
    return 0;                                                                                                      \
  }

ZGEMM(zgemm_kernel_n, 0, 0)
ZGEMM(zgemm_kernel_l, 1, 0)
ZGEMM(zgemm_kernel_r, 0, 1)
ZGEMM(zgemm_kernel_b, 1, 1)

// ---- complex float

INLINE void put_f32(const int conjugate_a, const int conjugate_b, float s0, float s1, float c0, float c1, float alpha_r,
                    float alpha_i, float *c) {
  float real = conjugate_a == conjugate_b ? s0 - s1 : s0 + s1;
  float imaginary = (conjugate_b ? -c0 : c0) + (conjugate_a ? -c1 : c1);
  c[0] = c[0] + real * alpha_r - imaginary * alpha_i;
  c[1] = c[1] + imaginary * alpha_r + real * alpha_i;
}

// One or two panels of 2 rows with one of 2 columns. by[p][0] and by[p][1] have (row 0, column 0) and (row 1, column 1), by[p][2]
// and by[p][3] the other two.
INLINE void complex_tile_f32(const int panels, const int conjugate_a, const int conjugate_b, index_t k, float alpha_r,
                             float alpha_i, const float *a, const float *b, float *c, index_t ldc) {
  sums_f32 sums = no_sums_f32();
  const float *a_at[2] = {a, a + 4 * k};
  for (index_t left = k; left > 0;) {
    UNROLL for (int step = 0; step < STEPS; step++) {
      v128_t y = LOAD(b + 4 * step);
      UNROLL for (int p = 0; p < panels; p++) add_step_f32(&sums, p, LOAD(a_at[p] + 4 * step), y);
      if (--left == 0) goto done;
    }
    a_at[0] += 4 * STEPS, a_at[1] += 4 * STEPS, b += 4 * STEPS;
  }
done:
  UNROLL for (int p = 0; p < panels; p++) {
#define PUT(q, row, column)                                                                                           \
  put_f32(conjugate_a, conjugate_b, wasm_f32x4_extract_lane(sums.by[p][q], 2 * row),                                  \
          wasm_f32x4_extract_lane(sums.by[p][q], 2 * row + 1), wasm_f32x4_extract_lane(sums.by[p][q + 1], 2 * row),   \
          wasm_f32x4_extract_lane(sums.by[p][q + 1], 2 * row + 1), alpha_r, alpha_i,                                  \
          c + 4 * p + 2 * row + 2 * column * ldc);
    PUT(0, 0, 0) PUT(0, 1, 1) PUT(2, 0, 1) PUT(2, 1, 0)
#undef PUT
  }
}

// One panel with another where at least one of them is odd.
INLINE void complex_edge_f32(const int rows, const int columns, const int conjugate_a, const int conjugate_b, index_t k,
                             float alpha_r, float alpha_i, const float *a, const float *b, float *c, index_t ldc) {
  UNROLL for (int s = 0; s < rows * columns; s++) {
    const float *x = a + 2 * (s / columns), *y = b + 2 * (s % columns);
    float s0 = 0, s1 = 0, c0 = 0, c1 = 0;
    for (index_t i = 0; i < k; i++, x += 2 * rows, y += 2 * columns) {
      s0 += x[0] * y[0], s1 += x[1] * y[1], c0 += x[0] * y[1], c1 += x[1] * y[0];
    }
    put_f32(conjugate_a, conjugate_b, s0, s1, c0, c1, alpha_r, alpha_i, c + 2 * (s / columns) + 2 * (s % columns) * ldc);
  }
}

#define CGEMM(name, conjugate_a, conjugate_b)                                                                      \
  int name(index_t m, index_t n, index_t k, float alpha_r, float alpha_i, float *a, float *b, float *c,            \
           index_t ldc) {                                                                                          \
    for (; n > 0; n -= 2, b += 4 * k, c += 4 * ldc) {                                                              \
      const float *x = a;                                                                                          \
      float *at = c;                                                                                               \
      index_t i = m;                                                                                               \
      for (; n > 1 && i >= 4; i -= 4, x += 8 * k, at += 8) {                                                       \
        complex_tile_f32(2, conjugate_a, conjugate_b, k, alpha_r, alpha_i, x, b, at, ldc);                         \
      }                                                                                                            \
      for (; i > 0; i -= 2, x += 4 * k, at += 4) {                                                                 \
        if (n > 1 && i > 1) complex_tile_f32(1, conjugate_a, conjugate_b, k, alpha_r, alpha_i, x, b, at, ldc);     \
        else if (n > 1) complex_edge_f32(1, 2, conjugate_a, conjugate_b, k, alpha_r, alpha_i, x, b, at, ldc);      \
        else if (i > 1) complex_edge_f32(2, 1, conjugate_a, conjugate_b, k, alpha_r, alpha_i, x, b, at, ldc);      \
        else complex_edge_f32(1, 1, conjugate_a, conjugate_b, k, alpha_r, alpha_i, x, b, at, ldc);                 \
      }                                                                                                            \
    }                                                                                                              \
    return 0;                                                                                                      \
  }

CGEMM(cgemm_kernel_n, 0, 0)
CGEMM(cgemm_kernel_l, 1, 0)
CGEMM(cgemm_kernel_r, 0, 1)
CGEMM(cgemm_kernel_b, 1, 1)
