// LayerNorm and RMSNorm of one row.
//
//     layer    (x - mean) / sqrt(mean of (x - mean)^2 + epsilon) * scale + bias
//     rms       x         / sqrt(mean of  x^2         + epsilon) * scale
//
// The row is read three times out of a near cache: for the mean, for the squares around it, and for the result. The
// formula that reads it once, mean of x^2 less mean^2, would cancel. Each lane of some registers has a sum of its own,
// so the sums are split.
//
// The mean is rounded, and a row of nearly equal elements would keep what it is off. So the second pass also sums the
// differences, whose mean is what the first mean lacks.
#pragma once

#include "rows.h"

namespace {

void norm(const ffn::Norm& n, const float* from, float* to) {
  const auto width = static_cast<float>(n.width);
  Float mean = splat(0.0f), sums[kSums] = {}, squares[kSums] = {}, differences[kSums] = {};
  if (!n.rms) {
    over_row_in_sums(n.width, [&](int k, int count, int i) __attribute__((always_inline)) {
      sums[i] = add(sums[i], load_part(from + k, count));
    });
    mean = splat(sum_of_lanes(total(sums)) / width);
  }
  over_row_in_sums(n.width, [&](int k, int count, int i) __attribute__((always_inline)) {
    Float x = sub(load_part(from + k, count), mean);
    if (count < kLanes) x = first_lanes(count, x, splat(0.0f));
    squares[i] = fma(x, x, squares[i]);
    differences[i] = add(differences[i], x);
  });
  float variance = sum_of_lanes(total(squares)) / width;
  if (!n.rms) {
    const float lacking = sum_of_lanes(total(differences)) / width, too_much = lacking * lacking;
    mean = add(mean, splat(lacking));
    if (too_much < variance) variance -= too_much;
  }
  const Float inverse = splat(1.0f / __builtin_sqrtf(variance + n.epsilon));
  over_row(n.width, [&](int k, int count) __attribute__((always_inline)) {
    const Float y = mul(sub(load_part(from + k, count), mean), inverse), scale = load_part(n.scale + k, count);
    store_part(to + k, n.bias ? fma(y, scale, load_part(n.bias + k, count)) : mul(y, scale), count);
  });
}

}  // namespace
