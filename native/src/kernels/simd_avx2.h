// Vectors of eight 32-bit elements: the names that the kernels are written in, as instructions of AVX2 and FMA.
//
// Internal linkage throughout, for the reason that simd_avx512.h gives.
#pragma once

#include <immintrin.h>

#include <cstdint>

#define FFN_INLINE inline __attribute__((always_inline))

namespace {

using Float = __m256;
using Int = __m256i;
constexpr int kLanes = 8;

FFN_INLINE Int first_lanes(int count) {
  return _mm256_cmpgt_epi32(_mm256_set1_epi32(count), _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7));
}
FFN_INLINE Float splat(float x) { return _mm256_set1_ps(x); }
FFN_INLINE Float load(const float* p) { return _mm256_loadu_ps(p); }
FFN_INLINE Float load(const float* p, int count) {  // zero after `count` elements, which are not read
  return _mm256_maskload_ps(p, first_lanes(count));
}
FFN_INLINE void store(float* p, Float x) { _mm256_storeu_ps(p, x); }
FFN_INLINE void store(float* p, Float x, int count) { _mm256_maskstore_ps(p, first_lanes(count), x); }
FFN_INLINE Float add(Float a, Float b) { return _mm256_add_ps(a, b); }
FFN_INLINE Float sub(Float a, Float b) { return _mm256_sub_ps(a, b); }
FFN_INLINE Float mul(Float a, Float b) { return _mm256_mul_ps(a, b); }
FFN_INLINE Float div(Float a, Float b) { return _mm256_div_ps(a, b); }
FFN_INLINE Float fma(Float a, Float b, Float c) { return _mm256_fmadd_ps(a, b, c); }  // a b + c
// sum + a b, by the form of FMA that writes to the register of the sum. With the intrinsic, GCC mixes the three forms
// in a micro-kernel, which then takes longer.
FFN_INLINE Float plus_product(Float sum, Float a, Float b) {
  __asm__("vfmadd231ps %2, %1, %0" : "+x"(sum) : "x"(a), "x"(b));
  return sum;
}
FFN_INLINE Float fnma(Float a, Float b, Float c) { return _mm256_fnmadd_ps(a, b, c); }  // c - a b
// Of a constant and x: NaN where x is.
FFN_INLINE Float at_least(float low, Float x) { return _mm256_max_ps(splat(low), x); }
FFN_INLINE Float at_most(float high, Float x) { return _mm256_min_ps(splat(high), x); }
FFN_INLINE Float magnitude(Float x) { return _mm256_andnot_ps(splat(-0.0f), x); }
FFN_INLINE Float round_to_integer(Float x) { return _mm256_round_ps(x, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC); }
FFN_INLINE Float where_positive(Float x, Float yes, Float no) {
  return _mm256_blendv_ps(no, yes, _mm256_cmp_ps(x, _mm256_setzero_ps(), _CMP_GT_OQ));
}
// 2^n for whole n from -126 to 127.
FFN_INLINE Float power_of_two(Float n) {
  return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_add_epi32(_mm256_cvtps_epi32(n), _mm256_set1_epi32(127)), 23));
}
// What is left of x above the whole number below it; and y times 2 to that number, or 0 where x is below -126.
FFN_INLINE Float fraction(Float x) { return sub(x, _mm256_floor_ps(x)); }
FFN_INLINE Float scaled_by_whole(Float y, Float x) {
  const Float is_zero = _mm256_cmp_ps(splat(-126.0f), x, _CMP_GT_OQ);
  return _mm256_andnot_ps(is_zero, mul(y, power_of_two(_mm256_floor_ps(x))));
}
FFN_INLINE Float larger(Float a, Float b) { return _mm256_max_ps(a, b); }   // b where one is NaN
FFN_INLINE Float smaller(Float a, Float b) { return _mm256_min_ps(a, b); }  // the same
FFN_INLINE float sum_of_lanes(Float x) {
  __m128 s = _mm_add_ps(_mm256_castps256_ps128(x), _mm256_extractf128_ps(x, 1));
  s = _mm_add_ps(s, _mm_movehl_ps(s, s));
  return _mm_cvtss_f32(_mm_add_ss(s, _mm_movehdup_ps(s)));
}
FFN_INLINE float largest_of_lanes(Float x) {
  __m128 s = _mm_max_ps(_mm256_castps256_ps128(x), _mm256_extractf128_ps(x, 1));
  s = _mm_max_ps(s, _mm_movehl_ps(s, s));
  return _mm_cvtss_f32(_mm_max_ss(s, _mm_movehdup_ps(s)));
}
FFN_INLINE float smallest_of_lanes(Float x) { return -largest_of_lanes(sub(splat(0.0f), x)); }
FFN_INLINE Int integers(Float x) { return _mm256_cvtps_epi32(x); }  // to nearest; the smallest one for NaN
FFN_INLINE Float floats(Int x) { return _mm256_cvtepi32_ps(x); }
FFN_INLINE Int as_integers(Float x) { return _mm256_castps_si256(x); }  // bit for bit
FFN_INLINE Float as_floats(Int x) { return _mm256_castsi256_ps(x); }
FFN_INLINE Int plus(Int a, Int b) { return _mm256_add_epi32(a, b); }
FFN_INLINE Int larger(Int a, Int b) { return _mm256_max_epi32(a, b); }
FFN_INLINE int largest_of_lanes(Int x) {
  __m128i s = _mm_max_epi32(_mm256_castsi256_si128(x), _mm256_extracti128_si256(x, 1));
  s = _mm_max_epi32(s, _mm_shuffle_epi32(s, 0x4e));
  return _mm_cvtsi128_si32(_mm_max_epi32(s, _mm_shuffle_epi32(s, 0xb1)));
}
FFN_INLINE Int halved(Int x) { return _mm256_srli_epi32(x, 1); }
// Two integers of 16 bits in each lane, of which `low` comes first. Lanes of 16 and of 8 bits, side by side.
FFN_INLINE Int paired(Int low, Int high) { return _mm256_blend_epi16(low, _mm256_slli_epi32(high, 16), 0xaa); }
FFN_INLINE void store_bytes(int32_t* to, Int x) {  // 0 for what is below, 255 for what is above
  const __m128i halves = _mm_packs_epi32(_mm256_castsi256_si128(x), _mm256_extracti128_si256(x, 1));
  _mm_storeu_si64(to, _mm_packus_epi16(halves, halves));
}
FFN_INLINE void store_low_halves(int32_t* to, Int x) {
  const __m128i halves = _mm_packs_epi32(_mm256_castsi256_si128(x), _mm256_extracti128_si256(x, 1));
  _mm_storeu_si128(reinterpret_cast<__m128i*>(to), halves);
}
// x in the first `count` lanes, `other` in those after them.
FFN_INLINE Float first_lanes(int count, Float x, Float other) {
  return _mm256_blendv_ps(other, x, _mm256_castsi256_ps(first_lanes(count)));
}
// The bfloat16 in each half of a lane, as float32.
FFN_INLINE Float lower_half(Float x) { return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_castps_si256(x), 16)); }
FFN_INLINE Float upper_half(Float x) { return _mm256_and_ps(x, _mm256_castsi256_ps(_mm256_set1_epi32(-0x10000))); }
FFN_INLINE Float broadcast(const int32_t* unit) { return _mm256_castsi256_ps(_mm256_set1_epi32(*unit)); }

