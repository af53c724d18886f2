// Products of 8-bit and 16-bit integers without VNNI.
//
//     VPMADDUBSW    q0 b0 + q1 b1 | q2 b2 + q3 b3      16 bits each, so no sum may reach 2^15
//     VPMADDWD      times 1: q0 b0 + .. + q3 b3        32 bits
//
// So pack() leaves room: two neighbours of a column add up to 126 at most, and 255 times that is below 2^15. That costs
// a column half a bit, and groups of half the size win most of it back. Weights that are widened to 16 bits need no
// room, but take a quarter more time.
#pragma once

#include "kernels.h"

namespace {

// A Float that holds integers: with a Sum of another type GCC keeps sums in memory.
using Sum = Float;

FFN_INLINE Sum plus_products_of_pairs(Sum sum, Float a, Float b) {
  sum = as_floats(plus(as_integers(sum), _mm256_madd_epi16(as_integers(a), as_integers(b))));
  // Otherwise GCC adds the products of several steps first, which takes more registers than there are.
  __asm__("" : "+x"(sum));
  return sum;
}

struct Bytes {
  static constexpr long kGroup = 32;  // units that share a scale

  static FFN_INLINE Sum step(Sum sum, Float a, Float b) {
    const Int pairs = _mm256_maddubs_epi16(as_integers(a), as_integers(b));
    return plus_products_of_pairs(sum, as_floats(pairs), as_floats(_mm256_set1_epi16(1)));
  }
};

}  // namespace
