// Vectors and matrices with vectors, for double and float: OpenBLAS' level 1 and 2. Included with these set:
//
//   REAL        the type                    VECTOR(op)   wasm_f64x2_##op or wasm_f32x4_##op
//   LANES       how many a vector has       KERNEL(name) d##name or s##name
//   MULTIPLY_ADD
//
// All of these are bound by loads and stores: several vectors per round, several columns at a time where there are some.
// Sums are kept in several parts, so they are taken in another order than the original's, which adds one number after the
// other. Both are within n * epsilon * sum(|x * y|) of the exact value, where epsilon is 2^-53 or 2^-24; ours is closer as a
// rule.
#include "kernels.h"

#define BLOCK 1024  // numbers of a sum that are added up as they are

INLINE REAL sum_of(v128_t a, v128_t b, v128_t c, v128_t d) {
  v128_t all = VECTOR(add)(VECTOR(add)(a, b), VECTOR(add)(c, d));
  all = VECTOR(add)(all, wasm_i64x2_shuffle(all, all, 1, 0));
  REAL sum = VECTOR(extract_lane)(all, 0);
  return LANES == 4 ? sum + VECTOR(extract_lane)(all, 1) : sum;
}

INLINE REAL dot_block(index_t n, const REAL *x, const REAL *y) {
  v128_t part[4];
  UNROLL for (int p = 0; p < 4; p++) part[p] = VECTOR(const_splat)(0);
  index_t i = 0;
  for (; i + 8 * LANES <= n; i += 8 * LANES) {
    UNROLL for (int p = 0; p < 8; p++) {
      part[p % 4] = MULTIPLY_ADD(LOAD(x + i + p * LANES), LOAD(y + i + p * LANES), part[p % 4]);
    }
  }
  for (; i + LANES <= n; i += LANES) part[0] = MULTIPLY_ADD(LOAD(x + i), LOAD(y + i), part[0]);
  REAL sum = sum_of(part[0], part[1], part[2], part[3]);
  for (; i < n; i++) sum += x[i] * y[i];
  return sum;
}

// Floats are summed up as doubles, as the original does; here, block by block.
REAL KERNEL(dot_k)(index_t n, REAL *x, index_t x_step, REAL *y, index_t y_step) {
  double sum = 0;
  if (x_step == 1 && y_step == 1) {
    for (; n > BLOCK; n -= BLOCK, x += BLOCK, y += BLOCK) sum += dot_block(BLOCK, x, y);
    return sum + dot_block(n, x, y);
  }
  for (; n > 0; n--, x += x_step, y += y_step) sum += *x * *y;
  return sum;
}

int KERNEL(axpy_k)(index_t n, index_t unused, index_t unused_too, REAL a, REAL *x, index_t x_step, REAL *y, index_t y_step,
                   REAL *nothing, index_t nothing_too) {
  (void)unused, (void)unused_too, (void)nothing, (void)nothing_too;
  if (n <= 0 || a == 0) return 0;
  index_t i = 0;
  if (x_step == 1 && y_step == 1) {
    v128_t factor = VECTOR(splat)(a);
    for (; i + 4 * LANES <= n; i += 4 * LANES) {
      UNROLL for (int p = 0; p < 4; p++) {
        REAL *at = y + i + p * LANES;
        STORE(at, MULTIPLY_ADD(factor, LOAD(x + i + p * LANES), LOAD(at)));
      }
    }
    for (; i < n; i++) y[i] += a * x[i];
    return 0;
  }
  for (; i < n; i++, x += x_step, y += y_step) *y += a * *x;
  return 0;
}

int KERNEL(copy_k)(index_t n, REAL *x, index_t x_step, REAL *y, index_t y_step) {
  if (n <= 0) return 0;
  if (x_step == 1 && y_step == 1) {
    index_t i = 0;
    for (; i + 4 * LANES <= n; i += 4 * LANES) {
      UNROLL for (int p = 0; p < 4; p++) STORE(y + i + p * LANES, LOAD(x + i + p * LANES));
    }
    for (; i < n; i++) y[i] = x[i];
    return 0;
  }
  for (; n >= 4; n -= 4) {
    UNROLL for (int p = 0; p < 4; p++) *y = *x, x += x_step, y += y_step;
  }
  for (; n > 0; n--, x += x_step, y += y_step) *y = *x;
  return 0;
}

