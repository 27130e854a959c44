// Sorting unsigned integers. Included with KEY (the type), KEY_BITS and NAME(x), which makes names of their own.
//
// Large arrays are sorted by radix, small ones by a quicksort whose partitioning has no branch that depends on the data: on
// random numbers, numpy's own spends its time on branches predicted wrongly.
#include "kernels.h"

#define DIGIT_BITS (KEY_BITS == 64 ? 10 : KEY_BITS == 32 ? 11 : 8)
#define DIGITS (1 << DIGIT_BITS)
#define PASSES (KEY_BITS == 64 ? 4 : KEY_BITS == 32 ? 3 : KEY_BITS / 8)  // at most
#define WINDOW (PASSES * DIGIT_BITS)  // as many of the upper bits as are sorted by radix
#define COUNTERS (PASSES * DIGITS)
#define SMALL 16  // numbers, for which insertion is quickest

static void NAME(insertion)(KEY *v, index_t n) {
  for (index_t i = 1; i < n; i++) {
    KEY value = v[i];
    index_t j = i;
    for (; j > 0 && value < v[j - 1]; j--) v[j] = v[j - 1];
    v[j] = value;
  }
}

INLINE void NAME(sift)(KEY *v, index_t root, index_t n) {
  KEY value = v[root];
  for (index_t child = 2 * root + 1; child < n; child = 2 * root + 1) {
    if (child + 1 < n && v[child] < v[child + 1]) child++;
    if (value >= v[child]) break;
    v[root] = v[child];
    root = child;
  }
  v[root] = value;
}

static __attribute__((noinline)) void NAME(heap)(KEY *v, index_t n) {
  for (index_t i = n / 2; i-- > 0;) NAME(sift)(v, i, n);
  while (--n > 0) {
    KEY largest = v[0];
    v[0] = v[n];
    v[n] = largest;
    NAME(sift)(v, 0, n);
  }
}

INLINE KEY NAME(median)(KEY a, KEY b, KEY c) {
  KEY less = a < b ? a : b, more = a < b ? b : a, middle = more < c ? more : c;
  return less < middle ? middle : less;
}

// In place. `rounds` bounds the depth: when pivots were bad that often, a heap goes on.
static __attribute__((noinline)) void NAME(quick)(KEY *v, index_t n, int rounds) {
  while (n > SMALL) {
    if (rounds-- == 0) {
      NAME(heap)(v, n);
      return;
    }
    index_t half = n / 2, quarter = n / 4;
    KEY pivot = NAME(median)(v[0], v[half], v[n - 1]);
    if (n >= 128) {
      KEY one = NAME(median)(v[1], v[quarter], v[n - 2]), two = NAME(median)(v[half - 1], v[half + 1], v[half + quarter]);
      pivot = NAME(median)(pivot, one, two);
    }
    index_t less = 0, i = 0;  // v[..less] are less than the pivot, v[less..i] are not
    for (; i + 4 <= n; i += 4) {
      UNROLL for (int q = 0; q < 4; q++) {
        KEY value = v[i + q];
        v[i + q] = v[less];
        v[less] = value;
        less += value < pivot;
      }
    }
    for (; i < n; i++) {
      KEY value = v[i];
      v[i] = v[less];
      v[less] = value;
      less += value < pivot;
    }
    if (less == 0) {  // the pivot is the smallest: all its equals are in place once they are in front
      for (i = 0; i < n; i++) {
        KEY value = v[i];
        v[i] = v[less];
        v[less] = value;
        less += value == pivot;
      }
      v += less, n -= less;
    } else if (less < n - less) {
      NAME(quick)(v, less, rounds);
      v += less, n -= less;
    } else {
      NAME(quick)(v + less, n - less, rounds);
      n = less;
    }
  }
  NAME(insertion)(v, n);
}

INLINE int NAME(rounds)(index_t n) { return 2 * (32 - __builtin_clz(n | 1)); }

static __attribute__((noinline)) void NAME(scatter)(const KEY *from, KEY *to, uint32_t *places, index_t n, int shift) {
  index_t i = 0;
  for (; i + 8 <= n; i += 8) {
    UNROLL for (int q = 0; q < 8; q++) {
      KEY value = from[i + q];
      to[places[value >> shift & (DIGITS - 1)]++] = value;
    }
  }
  for (; i < n; i++) {
    KEY value = from[i];
    to[places[value >> shift & (DIGITS - 1)]++] = value;
  }
}

// Sort by the bits from `low` up to `high`, at most WINDOW of them. `other` is as large as `v`, `places` has room for COUNTERS.
// Equal ones keep their order. Says which of the two arrays has the result.
static KEY *NAME(radix)(KEY *v, KEY *other, uint32_t *places, index_t n, int low, int high) {
  int passes = (high - low + DIGIT_BITS - 1) / DIGIT_BITS;
  __builtin_memset(places, 0, COUNTERS * sizeof(uint32_t));
  for (index_t i = 0; i < n; i++) {
    KEY bits = v[i] >> low;
    UNROLL for (int pass = 0; pass < PASSES; pass++) places[pass * DIGITS + (bits >> pass * DIGIT_BITS & (DIGITS - 1))]++;
  }
  for (int pass = 0; pass < passes; pass++, places += DIGITS) {
    uint32_t next = 0;
    for (int digit = 0; digit < DIGITS; digit++) {
      uint32_t count = places[digit];
      places[digit] = next;
      next += count;
    }
    NAME(scatter)(v, other, places, n, low + pass * DIGIT_BITS);
    KEY *swap = v;
    v = other, other = swap;
  }
  return v;
}

// Sort `n` keys. `varying` has the bits in which they differ. The result is in one of the two arrays.
static KEY *NAME(sorted)(KEY *v, KEY *other, uint32_t *places, index_t n, KEY varying) {
  if (varying == 0) return v;
  int high = 64 - __builtin_clzll(varying), lowest = __builtin_ctzll(varying);
  int low = high - WINDOW > lowest ? high - WINDOW : lowest;
  v = NAME(radix)(v, other, places, n, low, high);
  if (low == lowest) return v;
  for (index_t start = 0, i = 1; i <= n; i++) {  // those that agree in all the bits looked at
    if (i < n && v[i] >> low == v[start] >> low) continue;
    if (i - start > 1) NAME(quick)(v + start, i - start, NAME(rounds)(i - start));
    start = i;
  }
  return v;
}

// Memory for n keys behind the counters; or nothing.
static uint32_t *NAME(room)(index_t n) { return malloc(COUNTERS * sizeof(uint32_t) + n * sizeof(KEY)); }
INLINE KEY *NAME(behind)(uint32_t *places) { return (KEY *)(places + COUNTERS); }

#undef DIGIT_BITS
#undef DIGITS
#undef PASSES
#undef WINDOW
#undef COUNTERS
#undef SMALL
#undef KEY
#undef KEY_BITS
#undef NAME
