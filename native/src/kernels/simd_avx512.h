// Vectors of sixteen 32-bit elements: the names that the kernels are written in, as instructions of AVX-512.
//
// Everything here and in the files that build on it has internal linkage. A function of external linkage, also one of
// the standard library, may be merged with its copies in other files, and then a processor without AVX-512 would run
// it.
#pragma once

#include <immintrin.h>

#include <cstdint>

#define FFN_INLINE inline __attribute__((always_inline))

namespace {

using Float = __m512;
using Int = __m512i;
constexpr int kLanes = 16;

FFN_INLINE Float splat(float x) { return _mm512_set1_ps(x); }
FFN_INLINE Float load(const float* p) { return _mm512_loadu_ps(p); }
FFN_INLINE Float load(const float* p, int count) {  // zero after `count` elements, which are not read
  return _mm512_maskz_loadu_ps(static_cast<__mmask16>((1u << count) - 1), p);
}
FFN_INLINE void store(float* p, Float x) { _mm512_storeu_ps(p, x); }
FFN_INLINE void store(float* p, Float x, int count) {
  _mm512_mask_storeu_ps(p, static_cast<__mmask16>((1u << count) - 1), x);
}
FFN_INLINE Float add(Float a, Float b) { return _mm512_add_ps(a, b); }
FFN_INLINE Float sub(Float a, Float b) { return _mm512_sub_ps(a, b); }
FFN_INLINE Float mul(Float a, Float b) { return _mm512_mul_ps(a, b); }
FFN_INLINE Float div(Float a, Float b) { return _mm512_div_ps(a, b); }
FFN_INLINE Float fma(Float a, Float b, Float c) { return _mm512_fmadd_ps(a, b, c); }  // a b + c
FFN_INLINE Float plus_product(Float sum, Float a, Float b) { return fma(a, b, sum); }
FFN_INLINE Float fnma(Float a, Float b, Float c) { return _mm512_fnmadd_ps(a, b, c); }  // c - a b
// Of a constant and x: NaN where x is.
FFN_INLINE Float at_least(float low, Float x) { return _mm512_max_ps(splat(low), x); }
FFN_INLINE Float at_most(float high, Float x) { return _mm512_min_ps(splat(high), x); }
FFN_INLINE Float magnitude(Float x) { return _mm512_abs_ps(x); }
FFN_INLINE Float round_to_integer(Float x) {
  return _mm512_roundscale_ps(x, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
}
FFN_INLINE Float where_positive(Float x, Float yes, Float no) {
  return _mm512_mask_blend_ps(_mm512_cmp_ps_mask(x, _mm512_setzero_ps(), _CMP_GT_OQ), no, yes);
}
// 2^n for whole n from -126 to 127.
FFN_INLINE Float power_of_two(Float n) {
  return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_add_epi32(_mm512_cvtps_epi32(n), _mm512_set1_epi32(127)), 23));
}
// What is left of x above the whole number below it; and y times 2 to that number, or 0 where x is below -126.
FFN_INLINE Float fraction(Float x) { return _mm512_reduce_ps(x, _MM_FROUND_TO_NEG_INF | _MM_FROUND_NO_EXC); }
FFN_INLINE Float scaled_by_whole(Float y, Float x) {
  const __mmask16 is_zero = _mm512_cmp_ps_mask(splat(-126.0f), x, _CMP_GT_OQ);
  return _mm512_maskz_scalef_ps(static_cast<__mmask16>(~is_zero), y, x);
}
FFN_INLINE Float larger(Float a, Float b) { return _mm512_max_ps(a, b); }   // b where one is NaN
FFN_INLINE Float smaller(Float a, Float b) { return _mm512_min_ps(a, b); }  // the same
FFN_INLINE float sum_of_lanes(Float x) { return _mm512_reduce_add_ps(x); }
FFN_INLINE float largest_of_lanes(Float x) { return _mm512_reduce_max_ps(x); }
FFN_INLINE float smallest_of_lanes(Float x) { return _mm512_reduce_min_ps(x); }
FFN_INLINE Int integers(Float x) { return _mm512_cvtps_epi32(x); }  // to nearest; the smallest one for NaN
FFN_INLINE Float floats(Int x) { return _mm512_cvtepi32_ps(x); }
FFN_INLINE Int as_integers(Float x) { return _mm512_castps_si512(x); }  // bit for bit
FFN_INLINE Float as_floats(Int x) { return _mm512_castsi512_ps(x); }
FFN_INLINE Int plus(Int a, Int b) { return _mm512_add_epi32(a, b); }
FFN_INLINE Int larger(Int a, Int b) { return _mm512_max_epi32(a, b); }
FFN_INLINE int largest_of_lanes(Int x) { return _mm512_reduce_max_epi32(x); }
FFN_INLINE Int halved(Int x) { return _mm512_srli_epi32(x, 1); }
// Two integers of 16 bits in each lane, of which `low` comes first. Lanes of 16 and of 8 bits, side by side.
FFN_INLINE Int paired(Int low, Int high) {
  return _mm512_or_si512(_mm512_and_si512(low, _mm512_set1_epi32(0xffff)), _mm512_slli_epi32(high, 16));
}
FFN_INLINE void store_bytes(int32_t* to, Int x) {  // 0 for what is below, 255 for what is above
  const __m128i bytes = _mm512_cvtusepi32_epi8(larger(x, _mm512_setzero_si512()));
  _mm_storeu_si128(reinterpret_cast<__m128i*>(to), bytes);
}
FFN_INLINE void store_low_halves(int32_t* to, Int x) {
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(to), _mm512_cvtepi32_epi16(x));
}
// x in the first `count` lanes, `other` in those after them.
FFN_INLINE Float first_lanes(int count, Float x, Float other) {
  return _mm512_mask_blend_ps(static_cast<__mmask16>((1u << count) - 1), other, x);
}
// The bfloat16 in each half of a lane, as float32.
FFN_INLINE Float lower_half(Float x) { return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_castps_si512(x), 16)); }
FFN_INLINE Float upper_half(Float x) {
  return _mm512_castsi512_ps(_mm512_and_si512(_mm512_castps_si512(x), _mm512_set1_epi32(-0x10000)));
}
FFN_INLINE Float broadcast(const int32_t* unit) { return _mm512_castsi512_ps(_mm512_set1_epi32(*unit)); }

