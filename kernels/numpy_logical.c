// Logical operations on booleans, `any` and `all`. A boolean may be any byte: views of other arrays are not normalised.
#include "numpy_loops.h"

#define CHUNK 64  // bytes between two looks at whether the answer is known

#define CHUNK_OF(OP, FROM) OP(OP(LOAD(FROM), LOAD(FROM + 16)), OP(LOAD(FROM + 32), LOAD(FROM + 48)))

// Where the first byte that is not zero is; n if there is none.
INLINE u32 first_true(const u8 *bytes, u32 n) {
  u32 i = 0;
  while (n - i >= CHUNK && !wasm_v128_any_true(CHUNK_OF(wasm_v128_or, bytes + i))) i += CHUNK;
  while (i < n && !bytes[i]) i++;
  return i;
}

// Where the first zero is. The smallest of four bytes is zero if one of them is.
INLINE u32 first_false(const u8 *bytes, u32 n) {
  u32 i = 0;
  while (n - i >= CHUNK && wasm_i8x16_all_true(CHUNK_OF(wasm_u8x16_min, bytes + i))) i += CHUNK;
  while (i < n && bytes[i]) i++;
  return i;
}

BINARY_LOOP(bool_logical_or, u8, u8, (x | y) != 0,
            case REDUCTION: if (n) *out = *out || first_true(b, n) < (u32)n; break;, )
BINARY_LOOP(bool_logical_and, u8, u8, (x != 0) & (y != 0),
            case REDUCTION: if (n) *out = *out && first_false(b, n) == (u32)n; break;, )
UNARY_LOOP(bool_logical_not, u8, u8, x == 0, )

int bool_argmax(const u8 *a, index_t n, index_t *where, void *array) {
  (void)array;
  u32 i = first_true(a, n);
  *where = i < (u32)n ? i : 0;
  return 0;
}

int bool_argmin(const u8 *a, index_t n, index_t *where, void *array) {
  (void)array;
  u32 i = first_false(a, n);
  *where = i < (u32)n ? i : 0;
  return 0;
}
