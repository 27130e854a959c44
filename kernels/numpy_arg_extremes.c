// argmax and argmin: the extreme of each block first, then the place of the first element that equals the best of them.
#include "numpy_extremes.h"

#define BLOCK 128  // short: rows are searched, too, and the search is one by one

#define ARGUMENTS(T) const T *a, index_t n, index_t *where, void *array

// The first NaN is both the largest and the smallest of floats.
#define FLOAT_ARG(T, WHICH)                                                  \
  int T##_arg##WHICH(ARGUMENTS(T)) {                                         \
    (void)array;                                                             \
    T best = *a;                                                             \
    u32 block = 0;                                                           \
    for (u32 i = 0; i < (u32)n; i += BLOCK) {                                \
      u32 length = (u32)n - i < BLOCK ? (u32)n - i : BLOCK;                  \
      T##_extreme found = T##_##WHICH##_of(a + i, length, best);             \
      if (found.has_nan) {                                                   \
        while (a[i] == a[i]) i++;                                            \
        *where = i;                                                          \
        return 0;                                                            \
      }                                                                      \
      if (BETTER_##WHICH(best, found.value)) best = found.value, block = i;  \
    }                                                                        \
    while (a[block] != best) block++;                                        \
    *where = block;                                                          \
    return 0;                                                                \
  }
#define INTEGER_ARG(T, WHICH)                                                \
  int T##_arg##WHICH(ARGUMENTS(T)) {                                         \
    (void)array;                                                             \
    T best = *a;                                                             \
    u32 block = 0;                                                           \
    for (u32 i = 0; i < (u32)n; i += BLOCK) {                                \
      u32 length = (u32)n - i < BLOCK ? (u32)n - i : BLOCK;                  \
      T found = best;                                                        \
      REDUCE(k, i, i + length) found = BETTER_##WHICH(found, a[k]) ? a[k] : found; \
      if (BETTER_##WHICH(best, found)) best = found, block = i;              \
    }                                                                        \
    while (a[block] != best) block++;                                        \
    *where = block;                                                          \
    return 0;                                                                \
  }
FLOAT_ARG(f64, max)
FLOAT_ARG(f64, min)
FLOAT_ARG(f32, max)
FLOAT_ARG(f32, min)
#define INTEGERS(T) INTEGER_ARG(T, max) INTEGER_ARG(T, min)
INTEGERS(i8)
INTEGERS(i16)
INTEGERS(i32)
INTEGERS(u8)
INTEGERS(u16)
INTEGERS(u32)
