// Casts between arrays whose elements lie side by side: `astype`, mixed operands of ufuncs, sums of narrow integers.
//
// Floats become integers as WebAssembly does it (cut off at the ends, NaN is 0), via 32 bits where fewer are wanted: that is
// what the originals do.
#include "numpy_booleans.h"

// Whether values that change are to raise: casting="same_value", a bit of numpy's PyArrayMethod_Context.
static int same_value(const void *context) {
  return ((const u64 *)context)[2] & 1;
}

#define CAST_ARGUMENTS void *context, char **args, const index_t *dimensions, const index_t *steps, void *data
#define CAST(FROM, TO, FROM_T, TO_T, RESULT)                                                         \
  int original_cast_##FROM##_##TO(CAST_ARGUMENTS);                                                   \
  int cast_##FROM##_##TO(CAST_ARGUMENTS) {                                                           \
    index_t n = dimensions[0];                                                                       \
    if (same_value(context) || !independent(args[0], n * sizeof(FROM_T), args[1], n * sizeof(TO_T), 0)) \
      return original_cast_##FROM##_##TO(context, args, dimensions, steps, data);                    \
    const FROM_T *a = (const FROM_T *)args[0];                                                       \
    TO_T *out = (TO_T *)args[1];                                                                     \
    EACH(i, n) { FROM_T x = a[i]; out[i] = RESULT; }                                                 \
    return 0;                                                                                        \
  }
#define CAST_TO_BOOL(FROM)                                                                           \
  int original_cast_##FROM##_bool(CAST_ARGUMENTS);                                                   \
  int cast_##FROM##_bool(CAST_ARGUMENTS) {                                                           \
    index_t n = dimensions[0];                                                                       \
    if (same_value(context) || !independent(args[0], n * sizeof(FROM), args[1], n, 0))               \
      return original_cast_##FROM##_bool(context, args, dimensions, steps, data);                    \
    const FROM *a = (const FROM *)args[0];                                                           \
    u8 *out = (u8 *)args[1];                                                                         \
    u32 i = 0;                                                                                       \
    SIXTEENS(FROM, VECTOR(FROM, a), x, x != 0)                                                       \
    for (; i < (u32)n; i++) out[i] = a[i] != 0;                                                      \
    return 0;                                                                                        \
  }

// 0 or 1, without a comparison: clang would widen its mask in many steps.
#define TRUTH(X) (u8)((u16)((X) + 255) >> 8)
CAST(bool, i32, u8, i32, x != 0)
CAST(bool, i64, u8, i64, x != 0)
CAST(bool, f32, u8, f32, TRUTH(x))
CAST(bool, f64, u8, f64, TRUTH(x))
CAST(u8, i32, u8, i32, x)
CAST(u8, i64, u8, i64, x)
CAST(u8, f32, u8, f32, x)
CAST(u8, f64, u8, f64, x)
CAST(i16, i64, i16, i64, x)
CAST(i16, f32, i16, f32, x)
CAST(i16, f64, i16, f64, x)
CAST(i32, i64, i32, i64, x)
CAST(i32, f32, i32, f32, (f32)x)
CAST(i32, f64, i32, f64, x)
CAST(i64, i32, i64, i32, (i32)x)
CAST(f32, u8, f32, u8, (u8)(u32)x)
CAST(f32, i32, f32, i32, (i32)x)
CAST(f32, f64, f32, f64, x)
CAST(f64, u8, f64, u8, (u8)(u32)x)
CAST(f64, i32, f64, i32, (i32)x)
CAST(f64, f32, f64, f32, (f32)x)
CAST(u8, bool, u8, u8, x != 0)
CAST_TO_BOOL(i32)
CAST_TO_BOOL(i64)
CAST_TO_BOOL(f32)
CAST_TO_BOOL(f64)