// Writes the columns of 16 rows of 16 units as rows.
FFN_INLINE void transpose(const int32_t* from, long stride, int32_t* to, long to_stride) {
  Int r[16], t[16];
  for (int i = 0; i < 16; i++) r[i] = _mm512_loadu_si512(from + i * stride);
  for (int i = 0; i < 8; i++) {
    t[2 * i] = _mm512_unpacklo_epi32(r[2 * i], r[2 * i + 1]);
    t[2 * i + 1] = _mm512_unpackhi_epi32(r[2 * i], r[2 * i + 1]);
  }
  for (int i = 0; i < 4; i++) {  // then quarter q of r[4 i + j] holds column 4 q + j of the rows 4 i .. 4 i + 3
    r[4 * i] = _mm512_unpacklo_epi64(t[4 * i], t[4 * i + 2]);
    r[4 * i + 1] = _mm512_unpackhi_epi64(t[4 * i], t[4 * i + 2]);
    r[4 * i + 2] = _mm512_unpacklo_epi64(t[4 * i + 1], t[4 * i + 3]);
    r[4 * i + 3] = _mm512_unpackhi_epi64(t[4 * i + 1], t[4 * i + 3]);
  }
  for (int j = 0; j < 4; j++) {
    const Int even0 = _mm512_shuffle_i32x4(r[j], r[4 + j], 0x88), odd0 = _mm512_shuffle_i32x4(r[j], r[4 + j], 0xdd);
    const Int even1 = _mm512_shuffle_i32x4(r[8 + j], r[12 + j], 0x88);
    const Int odd1 = _mm512_shuffle_i32x4(r[8 + j], r[12 + j], 0xdd);
    _mm512_storeu_si512(to + j * to_stride, _mm512_shuffle_i32x4(even0, even1, 0x88));
    _mm512_storeu_si512(to + (4 + j) * to_stride, _mm512_shuffle_i32x4(odd0, odd1, 0x88));
    _mm512_storeu_si512(to + (8 + j) * to_stride, _mm512_shuffle_i32x4(even0, even1, 0xdd));
    _mm512_storeu_si512(to + (12 + j) * to_stride, _mm512_shuffle_i32x4(odd0, odd1, 0xdd));
  }
}

}  // namespace
