// A row of float32, a register at a time; the last one may have fewer elements.
#pragma once

#include "kernels.h"

namespace {

// Calls `use` with the first element of each register of a row, and how many elements are left there.
template <class Use>
FFN_INLINE void over_row(int width, const Use& use) {
  int k = 0;
  for (; k + kLanes <= width; k += kLanes) use(k, kLanes);
  if (k < width) use(k, width - k);
}

// The same for sums: `use` also takes which of kSums a register is added to, since one sum waits for itself.
constexpr int kSums = 4;
template <class Use>
FFN_INLINE void over_row_in_sums(int width, const Use& use) {
  int k = 0;
  for (; k + kSums * kLanes <= width; k += kSums * kLanes) {
    for (int i = 0; i < kSums; i++) use(k + i * kLanes, kLanes, i);
  }
  for (; k < width; k += kLanes) use(k, width - k < kLanes ? width - k : kLanes, 0);
}
FFN_INLINE Float total(const Float (&sums)[kSums]) { return add(add(sums[0], sums[1]), add(sums[2], sums[3])); }

FFN_INLINE Float load_part(const float* from, int count) { return count == kLanes ? load(from) : load(from, count); }
FFN_INLINE void store_part(float* to, Float x, int count) { count == kLanes ? store(to, x) : store(to, x, count); }

// A row, and zero behind it up to `width` elements, a multiple of four.
FFN_INLINE void copy_row(const float* from, long columns, float* to, long width) {
  for (long k = 0; k < width; k += kLanes) {
    const long left = columns - k;
    const Float x = left >= kLanes ? load(from + k) : load(from + k, left > 0 ? static_cast<int>(left) : 0);
    store(to + k, x);
  }
}

}  // namespace
