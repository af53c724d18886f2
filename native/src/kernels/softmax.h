// Scores of a row as weights of its keys: exp(score - largest), and their sum.
//
//     scores    | scaled, with bias and mask, and the largest of them |     first pass
//     weights   | exponentials, as units of the product with values   |     second pass, out of a near cache
//
// float32 has the exponential of activations.h. The others have one with an error of 7.5e-5, which is little beside the
// rounding of operands.
#pragma once

#include "activations.h"
#include "attention_plan.h"
#include "rows.h"

namespace {

// The first `count` scores of a row, scaled and with the bias, -inf added from `seen` on, and -inf after them up to a
// whole register. Returns the largest.
FFN_INLINE float masked(float* scores, long count, long seen, float scale, const float* bias, long bias_stride) {
  const auto scored = [&](long key, int some) __attribute__((always_inline)) {
    const Float x = load(scores + key);
    if (!bias) return mul(x, splat(scale));
    return fma(x, splat(scale), bias_stride ? load_part(bias + key, some) : splat(*bias));
  };
  constexpr int kLargest = 4;  // which do not wait for each other
  Float largest[kLargest];
  for (Float& each : largest) each = splat(-kInfinity);
  const long whole = least(count, seen);
  long key = 0;
  for (; key + kLargest * kLanes <= whole; key += kLargest * kLanes) {
    for (int i = 0; i < kLargest; i++) {
      const Float x = scored(key + i * kLanes, kLanes);
      store(scores + key + i * kLanes, x);
      largest[i] = larger(largest[i], x);
    }
  }
  for (; key < count; key += kLanes) {
    const int some = static_cast<int>(least(count - key, kLanes));
    Float x = scored(key, some);
    if (key + some > seen)
      x = add(x, first_lanes(seen > key ? static_cast<int>(seen - key) : 0, splat(0.0f), splat(-kInfinity)));
    if (some < kLanes) x = first_lanes(some, x, splat(-kInfinity));
    store(scores + key, x);
    largest[0] = larger(largest[0], x);
  }
  return largest_of_lanes(larger(larger(largest[0], largest[1]), larger(largest[2], largest[3])));
}

// one * 2^x with an error of 7.5e-5, and no more than `one` for x <= 0. Below 2^-126 it is 0, since some processors are
// slow with smaller numbers.
FFN_INLINE Float about_power_of_two(Float x, float one) {
  const Float r = fraction(x);
  Float p = splat(one * 0.0780245215f);
  p = fma(p, r, splat(one * 0.226067156f));
  p = fma(p, r, splat(one * 0.695833564f));
  p = fma(p, r, splat(one * 0.999925196f));
  return scaled_by_whole(p, x);
}

// exp(x) of a difference to a largest score, times `one`. From -88 on it is 0.
FFN_INLINE Float share_of(Float x, float one) {
  return Dot::kElements == 1 ? Exponential(x, -88.0f).value() : about_power_of_two(mul(x, splat(1.44269504f)), one);
}

// Writes exp(scores - largest), times kOne, as units, zero from `count` on up to `multiplied`. Returns the sum.
FFN_INLINE float weigh(const float* scores, long count, long multiplied, float largest, int32_t* weights) {
  Float total = splat(0.0f);
  long key = 0;
  for (; key < count; key += kLanes) {
    const Float e = share_of(sub(load(scores + key), splat(largest)), kOne);
    total = add(total, e);
    Dot::store_units(weights + key / Dot::kElements, e);
  }
  for (; key < multiplied; key += kLanes) Dot::store_units(weights + key / Dot::kElements, splat(0.0f));
  return sum_of_lanes(total);
}

FFN_INLINE float exponential(float x) {
  alignas(64) float lanes[kLanes];
  store(lanes, Exponential(splat(x), -88.0f).value());
  return lanes[0];
}

}  // namespace
