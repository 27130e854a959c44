// exp and log of floats: what the runtime's C library computes for one number (exp, expf, log, logf: table and polynomial), here
// for two at a time. The operations and their order are those, so the bits are, too. What is out of the ordinary (overflow, NaN, 0,
// logarithms near 0) is left to these functions themselves.
//
// Their tables are where the runtime has them: no kernel has data of its own. The addresses are in the bodies of the functions
// called here, whose hashes the build checks, so in another runtime these kernels do not fit, and are not taken.
#include "numpy_loops.h"

double exp(double);
float expf(float);
double log(double);
float logf(float);

#define TABLE_EXP 26052752   // 128 pairs: tail, bits of 2**(i/128)
#define TABLE_EXPF 26049744  // 32 times the bits of 2**(i/32)
#define TABLE_LOG 26057424   // 128 pairs: 1/c, log(c)
#define TABLE_LOG_C 26059472 // 128 pairs: c in two parts
#define TABLE_LOGF 26061520  // 16 pairs: 1/c, log(c)

#define F64(x) wasm_f64x2_const_splat(x)
#define ADD wasm_f64x2_add
#define SUB wasm_f64x2_sub
#define MUL wasm_f64x2_mul
#define AT(TABLE, OFFSET) LOAD((const char *)(TABLE) + (OFFSET))
#define FIRSTS(p, q) wasm_i64x2_shuffle(p, q, 0, 2)
#define SECONDS(p, q) wasm_i64x2_shuffle(p, q, 1, 3)

INLINE int is_plain_exp_f64(v128_t x) { return wasm_i64x2_all_true(wasm_f64x2_lt(wasm_f64x2_abs(x), F64(512))); }
INLINE v128_t exp_f64(v128_t x) {
  v128_t shift = F64(0x1.8p52), shifted = ADD(MUL(x, F64(0x1.71547652b82fep+7)), shift), k = SUB(shifted, shift);
  v128_t r = ADD(MUL(k, F64(-0x1.cf79abc9e3b3ap-47)), ADD(MUL(k, F64(-0x1.62e42fefa0000p-8)), x)), r2 = MUL(r, r);
  v128_t p = AT(TABLE_EXP, (u32)wasm_i32x4_extract_lane(shifted, 0) << 4 & 2032);
  v128_t q = AT(TABLE_EXP, (u32)wasm_i32x4_extract_lane(shifted, 2) << 4 & 2032);
  v128_t high = MUL(MUL(r2, r2), ADD(MUL(r, F64(0x1.1111167a4d017p-7)), F64(0x1.55555cf172b91p-5)));
  v128_t low = MUL(r2, ADD(MUL(r, F64(0x1.555555555543cp-3)), F64(0x1.ffffffffffdbdp-2)));
  v128_t scale = wasm_i64x2_add(SECONDS(p, q), wasm_i64x2_shl(shifted, 45));
  return ADD(MUL(scale, ADD(high, ADD(low, ADD(FIRSTS(p, q), r)))), scale);
}

INLINE int is_plain_exp_f32(v128_t x) { return wasm_i32x4_all_true(wasm_f32x4_lt(wasm_f32x4_abs(x), wasm_f32x4_const_splat(88))); }
INLINE v128_t exp_of_two(v128_t x) {
  v128_t z = MUL(x, F64(0x1.71547652b82fep+5)), shift = F64(0x1.8p52), shifted = ADD(z, shift), r = SUB(z, SUB(shifted, shift));
  const char *table = (const char *)TABLE_EXPF;
  v128_t bits = wasm_v128_load64_zero(table + ((wasm_i32x4_extract_lane(shifted, 0) & 31) << 3));
  bits = wasm_v128_load64_lane(table + ((wasm_i32x4_extract_lane(shifted, 2) & 31) << 3), bits, 1);
  v128_t scale = wasm_i64x2_add(bits, wasm_i64x2_shl(shifted, 47));
  v128_t high = MUL(ADD(MUL(r, F64(0x1.c6af84b912394p-20)), F64(0x1.ebfce50fac4f3p-13)), MUL(r, r));
  return MUL(ADD(high, ADD(MUL(r, F64(0x1.62e42ff0c52d6p-6)), F64(1))), scale);
}

