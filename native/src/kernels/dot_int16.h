// 16-bit integers, for the products of attention: a unit is two elements, a step adds both products to a 32-bit integer
// (VPDPWSSD), in the time in which FMA adds one.
//
//     unit of A, in all lanes   | q0 q1 | q0 q1 | ...     a row of queries, with a scale; or weights of keys
//     panel of B                | b0 b1 | b0 b1 | ...     keys, with one scale; or values, with a scale a column
//     sum                       | + both| + both| ...
//
// A sum of 128 elements stays below 2^31, and is then added to a float32. So queries and keys have 12 bits and a sign;
// weights have 15, since the many small ones beside a large one count together, and values have 9 and a sign.
#pragma once

#include "kernels.h"
#include "rows.h"

namespace {

struct Dot {
  static constexpr auto kPrecision = ffn::Precision::kInt8;
  static constexpr int kElements = 2;
  static constexpr int kWords = 1;
  static constexpr long kChunk = 64;
  static constexpr float kMostWeight = 32767.0f, kMostValue = 511.0f, kMost = 4095.0f;  // 128 * 4095^2 < 2^31
  // Not __m512i: converted to float32 at the end, that makes GCC keep two copies of each sum, and spill them.
  typedef int Sum __attribute__((vector_size(64)));

  static FFN_INLINE Sum zero() { return Sum{}; }
  static FFN_INLINE Float columns(Float units, int) { return units; }
  static FFN_INLINE Sum step(Sum sum, Float a, Float b) {
    return reinterpret_cast<Sum>(
        _mm512_dpwssd_epi32(reinterpret_cast<__m512i>(sum), _mm512_castps_si512(a), _mm512_castps_si512(b)));
  }
  static FFN_INLINE void keep(float* to, Sum sum, bool first) {
    const Float x = _mm512_cvtepi32_ps(reinterpret_cast<__m512i>(sum));
    store(to, first ? x : add(load(to), x));
  }

  // The larger of two magnitudes, as integers compare them: infinity is above all numbers, and NaN above infinity.
  static FFN_INLINE Float larger_magnitude(Float a, Float b) {
    return _mm512_castsi512_ps(_mm512_max_epi32(_mm512_castps_si512(a), _mm512_castps_si512(b)));
  }
  static FFN_INLINE float largest_of_lanes(Float magnitudes) {
    const int bits = _mm512_reduce_max_epi32(_mm512_castps_si512(magnitudes));
    return _mm_cvtss_f32(_mm_castsi128_ps(_mm_cvtsi32_si128(bits)));
  }

  // The root of a magnitude, up to 6 % more: half of its exponent, and of its digits.
  static FFN_INLINE Float about_root(Float magnitude) {
    const __m512i half = _mm512_srli_epi32(_mm512_castps_si512(magnitude), 1);
    return _mm512_castsi512_ps(_mm512_add_epi32(half, _mm512_set1_epi32(0x1fc00000)));
  }

  // A unit of each column, out of as many rows as a unit has elements.
  static FFN_INLINE Float units_of(const Float (&rows)[kElements]) {
    const __m512i lower = _mm512_and_si512(_mm512_cvtps_epi32(rows[0]), _mm512_set1_epi32(0xffff));
    return _mm512_castsi512_ps(_mm512_or_si512(lower, _mm512_slli_epi32(_mm512_cvtps_epi32(rows[1]), 16)));
  }
  static FFN_INLINE void store_units(int32_t* to, Float x) {
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(to), _mm512_cvtepi32_epi16(_mm512_cvtps_epi32(x)));
  }

  static FFN_INLINE Float power_of_two(Float x, float one) { return about_power_of_two(x, one); }

  static FFN_INLINE void convert(const float* from, int columns, int32_t* to, long units, float inverse) {
    for (long k = 0; k < 2 * units; k += kLanes) {
      const long left = columns - k;
      const Float x = left >= kLanes ? load(from + k) : load(from + k, left > 0 ? static_cast<int>(left) : 0);
      store_units(to + k / 2, mul(x, splat(inverse)));
    }
  }
};

}  // namespace
