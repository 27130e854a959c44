// numpy's quicksort_ for numbers: what np.sort and pandas call. See sort_keys.h for how they are sorted.
//
// NaNs are moved to the end first, and keep their bits. Of floats that are equal, -0 comes before 0; numpy's own has them in
// any order. Without memory, the whole array is sorted in place.
#include "sort_numbers.h"
#define KEY uint32_t
#define KEY_BITS 32
#define NAME(x) x##_32
#include "sort_keys.h"
#define KEY uint16_t
#define KEY_BITS 16
#define NAME(x) x##_16
#include "sort_keys.h"
#define KEY uint8_t
#define KEY_BITS 8
#define NAME(x) x##_8
#include "sort_keys.h"

// What is sorted already is left alone.
#define SORT(name, type, key_t, bits, ENCODE, DECODE, IS_NAN)                               \
  void name(type *values, index_t n) {                                                      \
    index_t i = 1;                                                                          \
    while (i < n && values[i - 1] <= values[i]) i++;                                        \
    if (i >= n) return;                                                                     \
    key_t *v = (key_t *)values, varying = 0;                                                \
    index_t numbers = 0;                                                                    \
    for (i = 0; i < n; i++) {                                                               \
      key_t value = v[i];                                                                   \
      if (IS_NAN(value)) continue;                                                          \
      if (numbers != i) v[i] = v[numbers];                                                  \
      value = ENCODE(value);                                                                \
      v[numbers++] = value;                                                                 \
      varying |= value ^ v[0];                                                              \
    }                                                                                       \
    uint32_t *places = numbers >= LEAST && numbers <= MOST ? room_##bits(numbers) : 0;      \
    key_t *result = v;                                                                      \
    if (places) {                                                                           \
      result = sorted_##bits(v, behind_##bits(places), places, numbers, varying);           \
    } else {                                                                                \
      quick_##bits(v, numbers, rounds_##bits(numbers));                                     \
    }                                                                                       \
    for (i = 0; i < numbers; i++) v[i] = DECODE(result[i]);                                 \
    if (places) free(places);                                                               \
  }

SORT(sort_f64, double, uint64_t, 64, FLOAT_64, UNFLOAT_64, NAN_64)
SORT(sort_i64, int64_t, uint64_t, 64, SIGNED_64, SIGNED_64, NEVER)
SORT(sort_u64, uint64_t, uint64_t, 64, SAME, SAME, NEVER)
SORT(sort_f32, float, uint32_t, 32, FLOAT_32, UNFLOAT_32, NAN_32)
SORT(sort_i32, int32_t, uint32_t, 32, SIGNED_32, SIGNED_32, NEVER)
SORT(sort_u32, uint32_t, uint32_t, 32, SAME, SAME, NEVER)
SORT(sort_i16, int16_t, uint16_t, 16, SIGNED_16, SIGNED_16, NEVER)
SORT(sort_u16, uint16_t, uint16_t, 16, SAME, SAME, NEVER)
SORT(sort_i8, int8_t, uint8_t, 8, SIGNED_8, SIGNED_8, NEVER)
SORT(sort_u8, uint8_t, uint8_t, 8, SAME, SAME, NEVER)