// 2**-1022 and above, not infinite, and not between 0.9375 and 1.065, where it is another polynomial
INLINE int is_plain_log_f64(v128_t x) {
  v128_t near_one = wasm_v128_and(wasm_f64x2_ge(x, F64(0.9375)), wasm_f64x2_lt(x, F64(0x1.109p+0)));
  v128_t normal = wasm_v128_and(wasm_f64x2_ge(x, F64(0x1p-1022)), wasm_f64x2_lt(x, F64(__builtin_inf())));
  return wasm_i64x2_all_true(wasm_v128_andnot(normal, near_one));
}
INLINE v128_t log_f64(v128_t x) {
  v128_t moved = wasm_i64x2_sub(x, wasm_i64x2_const_splat(0x3fe6000000000000));
  v128_t upper = wasm_i32x4_shr(wasm_i32x4_shuffle(moved, moved, 1, 3, 1, 3), 20);
  v128_t k = wasm_f64x2_convert_low_i32x4(upper);
  v128_t z = wasm_i64x2_sub(x, wasm_v128_and(moved, wasm_i64x2_const_splat((i64)0xfffull << 52)));
  v128_t places = wasm_v128_and(wasm_u64x2_shr(moved, 41), wasm_i64x2_const_splat(127 << 4));
  u32 first = wasm_i32x4_extract_lane(places, 0), second = wasm_i32x4_extract_lane(places, 2);
  v128_t p = AT(TABLE_LOG, first), q = AT(TABLE_LOG, second), c = AT(TABLE_LOG_C, first), d = AT(TABLE_LOG_C, second);
  v128_t r = MUL(FIRSTS(p, q), SUB(SUB(z, FIRSTS(c, d)), SECONDS(c, d))), r2 = MUL(r, r);
  v128_t w = ADD(MUL(k, F64(0x1.62e42fefa3800p-1)), SECONDS(p, q)), sum = ADD(w, r);
  v128_t rest = ADD(MUL(k, F64(0x1.ef35793c76730p-45)), ADD(r, SUB(w, sum)));
  v128_t high = MUL(r2, ADD(MUL(r, F64(-0x1.55575e506c89fp-3)), F64(0x1.999b324f10111p-3)));
  high = MUL(MUL(r, r2), ADD(high, ADD(MUL(r, F64(-0x1.fffffffeb4590p-3)), F64(0x1.555555551305bp-2))));
  return ADD(sum, ADD(high, ADD(MUL(r2, F64(-0x1.0000000000001p-1)), rest)));
}

INLINE int is_plain_log_f32(v128_t x) {
  return wasm_i32x4_all_true(wasm_v128_and(
      wasm_f32x4_ge(x, wasm_f32x4_const_splat(0x1p-126f)), wasm_f32x4_lt(x, wasm_f32x4_const_splat(__builtin_inff()))));
}
// Of four floats, taken apart into z and moved; the two of them that are the lower ones here.
INLINE v128_t log_of_two(v128_t z, v128_t moved) {
  const char *table = (const char *)TABLE_LOGF;
  v128_t p = LOAD(table + ((u32)wasm_i32x4_extract_lane(moved, 0) >> 15 & 240));
  v128_t q = LOAD(table + ((u32)wasm_i32x4_extract_lane(moved, 1) >> 15 & 240));
  v128_t k = wasm_f64x2_convert_low_i32x4(wasm_i32x4_shr(moved, 23));
  v128_t r = ADD(MUL(wasm_f64x2_promote_low_f32x4(z), FIRSTS(p, q)), F64(-1)), r2 = MUL(r, r);
  v128_t y = ADD(MUL(r2, F64(-0x1.00ea348b88334p-2)), ADD(MUL(r, F64(0x1.5575b0be00b6ap-2)), F64(-0x1.ffffef20a4123p-2)));
  return ADD(MUL(y, r2), ADD(ADD(MUL(k, F64(0x1.62e42fefa39efp-1)), SECONDS(p, q)), r));
}

#define UPPER(v) wasm_i64x2_shuffle(v, v, 1, 1)
#define TOGETHER(a, b) FIRSTS(wasm_f32x4_demote_f64x2_zero(a), wasm_f32x4_demote_f64x2_zero(b))
INLINE v128_t exp_f32(v128_t x) {
  return TOGETHER(exp_of_two(wasm_f64x2_promote_low_f32x4(x)), exp_of_two(wasm_f64x2_promote_low_f32x4(UPPER(x))));
}
INLINE v128_t log_f32(v128_t x) {
  v128_t moved = wasm_i32x4_sub(x, wasm_i32x4_const_splat(0x3f330000));
  v128_t z = wasm_i32x4_sub(x, wasm_v128_and(moved, wasm_i32x4_const_splat((i32)0xff800000)));
  return TOGETHER(log_of_two(z, moved), log_of_two(UPPER(z), UPPER(moved)));
}

#define LANES(T) (16 / sizeof(T))
#define LOOP(NAME, T, FUNCTION, ONE)                                                                    \
  DECLARE(NAME) {                                                                                       \
    u32 n = dimensions[0], i = 0;                                                                       \
    const T *a = (const T *)args[0];                                                                    \
    T *out = (T *)args[1];                                                                              \
    if (!unary_operands(args, n, steps, sizeof(T), sizeof(T))) { ORIGINAL(NAME); return; }              \
    for (; n - i >= 4 * LANES(T); i += 4 * LANES(T)) {                                                  \
      UNROLL for (u32 k = 0; k < 4 * LANES(T); k += LANES(T)) {                                         \
        v128_t x = LOAD(a + i + k);                                                                     \
        if (is_plain_##FUNCTION(x)) STORE(out + i + k, FUNCTION(x));                                    \
        else UNROLL for (u32 l = 0; l < LANES(T); l++) out[i + k + l] = ONE(a[i + k + l]);              \
      }                                                                                                 \
    }                                                                                                   \
    for (; i < n; i++) out[i] = ONE(a[i]);                                                              \
  }
LOOP(f64_exp, f64, exp_f64, exp)
LOOP(f64_log, f64, log_f64, log)
LOOP(f32_exp, f32, exp_f32, expf)
LOOP(f32_log, f32, log_f32, logf)