// Writes the columns of 8 rows of 8 units as rows.
FFN_INLINE void transpose(const int32_t* from, long stride, int32_t* to, long to_stride) {
  Float r[8], t[8];
  for (int i = 0; i < 8; i++) r[i] = load(reinterpret_cast<const float*>(from + i * stride));
  for (int i = 0; i < 4; i++) {
    t[2 * i] = _mm256_unpacklo_ps(r[2 * i], r[2 * i + 1]);
    t[2 * i + 1] = _mm256_unpackhi_ps(r[2 * i], r[2 * i + 1]);
  }
  for (int i = 0; i < 2; i++) {  // then half h of r[4 i + j] holds column 4 h + j of the rows 4 i .. 4 i + 3
    r[4 * i] = _mm256_shuffle_ps(t[4 * i], t[4 * i + 2], 0x44);
    r[4 * i + 1] = _mm256_shuffle_ps(t[4 * i], t[4 * i + 2], 0xee);
    r[4 * i + 2] = _mm256_shuffle_ps(t[4 * i + 1], t[4 * i + 3], 0x44);
    r[4 * i + 3] = _mm256_shuffle_ps(t[4 * i + 1], t[4 * i + 3], 0xee);
  }
  for (int j = 0; j < 4; j++) {
    store(reinterpret_cast<float*>(to + j * to_stride), _mm256_permute2f128_ps(r[j], r[4 + j], 0x20));
    store(reinterpret_cast<float*>(to + (4 + j) * to_stride), _mm256_permute2f128_ps(r[j], r[4 + j], 0x31));
  }
}

}  // namespace
