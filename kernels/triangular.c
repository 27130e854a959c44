// Triangular matrices: OpenBLAS' kernels of dtrsm (solve) and dtrmm (multiply) for packed blocks, as LU, Cholesky, QR and inverses
// use them. gemm_tiles.h says how blocks are packed. The originals take 2x2 numbers at a time, and call dgemm_kernel for these.
//
// Solving: what is known is subtracted by tiles of 4x4, and the triangles on the diagonal are solved panel by panel. There,
// OpenBLAS has packed the inverses of the diagonal. A solution goes to C, and to the packed block for those that come after.
#include "gemm_tiles.h"

// C -= A * B over `count` steps, for one or two panels of each.
INLINE void subtract(const int a_panels, const int b_panels, index_t count, const double *a, const double *a_second,
                     const double *b, const double *b_second, double *c, index_t ldc) {
  sums_f64 sums = sum_f64(a_panels, b_panels, count, a, a_second, 2, b, b_second, 2);
  UNROLL for (int j = 0; j < b_panels; j++) {
    UNROLL for (int i = 0; i < a_panels; i++) {
      double *first = c + 2 * i + 2 * j * ldc, *second = first + ldc;
      STORE(first, wasm_f64x2_sub(LOAD(first), first_column(&sums, i, j)));
      STORE(second, wasm_f64x2_sub(LOAD(second), second_column(&sums, i, j)));
    }
  }
}

// The same with panels that may be odd.
INLINE void subtract_edge(const int rows, const int columns, index_t count, const double *a, const double *b, double *c,
                          index_t ldc) {
  double sum[2][2] = {{0, 0}, {0, 0}};
  for (index_t i = 0; i < count; i++, a += rows, b += columns) {
    UNROLL for (int s = 0; s < rows * columns; s++) sum[s / columns][s % columns] += a[s / columns] * b[s % columns];
  }
  UNROLL for (int s = 0; s < rows * columns; s++) c[s / columns + s % columns * ldc] -= sum[s / columns][s % columns];
}

// A panel on the diagonal, from its first row on; `a` is the triangle, `b` where solutions are packed.
INLINE void solve_down(const int rows, const int columns, const double *a, double *b, double *c, index_t ldc) {
  UNROLL for (int i = 0; i < rows; i++) {
    UNROLL for (int j = 0; j < columns; j++) {
      double solution = c[i + j * ldc] * a[i * rows + i];
      b[i * columns + j] = c[i + j * ldc] = solution;
      if (i + 1 < rows) c[i + 1 + j * ldc] -= solution * a[i * rows + i + 1];
    }
  }
}

// The same from its last row on.
INLINE void solve_up(const int rows, const int columns, const double *a, double *b, double *c, index_t ldc) {
  UNROLL for (int i = rows - 1; i >= 0; i--) {
    UNROLL for (int j = 0; j < columns; j++) {
      double solution = c[i + j * ldc] * a[i * rows + i];
      b[i * columns + j] = c[i + j * ldc] = solution;
      if (i > 0) c[i - 1 + j * ldc] -= solution * a[i * rows + i - 1];
    }
  }
}

// The triangle is B, and solutions are packed in `a`; from the first column on.
INLINE void solve_right(const int rows, const int columns, double *a, const double *b, double *c, index_t ldc) {
  UNROLL for (int j = 0; j < columns; j++) {
    UNROLL for (int i = 0; i < rows; i++) {
      double solution = c[i + j * ldc] * b[j * columns + j];
      a[j * rows + i] = c[i + j * ldc] = solution;
      if (j + 1 < columns) c[i + (j + 1) * ldc] -= solution * b[j * columns + j + 1];
    }
  }
}

// ---- A X = C from above

