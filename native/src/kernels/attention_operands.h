// Rows of queries, keys and values as the units and panels of tile.h.
//
// As integers, queries have a scale for each row, keys have one scale, and values have one for each column: scores and
// sums are multiplied by them. Where keys or values are no finite numbers, or a few are far larger than the others, a
// task is computed in float32. What the others are is told by the mean of roots, in which a few large ones count little
// also where there are only some dozens of numbers. A query that is no finite number makes its row NaN.
#pragma once

#include "attention_plan.h"
#include "rows.h"

namespace {

constexpr float kLeastMagnitude = 1e-30f, kMostMagnitude = 1e30f;  // that have a scale and its inverse
constexpr float kMostOverOthers = 64;                              // of magnitudes that share a scale
constexpr int kAhead = 12;                                         // rows until one that is fetched is read

template <class D = Dot>
FFN_INLINE void convert_row(const float* from, int size, int32_t* to, long units, float inverse) {
  if constexpr (kScaled) {
    D::convert(from, size, to, units, inverse);
  } else {
    D::convert(from, size, to, units);
  }
}

// Returns what an integer of the row stands for.
template <class D = Dot>
FFN_INLINE float convert_query(const float* from, int size, int32_t* to, long units) {
  float scale = 1, inverse = 1;
  if constexpr (kScaled) {
    Float most = splat(0.0f);
    over_row(size, [&](int k, int count) __attribute__((always_inline)) {
      most = D::larger_magnitude(most, magnitude(load_part(from + k, count)));
    });
    const float its = D::largest_of_lanes(most), some = its < kLeastMagnitude ? kLeastMagnitude : its;
    scale = some < kInfinity ? some / D::kMost : __builtin_nanf("");
    inverse = D::kMost / some;
  }
  convert_row(from, size, to, units, inverse);
  return scale;
}

// Integers alone: calls `use` with the first of some columns of rows, and for each the largest magnitude and the sum of
// their roots. Infinity is larger than all numbers, and NaN than infinity.
template <class D = Dot, class Use>
FFN_INLINE void over_columns(const float* from, long stride, long rows, int size, const Use& use) {
  over_row(size, [&](int k, int count) __attribute__((always_inline)) {
    constexpr int kSums = 4;  // which do not wait for each other
    Float most[kSums], sum[kSums];
    for (int i = 0; i < kSums; i++) most[i] = sum[i] = splat(0.0f);
    for (long row = 0; row < rows; row += kSums) {
      for (int i = 0; i < kSums && row + i < rows; i++) {
        if (row + i + kAhead < rows) fetch_to_read(from + (row + i + kAhead) * stride + k, count);
        const Float x = magnitude(load_part(from + (row + i) * stride + k, count));
        most[i] = D::larger_magnitude(most[i], x);
        sum[i] = add(sum[i], D::about_root(x));
      }
    }
    for (int i = 1; i < kSums; i++) {
      most[0] = D::larger_magnitude(most[0], most[i]);
      sum[0] = add(sum[0], sum[i]);
    }
    use(k, most[0], sum[0]);
  });
}

// `inverse` is that of the scale of all keys.
FFN_INLINE void pack_keys(const Plan& plan, const float* key, long stride, int count, int size, float inverse) {
  for (long first = 0; first < up_to_multiple(count, kPanel); first += kLanes) {
    for (int i = 0; i < kLanes; i++) {
      const bool there = first + i < count;
      if (first + i + kAhead < count) fetch_to_read(key + (first + i + kAhead) * stride, size);
      convert_row(there ? key + (first + i) * stride : key, there ? size : 0, plan.staged + i * plan.row_stride,
                  plan.units, inverse);
    }
    int32_t* panel = plan.k + first / kPanel * kPanel * plan.deep + first % kPanel;
    for (long unit = 0; unit < plan.deep; unit += kLanes)
      transpose(plan.staged + unit, plan.row_stride, panel + unit * kPanel, kPanel);
  }
}

FFN_INLINE void pack_values(const Plan& plan, const float* value, long stride, int count, int size) {
  const long units = units_of(count);
  for (int column = 0; column < plan.panels * kPanel; column += kLanes) {
    const int left = size - column, some = left < kLanes ? left : kLanes;
    int32_t* to = plan.v + column / kPanel * kPanel * units + column % kPanel;
    Float inverse = splat(1.0f);
    if (kScaled) inverse = div(inverse, load(plan.value_scales + column));
    for (long unit = 0; unit < units; unit++, to += kPanel) {
      Float rows[Dot::kElements];
      for (int i = 0; i < Dot::kElements; i++) {
        const long row = unit * Dot::kElements + i;
        rows[i] = splat(0.0f);
        if (row + kAhead < count && some > 0) fetch_to_read(value + (row + kAhead) * stride + column, some);
        if (row < count && some > 0) rows[i] = load_part(value + row * stride + column, some);
        if (kScaled) rows[i] = mul(rows[i], inverse);
      }
      store(reinterpret_cast<float*>(to), Dot::units_of(rows));
    }
  }
}

// Whether minus infinity stays what it is where these are added.
FFN_INLINE bool all_addable_to_hidden(const float* from, int count) {
  Float zero_or_nan = splat(0.0f);
  over_row(count, [&](int k, int some) __attribute__((always_inline)) {
    zero_or_nan = fma(at_least(0.0f, load_part(from + k, some)), splat(0.0f), zero_or_nan);
  });
  return sum_of_lanes(zero_or_nan) == 0;
}

FFN_INLINE bool all_finite(const float* from, long stride, int rows, int size) {
  Float zero_or_nan = splat(0.0f);
  for (int row = 0; row < rows; row++) {
    over_row(size, [&](int k, int count) __attribute__((always_inline)) {
      zero_or_nan = fma(load_part(from + row * stride + k, count), splat(0.0f), zero_or_nan);
    });
  }
  return sum_of_lanes(zero_or_nan) == 0;
}

}  // namespace
