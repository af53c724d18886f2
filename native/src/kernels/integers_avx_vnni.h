// Products of 8-bit and 16-bit integers by AVX-VNNI: VPDPBUSD adds four, VPDPWSSD two.
#pragma once

#include "kernels.h"

namespace {

using Sum = Float;  // that holds integers

FFN_INLINE Sum plus_products_of_pairs(Sum sum, Float a, Float b) {
  return as_floats(_mm256_dpwssd_avx_epi32(as_integers(sum), as_integers(a), as_integers(b)));
}

struct Bytes {
  static constexpr long kGroup = 64;  // units that share a scale: 256 elements

  static FFN_INLINE Sum step(Sum sum, Float a, Float b) {
    return as_floats(_mm256_dpbusd_avx_epi32(as_integers(sum), as_integers(a), as_integers(b)));
  }
};

}  // namespace