INLINE void down_panels(const int panels, index_t m, index_t k, const double *a, double *b, double *c, index_t ldc, index_t known) {
  double *b_second = b + 2 * k;
  for (; m >= 4; m -= 4, a += 4 * k, c += 4, known += 4) {
    const double *a_second = a + 2 * k;
    subtract(2, panels, known, a, a_second, b, b_second, c, ldc);
    for (int j = 0; j < panels; j++) solve_down(2, 2, a + 2 * known, b + 2 * j * k + 2 * known, c + 2 * j * ldc, ldc);
    subtract(1, panels, 2, a_second + 2 * known, a, b + 2 * known, b_second + 2 * known, c + 2, ldc);
    for (int j = 0; j < panels; j++) {
      solve_down(2, 2, a_second + 2 * known + 4, b + 2 * j * k + 2 * known + 4, c + 2 + 2 * j * ldc, ldc);
    }
  }
  if (m & 2) {
    subtract(1, panels, known, a, a, b, b_second, c, ldc);
    for (int j = 0; j < panels; j++) solve_down(2, 2, a + 2 * known, b + 2 * j * k + 2 * known, c + 2 * j * ldc, ldc);
    a += 2 * k, c += 2, known += 2;
  }
  for (int j = 0; j < panels && m & 1; j++) {
    subtract_edge(1, 2, known, a, b + 2 * j * k, c + 2 * j * ldc, ldc);
    solve_down(1, 2, a + known, b + 2 * j * k + 2 * known, c + 2 * j * ldc, ldc);
  }
}

int dtrsm_kernel_LT(index_t m, index_t n, index_t k, double unused, double *a, double *b, double *c, index_t ldc, index_t offset) {
  (void)unused;
  for (; n >= 4; n -= 4, b += 4 * k, c += 4 * ldc) down_panels(2, m, k, a, b, c, ldc, offset);
  if (n & 2) down_panels(1, m, k, a, b, c, ldc, offset), b += 2 * k, c += 2 * ldc;
  if (n & 1) {
    index_t known = offset;
    for (; m >= 2; m -= 2, a += 2 * k, c += 2, known += 2) {
      subtract_edge(2, 1, known, a, b, c, ldc);
      solve_down(2, 1, a + 2 * known, b + known, c, ldc);
    }
    if (m) {
      subtract_edge(1, 1, known, a, b, c, ldc);
      solve_down(1, 1, a + known, b + known, c, ldc);
    }
  }
  return 0;
}

// ---- A X = C from below

INLINE void up_panels(const int panels, index_t m, index_t k, const double *a, double *b, double *c, index_t ldc, index_t known) {
  double *b_second = b + 2 * k;
  if (m & 1) {
    const double *last = a + (m - 1) * k;
    for (int j = 0; j < panels; j++) {
      double *column = b + 2 * j * k, *at = c + m - 1 + 2 * j * ldc;
      subtract_edge(1, 2, k - known, last + known, column + 2 * known, at, ldc);
      solve_up(1, 2, last + known - 1, column + 2 * (known - 1), at, ldc);
    }
    m--, known--;
  }
  if (m & 2) {
    m -= 2;
    const double *panel = a + m * k;
    subtract(1, panels, k - known, panel + 2 * known, a, b + 2 * known, b_second + 2 * known, c + m, ldc);
    known -= 2;
    for (int j = 0; j < panels; j++) solve_up(2, 2, panel + 2 * known, b + 2 * j * k + 2 * known, c + m + 2 * j * ldc, ldc);
  }
  while (m > 0) {
    m -= 4;
    const double *upper = a + m * k, *lower = upper + 2 * k;
    double *at = c + m;
    subtract(2, panels, k - known, upper + 2 * known, lower + 2 * known, b + 2 * known, b_second + 2 * known, at, ldc);
    known -= 2;
    for (int j = 0; j < panels; j++) solve_up(2, 2, lower + 2 * known, b + 2 * j * k + 2 * known, at + 2 + 2 * j * ldc, ldc);
    subtract(1, panels, 2, upper + 2 * known, a, b + 2 * known, b_second + 2 * known, at, ldc);
    known -= 2;
    for (int j = 0; j < panels; j++) solve_up(2, 2, upper + 2 * known, b + 2 * j * k + 2 * known, at + 2 * j * ldc, ldc);
  }
}

