// int8: a unit is four elements, a step adds four products to a 32-bit integer (VPDPBUSD of VNNI), without rounding.
//
//     unit of A, in all lanes   | q0 q1 q2 q3 | q0 q1 q2 q3 | ...     unsigned: x = scale (q - zero), a scale a token
//     panel of B                | b0 b1 b2 b3 | b0 b1 b2 b3 | ...     signed:   w = scale b, a scale a column
//     sum                       | + all four  | + all four  | ...
//
// K is cut into groups, and each group of a row and of a column has its own scale: few large values then cost only
// their group digits. The sum of a group is scale_a scale_w (sum - zero * sum of the column). The bracket is exact in
// float32 up to 512 elements, where both terms are below 2^24.
#pragma once

#include <algorithm>
#include <cfloat>

#include "kernels.h"
#include "kernels/rows.h"
#include "panels.h"

namespace {

struct Dot {
  static constexpr auto kPrecision = ffn::Precision::kInt8;
  static constexpr int kElements = 4;
  static constexpr int kWords = 1;
  static constexpr int kBlock = 56;
  static constexpr long kChunk = Bytes::kGroup;
  static constexpr bool kNarrow = false;
  using Sum = ::Sum;

  static FFN_INLINE Sum zero() { return Sum{}; }
  static FFN_INLINE Float columns(Float units, int) { return units; }
  static FFN_INLINE Sum step(Sum sum, Float a, Float b) { return Bytes::step(sum, a, b); }
  // A tile holds the integers of a group, bit for bit.
  static FFN_INLINE void keep(float* to, Sum sum, bool) { store(to, reinterpret_cast<Float>(sum)); }
  static FFN_INLINE Float scaled(const float* sum, const ffn::RowScale& row, const float* scales, const float* sums) {
    const Float whole = fnma(splat(row.zero), load(sums), floats(as_integers(load(sum))));
    return mul(whole, mul(splat(row.scale), load(scales)));
  }

  static void convert(const float* from, const float* factors, int columns, int32_t* to, long units, long group,
                      ffn::RowScale* scales) {
    if (factors)
      convert(Smoothed{from, factors}, columns, to, units, group, scales);
    else
      convert(Plain{from}, columns, to, units, group, scales);
  }

 private:
  // Elements of a row from k on, as many as `count` says.
  struct Plain {
    const float* from;
    FFN_INLINE Float operator()(int k, int count) const { return load_part(from + k, count); }
  };
  struct Smoothed {
    const float *from, *factors;
    FFN_INLINE Float operator()(int k, int count) const {
      return mul(load_part(from + k, count), load_part(factors + k, count));
    }
  };

  template <class Row>
  static void convert(const Row& row, int columns, int32_t* to, long units, long group, ffn::RowScale* scales) {
    for (int first = 0; units > 0; units -= group, to += group, scales++) {
      const int elements = 4 * static_cast<int>(group < units ? group : units);
      convert_group(row, first, columns, to, elements, scales);
      first += elements;
    }
  }

  // A group's range, with zero in it, becomes 0 .. 255. A group with NaN or infinity gets the scale NaN.
  template <class Row>
  static FFN_INLINE void convert_group(const Row& row, int first, int columns, int32_t* to, int elements,
                                       ffn::RowScale* scale) {
    const int end = first + elements < columns ? first + elements : columns;
    Float high = splat(0.0f), low = splat(0.0f), poison = splat(0.0f);
    for (int k = first; k < end; k += kLanes) {
      const Float x = row(k, end - k < kLanes ? end - k : kLanes);
      high = larger(high, x);
      low = smaller(low, x);
      poison = fma(x, splat(0.0f), poison);
    }
    const float least = smallest_of_lanes(low), most = largest_of_lanes(high);
    const float nan_or_zero = sum_of_lanes(poison);
    const bool finite = nan_or_zero == 0;
    // The range itself may overflow. The inverse of a step below the normal numbers would.
    const float range = most / 255.0f - least / 255.0f;
    const float step = !finite ? nan_or_zero : most > least ? std::max(range, FLT_MIN) : 1.0f;
    const Float zero = finite ? round_to_integer(splat(-least / step)) : splat(0.0f);
    const Int zeros = integers(zero);
    *scale = {step, zero[0]};
    const Float inverse = splat(1.0f / step);
    for (int k = 0; k < elements; k += kLanes) {
      const int left = end - (first + k);
      const Float x = row(first + k, left < 0 ? 0 : left < kLanes ? left : kLanes);
      store_bytes(to + k / kElements, plus(integers(mul(x, inverse)), zeros));
    }
  }
};

}  // namespace
