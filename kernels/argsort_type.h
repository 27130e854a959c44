// argsort for one type. Included with TYPE, SUFFIX and KEY_OF(value), which is a uint64_t in the order of values.

#define JOIN_(a, b) a##b
#define JOIN(a, b) JOIN_(a, b)
#define KEY_AT(i) KEY_OF(values[order[i]])

void JOIN(original_argsort_, SUFFIX)(TYPE *values, index_t *order, index_t n);
int JOIN(original_stable_argsort_, SUFFIX)(TYPE *values, index_t *order, index_t n);

// Whether it was done: otherwise nothing has changed.
static int JOIN(radix_argsort_, SUFFIX)(const TYPE *values, index_t *order, index_t n) {
  uint32_t *places = n >= LEAST && n <= MOST / 2 ? room_64(2 * n) : 0;
  if (!places) return 0;
  uint64_t *packed = behind_64(places), *other = packed + n, varying = 0, first = KEY_AT(0);
  int place_bits = 32 - __builtin_clz(n - 1), beyond = 0;
  for (index_t i = 0; i < n; i++) {
    uint64_t key = packed[i] = KEY_AT(i);
    varying |= key ^ first;
    beyond |= order[i] >> place_bits;
  }
  if (beyond || varying == 0) {  // numpy's places are those of the array, but who knows; or there is nothing to do
    free(places);
    return !beyond;
  }
  int high = 64 - __builtin_clzll(varying), lowest = __builtin_ctzll(varying);
  int low = high - PACKED_BITS > lowest ? high - PACKED_BITS : lowest;
  for (index_t i = 0; i < n; i++) packed[i] = packed[i] >> low << place_bits | (uint32_t)order[i];
  packed = radix_64(packed, other, places, n, place_bits, place_bits + high - low);
  uint64_t place = ((uint64_t)1 << place_bits) - 1, rest = ((uint64_t)1 << low) - 1;
  for (index_t start = 0, i = 1; low > lowest && i <= n; i++) {
    if (i < n && packed[i] >> place_bits == packed[start] >> place_bits) continue;
    if (i - start > 1) {  // those that agree so far, by the rest of their bits
      for (index_t j = start; j < i; j++) {
        order[j] = packed[j] & place;
        packed[j] = (KEY_AT(j) & rest) << place_bits | (uint32_t)order[j];
      }
      quick_64(packed + start, i - start, rounds_64(i - start));
    }
    start = i;
  }
  for (index_t i = 0; i < n; i++) order[i] = packed[i] & place;
  free(places);
  return 1;
}

void JOIN(argsort_, SUFFIX)(TYPE *values, index_t *order, index_t n) {
  if (!JOIN(radix_argsort_, SUFFIX)(values, order, n)) JOIN(original_argsort_, SUFFIX)(values, order, n);
}

// The same is stable as long as places ascend: groups of equals are ordered by place.
int JOIN(stable_argsort_, SUFFIX)(TYPE *values, index_t *order, index_t n) {
  index_t i = 1;
  while (i < n && order[i - 1] < order[i]) i++;
  if (i < n || !JOIN(radix_argsort_, SUFFIX)(values, order, n)) return JOIN(original_stable_argsort_, SUFFIX)(values, order, n);
  return 0;
}

#undef JOIN_
#undef JOIN
#undef KEY_AT
#undef TYPE
#undef SUFFIX
#undef KEY_OF
