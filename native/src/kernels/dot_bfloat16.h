// bfloat16: a unit is two elements, a step adds both products to a float32 (VDPBF16PS).
//
//     unit of A, in all lanes   | x[k] x[k+1] | x[k] x[k+1] | ...
//     panel of B                | b[k] b[k+1] | b[k] b[k+1] | ...     one column a lane
//     sum                       |  + x b + x b|  + x b + x b| ...
//
// The products are exact in float32. What is lost is lost in rounding the operands, so the sum is not split.
#pragma once

#include "kernels.h"
#include "scales.h"

namespace {

struct Dot {
  static constexpr auto kPrecision = ffn::Precision::kBfloat16;
  static constexpr int kElements = 2;
  static constexpr int kWords = 1;
  static constexpr int kBlock = 112;
  static constexpr long kChunk = 1L << 40;
  static constexpr bool kNarrow = true;
  using Sum = Float;

  static FFN_INLINE Sum zero() { return splat(0.0f); }
  static FFN_INLINE Float columns(Float units, int) { return units; }
  static FFN_INLINE Sum step(Sum sum, Float a, Float b) {
    return _mm512_dpbf16_ps(sum, reinterpret_cast<__m512bh>(a), reinterpret_cast<__m512bh>(b));
  }
  static FFN_INLINE void keep(float* to, Sum sum, bool first, const Scale&) {
    store(to, first ? sum : add(load(to), sum));
  }

  static FFN_INLINE void store_narrow(uint16_t* to, Float x, int count) {
    const auto halves = reinterpret_cast<__m256i>(_mm512_cvtneps_pbh(x));
    if (count >= kLanes) {
      _mm256_storeu_si256(reinterpret_cast<__m256i*>(to), halves);
    } else {
      _mm256_mask_storeu_epi16(to, static_cast<__mmask16>((1u << count) - 1), halves);
    }
  }

  // A unit of each column, out of as many rows as a unit has elements.
  static FFN_INLINE Float units_of(const Float (&rows)[kElements]) {
    const auto wide = [](Float x) __attribute__((always_inline)) {
      return _mm512_cvtepu16_epi32(reinterpret_cast<__m256i>(_mm512_cvtneps_pbh(x)));
    };
    return _mm512_castsi512_ps(_mm512_or_si512(wide(rows[0]), _mm512_slli_epi32(wide(rows[1]), 16)));
  }
  static FFN_INLINE void store_units(int32_t* to, Float x) { store_narrow(reinterpret_cast<uint16_t*>(to), x, kLanes); }

  static void convert(const float* from, int columns, int32_t* to, long units) {
    for (long k = 0; k < 2 * units; k += kLanes) {
      const long left = columns - k;
      const Float x = left >= kLanes ? load(from + k) : load(from + k, left > 0 ? static_cast<int>(left) : 0);
      store_narrow(reinterpret_cast<uint16_t*>(to) + k, x, kLanes);
    }
  }
};

}  // namespace
