// What numpy's inner loops share.
//
// numpy calls a ufunc's loop with pointers, a count and steps in bytes; an operand with step 0 is one value for all, and a
// reduction is a loop whose first operand and result are the same value. Kernels take the layouts that matter (arrays whose
// elements lie side by side) and leave everything else to the loop they replace, original_NAME.
//
// Most loops are plain C that clang vectorises: each result comes from the same operations on the same operands as before,
// so its bits are the same. EACH says that no turn reads what an earlier one wrote; `binary_operands` has made sure of it.
// wasmtime looks at the epoch at every loop head and keeps no vector in a register across it, hence four vectors per turn.
#pragma once
#include "kernels.h"

typedef int8_t i8;
typedef int16_t i16;
typedef int32_t i32;
typedef int64_t i64;
typedef uint8_t u8;
typedef uint16_t u16;
typedef uint32_t u32;
typedef uint64_t u64;
typedef float f32;
typedef double f64;

#define LOOP_ARGUMENTS char **args, const index_t *dimensions, const index_t *steps, void *data
#define ORIGINAL(NAME) original_##NAME(args, dimensions, steps, data)
#define DECLARE(NAME) void original_##NAME(LOOP_ARGUMENTS); void NAME(LOOP_ARGUMENTS)

#define EACH_UNTIL(I, START, END)                                     \
  _Pragma("clang loop vectorize(assume_safety) interleave_count(4)")  \
  for (u32 I = (START); I < (u32)(END); I++)  // unsigned: clang then folds offsets into addresses
#define EACH(I, N) EACH_UNTIL(I, 0, N)
// For reductions, whose accumulators go to memory at every loop head: as many of them, but more steps between two heads.
#define REDUCE(I, START, END)                                                         \
  _Pragma("clang loop vectorize(enable) interleave_count(4) unroll_count(4)")         \
  for (u32 I = (START); I < (u32)(END); I++)

// numpy's own. The runtime keeps the floating-point status in a variable, and some loops clear it as they end.
int npy_clear_floatstatus_barrier(char *);
#define CLEAR_STATUS npy_clear_floatstatus_barrier((char *)dimensions)

#define HELPER static __attribute__((noinline, unused))

enum operands { OTHER, ARRAYS, SCALAR_FIRST, SCALAR_SECOND, REDUCTION };

// Whether a loop may read this input ahead of writing: it is the output itself, or they have no byte in common.
INLINE int independent(const char *in, index_t in_bytes, const char *out, index_t out_bytes, int same_size) {
  return (same_size && in == out) || in + in_bytes <= out || out + out_bytes <= in;
}

HELPER enum operands binary_operands(char **args, index_t n, const index_t *steps, index_t in_size, index_t out_size) {
  const char *a = args[0], *b = args[1], *out = args[2];
  index_t first = steps[0], second = steps[1], result = steps[2];
  if (result == 0 && first == 0 && a == out && second == in_size && in_size == out_size)
    return independent(b, n * in_size, out, out_size, 0) ? REDUCTION : OTHER;
  int first_array = first == in_size, second_array = second == in_size, same_size = in_size == out_size;
  if (result != out_size || (!first_array && first) || (!second_array && second) || (!first_array && !second_array)) return OTHER;
  if (!independent(a, first_array ? n * in_size : in_size, out, n * out_size, first_array && same_size)) return OTHER;
  if (!independent(b, second_array ? n * in_size : in_size, out, n * out_size, second_array && same_size)) return OTHER;
  return !first_array ? SCALAR_FIRST : second_array ? ARRAYS : SCALAR_SECOND;
}

HELPER int unary_operands(char **args, index_t n, const index_t *steps, index_t in_size, index_t out_size) {
  return steps[0] == in_size && steps[1] == out_size &&
         independent(args[0], n * in_size, args[1], n * out_size, in_size == out_size);
}

// A loop over one or two operands; RESULT is an expression of x and y. CASES are more layouts, AFTER is done at the end.
#define BINARY_LOOP(NAME, IN, OUT, RESULT, CASES, AFTER)                                                \
  DECLARE(NAME) {                                                                                       \
    index_t n = dimensions[0];                                                                          \
    const IN *a = (const IN *)args[0], *b = (const IN *)args[1];                                        \
    OUT *out = (OUT *)args[2];                                                                          \
    switch (binary_operands(args, n, steps, sizeof(IN), sizeof(OUT))) {                                 \
      case ARRAYS: EACH(i, n) { IN x = a[i], y = b[i]; out[i] = RESULT; } break;                        \
      case SCALAR_FIRST: { IN x = *a; EACH(i, n) { IN y = b[i]; out[i] = RESULT; } break; }             \
      case SCALAR_SECOND: { IN y = *b; EACH(i, n) { IN x = a[i]; out[i] = RESULT; } break; }            \
      CASES                                                                                             \
      default: ORIGINAL(NAME); return;                                                                  \
    }                                                                                                   \
    AFTER;                                                                                              \
  }
#define UNARY_LOOP(NAME, IN, OUT, RESULT, AFTER)                                                        \
  DECLARE(NAME) {                                                                                       \
    index_t n = dimensions[0];                                                                          \
    const IN *a = (const IN *)args[0];                                                                  \
    OUT *out = (OUT *)args[1];                                                                          \
    if (!unary_operands(args, n, steps, sizeof(IN), sizeof(OUT))) { ORIGINAL(NAME); return; }           \
    EACH(i, n) { IN x = a[i]; out[i] = RESULT; }                                                        \
    AFTER;                                                                                              \
  }
// For operations whose order does not matter.
#define ANY_ORDER(T, RESULT) case REDUCTION: { T x = *out; REDUCE(i, 0, n) { T y = b[i]; x = RESULT; } *out = x; break; }
