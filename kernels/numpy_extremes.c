// maximum, minimum, fmax and fmin, element by element and as reductions; clip.
#include "numpy_extremes.h"

// numpy keeps the first of equal values (0 and -0 are equal) and the first NaN: when the answer is one of those, it is
// looked up in the order of the elements.
#define FIRST_WINS(T, WHICH)                                                     \
  case REDUCTION: {                                                              \
    T first = *out;                                                              \
    if (first != first) break;                                                   \
    T##_extreme found = T##_##WHICH##_of(b, n, first);                           \
    int is_zero = found.value == 0;                                              \
    *out = is_zero && first == 0 ? first : found.value;                          \
    if (found.has_nan || (is_zero && first != 0))                                \
      for (u32 i = 0; i < (u32)n; i++)                                           \
        if (found.has_nan ? b[i] != b[i] : b[i] == 0) { *out = b[i]; break; }    \
    break;                                                                       \
  }
// fmax and fmin pass over NaNs, and know 0 from -0: the original settles that, and what an array of NaNs gives.
#define ORIGINAL_SETTLES(NAME, T, WHICH)                                         \
  case REDUCTION: {                                                              \
    T first = *out;                                                              \
    T##_extreme found = T##_##WHICH##_of(b, n, first);                           \
    if (first != first || found.value == 0) { ORIGINAL(NAME); return; }          \
    *out = found.value;                                                          \
    break;                                                                       \
  }
// maximum is x if x >= y or x is NaN, else y. Said with < instead, for LLVM takes the comparison with >= for WebAssembly's pmax,
// which gives the other one of 0 and -0.
#define FLOATS(T)                                                                                                 \
  BINARY_LOOP(T##_maximum, T, T, (((x < y) | (y != y)) & (x == x)) ? y : x, FIRST_WINS(T, max), CLEAR_STATUS)                   \
  BINARY_LOOP(T##_minimum, T, T, (((x > y) | (y != y)) & (x == x)) ? y : x, FIRST_WINS(T, min), CLEAR_STATUS)                   \
  BINARY_LOOP(T##_fmax, T, T, ((x == 0) & (y == 0)) ? x + y : ((x < y) | (x != x)) ? y : x,              \
              ORIGINAL_SETTLES(T##_fmax, T, max), CLEAR_STATUS)                                                   \
  BINARY_LOOP(T##_fmin, T, T, ((x == 0) & (y == 0)) ? -(-x + -y) : ((y < x) | (x != x)) ? y : x,         \
              ORIGINAL_SETTLES(T##_fmin, T, min), CLEAR_STATUS)
FLOATS(f64)
FLOATS(f32)

#define LARGER (x > y ? x : y)
#define SMALLER (x < y ? x : y)
#define INTEGERS(T)                                                       \
  BINARY_LOOP(T##_maximum, T, T, LARGER, ANY_ORDER(T, LARGER), )          \
  BINARY_LOOP(T##_minimum, T, T, SMALLER, ANY_ORDER(T, SMALLER), )
INTEGERS(i8)
INTEGERS(i16)
INTEGERS(i32)
INTEGERS(i64)
INTEGERS(u8)
INTEGERS(u16)
INTEGERS(u32)
INTEGERS(u64)

// Between two numbers. A NaN among the elements stays; one as a bound is left to the original.
#define CLIP(T)                                                                                                   \
  DECLARE(T##_clip) {                                                                                             \
    index_t n = dimensions[0];                                                                                    \
    const T *a = (const T *)args[0];                                                                              \
    T *out = (T *)args[3];                                                                                        \
    T low = *(const T *)args[1], high = *(const T *)args[2];                                                      \
    if (steps[1] || steps[2] || steps[0] != sizeof(T) || steps[3] != sizeof(T) || low != low || high != high ||   \
        !independent(args[0], n * sizeof(T), args[3], n * sizeof(T), 1)) { ORIGINAL(T##_clip); return; }          \
    EACH(i, n) { T x = a[i]; x = x < low ? low : x; out[i] = x > high ? high : x; }                               \
    CLEAR_STATUS;                                                                                                     \
  }
CLIP(f64)
CLIP(f32)
CLIP(i8)
CLIP(i16)
CLIP(i32)
CLIP(i64)
CLIP(u8)
CLIP(u16)
CLIP(u32)
CLIP(u64)
