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
#include "kernels/scales.h"
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
  static FFN_INLINE void keep(float* to, Sum sum, bool first, const Scale& s) {
    const Float whole = fnma(splat(s.row.zero), s.sums, floats(reinterpret_cast<Int>(sum)));
    const Float scale = mul(splat(s.row.scale), s.columns);
    store(to, first ? mul(whole, scale) : fma(whole, scale, load(to)));
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

  // First the scales of all groups: one after the other they would wait for each other's sums.
  template <class Row>
  static void convert(const Row& row, int columns, int32_t* to, long units, long group, ffn::RowScale* scales) {
    const int size = 4 * static_cast<int>(group), elements = 4 * static_cast<int>(units);
    const auto end = [&](int first) { return first + size < columns ? first + size : columns; };
    for (int first = 0, i = 0; first < elements; first += size) scales[i++] = scale_of(row, first, end(first));
    for (int first = 0, i = 0; first < elements; first += size) {
      const int written = elements - first < size ? elements - first : size;
      write_group(row, first, end(first), to + first / kElements, written, scales[i++]);
    }
  }

  // A group's range, with zero in it, becomes 0 .. 255. A group with NaN or infinity gets the scale NaN.
  template <class Row>
  static FFN_INLINE ffn::RowScale scale_of(const Row& row, int first, int end) {
    Float high[kSums] = {}, low[kSums] = {}, poison[kSums] = {};
    over_row_in_sums(end - first, [&](int k, int count, int i) __attribute__((always_inline)) {
      const Float x = row(first + k, count);
      high[i] = larger(high[i], x);
      low[i] = smaller(low[i], x);
      poison[i] = fma(x, splat(0.0f), poison[i]);
    });
    const float least = smallest_of_lanes(smaller(smaller(low[0], low[1]), smaller(low[2], low[3])));
    const float most = largest_of_lanes(larger(larger(high[0], high[1]), larger(high[2], high[3])));
    const float nan_or_zero = sum_of_lanes(total(poison));
    if (nan_or_zero != 0) return {nan_or_zero, 0};
    // The range itself may overflow. The inverse of a step below the normal numbers would.
    const float range = most / 255.0f - least / 255.0f;
    const float step = most > least ? std::max(range, FLT_MIN) : 1.0f;
    return {step, round_to_integer(splat(-least / step))[0]};
  }

  template <class Row>
  static FFN_INLINE void write_group(const Row& row, int first, int end, int32_t* to, int elements,
                                     const ffn::RowScale& scale) {
    const Float inverse = splat(1.0f / scale.scale), zero = splat(scale.zero);
    const auto bytes = [&](int k, int count) __attribute__((always_inline)) {
      return integers(fma(row(first + k, count), inverse, zero));
    };
    int k = 0;
    for (; first + k + kLanes <= end; k += kLanes) store_bytes(to + k / kElements, bytes(k, kLanes));
    for (; k < elements; k += kLanes) {
      const int left = end - (first + k);
      store_bytes(to + k / kElements, bytes(k, left < 0 ? 0 : left));
    }
  }
};

}  // namespace
