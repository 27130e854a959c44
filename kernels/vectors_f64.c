// Level 1 and 2 of OpenBLAS for double: see vectors.h. They are most of LAPACK's work on matrices of ordinary size.
#define REAL double
#define LANES 2
#define VECTOR(op) wasm_f64x2_##op
#define KERNEL(name) d##name
#define MULTIPLY_ADD MULTIPLY_ADD_F64
#include "vectors.h"

double original_dnrm2_k(index_t n, double *x, index_t step);

// The original divides by the largest number so far. The plain sum of squares will do unless it could have lost something.
double dnrm2_k(index_t n, double *x, index_t step) {
  if (n < 8 || step != 1) return original_dnrm2_k(n, x, step);
  double squares = ddot_k(n, x, 1, x, 1);
  return squares > 0x1p-900 && squares < 0x1p1000 ? __builtin_sqrt(squares) : original_dnrm2_k(n, x, step);
}
