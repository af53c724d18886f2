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
FFN_INLINE Float fma(Float a, Float b, Float c) { return _mm512_fmadd_ps(a, b, c); }    // a b + c
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
FFN_INLINE Float broadcast(const int32_t* unit) { return _mm512_castsi512_ps(_mm512_set1_epi32(*unit)); }

}  // namespace
