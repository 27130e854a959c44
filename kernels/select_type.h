// partition and argpartition for one type. Included with TYPE and SUFFIX.

#define JOIN_(a, b) a##b
#define JOIN(a, b) JOIN_(a, b)

// partition: what moves are the values themselves.
#define ITEM TYPE
#define VALUE(item) (item)
#define SELECT JOIN(partition_, SUFFIX)
#define ORIGINAL JOIN(original_partition_, SUFFIX)
#define REST(low) v + (low), order
#define ITEMS v
#include "select_loop.h"

// argpartition: what moves are places of values.
#define ITEM index_t
#define VALUE(item) v[item]
#define SELECT JOIN(argpartition_, SUFFIX)
#define ORIGINAL JOIN(original_argpartition_, SUFFIX)
#define REST(low) v, order + (low)
#define ITEMS order
#include "select_loop.h"

#undef JOIN_
#undef JOIN
#undef TYPE
#undef SUFFIX
