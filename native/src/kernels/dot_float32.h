// float32: a unit is one element, a step is one fused multiply-add.
//
// One running sum of a long row loses digits. So K is cut into chunks (chunks.h): the error then grows with the chunk
// and the number of chunks, not with K.
#pragma once

#include "kernels.h"
#include "rows.h"
#include "scales.h"

namespace {

struct Dot {
  static constexpr auto kPrecision = ffn::Precision::kFloat32;
  static constexpr int kElements = 1;
  static constexpr int kWords = 1;
  static constexpr int kBlock = 128;
  static constexpr long kChunk = 128;
  static constexpr bool kNarrow = false;
  using Sum = Float;

  static FFN_INLINE Sum zero() { return splat(0.0f); }
  static FFN_INLINE Float columns(Float units, int) { return units; }
  static FFN_INLINE Sum step(Sum sum, Float a, Float b) { return plus_product(sum, a, b); }
  static FFN_INLINE void keep(float* to, Sum sum, bool first, const Scale&) {
    store(to, first ? sum : add(load(to), sum));
  }

  // A unit of each column, out of as many rows as a unit has elements.
  static FFN_INLINE Float units_of(const Float (&rows)[kElements]) { return rows[0]; }
  static FFN_INLINE void store_units(int32_t* to, Float x) { store(reinterpret_cast<float*>(to), x); }

  static void convert(const float* from, int columns, int32_t* to, long units) {
    copy_row(from, columns, reinterpret_cast<float*>(to), units);
  }
};

}  // namespace
