// numpy's introselect_ for numbers: np.partition, np.argpartition, and with them median, percentile and quantile.
//
// Only the search through large arrays is ours: partitioning without branches that depend on the data, until a small range
// is left for the original. Elements that are found to be in their final places are remembered for other `kth`, as numpy does.
#include "kernels.h"

#define LEAST 512
#define MOST_PIVOTS 50  // of numpy's stack

INLINE void remember(index_t place, index_t kth, index_t *pivots, index_t *count) {
  if (!pivots || place < kth) return;
  if (place == kth && *count == MOST_PIVOTS) pivots[*count - 1] = place;
  if (*count < MOST_PIVOTS) pivots[(*count)++] = place;
}

#define TYPE double
#define SUFFIX f64
#include "select_type.h"
#define TYPE float
#define SUFFIX f32
#include "select_type.h"
#define TYPE int64_t
#define SUFFIX i64
#include "select_type.h"
#define TYPE uint64_t
#define SUFFIX u64
#include "select_type.h"
#define TYPE int32_t
#define SUFFIX i32
#include "select_type.h"
#define TYPE uint32_t
#define SUFFIX u32
#include "select_type.h"
