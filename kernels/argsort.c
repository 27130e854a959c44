// numpy's aquicksort_ and atimsort_ for numbers: what np.argsort, also a stable one, and pandas' sort_values call.
//
// Upper bits of a key and its place in the array make one 64-bit number each, and these are sorted: one array instead of two,
// and no look at the values on the way. Equal values keep their order (-0 equals 0, all NaNs are equal and last).
#include "sort_numbers.h"

#define PACKED_BITS 40  // of a key, at most; the place has the other 24

INLINE uint64_t key_f64(double value) {
  uint64_t bits;
  value += 0;  // -0 becomes 0
  __builtin_memcpy(&bits, &value, sizeof bits);
  return NAN_64(bits) ? UINT64_MAX : FLOAT_64(bits);
}

INLINE uint64_t key_f32(float value) {
  uint32_t bits;
  value += 0;
  __builtin_memcpy(&bits, &value, sizeof bits);
  return NAN_32(bits) ? UINT32_MAX : FLOAT_32(bits);
}

#define TYPE double
#define SUFFIX f64
#define KEY_OF(value) key_f64(value)
#include "argsort_type.h"
#define TYPE float
#define SUFFIX f32
#define KEY_OF(value) key_f32(value)
#include "argsort_type.h"
#define TYPE int64_t
#define SUFFIX i64
#define KEY_OF(value) SIGNED_64((uint64_t)(value))
#include "argsort_type.h"
#define TYPE uint64_t
#define SUFFIX u64
#define KEY_OF(value) (value)
#include "argsort_type.h"
#define TYPE int32_t
#define SUFFIX i32
#define KEY_OF(value) SIGNED_32((uint32_t)(value))
#include "argsort_type.h"
#define TYPE uint32_t
#define SUFFIX u32
#define KEY_OF(value) (value)
#include "argsort_type.h"