int dtrsm_kernel_LN(index_t m, index_t n, index_t k, double unused, double *a, double *b, double *c, index_t ldc, index_t offset) {
  (void)unused;
  for (; n >= 4; n -= 4, b += 4 * k, c += 4 * ldc) up_panels(2, m, k, a, b, c, ldc, m + offset);
  if (n & 2) up_panels(1, m, k, a, b, c, ldc, m + offset), b += 2 * k, c += 2 * ldc;
  if (n & 1) {
    index_t known = m + offset;
    if (m & 1) {
      m--;
      subtract_edge(1, 1, k - known, a + m * k + known, b + known, c + m, ldc);
      known--;
      solve_up(1, 1, a + m * k + known, b + known, c + m, ldc);
    }
    while (m > 0) {
      m -= 2;
      subtract_edge(2, 1, k - known, a + m * k + 2 * known, b + known, c + m, ldc);
      known -= 2;
      solve_up(2, 1, a + m * k + 2 * known, b + known, c + m, ldc);
    }
  }
  return 0;
}

// ---- X B = C from the left

INLINE void right_panel(index_t m, index_t k, double *a, const double *b, double *c, index_t ldc, index_t known) {
  for (; m >= 4; m -= 4, a += 4 * k, c += 4) {
    subtract(2, 1, known, a, a + 2 * k, b, b, c, ldc);
    for (int i = 0; i < 2; i++) solve_right(2, 2, a + 2 * i * k + 2 * known, b + 2 * known, c + 2 * i, ldc);
  }
  if (m & 2) {
    subtract(1, 1, known, a, a, b, b, c, ldc);
    solve_right(2, 2, a + 2 * known, b + 2 * known, c, ldc);
    a += 2 * k, c += 2;
  }
  if (m & 1) {
    subtract_edge(1, 2, known, a, b, c, ldc);
    solve_right(1, 2, a + known, b + 2 * known, c, ldc);
  }
}

int dtrsm_kernel_RN(index_t m, index_t n, index_t k, double unused, double *a, double *b, double *c, index_t ldc, index_t offset) {
  (void)unused;
  index_t known = -offset;
  for (; n >= 2; n -= 2, b += 2 * k, c += 2 * ldc, known += 2) right_panel(m, k, a, b, c, ldc, known);
  if (n) {
    for (; m >= 2; m -= 2, a += 2 * k, c += 2) {
      subtract_edge(2, 1, known, a, b, c, ldc);
      solve_right(2, 1, a + 2 * known, b + known, c, ldc);
    }
    if (m) {
      subtract_edge(1, 1, known, a, b, c, ldc);
      solve_right(1, 1, a + known, b + known, c, ldc);
    }
  }
  return 0;
}

// ---- C = alpha * A * B, where A or B is triangular: of each panel only the steps from `from` on, `count` of them

INLINE void multiply(const int a_panels, const int b_panels, index_t count, double alpha, const double *a,
                     const double *a_second, const double *b, const double *b_second, double *c, index_t ldc) {
  sums_f64 sums = sum_f64(a_panels, b_panels, count, a, a_second, 2, b, b_second, 2);
  v128_t factor = wasm_f64x2_splat(alpha);
  UNROLL for (int j = 0; j < b_panels; j++) {
    UNROLL for (int i = 0; i < a_panels; i++) {
      double *first = c + 2 * i + 2 * j * ldc;
      STORE(first, wasm_f64x2_mul(first_column(&sums, i, j), factor));
      STORE(first + ldc, wasm_f64x2_mul(second_column(&sums, i, j), factor));
    }
  }
}

