// numpy's default generator of random numbers, PCG64: a product of 128 bits per number.
//
// The original calls a function for the product that gives it back through memory. Four products of 32 by 32 bits, here, are
// twice as fast. Integers only: the numbers are the same.
#include "kernels.h"

typedef struct { uint64_t low, high; } u128;
typedef struct { u128 state, increment; } generator;
typedef struct { generator *generator; int has_half; uint32_t half; } pcg64;  // half: 32 bits that are left of the last number

#define MULTIPLIER_LOW UINT64_C(0x4385DF649FCCF645)
#define MULTIPLIER_HIGH UINT64_C(0x2360ED051FC65DA4)

INLINE uint64_t upper_half_of_product(uint64_t a, uint64_t b) {
  uint64_t a0 = (uint32_t)a, a1 = a >> 32, b0 = (uint32_t)b, b1 = b >> 32;
  uint64_t middle = a1 * b0 + (a0 * b0 >> 32), other = a0 * b1 + (uint32_t)middle;
  return a1 * b1 + (middle >> 32) + (other >> 32);
}

INLINE uint64_t next(pcg64 *self) {
  generator *g = self->generator;
  uint64_t low = g->state.low * MULTIPLIER_LOW;
  uint64_t high = upper_half_of_product(g->state.low, MULTIPLIER_LOW) + g->state.low * MULTIPLIER_HIGH + g->state.high * MULTIPLIER_LOW;
  g->state.low = low + g->increment.low;
  g->state.high = high + g->increment.high + (g->state.low < low);
  return __builtin_rotateright64(g->state.high ^ g->state.low, g->state.high >> 58);
}

uint64_t pcg64_uint64(pcg64 *self) { return next(self); }

double pcg64_double(pcg64 *self) { return (next(self) >> 11) * (1.0 / 9007199254740992.0); }

uint32_t pcg64_uint32(pcg64 *self) {
  if (self->has_half) {
    self->has_half = 0;
    return self->half;
  }
  uint64_t number = next(self);
  self->has_half = 1;
  self->half = number >> 32;
  return number;
}
