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
FFN_INLINE Float fma(Float a, Float b, Float c) { return _mm256_fmadd_ps(a, b, c); }    // a b + c
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
FFN_INLINE Float broadcast(const int32_t* unit) { return _mm256_castsi256_ps(_mm256_set1_epi32(*unit)); }

}  // namespace
