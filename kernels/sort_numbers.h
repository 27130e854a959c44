// Numbers as unsigned integers of the same order, and sorting these.
#define KEY uint64_t
#define KEY_BITS 64
#define NAME(x) x##_64
#include "sort_keys.h"

#define LEAST 1024       // numbers for which counters pay
#define MOST (16 << 20)  // numbers: the memory for sorting stays within 128 MB; an argsort needs twice as much for each

#define SAME(x) (x)
#define SIGNED_64(x) ((x) ^ 0x8000000000000000u)
#define SIGNED_32(x) ((x) ^ 0x80000000u)
#define SIGNED_16(x) ((x) ^ 0x8000u)
#define SIGNED_8(x) ((x) ^ 0x80u)
// A negative float has all bits turned, any other only its sign; and back.
#define FLOAT_64(x) ((x) ^ ((uint64_t)((int64_t)(x) >> 63) | 0x8000000000000000u))
#define UNFLOAT_64(x) ((x) ^ ((uint64_t)((int64_t)~(x) >> 63) | 0x8000000000000000u))
#define FLOAT_32(x) ((x) ^ ((uint32_t)((int32_t)(x) >> 31) | 0x80000000u))
#define UNFLOAT_32(x) ((x) ^ ((uint32_t)((int32_t)~(x) >> 31) | 0x80000000u))
#define NEVER(x) 0
#define NAN_64(x) ((x) << 1 > 0xFFE0000000000000u)
#define NAN_32(x) ((x) << 1 > 0xFF000000u)
