// Included with ITEM, VALUE(item), ITEMS, SELECT, ORIGINAL and REST(low): see select_type.h.

int ORIGINAL(TYPE *v, index_t *order, index_t n, index_t kth, index_t *pivots, index_t *count);

INLINE void JOIN(SELECT, _swap)(ITEM *items, index_t a, index_t b) {
  ITEM item = items[a];
  items[a] = items[b];
  items[b] = item;
}

// Which of three places has the median.
INLINE index_t JOIN(SELECT, _median)(const TYPE *v, const ITEM *items, index_t a, index_t b, index_t c) {
  (void)v;
  TYPE x = VALUE(items[a]), y = VALUE(items[b]), z = VALUE(items[c]);
  if (x < y) return y < z ? b : x < z ? c : a;
  return x < z ? a : y < z ? c : b;
}

int SELECT(TYPE *v, index_t *order, index_t n, index_t kth, index_t *pivots, index_t *count) {
  index_t low = 0, high = n - 1, known = pivots && count ? *count : 0;
  for (; known > 0 && pivots[known - 1] <= kth; known--) low = pivots[known - 1] + 1;
  if (known > 0) high = pivots[known - 1] - 1;
  // The original has better ways for the first and for the last ones, and for what is known already.
  if (high - low < LEAST || kth - low < 3 || kth == n - 1) return ORIGINAL(v, order, n, kth, pivots, count);
  if (!count) pivots = 0;
  if (pivots) *count = known;
  ITEM *items = ITEMS;
  for (int rounds = 2 * (32 - __builtin_clz(n)); high - low >= LEAST && rounds > 0; rounds--) {
    index_t eighth = (high - low) / 8, middle = low + 4 * eighth;
    index_t one = JOIN(SELECT, _median)(v, items, low, low + eighth, low + 2 * eighth);
    index_t two = JOIN(SELECT, _median)(v, items, low + 3 * eighth, middle, middle + eighth);
    index_t three = JOIN(SELECT, _median)(v, items, middle + 2 * eighth, middle + 3 * eighth, high);
    JOIN(SELECT, _swap)(items, JOIN(SELECT, _median)(v, items, one, two, three), high);
    TYPE pivot = VALUE(items[high]);
    if (pivot != pivot) break;  // NaNs are the original's
    index_t place = low, i = low;
    for (; i + 4 <= high; i += 4) {
      UNROLL for (int q = 0; q < 4; q++) {
        ITEM item = items[i + q];
        items[i + q] = items[place];
        items[place] = item;
        place += VALUE(item) < pivot;
      }
    }
    for (; i < high; i++) {
      ITEM item = items[i];
      items[i] = items[place];
      items[place] = item;
      place += VALUE(item) < pivot;
    }
    JOIN(SELECT, _swap)(items, place, high);
    if (kth < place) {
      remember(place, kth, pivots, count);
      high = place - 1;
      continue;
    }
    if (place == low) {  // the smallest: its equals are next, and in place
      for (i = place + 1; i <= high; i++) {
        ITEM item = items[i];
        items[i] = items[place + 1];
        items[place + 1] = item;
        place += VALUE(item) == pivot;
      }
    }
    low = place + 1;
    if (kth <= place) {
      remember(kth, kth, pivots, count);
      return 0;
    }
  }
  int status = ORIGINAL(REST(low), high - low + 1, kth - low, 0, 0);
  remember(kth, kth, pivots, count);
  return status;
}

#undef ITEM
#undef VALUE
#undef SELECT
#undef ORIGINAL
#undef REST
#undef ITEMS
