// `take`, and fancy indexing through it: the original copies every element by a call of memory.copy.
#include "numpy_loops.h"

enum { RAISE = 2 };  // numpy's NPY_RAISE: an index beyond the end is an error

#define TAKE_ARGUMENTS                                                                                                  \
  char *out, const char *source, const index_t *indexes, index_t outer, index_t count, index_t length, index_t elements, \
      index_t chunk, int mode, index_t item_size, int has_references, void *source_type, void *out_type, int axis
int original_npy_fasttake(TAKE_ARGUMENTS);

INLINE int all_valid(const index_t *indexes, u32 count, index_t length) {
  index_t least = 0, most = 0;
  EACH(i, count) {
    least = indexes[i] < least ? indexes[i] : least;
    most = indexes[i] > most ? indexes[i] : most;
  }
  return -length <= least && most < length;
}

#define TAKE(T)                                                                                      \
  for (index_t o = 0; o < outer; o++, source += length * chunk, out += count * chunk) {              \
    const T *from = (const T *)source;                                                               \
    T *to = (T *)out;                                                                                \
    _Pragma("clang loop unroll_count(8)") for (u32 i = 0; i < (u32)count; i++)                       \
        to[i] = from[indexes[i] + (indexes[i] < 0 ? length : 0)];                                    \
  }                                                                                                  \
  return 0;

int npy_fasttake(TAKE_ARGUMENTS) {
  if (mode == RAISE && !has_references && count && independent(source, outer * length * chunk, out, outer * count * chunk, 0) &&
      independent((const char *)indexes, count * sizeof(index_t), out, outer * count * chunk, 0) &&
      all_valid(indexes, count, length))
    switch (chunk) {
      case 1: TAKE(u8)
      case 2: TAKE(u16)
      case 4: TAKE(u32)
      case 8: TAKE(u64)
      case 16: TAKE(v128_t)
    }
  return original_npy_fasttake(out, source, indexes, outer, count, length, elements, chunk, mode, item_size, has_references,
                               source_type, out_type, axis);
}
