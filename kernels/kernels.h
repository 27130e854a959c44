// What all kernels share. README.md has the rules.
#pragma once
#include <stddef.h>
#include <stdint.h>
#include <wasm_simd128.h>

typedef int32_t index_t;  // BLASLONG and npy_intp of the runtime: 32 bits

#define INLINE static inline __attribute__((always_inline))
#define UNROLL _Pragma("clang loop unroll(full)")
#define LOAD(address) wasm_v128_load(address)
#define STORE(address, value) wasm_v128_store(address, value)

// Multiply and add, rounded twice: the same bits on every machine. Fused, it was no faster.
#define MULTIPLY_ADD_F64(a, b, c) wasm_f64x2_add(wasm_f64x2_mul(a, b), c)
#define MULTIPLY_ADD_F32(a, b, c) wasm_f32x4_add(wasm_f32x4_mul(a, b), c)

// The runtime's own.
void *malloc(size_t size);
void free(void *address);
