// Weights in bfloat16, products in float32: for processors whose BF16 instructions are slower than FMA, or are not
// there. The weights take half the memory, and only they are rounded.
//
//     unit of a panel   | b[k] b[k+1] |       its halves, widened, are the columns of two steps
//     A, two words      | x[k] | x[k+1] |     each in all lanes
//     sum               + x[k] b[k], then + x[k+1] b[k+1]
//
// A shift or a mask widens a half for all rows of a tile, so it costs little beside their multiplications.
#pragma once

#include "kernels.h"
#include "rows.h"
#include "scales.h"

namespace {

struct Dot {
  static constexpr auto kPrecision = ffn::Precision::kBfloat16;
  static constexpr int kElements = 2;
  static constexpr int kWords = 2;
  static constexpr int kBlock = 128;
  static constexpr long kChunk = 64;  // 128 elements, as in float32
  static constexpr bool kNarrow = false;
  using Sum = Float;

  static FFN_INLINE Sum zero() { return splat(0.0f); }
  static FFN_INLINE Float columns(Float units, int word) { return word ? upper_half(units) : lower_half(units); }
  static FFN_INLINE Sum step(Sum sum, Float a, Float b) { return plus_product(sum, a, b); }
  static FFN_INLINE void keep(float* to, Sum sum, bool first, const Scale&) {
    store(to, first ? sum : add(load(to), sum));
  }

  static void convert(const float* from, int columns, int32_t* to, long units) {
    copy_row(from, columns, reinterpret_cast<float*>(to), kWords * units);
  }
};

}  // namespace
