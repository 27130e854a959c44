// Comparisons and tests, to numpy's booleans: bytes of 0 and 1.
#include "numpy_booleans.h"

#define ORDER(LOOP, T, AFTER)              \
  LOOP(T##_less, T, x < y, AFTER)          \
  LOOP(T##_less_equal, T, x <= y, AFTER)   \
  LOOP(T##_greater, T, x > y, AFTER)       \
  LOOP(T##_greater_equal, T, x >= y, AFTER)
#define EQUALITY(LOOP, T, AFTER)           \
  LOOP(T##_equal, T, x == y, AFTER)        \
  LOOP(T##_not_equal, T, x != y, AFTER)
#define NARROW(NAME, T, TEST, AFTER) BINARY_LOOP(NAME, T, u8, TEST, , AFTER)

ORDER(BOOLEAN_BINARY, f64, CLEAR_STATUS)
ORDER(BOOLEAN_BINARY, f32, CLEAR_STATUS)
ORDER(BOOLEAN_BINARY, i64, )
ORDER(BOOLEAN_BINARY, i32, )
ORDER(BOOLEAN_BINARY, u32, )
ORDER(NARROW, i16, )
ORDER(NARROW, u16, )
ORDER(NARROW, i8, )
ORDER(NARROW, u8, )

// WebAssembly compares vectors of 64 bits as signed numbers only: with their top bits flipped, unsigned ones compare the same.
#define FLIPPED(V) ((V) ^ INT64_MIN)
BOOLEAN_BINARY(u64_less, i64, FLIPPED(x) < FLIPPED(y), )
BOOLEAN_BINARY(u64_less_equal, i64, FLIPPED(x) <= FLIPPED(y), )
BOOLEAN_BINARY(u64_greater, i64, FLIPPED(x) > FLIPPED(y), )
BOOLEAN_BINARY(u64_greater_equal, i64, FLIPPED(x) >= FLIPPED(y), )

EQUALITY(BOOLEAN_BINARY, f64, CLEAR_STATUS)
EQUALITY(BOOLEAN_BINARY, f32, CLEAR_STATUS)
EQUALITY(BOOLEAN_BINARY, u64, )
EQUALITY(BOOLEAN_BINARY, u32, )
EQUALITY(NARROW, u16, )
EQUALITY(NARROW, u8, )

#define TESTS(T, INFINITY)                                                                  \
  BOOLEAN_UNARY(T##_isnan, T, x != x, CLEAR_STATUS)                                         \
  BOOLEAN_UNARY(T##_isinf, T, __builtin_elementwise_abs(x) == INFINITY, CLEAR_STATUS)       \
  BOOLEAN_UNARY(T##_isfinite, T, __builtin_elementwise_abs(x) < INFINITY, CLEAR_STATUS)
TESTS(f64, __builtin_inf())
TESTS(f32, __builtin_inff())

// A boolean may be any byte: views of other arrays are not normalised.
BINARY_LOOP(bool_equal, u8, u8, (x != 0) == (y != 0), , )
BINARY_LOOP(bool_not_equal, u8, u8, (x != 0) != (y != 0), , )
BINARY_LOOP(bool_less, u8, u8, (x == 0) & (y != 0), , )
BINARY_LOOP(bool_less_equal, u8, u8, (x == 0) | (y != 0), , )
BINARY_LOOP(bool_greater, u8, u8, (x != 0) & (y == 0), , )
BINARY_LOOP(bool_greater_equal, u8, u8, (x != 0) | (y == 0), , )