INLINE void multiply_edge(const int rows, const int columns, index_t count, double alpha, const double *a, const double *b,
                          double *c, index_t ldc) {
  double sum[2][2] = {{0, 0}, {0, 0}};
  for (index_t i = 0; i < count; i++, a += rows, b += columns) {
    UNROLL for (int s = 0; s < rows * columns; s++) sum[s / columns][s % columns] += a[s / columns] * b[s % columns];
  }
  UNROLL for (int s = 0; s < rows * columns; s++) c[s / columns + s % columns * ldc] = alpha * sum[s / columns][s % columns];
}

// B is triangular: columns decide what counts. `whole_end`: steps up to the diagonal count, otherwise those from it on.
INLINE void multiply_right(const int to_diagonal, index_t m, index_t n, index_t k, double alpha, double *a, double *b,
                           double *c, index_t ldc, index_t diagonal) {
  for (; n > 0; n -= 2, b += 2 * k, c += 2 * ldc, diagonal += 2) {
    const int odd = n == 1;
    index_t from = to_diagonal ? 0 : diagonal, count = to_diagonal ? diagonal + (odd ? 1 : 2) : k - diagonal;
    const double *x = a, *y = b + (odd ? 1 : 2) * from;
    double *at = c;
    index_t rows = m;
    for (; !odd && rows >= 4; rows -= 4, x += 4 * k, at += 4) {
      multiply(2, 1, count, alpha, x + 2 * from, x + 2 * k + 2 * from, y, y, at, ldc);
    }
    for (; rows >= 2; rows -= 2, x += 2 * k, at += 2) {
      if (odd) multiply_edge(2, 1, count, alpha, x + 2 * from, y, at, ldc);
      else multiply(1, 1, count, alpha, x + 2 * from, x, y, y, at, ldc);
    }
    if (rows && odd) multiply_edge(1, 1, count, alpha, x + from, y, at, ldc);
    else if (rows) multiply_edge(1, 2, count, alpha, x + from, y, at, ldc);
  }
}

// A is triangular: rows decide.
INLINE void multiply_left(const int to_diagonal, index_t m, index_t n, index_t k, double alpha, double *a, double *b,
                          double *c, index_t ldc, index_t diagonal) {
  for (; m > 0; m -= 2, a += 2 * k, c += 2, diagonal += 2) {
    const int odd = m == 1;
    index_t from = to_diagonal ? 0 : diagonal, count = to_diagonal ? diagonal + (odd ? 1 : 2) : k - diagonal;
    const double *x = a + (odd ? 1 : 2) * from, *y = b;
    double *at = c;
    index_t columns = n;
    for (; !odd && columns >= 4; columns -= 4, y += 4 * k, at += 4 * ldc) {
      multiply(1, 2, count, alpha, x, x, y + 2 * from, y + 2 * k + 2 * from, at, ldc);
    }
    for (; columns >= 2; columns -= 2, y += 2 * k, at += 2 * ldc) {
      if (odd) multiply_edge(1, 2, count, alpha, x, y + 2 * from, at, ldc);
      else multiply(1, 1, count, alpha, x, x, y + 2 * from, y, at, ldc);
    }
    if (columns && odd) multiply_edge(1, 1, count, alpha, x, y + from, at, ldc);
    else if (columns) multiply_edge(2, 1, count, alpha, x, y + from, at, ldc);
  }
}

#define TRMM(name, side, to_diagonal, diagonal)                                                                         \
  int name(index_t m, index_t n, index_t k, double alpha, double *a, double *b, double *c, index_t ldc, index_t offset) { \
    side(to_diagonal, m, n, k, alpha, a, b, c, ldc, diagonal);                                                          \
    return 0;                                                                                                           \
  }

TRMM(dtrmm_kernel_LN, multiply_left, 0, offset)
TRMM(dtrmm_kernel_LT, multiply_left, 1, offset)
TRMM(dtrmm_kernel_RN, multiply_right, 1, -offset)
TRMM(dtrmm_kernel_RT, multiply_right, 0, -offset)