int KERNEL(rot_k)(index_t n, REAL *x, index_t x_step, REAL *y, index_t y_step, REAL c, REAL s) {
  index_t i = 0;
  if (x_step == 1 && y_step == 1) {
    v128_t cosine = VECTOR(splat)(c), sine = VECTOR(splat)(s);
    for (; i + 2 * LANES <= n; i += 2 * LANES) {
      UNROLL for (int p = 0; p < 2; p++) {
        REAL *x_at = x + i + p * LANES, *y_at = y + i + p * LANES;
        v128_t a = LOAD(x_at), b = LOAD(y_at);
        STORE(x_at, VECTOR(add)(VECTOR(mul)(cosine, a), VECTOR(mul)(sine, b)));
        STORE(y_at, VECTOR(sub)(VECTOR(mul)(cosine, b), VECTOR(mul)(sine, a)));
      }
    }
    x += i, y += i;
  }
  for (; i < n; i++, x += x_step, y += y_step) {
    REAL a = *x, b = *y;
    *x = c * a + s * b;
    *y = c * b - s * a;
  }
  return 0;
}

// y += alpha * A * x, a column of A at a time as the definition has it: four of them share one pass over y.
int KERNEL(gemv_n)(index_t m, index_t n, index_t unused, REAL alpha, REAL *a, index_t lda, REAL *x, index_t x_step, REAL *y,
                   index_t y_step, REAL *buffer) {
  (void)unused, (void)buffer;
  index_t j = 0;
  for (; y_step == 1 && j + 4 <= n; j += 4, a += 4 * lda) {
    REAL factor[4];
    v128_t factors[4];
    UNROLL for (int q = 0; q < 4; q++) {
      factor[q] = alpha * *x;
      factors[q] = VECTOR(splat)(factor[q]);
      x += x_step;
    }
    const REAL *a1 = a + lda, *a2 = a1 + lda, *a3 = a2 + lda;
    index_t i = 0;
    for (; i + 4 * LANES <= m; i += 4 * LANES) {
      UNROLL for (int p = 0; p < 4; p++) {
        index_t at = i + p * LANES;
        v128_t sum = LOAD(y + at);
        sum = MULTIPLY_ADD(factors[0], LOAD(a + at), sum);
        sum = MULTIPLY_ADD(factors[1], LOAD(a1 + at), sum);
        sum = MULTIPLY_ADD(factors[2], LOAD(a2 + at), sum);
        STORE(y + at, MULTIPLY_ADD(factors[3], LOAD(a3 + at), sum));
      }
    }
    for (; i < m; i++) {
      REAL sum = y[i];
      sum += factor[0] * a[i];
      sum += factor[1] * a1[i];
      sum += factor[2] * a2[i];
      y[i] = sum + factor[3] * a3[i];
    }
  }
  for (; j < n; j++, a += lda, x += x_step) {
    REAL factor = alpha * *x, *at = y;
    index_t i = 0;
    if (y_step == 1) {
      v128_t factors = VECTOR(splat)(factor);
      for (; i + LANES <= m; i += LANES) STORE(y + i, MULTIPLY_ADD(factors, LOAD(a + i), LOAD(y + i)));
      at += i;
    }
    for (; i < m; i++, at += y_step) *at += factor * a[i];
  }
  return 0;
}

// y += alpha * A' * x: a sum for each column of A, four at a time.
int KERNEL(gemv_t)(index_t m, index_t n, index_t unused, REAL alpha, REAL *a, index_t lda, REAL *x, index_t x_step, REAL *y,
                   index_t y_step, REAL *buffer) {
  (void)unused, (void)buffer;
  index_t j = 0;
  for (; x_step == 1 && j + 4 <= n; j += 4, a += 4 * lda) {
    const REAL *column[4] = {a, a + lda, a + 2 * lda, a + 3 * lda};
    v128_t part[4][2];
    UNROLL for (int q = 0; q < 4; q++) part[q][0] = part[q][1] = VECTOR(const_splat)(0);
    index_t i = 0;
    for (; i + 4 * LANES <= m; i += 4 * LANES) {
      UNROLL for (int p = 0; p < 4; p++) {
        v128_t value = LOAD(x + i + p * LANES);
        UNROLL for (int q = 0; q < 4; q++) {
          part[q][p % 2] = MULTIPLY_ADD(LOAD(column[q] + i + p * LANES), value, part[q][p % 2]);
        }
      }
    }
    v128_t zero = VECTOR(const_splat)(0);
    REAL sum[4];
    UNROLL for (int q = 0; q < 4; q++) sum[q] = sum_of(part[q][0], part[q][1], zero, zero);
    for (; i < m; i++) {
      UNROLL for (int q = 0; q < 4; q++) sum[q] += column[q][i] * x[i];
    }
    UNROLL for (int q = 0; q < 4; q++) {
      *y += alpha * sum[q];
      y += y_step;
    }
  }
  for (; j < n; j++, a += lda, y += y_step) *y += alpha * KERNEL(dot_k)(m, a, 1, x, x_step);
  return 0;
}
