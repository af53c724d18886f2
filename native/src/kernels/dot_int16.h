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
#include "scales.h"

namespace {

struct Dot {
  static constexpr auto kPrecision = ffn::Precision::kInt8;
  static constexpr int kElements = 2;
  static constexpr int kWords = 1;
  static constexpr long kChunk = 64;
  static constexpr float kMostWeight = 32767.0f, kMostValue = 511.0f, kMost = 4095.0f;  // 128 * 4095^2 < 2^31
  using Sum = ::Sum;

  static FFN_INLINE Sum zero() { return Sum{}; }
  static FFN_INLINE Float columns(Float units, int) { return units; }
  static FFN_INLINE Sum step(Sum sum, Float a, Float b) { return plus_products_of_pairs(sum, a, b); }
  static FFN_INLINE void keep(float* to, Sum sum, bool first, const Scale&) {
    const Float x = floats(reinterpret_cast<Int>(sum));
    store(to, first ? x : add(load(to), x));
  }

  // The larger of two magnitudes, as integers compare them: infinity is above all numbers, and NaN above infinity.
  static FFN_INLINE Float larger_magnitude(Float a, Float b) {
    return as_floats(larger(as_integers(a), as_integers(b)));
  }
  static FFN_INLINE float largest_of_lanes(Float magnitudes) {
    return _mm_cvtss_f32(_mm_castsi128_ps(_mm_cvtsi32_si128(::largest_of_lanes(as_integers(magnitudes)))));
  }

  // The root of a magnitude, up to 6 % more: half of its exponent, and of its digits.
  static FFN_INLINE Float about_root(Float magnitude) {
    return as_floats(plus(halved(as_integers(magnitude)), as_integers(splat(0x1.8p-64f))));
  }

  // A unit of each column, out of as many rows as a unit has elements.
  static FFN_INLINE Float units_of(const Float (&rows)[kElements]) {
    return as_floats(paired(integers(rows[0]), integers(rows[1])));
  }
  static FFN_INLINE void store_units(int32_t* to, Float x) { store_low_halves(to, integers(x)); }

  static FFN_INLINE void convert(const float* from, int columns, int32_t* to, long units, float inverse) {
    for (long k = 0; k < 2 * units; k += kLanes) {
      const long left = columns - k;
      const Float x = left >= kLanes ? load(from + k) : load(from + k, left > 0 ? static_cast<int>(left) : 0);
      store_units(to + k / 2, mul(x, splat(inverse)));
    }
  }
};

}  // namespace
