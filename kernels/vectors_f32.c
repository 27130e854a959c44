// Level 1 and 2 of OpenBLAS for float: see vectors.h.
#define REAL float
#define LANES 4
#define VECTOR(op) wasm_f32x4_##op
#define KERNEL(name) s##name
#define MULTIPLY_ADD MULTIPLY_ADD_F32
#include "vectors.h"
